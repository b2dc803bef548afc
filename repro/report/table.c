#include "table.h"

#include <inttypes.h>
#include <string.h>

#include "../protocol/machine.h"
#include "../protocol/names.h"
#include "shown.h"
#include "text.h"

enum { INDENT = 2, LABEL_MIN = 14, LABEL_MAX = 22, BAR_MAX = 40, SHORT_MAX = 80, ROW_LABEL = 96 };

enum tone { TONE_PLAIN, TONE_BAD, TONE_GOOD, TONE_UNSURE };

struct table {
    FILE *f;
    const struct run_result *r;
    const struct scenario *s;
    const struct table_options *options;
    unsigned labels; /* columns of the labels of the arm being written */
};

static const char *request_name(const struct table *t, uint32_t request)
{
    return t->s->requests[request].name;
}

static const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

static void toned(const struct table *t, enum tone tone, const char *s)
{
    static const char *const codes[] = { "", "\033[1;31m", "\033[32m", "\033[33m" };

    if (t->options->colour && tone != TONE_PLAIN)
        fprintf(t->f, "%s%s\033[0m", codes[tone], s);
    else
        fputs(s, t->f);
}

static void row(const struct table *t, const char *label, const char *s)
{
    text_row(t->f, INDENT, t->labels, label, s);
}

static const struct arm_result *shown(const struct table *t, const struct arm_summary *a)
{
    return a->results_len ? &a->results[arm_shown(a, t->s)] : NULL;
}

static enum finding find(const struct table *t, const struct arm_summary *a)
{
    return arm_finding(a, t->s);
}

/* "A", "A and B", "A, B and C": those of the arm's requests that `wanted` says. Returns how many. */
static uint32_t name_requests(const struct table *t, const struct arm_summary *a,
                              bool (*wanted)(const struct arm_summary *, const struct arm_result *, uint32_t),
                              struct text *out)
{
    const struct arm_result *r = shown(t, a);
    uint32_t len = 0, put = 0;

    for (uint32_t i = 0; i < t->s->requests_len; i++)
        len += wanted(a, r, i);
    for (uint32_t i = 0; i < t->s->requests_len; i++) {
        if (!wanted(a, r, i))
            continue;
        text_add(out, "%s%s", put == 0 ? "" : put + 1 == len ? " and " : ", ", request_name(t, i));
        put++;
    }
    return len;
}

static bool is_corrupted(const struct arm_summary *a, const struct arm_result *r, uint32_t request)
{
    return (void)a, r->requests[request].submitted && r->requests[request].output == OUTPUT_DIVERGED;
}

static bool is_failed(const struct arm_summary *a, const struct arm_result *r, uint32_t request)
{
    return r->requests[request].submitted && !arm_aborts(a->arm, request) && request_failed(&r->requests[request]);
}

static bool is_outside(const struct arm_summary *a, const struct arm_result *r, uint32_t request)
{
    return r->requests[request].submitted && !arm_aborts(a->arm, request) &&
           r->requests[request].output == OUTPUT_NOT_ADMITTED;
}

static bool is_unanswered(const struct arm_summary *a, const struct arm_result *r, uint32_t request)
{
    return r->requests[request].submitted && !arm_aborts(a->arm, request) &&
           r->requests[request].output == OUTPUT_FAILED && !request_failed(&r->requests[request]);
}

static bool is_aborted(const struct arm_summary *a, const struct arm_result *r, uint32_t request)
{
    return r->requests[request].submitted && arm_aborts(a->arm, request);
}

static bool all_silent(const struct table *t, const struct arm_result *r)
{
    for (uint32_t i = 0; i < t->s->requests_len; i++)
        if (r->requests[i].submitted && r->requests[i].output == OUTPUT_DIVERGED && !r->requests[i].silent)
            return false;
    return true;
}

static enum tone verdict(const struct table *t, const struct arm_summary *a, struct text *out)
{
    const struct arm_result *r = shown(t, a);

    switch (find(t, a)) {
    case FOUND_NOTHING:
        text_add(out, "NOT PLAYED");
        return TONE_UNSURE;
    case FOUND_VOID:
        text_add(out, "VOID");
        return TONE_BAD;
    case FOUND_DIVERGED:
        if (name_requests(t, a, is_corrupted, out))
            text_add(out, all_silent(t, r) ? " SILENTLY " : " ");
        text_add(out, "CORRUPTED");
        if (arm_played_often(a))
            text_add(out, " in %u of %u plays", a->diverged, a->results_len);
        return TONE_BAD;
    case FOUND_STALE:
        text_add(out, "STALE WRITE, but no output changed");
        return TONE_UNSURE;
    case FOUND_PREVENTED:
        text_add(out, "PREVENTED at step %u", r->ended_step);
        return TONE_UNSURE;
    case FOUND_FAILED:
        name_requests(t, a, is_failed, out);
        text_add(out, " FAILED, not silently");
        return TONE_UNSURE;
    case FOUND_NOT_ADMITTED:
        name_requests(t, a, is_outside, out);
        text_add(out, " NOT ADMITTED");
        return TONE_UNSURE;
    case FOUND_UNANSWERED:
        name_requests(t, a, is_unanswered, out);
        text_add(out, result_final(r) ? " NEVER ANSWERED" : " NOT ANSWERED when the arm ended");
        return TONE_UNSURE;
    case FOUND_PINNED:
        text_add(out, "PINS %" PRIu64 " page%s for ever", result_pinned(r), plural(result_pinned(r)));
        return TONE_UNSURE;
    case FOUND_HARMLESS:
        text_add(out, "no harm");
        return TONE_GOOD;
    }
    return TONE_PLAIN;
}

static void headline(struct table *t, const struct arm_summary *a, uint32_t number)
{
    struct text left = { .len = 0 }, right = { .len = 0 };
    enum tone tone = verdict(t, a, &right);

    text_add(&left, "[%u] %s", number, a->arm->name);
    fputc('\n', t->f);
    unsigned used = text_columns(left.s), need = text_columns(right.s);
    if (used + 2 + need <= TEXT_COLUMNS) {
        fprintf(t->f, "%s%*s", left.s, (int)(TEXT_COLUMNS - used - need), "");
    } else {
        text_row(t->f, 0, 0, "", left.s);
        if (need < TEXT_COLUMNS)
            fprintf(t->f, "%*s", (int)(TEXT_COLUMNS - need), "");
    }
    toned(t, tone, right.s);
    fputc('\n', t->f);
}

/* The core's name, with a plus if the scenario changes some of its knobs, and the engine if it is not the usual one. */
static const char *core_label(const struct arm *arm, char *buf, size_t buf_max)
{
    bool usual = strcmp(arm->engine_name, engine_rows[0].name) == 0;

    snprintf(buf, buf_max, "%s%s%s%s", arm->core_name, arm->core_overridden ? "+" : "", usual ? "" : "/",
             usual ? "" : arm->engine_name);
    return buf;
}

static void put_core(const struct table *t, const struct arm *arm)
{
    int core = core_by_name(arm->core_name), engine = engine_by_name(arm->engine_name);
    struct text out = { .len = 0 };
    char value[TEXT_NUMBER_MAX];
    unsigned changed = 0;

    text_add(&out, "%s", arm->core_name);
    if (core >= 0)
        text_add(&out, ": %s", core_rows[core].models);
    for (int k = 0; core >= 0 && k < CORE_KNOB_COUNT; k++)
        if (arm->policy.core[k] != core_rows[core].values[k].value)
            text_add(&out, "%s%s=%s", changed++ ? ", " : "; but with ", core_knobs[k].name,
                     knob_value_text(&core_knobs[k], arm->policy.core[k], value, sizeof value));
    for (int k = 0; engine >= 0 && k < ENGINE_KNOB_COUNT; k++)
        if (arm->policy.engine[k] != engine_rows[engine].values[k].value)
            text_add(&out, "%s%s.%s=%s", changed++ ? ", " : "; but with ", arm->engine_name, engine_knobs[k].name,
                     knob_value_text(&engine_knobs[k], arm->policy.engine[k], value, sizeof value));
    row(t, "core", out.s);
    if (engine < 0 || strcmp(arm->engine_name, engine_rows[0].name) == 0)
        return;
    out.len = 0;
    text_add(&out, "%s: %s", arm->engine_name, engine_rows[engine].models);
    row(t, "engine", out.s);
}

static const struct hold_result *hold_of(const struct arm_result *r, uint32_t request)
{
    for (uint32_t i = 0; i < r->holds_len; i++)
        if (r->holds[i].request == request)
            return &r->holds[i];
    return NULL;
}

/* What became of an aborted request's memory on the decode side. */
enum fate { FATE_NO_MEMORY, FATE_HELD, FATE_KEPT, FATE_AT_ABORT, FATE_FINISHED, FATE_STOPPED, FATE_ERROR, FATE_FREED };

static enum fate fate_of(const struct arm_result *r, uint32_t request)
{
    const struct request_result *q = &r->requests[request];

    if (!q->admitted)
        return FATE_NO_MEMORY;
    if (hold_of(r, request))
        return FATE_HELD;
    if (!us_known(q->freed_us))
        return FATE_KEPT;
    switch (q->finish_reason) {
    case FINISH_LENGTH:
        return FATE_FINISHED;
    case FINISH_ABORT:
        return us_known(q->committed_us) ? FATE_STOPPED : FATE_AT_ABORT;
    case FINISH_ERROR:
        return FATE_ERROR;
    default:
        return FATE_FREED;
    }
}

static void add_hold(const struct arm_result *r, const struct hold_result *h, struct text *out)
{
    static const char *const ends[] = { "the hold ended by the drain ack", "the hold ended by its timer",
                                        "the hold ended by a fence" };
    char a[TEXT_NUMBER_MAX], b[TEXT_NUMBER_MAX];

    text_add(out, "held instead of freed");
    if (us_known(h->began_us))
        text_add(out, " at %s", text_duration(h->began_us, a));
    text_duration(h->held_us, b);
    if (h->ended_by != HOLD_END_NEVER)
        text_add(out, "; %s, after %s%s", ends[h->ended_by], b,
                 h->ended_by == HOLD_END_FENCE ? ": no write that was posted before can land any more" : "");
    else if (result_final(r))
        text_add(out, "; the hold NEVER ended (%s until the end of the arm)", b);
    else
        text_add(out, "; the arm ended %s later, within the hold", b);
}

static void add_admission(const struct table *t, const struct request_result *q, struct text *out)
{
    char a[TEXT_NUMBER_MAX], b[TEXT_NUMBER_MAX];

    text_add(out, "given at %s", text_duration(q->admitted_us, a));
    if (q->waited_us)
        text_add(out, ", after %s of waiting", text_duration(q->waited_us, b));
    if (q->shared_with >= 0 && (q->shared_pages || q->shared_slot)) {
        text_add(out, ": ");
        if (q->shared_pages)
            text_add(out, "%u page%s", q->shared_pages, plural(q->shared_pages));
        text_add(out, "%s%s that %s had before", q->shared_pages && q->shared_slot ? " and " : "",
                 q->shared_slot ? "the state slot" : "", request_name(t, (uint32_t)q->shared_with));
    } else {
        text_add(out, "; nobody had it before");
    }
}

static void put_memory_of(const struct table *t, const struct arm *arm, const struct arm_result *r, uint32_t request)
{
    const struct request_result *q = &r->requests[request];
    char label[ROW_LABEL], a[TEXT_NUMBER_MAX], b[TEXT_NUMBER_MAX];
    struct text out = { .len = 0 };

    snprintf(label, sizeof label, "%s's memory", request_name(t, request));
    switch (fate_of(r, request)) {
    case FATE_NO_MEMORY:
        text_add(&out, "it never had any on the decode side");
        break;
    case FATE_HELD:
        add_hold(r, hold_of(r, request), &out);
        break;
    case FATE_KEPT:
        text_add(&out, result_final(r) ? "NEVER freed" : "not freed when the arm ended");
        break;
    case FATE_AT_ABORT:
        text_add(&out, arm->policy.core[CORE_FREE] == FREE_AT_ABORT
                           ? "freed at the abort, whatever the prefill may still be writing"
                           : "not held: freed at once");
        break;
    case FATE_FINISHED:
        add_admission(t, q, &out);
        text_add(&out, "\nnot freed by the abort: the request finished, and it was freed at %s",
                 text_duration(q->freed_us, a));
        break;
    case FATE_STOPPED:
        text_add(&out, "its transfer was committed at %s; the abort stopped it while it ran, and it was freed at %s",
                 text_duration(q->committed_us, a), text_duration(q->freed_us, b));
        break;
    case FATE_ERROR:
        text_add(&out, "not held: the request ended in an error, and it was freed at %s",
                 text_duration(q->freed_us, a));
        break;
    case FATE_FREED:
        text_add(&out, "freed at %s", text_duration(q->freed_us, a));
        break;
    }
    row(t, label, out.s);
}

static void put_admission(const struct table *t, const struct arm_result *r, uint32_t request)
{
    const struct request_result *q = &r->requests[request];
    char label[ROW_LABEL];
    struct text out = { .len = 0 };

    snprintf(label, sizeof label, "%s's memory", request_name(t, request));
    if (q->admitted)
        add_admission(t, q, &out);
    else
        text_add(&out, "NONE: decode never admitted it");
    row(t, label, out.s);
}

static void put_place(const struct table *t, const struct point_match *m, struct text *out)
{
    if (m->point == POINT_TOKEN && m->n >= 0) {
        text_add(out, "token %d", m->n);
        if (m->request >= 0)
            text_add(out, " of %s", request_name(t, (uint32_t)m->request));
        return;
    }
    if (m->request >= 0)
        text_add(out, "%s passed ", request_name(t, (uint32_t)m->request));
    else
        text_add(out, "the point ");
    text_add(out, "%s", point_name(m->point));
}

/* Where park `park` is armed: its STEP_PARK, before step `before`. */
static const struct step *park_step(const struct arm *arm, uint32_t park, uint32_t before)
{
    for (uint32_t i = 0; i < before; i++)
        if (arm->steps[i].kind == STEP_PARK && arm->steps[i].park == park)
            return &arm->steps[i];
    return NULL;
}

static void put_condition(const struct table *t, const struct arm *arm, uint32_t at, uint32_t phase, bool first,
                          struct text *out)
{
    const struct step *step = &arm->steps[at];
    char number[TEXT_NUMBER_MAX];

    if (step->kind == STEP_WAIT) {
        uint64_t us = step->wait_us;
        if (step->phased && step->wait_to_us > step->wait_us)
            us += (step->wait_to_us - step->wait_us) * phase / arm->phases;
        text_add(out, first ? "after %s" : " and %s more", text_duration(us, number));
        return;
    }
    text_add(out, "%s", first ? "" : ", then ");
    for (uint32_t i = 0; i < step->items_len; i++) {
        const struct await_item *item = &step->items[i];
        text_add(out, "%s", i == 0 ? "after " : step->all ? " and " : " or ");
        if (item->kind == AWAIT_POINT) {
            put_place(t, &item->match, out);
            continue;
        }
        const struct step *park = park_step(arm, item->park, at);
        if (!park)
            continue;
        put_place(t, &park->match, out);
        if (park->match.point == POINT_TOKEN && park->match.n >= 0)
            text_add(out, " (park %s at token n=%d)", arm->parks[item->park].name, park->match.n);
        else
            text_add(out, " (park %s)", arm->parks[item->park].name);
    }
}

/* When the scenario lets a parked write of this request go on: the awaits and waits just before its release. */
static void put_release(const struct table *t, const struct arm *arm, uint32_t phase, uint32_t request,
                        struct text *out)
{
    for (uint32_t i = 0; i < arm->steps_len; i++) {
        const struct step *release = &arm->steps[i];
        if (release->kind != STEP_RELEASE)
            continue;
        const struct step *park = park_step(arm, release->park, i);
        if (!park || park->match.point == POINT_TOKEN || park->match.request != (int)request)
            continue;
        uint32_t first = i;
        while (first > 0 && (arm->steps[first - 1].kind == STEP_AWAIT || arm->steps[first - 1].kind == STEP_WAIT))
            first--;
        text_add(out, "parked at %s, released ", point_name(park->match.point));
        for (uint32_t k = first; k < i; k++)
            put_condition(t, arm, k, phase, k == first, out);
        text_add(out, "%s: the scenario's choice\n", first == i ? "at once" : "");
        return;
    }
}

static const char *stale_owner(const struct table *t, const struct arm_result *r, uint32_t writer)
{
    const char *name = NULL;

    for (uint32_t i = 0; i < t->s->requests_len; i++) {
        if (!r->requests[i].submitted || r->requests[i].shared_with != (int)writer)
            continue;
        if (name)
            return NULL;
        name = request_name(t, i);
    }
    return name;
}

static void put_stale(const struct table *t, const struct arm_result *r, int writer, struct text *out)
{
    const uint64_t *n = r->numbers;
    const char *owner = writer >= 0 ? stale_owner(t, r, (uint32_t)writer) : NULL;
    char bytes[TEXT_NUMBER_MAX];
    bool stale = result_stale(r);

    if (stale) {
        text_add(out, "it HIT MEMORY THAT %s OWNED by then: %" PRIu64 " page%s, %" PRIu64 " state slot%s",
                 owner ? owner : "OTHERS", n[EXPECT_STALE_PAGES], plural(n[EXPECT_STALE_PAGES]), n[EXPECT_STALE_SLOTS],
                 plural(n[EXPECT_STALE_SLOTS]));
        if (n[EXPECT_STALE_AUX])
            text_add(out, ", %" PRIu64 " aux slot%s", n[EXPECT_STALE_AUX], plural(n[EXPECT_STALE_AUX]));
        text_add(out, "; %s bytes", text_count(n[EXPECT_STALE_BYTES], bytes));
    }
    if (n[EXPECT_STALE_FREE_BYTES])
        text_add(out, "%s%s bytes landed in memory that nobody owned", stale ? "; besides, " : "",
                 text_count(n[EXPECT_STALE_FREE_BYTES], bytes));
}

static void put_write(const struct table *t, const struct arm_summary *a, const struct arm_result *r, uint32_t request,
                      bool only)
{
    const struct request_result *q = &r->requests[request];
    const struct hold_result *h = hold_of(r, request);
    bool anything = result_stale(r) || r->numbers[EXPECT_STALE_FREE_BYTES];
    uint64_t end = us_known(q->write_end_us) ? q->write_end_us : only ? r->write_end_us : UINT64_MAX;
    char label[ROW_LABEL], number[TEXT_NUMBER_MAX];
    struct text out = { .len = 0 };

    snprintf(label, sizeof label, "%s's write", request_name(t, request));
    put_release(t, a->arm, r->phase, request, &out);
    if (us_known(end))
        text_add(&out, "its KV write ended at %s", text_duration(end, number));
    else if (q->write_end_us == UINT64_MAX)
        text_add(&out, "no KV write of %s has ended", request_name(t, request));
    if (us_known(end) && h && us_known(h->began_us) && end >= h->began_us && end <= h->began_us + h->held_us)
        text_add(&out, ", inside the hold");
    else if (us_known(end) && h && us_known(h->began_us) && end > h->began_us + h->held_us)
        text_add(&out, ", %s after the hold had ended", text_duration(end - h->began_us - h->held_us, number));
    bool said = out.len > 0 && out.s[out.len - 1] != '\n';
    if (only && anything) {
        text_add(&out, "%s", said ? "; " : "");
        put_stale(t, r, (int)request, &out);
    } else if (only && !anything) {
        text_add(&out, "%snothing landed in memory that was no longer %s's", said ? ": " : "",
                 request_name(t, request));
    }
    if (out.len)
        row(t, label, out.s);
}

static void put_watch(const struct table *t, const struct arm_result *r)
{
    const struct watch_spec *w = &t->s->watch;
    uint64_t changed = r->numbers[EXPECT_WATCHED_TOKENS_CHANGED];
    struct text out = { .len = 0 };
    char number[TEXT_NUMBER_MAX];

    if (w->request < 0 || !r->requests[w->request].admitted)
        return;
    const char *name = request_name(t, (uint32_t)w->request);
    if (changed == 0) {
        text_add(&out, "the rows of %s's first %u prompt tokens never changed", name, w->tokens);
    } else {
        if (changed == w->tokens)
            text_add(&out, "the rows of all %u watched tokens (the head of %s's prompt) CHANGED", w->tokens, name);
        else
            text_add(&out, "the rows of %" PRIu64 " of %s's first %u prompt tokens CHANGED", changed, name, w->tokens);
        int64_t at = r->first_change_seen_us;
        if (at == 0)
            text_add(&out, "; first seen at the write's end");
        else if (at != INT64_MIN)
            text_add(&out, "; first seen %s %s the write's end",
                     text_duration(at < 0 ? (uint64_t)-at : (uint64_t)at, number), at < 0 ? "before" : "after");
    }
    row(t, "watched rows", out.s);
}

static void put_output(const struct arm_result *r, const struct request_result *q, struct text *out)
{
    switch (q->output) {
    case OUTPUT_IDENTICAL:
        text_add(out, "output identical to its baseline, all %u token%s", q->tokens, plural(q->tokens));
        break;
    case OUTPUT_DIVERGED:
        text_add(out, "output DIVERGED at token %u: %u of %u tokens differ", q->first, q->differing, q->tokens);
        text_add(out, "%s",
                 q->silent ? "\nSILENT corruption: nothing tells the client that this text is wrong"
                           : "\nnot silent: the answer shows that something went wrong");
        break;
    case OUTPUT_FAILED:
        text_add(out, "%s after %u token%s",
                 request_failed(q) ? "the request FAILED"
                 : result_final(r) ? "NEVER ANSWERED,"
                                   : "not answered when the arm ended,",
                 q->tokens, plural(q->tokens));
        break;
    case OUTPUT_NOT_ADMITTED:
        text_add(out, "NOT ADMITTED: it got no memory");
        break;
    default:
        text_add(out, "no output to compare");
    }
}

/* What an aborted request's client saw, and whether that was before its write was over. */
static void put_aborted_client(const struct table *t, const struct arm_result *r, uint32_t request, bool only)
{
    const struct request_result *q = &r->requests[request];
    uint64_t end = us_known(q->write_end_us) ? q->write_end_us : only ? r->write_end_us : UINT64_MAX;
    uint64_t prefill = q->answered_us[SIDE_PREFILL], decode = q->answered_us[SIDE_DECODE];
    char label[ROW_LABEL], a[TEXT_NUMBER_MAX], b[TEXT_NUMBER_MAX];
    struct text out = { .len = 0 };

    snprintf(label, sizeof label, "%s's client", request_name(t, request));
    if (us_known(decode)) {
        text_add(&out, "decode answered %s at %s", finish_reason_name(q->finish_reason), text_duration(decode, a));
        if (q->status)
            text_add(&out, " (HTTP %u)", q->status);
        text_add(&out, "\n");
    } else {
        text_add(&out, result_final(r) ? "decode never answered\n" : "decode had not answered when the arm ended\n");
    }
    if (us_known(prefill)) {
        text_add(&out, "prefill answered at %s", text_duration(prefill, a));
        if (q->prefill_status)
            text_add(&out, " (HTTP %u)", q->prefill_status);
        if (us_known(end) && end > prefill)
            text_add(&out, ", %s BEFORE its write ended", text_duration(end - prefill, b));
        else if (us_known(end))
            text_add(&out, ", after its write had ended");
    } else {
        text_add(&out, "prefill gave no answer");
    }
    if (q->output == OUTPUT_IDENTICAL || q->output == OUTPUT_DIVERGED) {
        text_add(&out, "\n");
        put_output(r, q, &out);
    }
    row(t, label, out.s);
}

static void put_client(const struct table *t, const struct arm_result *r, uint32_t request)
{
    const struct request_result *q = &r->requests[request];
    char label[ROW_LABEL];
    struct text out = { .len = 0 };

    snprintf(label, sizeof label, "%s's client", request_name(t, request));
    if (q->status)
        text_add(&out, "HTTP %u, finish_reason=%s; ", q->status, finish_reason_name(q->finish_reason));
    else if (q->output != OUTPUT_FAILED)
        text_add(&out, "no answer; ");
    put_output(r, q, &out);
    row(t, label, out.s);
}

static void put_published(const struct table *t, const struct arm *arm, const struct arm_result *r)
{
    const struct published *p = &arm->published;
    struct text out = { .len = 0 };

    if (!p->given)
        return;
    if (p->identical)
        text_add(&out, "output identical");
    else
        text_add(&out, "diverged at token %u, %u of %u tokens differed", p->first, p->differing, p->tokens);
    for (uint32_t i = 0; r && i < t->s->requests_len; i++) {
        const struct request_result *q = &r->requests[i];
        if (request_counts(r, arm, i) && q->output == OUTPUT_DIVERGED) {
            text_add(&out, " (here: %u, %u of %u)", q->first, q->differing, q->tokens);
            break;
        }
        if (request_counts(r, arm, i) && q->output == OUTPUT_IDENTICAL) {
            text_add(&out, " (here: identical)");
            break;
        }
    }
    if (p->note)
        text_add(&out, "\n%s", p->note);
    row(t, "published", out.s);
}

static void put_spread(const struct table *t, const char *label, const struct spread *s)
{
    struct text out = { .len = 0 };

    text_add(&out, "%" PRIu64 " / %" PRIu64 " / %" PRIu64 "  (least / median / most)", s->min, s->median, s->max);
    row(t, label, out.s);
}

static void put_lags(const struct table *t, const struct arm_summary *a)
{
    static const char *const names[] = { "0 tokens later", "1 token later", "2 tokens later", "3 or more later" };
    uint32_t most = 1, late = 0;

    for (int i = 0; i < 4; i++) {
        most = a->lag_counts[i] > most ? a->lag_counts[i] : most;
        late += i > 0 ? a->lag_counts[i] : 0;
    }
    for (int i = 0; i < 4; i++) {
        struct text out = { .len = 0 };
        uint32_t n = a->lag_counts[i], bar = (uint32_t)((uint64_t)n * BAR_MAX / most);
        text_add(&out, "%-15s %5u  ", names[i], n);
        for (uint32_t k = 0; k < (n && !bar ? 1 : bar); k++)
            text_add(&out, "#");
        row(t, i == 0 ? "first wrong" : "", out.s);
    }
    row(t, "",
        late ? "counted from the first token that the write could change; it may come later, since one step's "
               "choice of a token can survive changed rows (seen in about 1 of 50 seeds)"
             : "counted from the first token that the write could change");
}

static void put_plays(const struct table *t, const struct arm_summary *a)
{
    uint32_t phases = a->arm->phases ? a->arm->phases : 1, repeats = a->results_len / phases;
    struct text out = { .len = 0 };

    if (!arm_played_often(a))
        return;
    text_add(&out, "%u", a->results_len);
    if (phases > 1)
        text_add(&out, ": %u phases of the release", phases);
    if (repeats > 1)
        text_add(&out, "%s %u times%s, %s", phases > 1 ? "," : ": the same arm", repeats, phases > 1 ? " each" : "",
                 a->repeats_identical ? "every repetition with the same trace and output"
                                      : "and the repetitions are NOT ALL ALIKE");
    text_add(&out, "\ndiverged in %u of %u", a->diverged, a->results_len);
    row(t, "plays", out.s);
    if (a->diverged) {
        put_spread(t, "at token", &a->first);
        put_spread(t, "tokens wrong", &a->differing);
    }
    if (t->s->watch.request >= 0)
        put_spread(t, "rows changed", &a->watched);
    if (a->diverged)
        put_lags(t, a);
    out.len = 0;
    text_add(&out, "play %u", arm_shown(a, t->s) + 1);
    if (phases > 1)
        text_add(&out, ", phase %u of %u", shown(t, a)->phase + 1, phases);
    text_add(&out, "%s; the lines below are of this play",
             !shown(t, a)->as_expected            ? ", the first that is not as expected"
             : result_diverged(shown(t, a), t->s) ? ", the first that diverged"
                                                  : ", the first");
    row(t, "shown", out.s);
}

static bool states_nothing(const struct expect *e)
{
    for (int i = 0; i < EXPECT_NUMBER_COUNT; i++)
        if (e->numbers[i].given)
            return false;
    return e->requests_len == 0 && e->holds_len == 0 && e->order_len == 0 && e->prevented_step < 0;
}

static void put_differences(const struct table *t, const struct arm_summary *a, const struct arm_result *r)
{
    if (a->as_expected && r->as_expected) {
        row(t, "as expected", states_nothing(&a->arm->expect) ? "yes, but the scenario states no expectations" : "yes");
        return;
    }
    fprintf(t->f, "%*s%-*s", INDENT, "", (int)t->labels, "as expected");
    toned(t, TONE_BAD, "NO");
    fputc('\n', t->f);
    if (arm_played_often(a)) {
        struct text out = { .len = 0 };
        uint32_t not = 0;
        for (uint32_t i = 0; i < a->results_len; i++)
            not += !a->results[i].as_expected;
        if (not )
            text_add(&out, "in %u of %u plays; of the one shown:", not, a->results_len);
        else
            text_add(&out, "each play alone is, but the repetitions are not all alike");
        row(t, "", out.s);
    }
    if (r->ended == ARM_VOID)
        row(t, "", "a void arm says nothing about its core and never counts as passed");
    for (uint32_t i = 0; i < r->differences_len; i++)
        text_row(t->f, INDENT + t->labels, 2, "-", r->differences[i]);
}

/* Whose rows decode read, where they were not the request's own. */
static void put_foreign(const struct table *t, const struct arm_result *r, uint32_t request)
{
    const struct request_result *q = &r->requests[request];
    const char *name = request_name(t, request);
    bool state_told = false;
    struct text out = { .len = 0 };

    for (uint32_t i = 0; i < q->foreign_len; i++) {
        const struct foreign_rows *f = &q->foreign[i];
        text_add(&out, "%s", i ? "\n" : "");
        if (f->rows == 1)
            text_add(&out, "row %u of %s, as decode read it, was", f->first, name);
        else if (f->rows == f->last - f->first + 1)
            text_add(&out, "rows %u-%u of %s, as decode read them, were", f->first, f->last, name);
        else
            text_add(&out, "%u rows of %s between %u and %u, as decode read them, were", f->rows, name, f->first,
                     f->last);
        text_add(&out, " written by %s", request_name(t, f->writer));
        if (q->foreign_state != (int)f->writer)
            continue;
        text_add(&out, " (and so was its state)");
        state_told = true;
    }
    if (q->foreign_state >= 0 && !state_told)
        text_add(&out, "%sthe state of %s, as decode read it, was written by %s", out.len ? "\n" : "", name,
                 request_name(t, (uint32_t)q->foreign_state));
    if (out.len)
        row(t, "whose rows", out.s);
}

static const char *message_word(int type)
{
    switch (type) {
    case MESSAGE_METADATA:
        return "metadata message";
    case MESSAGE_ABORT:
        return "abort message";
    case MESSAGE_STATUS:
        return "status message";
    case MESSAGE_ACK:
        return "ack";
    case MESSAGE_NOTIFY:
        return "notification";
    default:
        return "message";
    }
}

static void put_fault(const struct table *t, const struct fault *f)
{
    const char *write = f->effect == EFFECT_KV ? "KV write" : f->effect == EFFECT_STATE ? "state write" : "aux write";
    char number[TEXT_NUMBER_MAX];
    struct text out = { .len = 0 };

    if (f->request >= 0)
        text_add(&out, "%s's ", request_name(t, (uint32_t)f->request));
    else
        text_add(&out, "the ");
    text_add(&out, "%s", f->is_write ? write : message_word(f->message));
    if (f->is_write && f->effect == EFFECT_KV && f->chunk >= 0)
        text_add(&out, " of chunk %d", f->chunk);
    if (f->is_write && f->fragment >= 0)
        text_add(&out, ", fragment %d,", f->fragment);
    if (f->occurrence > 1)
        text_add(&out, " (number %u of its kind)", f->occurrence);
    switch (f->kind) {
    case FAULT_LOSE:
        text_add(&out, f->is_write ? " is lost: its bytes never land and it never completes" : " is lost");
        break;
    case FAULT_DOUBLE:
        text_add(&out, " arrives twice");
        break;
    case FAULT_OVERTAKE:
        text_add(&out, " overtakes all others of its channel");
        break;
    case FAULT_DELAY:
        text_add(&out, " comes %s late", text_duration(f->by_us, number));
        break;
    case FAULT_ERROR:
        text_add(&out, " ends in an error");
        if (f->by_us)
            text_add(&out, " %s after it was posted", text_duration(f->by_us, number));
        text_add(&out, ", as the engine says; its bytes fly on");
        break;
    }
    row(t, "fault", out.s);
}

static void put_stops(const struct table *t, const struct arm *arm)
{
    const uint32_t prefills = t->s->prefill.instances * t->s->prefill.ranks;

    for (uint32_t i = 0; i < arm->steps_len; i++) {
        const struct step *stop = &arm->steps[i];
        struct text out = { .len = 0 };
        if (stop->kind != STEP_STOP)
            continue;
        bool prefill = stop->machine < prefills;
        uint32_t at = prefill ? stop->machine : stop->machine - prefills;
        uint32_t ranks = prefill ? t->s->prefill.ranks : t->s->decode.ranks, end = i + 1;
        text_add(&out, "%s %u.%u stops at step %u", prefill ? "prefill" : "decode", at / ranks, at % ranks, i + 1);
        while (end < arm->steps_len &&
               (arm->steps[end].kind != STEP_RESUME || arm->steps[end].machine != stop->machine))
            end++;
        if (end < arm->steps_len)
            text_add(&out, " and goes on at step %u", end + 1);
        else
            text_add(&out, " and never goes on");
        text_add(&out, prefill ? "; what it has posted flies on" : "; writes into its memory land all the same");
        row(t, "stopped peer", out.s);
    }
}

static void put_collateral(const struct table *t, const struct arm_summary *a, const struct arm_result *r)
{
    uint64_t failed = r->numbers[EXPECT_COLLATERAL_FAILED];
    struct text out = { .len = 0 }, names = { .len = 0 };

    if (failed == 0)
        return;
    text_add(&out, "%" PRIu64 " request%s that nobody aborted failed", failed, plural(failed));
    if (name_requests(t, a, is_failed, &names))
        text_add(&out, ": %s", names.s);
    row(t, "collateral", out.s);
}

static void put_held(const struct table *t, const struct arm_result *r)
{
    uint64_t pages = r->numbers[EXPECT_PINNED_PAGES];
    struct text out = { .len = 0 };

    if (pages == 0)
        return;
    if (result_final(r))
        text_add(&out, "%" PRIu64 " page%s %s still held with nothing left to free %s", pages, plural(pages),
                 pages == 1 ? "is" : "are", pages == 1 ? "it" : "them");
    else
        text_add(&out, "decode still holds %" PRIu64 " page%s when the arm ends", pages, plural(pages));
    row(t, result_final(r) ? "PINNED" : "still held", out.s);
}

static void put_arm(struct table *t, const struct arm_summary *a, uint32_t number)
{
    const struct arm_result *r = shown(t, a);
    uint32_t aborted = 0;

    t->labels = LABEL_MIN;
    for (uint32_t i = 0; r && i < t->s->requests_len; i++) {
        unsigned need = text_columns(request_name(t, i)) + (unsigned)strlen("'s memory") + 2;
        if (r->requests[i].submitted && need > t->labels && need <= LABEL_MAX)
            t->labels = need;
        aborted += is_aborted(a, r, i);
    }
    headline(t, a, number);
    if (a->arm->about)
        text_row(t->f, INDENT, 0, "", a->arm->about);
    put_core(t, a->arm);
    for (uint32_t i = 0; i < a->arm->faults_len; i++)
        put_fault(t, &a->arm->faults[i]);
    put_stops(t, a->arm);
    if (!r)
        return;
    put_plays(t, a);
    if (r->why)
        row(t, r->ended == ARM_VOID ? "void, because" : "prevented", r->why);
    for (uint32_t i = 0; i < t->s->requests_len; i++)
        if (is_aborted(a, r, i))
            put_memory_of(t, a->arm, r, i);
    for (uint32_t i = 0; i < t->s->requests_len; i++)
        if (r->requests[i].submitted && !is_aborted(a, r, i))
            put_admission(t, r, i);
    for (uint32_t i = 0; i < t->s->requests_len; i++)
        if (is_aborted(a, r, i))
            put_write(t, a, r, i, aborted == 1);
    if (aborted != 1 && (result_stale(r) || r->numbers[EXPECT_STALE_FREE_BYTES])) {
        struct text out = { .len = 0 };
        put_stale(t, r, -1, &out);
        row(t, "late writes", out.s);
    }
    put_watch(t, r);
    for (uint32_t i = 0; i < t->s->requests_len; i++)
        if (r->requests[i].submitted)
            put_foreign(t, r, i);
    for (uint32_t i = 0; i < t->s->requests_len; i++)
        if (is_aborted(a, r, i))
            put_aborted_client(t, r, i, aborted == 1);
    for (uint32_t i = 0; i < t->s->requests_len; i++)
        if (r->requests[i].submitted && !is_aborted(a, r, i))
            put_client(t, r, i);
    put_held(t, r);
    put_collateral(t, a, r);
    put_published(t, a->arm, r);
    put_differences(t, a, r);
}

/* --- in short: a line an arm --- */

static void short_memory(const struct table *t, const struct arm_summary *a, struct text *out)
{
    static const char *const ends[] = { "ack", "timer", "fence" };
    static const char *const fates[] = {
        [FATE_KEPT] = "not freed",
        [FATE_AT_ABORT] = "freed at abort",
        [FATE_FINISHED] = "freed when finished",
        [FATE_STOPPED] = "freed when stopped",
        [FATE_ERROR] = "freed on an error",
        [FATE_FREED] = "freed",
    };
    const struct arm_result *r = shown(t, a);
    char number[TEXT_NUMBER_MAX];

    for (uint32_t i = 0; r && i < t->s->requests_len; i++) {
        if (!is_aborted(a, r, i) || !r->requests[i].admitted)
            continue;
        const struct hold_result *h = hold_of(r, i);
        if (h && h->ended_by != HOLD_END_NEVER)
            text_add(out, "held %s, by %s", text_duration(h->held_us, number), ends[h->ended_by]);
        else if (h)
            text_add(out, result_final(r) ? "held for ever" : "still held at the end");
        else
            text_add(out, "%s%s", fates[fate_of(r, i)],
                     fate_of(r, i) == FATE_KEPT && !result_final(r) ? " at the end" : "");
        return;
    }
    text_add(out, "-");
}

static void short_output(const struct table *t, const struct arm_summary *a, struct text *out)
{
    const struct arm_result *r = shown(t, a);

    switch (find(t, a)) {
    case FOUND_NOTHING:
        text_add(out, "not played");
        return;
    case FOUND_VOID:
        text_add(out, "void: says nothing");
        return;
    case FOUND_PREVENTED:
        text_add(out, "prevented at step %u", r->ended_step);
        return;
    default:
        break;
    }
    if (arm_played_often(a) && a->diverged) {
        text_add(out, "DIVERGED in %u of %u plays", a->diverged, a->results_len);
        return;
    }
    int idx = arm_worst_request(a, t->s);
    if (idx < 0) {
        text_add(out, "-");
        return;
    }
    const struct request_result *worst = &r->requests[idx];
    text_add(out, "%.20s: ", request_name(t, (uint32_t)idx));
    switch (worst->output) {
    case OUTPUT_DIVERGED:
        text_add(out, "DIVERGED at %u, %u/%u%s", worst->first, worst->differing, worst->tokens,
                 worst->silent ? ", silent" : "");
        break;
    case OUTPUT_IDENTICAL:
        text_add(out, "identical%s", find(t, a) == FOUND_STALE ? ", but a stale write" : "");
        break;
    case OUTPUT_FAILED:
        if (request_failed(worst))
            text_add(out, "failed, HTTP %u", worst->status);
        else
            text_add(out, result_final(r) ? "never answered" : "not answered at the end");
        break;
    case OUTPUT_NOT_ADMITTED:
        text_add(out, "not admitted");
        break;
    default:
        text_add(out, "no output to compare");
    }
}

enum { SHORT_COLUMNS = 5 };

static void short_cells(const struct table *t, uint32_t arm, struct text cells[SHORT_COLUMNS])
{
    const struct arm_summary *a = &t->r->arms[arm];
    char label[SHORT_MAX];

    for (int c = 0; c < SHORT_COLUMNS; c++)
        cells[c].len = 0, cells[c].s[0] = '\0';
    text_add(&cells[0], "[%u]", arm + 1);
    text_add(&cells[1], "%.30s", core_label(a->arm, label, sizeof label));
    short_memory(t, a, &cells[2]);
    short_output(t, a, &cells[3]);
    text_add(&cells[4], "%s", a->as_expected ? "yes" : "NO");
}

static void put_short(const struct table *t)
{
    static const char *const heads[SHORT_COLUMNS] = { "arm", "core", "aborted's memory", "output", "as expected" };
    struct text cells[SHORT_COLUMNS];
    unsigned widths[SHORT_COLUMNS];

    for (int c = 0; c < SHORT_COLUMNS; c++)
        widths[c] = text_columns(heads[c]);
    for (uint32_t i = 0; i < t->r->arms_len; i++) {
        short_cells(t, i, cells);
        for (int c = 0; c < SHORT_COLUMNS; c++)
            widths[c] = text_columns(cells[c].s) > widths[c] ? text_columns(cells[c].s) : widths[c];
    }
    fputs("\nIN SHORT\n", t->f);
    for (int c = 0; c < SHORT_COLUMNS; c++)
        fprintf(t->f, "%*s%s%*s", INDENT, "", heads[c],
                c + 1 < SHORT_COLUMNS ? (int)(widths[c] - text_columns(heads[c])) : 0, "");
    fputc('\n', t->f);
    for (uint32_t i = 0; i < t->r->arms_len; i++) {
        short_cells(t, i, cells);
        for (int c = 0; c < SHORT_COLUMNS; c++) {
            enum finding found = find(t, &t->r->arms[i]);
            enum tone tone = c == 3 ? (found == FOUND_DIVERGED || found == FOUND_VOID ? TONE_BAD
                                       : found == FOUND_HARMLESS                      ? TONE_GOOD
                                                                                      : TONE_UNSURE)
                             : c == 4 && !t->r->arms[i].as_expected ? TONE_BAD
                                                                    : TONE_PLAIN;
            fprintf(t->f, "%*s", INDENT, "");
            toned(t, tone, cells[c].s);
            if (c + 1 < SHORT_COLUMNS)
                fprintf(t->f, "%*s", (int)(widths[c] - text_columns(cells[c].s)), "");
        }
        fputc('\n', t->f);
    }
}

/* --- which core --- */

static bool same_core(const struct arm *a, const struct arm *b)
{
    return strcmp(a->core_name, b->core_name) == 0 && strcmp(a->engine_name, b->engine_name) == 0 &&
           memcmp(&a->policy, &b->policy, sizeof a->policy) == 0;
}

struct core_finding {
    enum finding found;
    bool cut; /* the arm ended with a park closed: its "never" is "not yet" */
    const char *words;
    uint64_t pinned; /* FOUND_PINNED: so many pages, whatever else was found */
};

static bool arm_is(const struct table *t, uint32_t arm, const struct core_finding *f)
{
    const struct arm_summary *a = &t->r->arms[arm];
    enum finding found = find(t, a);

    if (f->found == FOUND_PINNED)
        return found != FOUND_VOID && found != FOUND_NOTHING && result_pinned(shown(t, a)) == f->pinned;
    if (found != f->found)
        return false;
    return (found != FOUND_NOT_ADMITTED && found != FOUND_UNANSWERED) || f->cut != result_final(shown(t, a));
}

/* "WORDS in arm 2", "WORDS in arms 2, 3": the arms of this core of which that is true. Nothing if there are none. */
static bool arms_with(const struct table *t, const struct arm *core, const struct core_finding *f, struct text *out)
{
    uint32_t len = 0, put = 0;

    for (uint32_t i = 0; i < t->r->arms_len; i++)
        len += same_core(t->r->arms[i].arm, core) && arm_is(t, i, f);
    if (len == 0)
        return false;
    text_add(out, "%s%s in arm%s ", out->len ? "; " : "", f->words, plural(len));
    for (uint32_t i = 0; i < t->r->arms_len; i++)
        if (same_core(t->r->arms[i].arm, core) && arm_is(t, i, f))
            text_add(out, "%s%u", put++ ? ", " : "", i + 1);
    return true;
}

/* "pins 3 pages for ever in arm 1; pins 8 pages for ever in arms 2, 4" */
static void arms_pinned(const struct table *t, const struct arm *core, struct text *out)
{
    for (uint32_t i = 0; i < t->r->arms_len; i++) {
        const struct arm_result *r = shown(t, &t->r->arms[i]);
        char words[SHORT_MAX];
        struct core_finding f = { .found = FOUND_PINNED, .words = words, .pinned = r ? result_pinned(r) : 0 };
        bool before = f.pinned == 0 || !same_core(t->r->arms[i].arm, core);

        for (uint32_t k = 0; k < i; k++)
            before = before || (same_core(t->r->arms[k].arm, core) && arm_is(t, k, &f));
        snprintf(words, sizeof words, "pins %" PRIu64 " page%s for ever", f.pinned, plural(f.pinned));
        if (!before)
            arms_with(t, core, &f, out);
    }
}

static void put_core_finding(const struct table *t, const struct arm *core)
{
    static const struct core_finding findings[] = {
        { FOUND_DIVERGED, false, "LETS THE CORRUPTION HAPPEN", 0 },
        { FOUND_STALE, false, "lets a stale write land that changed no output", 0 },
        { FOUND_FAILED, false, "makes a request fail, which is not silent,", 0 },
        { FOUND_NOT_ADMITTED, false, "never lets a request in,", 0 },
        { FOUND_NOT_ADMITTED, true, "has a request still waiting for memory at the end", 0 },
        { FOUND_UNANSWERED, false, "never answers a request", 0 },
        { FOUND_UNANSWERED, true, "has a request still unanswered at the end", 0 },
        { FOUND_PINNED, false, NULL, 0 },
        { FOUND_PREVENTED, false, "does not let the scenario's order happen", 0 },
        { FOUND_HARMLESS, false, "does no harm", 0 },
        { FOUND_VOID, false, "nothing can be said (void)", 0 },
    };
    struct text out = { .len = 0 };
    char label[SHORT_MAX];
    int idx = core_by_name(core->core_name);
    bool hole = false;

    for (size_t i = 0; i < sizeof findings / sizeof findings[0]; i++) {
        if (findings[i].found == FOUND_PINNED)
            arms_pinned(t, core, &out);
        else if (arms_with(t, core, &findings[i], &out))
            hole = hole || findings[i].found == FOUND_DIVERGED || findings[i].found == FOUND_STALE;
    }
    if (out.len == 0)
        text_add(&out, "not played");
    if (hole && idx >= 0)
        text_add(&out, ".\nKnown hole: %s.", core_rows[idx].hole);
    text_row(t->f, INDENT, t->labels, core_label(core, label, sizeof label), out.s);
}

static void put_cores(struct table *t)
{
    char label[SHORT_MAX];

    t->labels = LABEL_MIN;
    for (uint32_t i = 0; i < t->r->arms_len; i++) {
        unsigned need = text_columns(core_label(t->r->arms[i].arm, label, sizeof label)) + 2;
        t->labels = need > t->labels && need <= LABEL_MAX ? need : t->labels;
    }
    fputs("\nWHICH CORE\n", t->f);
    for (uint32_t i = 0; i < t->r->arms_len; i++) {
        bool before = false;
        for (uint32_t k = 0; k < i; k++)
            before = before || same_core(t->r->arms[k].arm, t->r->arms[i].arm);
        if (!before)
            put_core_finding(t, t->r->arms[i].arm);
    }
}

/* --- head and foot --- */

static void put_head(const struct table *t)
{
    char label[ROW_LABEL];
    const char *about = t->s->about ? t->s->about : "";

    snprintf(label, sizeof label, "%s%s", t->s->name, *about ? ":" : "");
    unsigned name = text_columns(label) + 1;
    text_row(t->f, 0, name <= LABEL_MAX ? name : 4, label, about);
    if (t->s->origin)
        fprintf(t->f, "reproduces %s\n", t->s->origin);
}

static void put_preflight(const struct table *t)
{
    const struct preflight_result *p = &t->r->preflight;
    uint32_t machines = t->s->prefill.instances * t->s->prefill.ranks;
    uint32_t prefills = p->prefills ? p->prefills : machines < p->runs ? machines : p->runs;
    struct text out = { .len = 0 };

    if (p->runs == 0) {
        text_row(t->f, 0, LABEL_MIN, "pre-flight", "not done");
        return;
    }
    text_add(&out, "%u run%s over %u prefill%s: %s", p->runs, plural(p->runs), prefills, plural(prefills),
             p->identical ? "identical" : "NOT IDENTICAL");
    text_add(&out, "; an ordinary transfer %s",
             p->transfer_exact ? "arrived byte for byte" : "DID NOT ARRIVE BYTE FOR BYTE");
    if (p->why)
        text_add(&out, "\n%s", p->why);
    if (!p->identical || !p->transfer_exact)
        text_add(&out, "\nso a changed output would prove nothing: the arms do not count");
    text_row(t->f, 0, LABEL_MIN, "pre-flight", out.s);
}

static void put_command(const struct table *t, const char *what, const char *command)
{
    text_row(t->f, INDENT, 0, "", what);
    /* Not wrapped: it is there to be copied. */
    fprintf(t->f, "%*s%s\n", INDENT + 4, "", command);
}

static void put_next(const struct table *t)
{
    const struct arm_summary *subject = NULL;
    struct text command = { .len = 0 }, what = { .len = 0 };

    for (uint32_t i = 0; i < t->r->arms_len && !subject; i++)
        if (!t->r->arms[i].as_expected)
            subject = &t->r->arms[i];
    for (uint32_t i = 0; i < t->r->arms_len && !subject; i++)
        if (find(t, &t->r->arms[i]) == FOUND_DIVERGED)
            subject = &t->r->arms[i];
    if (!subject && t->r->arms_len)
        subject = &t->r->arms[0];
    if (!subject)
        return;
    fputs("next:\n", t->f);
    text_shell(&command, t->options->program);
    text_add(&command, " explain %s", subject->arm->core_name);
    put_command(t, "what this core does, knob by knob, and where that stands upstream", command.s);
    command.len = 0;
    text_shell(&command, t->options->program);
    text_add(&command, " run --trace - --arm ");
    text_shell(&command, subject->arm->name);
    if (t->options->core_replaced)
        text_add(&command, " --core %s", subject->arm->core_name);
    text_add(&command, " ");
    text_shell(&command, t->s->path);
    text_add(&what, "every instant of arm %u, a line each", (unsigned)(subject - t->r->arms) + 1);
    put_command(t, what.s, command.s);
    if (!subject->as_expected && !t->options->core_replaced) {
        what.len = command.len = 0;
        text_add(&what, "if that is how the system really behaves, change the arm's `expect:`");
        text_add(&command, "%s:%u", t->s->path, subject->arm->place.line);
        put_command(t, what.s, command.s);
    }
    command.len = 0;
    text_shell(&command, t->options->program);
    text_add(&command, " list cores");
    put_command(t, "the other cores; play the same arms with one of them by adding --core NAME", command.s);
}

static void put_foot(const struct table *t)
{
    uint32_t not = 0;
    struct text out = { .len = 0 };

    for (uint32_t i = 0; i < t->r->arms_len; i++)
        not += !t->r->arms[i].as_expected;
    fputc('\n', t->f);
    if (t->r->as_expected && not == 0) {
        toned(t, TONE_GOOD,
              t->r->arms_len == 1 ? "the arm is as its scenario expects" : "every arm is as its scenario expects");
        fputc('\n', t->f);
        return;
    }
    if (not == 0)
        text_add(&out, "not as expected: the pre-flight failed");
    else
        text_add(&out, "%u of %u arm%s NOT as the scenario expects:", not, t->r->arms_len,
                 t->r->arms_len == 1 ? " is"
                 : not == 1          ? "s is"
                                     : "s are");
    for (uint32_t i = 0; i < t->r->arms_len; i++)
        if (!t->r->arms[i].as_expected)
            text_add(&out, " [%u]", i + 1);
    toned(t, TONE_BAD, out.s);
    fputc('\n', t->f);
    if (t->options->core_replaced)
        text_row(
            t->f, 0, 0, "",
            "(--core was given: what the scenario expects was written for its own cores, so a difference here is a "
            "finding about the core)");
}

void table_print(FILE *f, const struct run_result *r, const struct table_options *options)
{
    struct table t = { .f = f, .r = r, .s = r->scenario, .options = options, .labels = LABEL_MIN };

    put_head(&t);
    put_preflight(&t);
    if (r->arms_len)
        text_row(f, 0, LABEL_MIN, "how to read",
                 "an arm is one run with one core, a variant of the transfer protocol; "
                 "times are scenario time, tokens count from 0");
    for (uint32_t i = 0; i < r->arms_len; i++)
        put_arm(&t, &r->arms[i], i + 1);
    if (r->arms_len) {
        put_short(&t);
        put_cores(&t);
    }
    put_foot(&t);
    put_next(&t);
}

void table_print_differences(FILE *f, const struct run_result *r)
{
    const struct preflight_result *p = &r->preflight;

    if (p->runs && (!p->identical || !p->transfer_exact))
        fprintf(f, "%s: pre-flight: %s\n", r->scenario->name, p->why ? p->why : "not identical");
    for (uint32_t i = 0; i < r->arms_len; i++) {
        const struct arm_summary *a = &r->arms[i];
        if (a->as_expected || a->results_len == 0)
            continue;
        const struct arm_result *one = &a->results[arm_shown(a, r->scenario)];
        if (one->ended == ARM_VOID)
            fprintf(f, "%s: %s: void: %s\n", r->scenario->name, a->arm->name, one->why ? one->why : "");
        for (uint32_t k = 0; k < one->differences_len; k++)
            fprintf(f, "%s: %s: %s\n", r->scenario->name, a->arm->name, one->differences[k]);
        if (one->as_expected)
            fprintf(f, "%s: %s: the repetitions are not all alike\n", r->scenario->name, a->arm->name);
    }
}
