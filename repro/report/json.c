#include "json.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "recorded.h"
#include "shown.h"

/*
 * jansson's *_set_new take over the value and fail on NULL, so one failed allocation shows in the next call: `failed`
 * gathers them, and the writer only has to look once.
 */
struct writer {
    const struct scenario *s;
    bool failed;
};

static void put(struct writer *w, json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value) != 0)
        w->failed = true;
}

static void push(struct writer *w, json_t *array, json_t *value)
{
    if (json_array_append_new(array, value) != 0)
        w->failed = true;
}

static json_t *number(uint64_t n)
{
    return n > INT64_MAX ? json_null() : json_integer((json_int_t)n);
}

/* A message may have been cut within a character, which jansson would refuse. */
static json_t *words(const char *s)
{
    json_t *value = json_string(s);
    char *copy = value ? NULL : strdup(s);

    for (char *c = copy; c && *c; c++)
        if (*c & 0x80)
            *c = '?';
    if (copy)
        value = json_string(copy);
    free(copy);
    return value;
}

static json_t *words_or_null(const char *s)
{
    return s ? words(s) : json_null();
}

static json_t *hex(uint64_t digest)
{
    return json_sprintf("%016" PRIx64, digest);
}

static json_t *output(int kind)
{
    switch (kind) {
    case OUTPUT_IDENTICAL:
        return json_string("identical");
    case OUTPUT_DIVERGED:
        return json_string("diverged");
    case OUTPUT_FAILED:
        return json_string("failed");
    case OUTPUT_NOT_ADMITTED:
        return json_string("not-admitted");
    default:
        return json_null();
    }
}

static const char *ended(enum arm_end end)
{
    return end == ARM_QUIESCENT ? "quiescent" : end == ARM_PREVENTED ? "prevented" : "void";
}

static json_t *foreign_rows(struct writer *w, const struct request_result *q)
{
    json_t *a = json_array();

    for (uint32_t i = 0; i < q->foreign_len; i++) {
        json_t *o = json_object();
        put(w, o, "writer", json_string(w->s->requests[q->foreign[i].writer].name));
        put(w, o, "rows", number(q->foreign[i].rows));
        put(w, o, "first", number(q->foreign[i].first));
        put(w, o, "last", number(q->foreign[i].last));
        push(w, a, o);
    }
    return a;
}

static json_t *request(struct writer *w, const struct request_result *q)
{
    json_t *o = json_object();
    bool compared = q->output == OUTPUT_IDENTICAL || q->output == OUTPUT_DIVERGED;

    put(w, o, "output", output(q->output));
    put(w, o, "first", q->output == OUTPUT_DIVERGED ? number(q->first) : json_null());
    put(w, o, "differing", compared ? number(q->differing) : json_null());
    put(w, o, "tokens", number(q->tokens));
    put(w, o, "status", q->status ? number(q->status) : json_null());
    put(w, o, "finish_reason",
        q->finish_reason == FINISH_NONE ? json_null() : json_string(finish_reason_name(q->finish_reason)));
    put(w, o, "silent", json_boolean(q->silent));
    put(w, o, "output_digest", q->output >= 0 && q->tokens ? hex(q->output_digest) : json_null());
    put(w, o, "prefill_status", q->prefill_status ? number(q->prefill_status) : json_null());
    put(w, o, "prefill_answered_us", number(q->answered_us[SIDE_PREFILL]));
    put(w, o, "decode_answered_us", number(q->answered_us[SIDE_DECODE]));
    put(w, o, "write_end_us", us_known(q->write_end_us) ? number(q->write_end_us) : json_null());
    put(w, o, "admitted_us", q->admitted ? number(q->admitted_us) : json_null());
    put(w, o, "waited_us", q->admitted ? number(q->waited_us) : json_null());
    put(w, o, "shared_pages", number(q->shared_pages));
    put(w, o, "shared_slot", json_boolean(q->shared_slot));
    put(w, o, "shared_with", q->shared_with >= 0 ? json_string(w->s->requests[q->shared_with].name) : json_null());
    put(w, o, "foreign_rows", foreign_rows(w, q));
    put(w, o, "foreign_state",
        q->foreign_state >= 0 ? json_string(w->s->requests[q->foreign_state].name) : json_null());
    put(w, o, "shared_prompt_pages", number(q->shared_prompt_pages));
    return o;
}

static json_t *requests(struct writer *w, const struct arm_result *r)
{
    json_t *o = json_object();

    for (uint32_t i = 0; i < w->s->requests_len; i++)
        if (r->requests[i].submitted)
            put(w, o, w->s->requests[i].name, request(w, &r->requests[i]));
    return o;
}

static json_t *memory(struct writer *w, const struct arm_result *r)
{
    json_t *o = json_object();

    put(w, o, "stale_pages", number(r->numbers[EXPECT_STALE_PAGES]));
    put(w, o, "stale_slots", number(r->numbers[EXPECT_STALE_SLOTS]));
    put(w, o, "stale_bytes", number(r->numbers[EXPECT_STALE_BYTES]));
    put(w, o, "stale_free_bytes", number(r->numbers[EXPECT_STALE_FREE_BYTES]));
    put(w, o, "watched_tokens_changed",
        w->s->watch.request >= 0 ? number(r->numbers[EXPECT_WATCHED_TOKENS_CHANGED]) : json_null());
    put(w, o, "first_change_seen_us",
        r->first_change_seen_us == INT64_MIN ? json_null() : json_integer((json_int_t)r->first_change_seen_us));
    put(w, o, "stale_aux", number(r->numbers[EXPECT_STALE_AUX]));
    put(w, o, "shared_pages", number(r->numbers[EXPECT_SHARED_PAGES]));
    put(w, o, "write_end_us", us_known(r->write_end_us) ? number(r->write_end_us) : json_null());
    return o;
}

static json_t *holds(struct writer *w, const struct arm_result *r)
{
    json_t *a = json_array();

    for (uint32_t i = 0; i < r->holds_len; i++) {
        json_t *o = json_object();
        put(w, o, "request", json_string(w->s->requests[r->holds[i].request].name));
        put(w, o, "ended_by", json_string(hold_end_name(r->holds[i].ended_by)));
        put(w, o, "held_us", number(r->holds[i].held_us));
        put(w, o, "began_us", us_known(r->holds[i].began_us) ? number(r->holds[i].began_us) : json_null());
        push(w, a, o);
    }
    return a;
}

static json_t *differences(struct writer *w, const struct arm_result *r)
{
    json_t *a = json_array();

    for (uint32_t i = 0; i < r->differences_len; i++)
        push(w, a, words(r->differences[i]));
    return a;
}

/* What one play gave, into the arm's own object or into one of its `results`. */
static void result(struct writer *w, json_t *o, const struct arm_result *r)
{
    json_t *liveness = json_object();

    put(w, o, "ended", json_string(ended(r->ended)));
    put(w, o, "requests", requests(w, r));
    put(w, o, "memory", memory(w, r));
    put(w, o, "holds", holds(w, r));
    put(w, liveness, "pinned_pages", number(r->numbers[EXPECT_PINNED_PAGES]));
    put(w, liveness, "collateral_failed", number(r->numbers[EXPECT_COLLATERAL_FAILED]));
    put(w, liveness, "unanswered", number(r->numbers[EXPECT_UNANSWERED]));
    put(w, o, "liveness", liveness);
    put(w, o, "trace_digest", hex(r->trace_digest));
    put(w, o, "ended_step", r->ended_step ? number(r->ended_step) : json_null());
    put(w, o, "ended_us", number(r->ended_us));
    put(w, o, "why", words_or_null(r->why));
    put(w, o, "differences", differences(w, r));
}

static json_t *spread(struct writer *w, const struct spread *s)
{
    json_t *o = json_object();

    put(w, o, "min", number(s->min));
    put(w, o, "median", number(s->median));
    put(w, o, "max", number(s->max));
    return o;
}

static void several(struct writer *w, json_t *o, const struct arm_summary *a)
{
    json_t *plays = json_object(), *lags = json_object(), *all = json_array();
    static const char *const lag_names[] = { "0", "1", "2", "3+" };

    put(w, plays, "played", number(a->results_len));
    put(w, plays, "phases", number(a->arm->phases));
    put(w, plays, "repeats_identical", json_boolean(a->repeats_identical));
    put(w, plays, "shown", number(arm_shown(a, w->s)));
    put(w, plays, "diverged", number(a->diverged));
    put(w, plays, "first", a->diverged ? spread(w, &a->first) : json_null());
    put(w, plays, "differing", a->diverged ? spread(w, &a->differing) : json_null());
    put(w, plays, "watched_tokens_changed", w->s->watch.request >= 0 ? spread(w, &a->watched) : json_null());
    for (int i = 0; i < 4; i++)
        put(w, lags, lag_names[i], number(a->lag_counts[i]));
    put(w, plays, "lag", lags);
    put(w, o, "distribution", plays);
    for (uint32_t i = 0; i < a->results_len; i++) {
        json_t *one = json_object();
        put(w, one, "phase", number(a->results[i].phase));
        put(w, one, "as_expected", json_boolean(a->results[i].as_expected));
        result(w, one, &a->results[i]);
        push(w, all, one);
    }
    put(w, o, "results", all);
}

static json_t *overrides(struct writer *w, const struct arm *arm)
{
    json_t *o = json_object();
    int core = core_by_name(arm->core_name), engine = engine_by_name(arm->engine_name);
    char value[32];

    for (int k = 0; core >= 0 && k < CORE_KNOB_COUNT; k++)
        if (arm->policy.core[k] != core_rows[core].values[k].value)
            put(w, o, core_knobs[k].name,
                json_string(knob_value_text(&core_knobs[k], arm->policy.core[k], value, sizeof value)));
    for (int k = 0; engine >= 0 && k < ENGINE_KNOB_COUNT; k++)
        if (arm->policy.engine[k] != engine_rows[engine].values[k].value)
            put(w, o, engine_knobs[k].name,
                json_string(knob_value_text(&engine_knobs[k], arm->policy.engine[k], value, sizeof value)));
    return o;
}

static json_t *arm(struct writer *w, const struct arm_summary *a)
{
    static const char *const not_played[] = { "ended", "requests", "memory", "holds", "liveness", "trace_digest" };
    json_t *o = json_object();

    put(w, o, "name", json_string(a->arm->name));
    put(w, o, "core", json_string(a->arm->core_name));
    put(w, o, "driver", json_string("sim"));
    put(w, o, "as_expected", json_boolean(a->as_expected));
    if (a->results_len)
        result(w, o, &a->results[arm_shown(a, w->s)]);
    else
        for (size_t i = 0; i < sizeof not_played / sizeof not_played[0]; i++)
            put(w, o, not_played[i], json_null());
    put(w, o, "engine", json_string(a->arm->engine_name));
    put(w, o, "overridden", overrides(w, a->arm));
    if (arm_played_often(a))
        several(w, o, a);
    return o;
}

static json_t *preflight(struct writer *w, const struct preflight_result *p)
{
    json_t *o = json_object();

    put(w, o, "runs", number(p->runs));
    put(w, o, "identical", json_boolean(p->identical));
    put(w, o, "transfer_exact", json_boolean(p->transfer_exact));
    put(w, o, "why", words_or_null(p->why));
    return o;
}

json_t *json_made_of(const struct scenario *s, uint64_t model_digest, const struct provenance *p)
{
    struct writer w = { .s = s };
    json_t *o = json_object();

    put(&w, o, "tree", json_string(p->tree));
    put(&w, o, "clean", p->clean < 0 ? json_null() : json_boolean(p->clean));
    put(&w, o, "compiler", words(p->compiler));
    put(&w, o, "cflags", words(p->cflags));
    put(&w, o, "scenario_digest", hex(s->digest));
    put(&w, o, "model_digest", hex(model_digest));
    if (!w.failed)
        return o;
    json_decref(o);
    return NULL;
}

static uint64_t digest(struct writer *w, const json_t *document)
{
    uint64_t value = 0;

    if (recorded_digest(document, &value) != 0)
        w->failed = true;
    return value;
}

char *json_report(const struct run_result *r, const struct provenance *p)
{
    struct writer w = { .s = r->scenario };
    json_t *document = json_object(), *arms = json_array();
    char *dump = NULL;

    put(&w, document, "scenario", json_string(r->scenario->name));
    put(&w, document, "preflight", preflight(&w, &r->preflight));
    for (uint32_t i = 0; i < r->arms_len; i++)
        push(&w, arms, arm(&w, &r->arms[i]));
    put(&w, document, "arms", arms);
    put(&w, document, "as_expected", json_boolean(r->as_expected));
    put(&w, document, "result_digest", hex(digest(&w, document)));
    put(&w, document, "provenance", json_made_of(r->scenario, r->model_digest, p));
    if (!w.failed)
        dump = json_dumps(document, JSON_INDENT(2));
    json_decref(document);
    if (!dump)
        return NULL;
    size_t len = strlen(dump);
    char *out = realloc(dump, len + 2);
    if (!out) {
        free(dump);
        return NULL;
    }
    memcpy(out + len, "\n", 2);
    return out;
}
