#include "scenario_read.h"

#include <limits.h>
#include <string.h>

enum { KNOB_VALUES_MAX = 8, KNOB_VALUE_MAX = 32 };

static const char *core_at(const void *ctx, unsigned idx)
{
    return (void)ctx, core_rows[idx].name;
}
static const char *engine_at(const void *ctx, unsigned idx)
{
    return (void)ctx, engine_rows[idx].name;
}
static const char *knob_at(const void *ctx, unsigned idx)
{
    return ((const struct knob_row *)ctx)[idx].name;
}

/* A policy's half: its rows, its knobs. */
struct axis {
    const char *what, *example;
    struct choices (*rows)(void);
    const struct knob_row *knobs;
    unsigned knobs_len;
    const struct knob_row *other_knobs;
    unsigned other_knobs_len;
    const char *other;
};

struct choices core_choices(void)
{
    return (struct choices){ "core", core_rows_len, core_at, NULL };
}

static struct choices engine_choices(void)
{
    return (struct choices){ "engine", engine_rows_len, engine_at, NULL };
}

static const struct axis core_axis = { "core",
                                       "core: {base: unpatched, abort_notice: true}",
                                       core_choices,
                                       core_knobs,
                                       CORE_KNOB_COUNT,
                                       engine_knobs,
                                       ENGINE_KNOB_COUNT,
                                       "engine" };
static const struct axis engine_axis = { "engine",          "engine: {base: mooncake, timeout: 10s}",
                                         engine_choices,    engine_knobs,
                                         ENGINE_KNOB_COUNT, core_knobs,
                                         CORE_KNOB_COUNT,   "core" };

static bool read_knob_choice(struct reader *r, const struct ynode *n, const struct knob_row *knob, uint32_t *out)
{
    char words[KNOB_VALUES_MAX][KNOB_VALUE_MAX];
    const char *names[KNOB_VALUES_MAX];
    struct choices choices = { .what = "value", .at = choice_word, .ctx = names };
    int value;

    for (const char *c = knob->values; *c && choices.len < KNOB_VALUES_MAX;) {
        size_t len = strcspn(c, " ");
        snprintf(words[choices.len], KNOB_VALUE_MAX, "%.*s", (int)len, c);
        names[choices.len] = words[choices.len];
        choices.len++;
        c += len + (c[len] == ' ');
    }
    if (!yaml_choice(r->y, n, &choices, &value))
        return false;
    *out = (uint32_t)value;
    return true;
}

static bool read_knob(struct reader *r, const struct ynode *n, const struct knob_row *knob, uint32_t *out)
{
    uint64_t us;
    int yes;

    switch (knob->kind) {
    case KNOB_BOOL:
        if (!yaml_bool(r->y, n, &yes))
            return false;
        *out = (uint32_t)yes;
        return true;
    case KNOB_DURATION:
        if (!yaml_duration(r->y, n, 0, KNOB_DURATION_MAX_US, &us))
            return false;
        *out = (uint32_t)us;
        return true;
    case KNOB_CHOICE:
        return read_knob_choice(r, n, knob, out);
    }
    return false;
}

static void read_override(struct reader *r, const struct ynode *n, const struct axis *axis, uint32_t *knobs)
{
    struct choices choices = { "knob", axis->knobs_len, knob_at, axis->knobs };
    char remedy[YAML_REMEDY_MAX];

    for (unsigned k = 0; k < axis->knobs_len; k++)
        if (strcmp(axis->knobs[k].name, n->key->text) == 0) {
            read_knob(r, n, &axis->knobs[k], &knobs[k]);
            return;
        }
    for (unsigned k = 0; k < axis->other_knobs_len; k++)
        if (strcmp(axis->other_knobs[k].name, n->key->text) == 0) {
            yaml_error(r->y, n->key, "'%s' is a knob of the %s; write it under '%s:'", n->key->text, axis->other,
                       axis->other);
            return;
        }
    yaml_error(r->y, n->key, "a %s has no knob '%.60s'%s", axis->what, n->key->text,
               name_remedy(n->key->text, &choices, remedy));
}

/* The row that n names, or starts from; -1 after a message. Its knobs are copied and overridden. */
static int read_axis(struct reader *r, const struct ynode *n, const struct axis *axis, struct policy *policy)
{
    struct choices rows = axis->rows();
    bool core = axis == &core_axis;
    const struct ynode *base = n;
    int row = -1;

    if (n->kind == YNODE_MAP) {
        base = yaml_get(n, "base");
        if (!base) {
            yaml_error(r->y, n, "a %s needs the key 'base', the row it starts from; write it as in '%s'", axis->what,
                       axis->example);
            return -1;
        }
    }
    if (!yaml_choice(r->y, base, &rows, &row))
        return -1;
    if (core)
        policy_set_core(policy, (unsigned)row);
    else
        policy_set_engine(policy, (unsigned)row);
    if (n->kind == YNODE_MAP)
        for (const struct ynode *knob = n->first; knob; knob = knob->next)
            if (knob != base)
                read_override(r, knob, axis, core ? policy->core : policy->engine);
    return row;
}

static void read_policy(struct reader *r, const struct ynode *core, const struct ynode *engine, struct arm *arm)
{
    int engine_row = engine_by_name("mooncake");
    if (engine_row >= 0)
        policy_set_engine(&arm->policy, (unsigned)engine_row);
    if (engine)
        engine_row = read_axis(r, engine, &engine_axis, &arm->policy);
    int core_row = core ? read_axis(r, core, &core_axis, &arm->policy) : -1;
    arm->core_overridden = core && core->kind == YNODE_MAP && core->len > 1;
    if (r->core_override >= 0) {
        core_row = r->core_override;
        arm->core_overridden = false;
        policy_set_core(&arm->policy, (unsigned)core_row);
    }
    arm->core_name = core_row >= 0 ? core_rows[core_row].name : "?";
    arm->engine_name = engine_row >= 0 ? engine_rows[engine_row].name : "?";
}

static void check_expect_request(struct reader *r, const struct ynode *n, const struct expect_request *e)
{
    const struct request_spec *q = &r->s->requests[e->request];
    uint64_t differing = e->differing.given && e->differing.min ? e->differing.min : 1;

    if (e->output >= 0 && e->output != OUTPUT_DIVERGED && (e->first.given || e->differing.given)) {
        const struct ynode *key = yaml_get(n, e->first.given ? "first" : "differing");
        yaml_error(r->y, key->key, "'%s' tells of an output that diverged, not of one that is '%s'", key->key->text,
                   output_kind_name(e->output));
    }
    if (!q->max_tokens)
        return;
    if (e->tokens.given && e->tokens.min > q->max_tokens)
        yaml_error(r->y, yaml_get(n, "tokens"), "%s never has more than %u tokens", q->name, q->max_tokens);
    if (e->first.given && e->first.min >= q->max_tokens)
        yaml_error(r->y, yaml_get(n, "first"), "%s has %u tokens, counted from 0: it can't diverge there", q->name,
                   q->max_tokens);
    else if (e->first.given && differing > q->max_tokens - e->first.min)
        yaml_error(r->y, yaml_get(n, "differing"), "from token %llu on %s has only %llu tokens that could differ",
                   (unsigned long long)e->first.min, q->name, (unsigned long long)(q->max_tokens - e->first.min));
    else if (differing > q->max_tokens)
        yaml_error(r->y, yaml_get(n, "differing"), "%s has only %u tokens", q->name, q->max_tokens);
}

static void read_expect_request(struct reader *r, const struct ynode *n, struct expect_request *e)
{
#define EXPECT_RANGE(key)                                                                                             \
    {                                                                                                                 \
        .name = #key, .kind = FIELD_RANGE, .offset = offsetof(struct expect_request, key), .max = SCENARIO_TOKENS_MAX \
    }
    static const struct field fields[] = {
        { .name = "output",
          .kind = FIELD_CHOICE,
          .offset = offsetof(struct expect_request, output),
          .choices = &output_choices },
        EXPECT_RANGE(first),
        EXPECT_RANGE(differing),
        EXPECT_RANGE(tokens),
        { .name = "status",
          .kind = FIELD_INT,
          .offset = offsetof(struct expect_request, status),
          .min = 100,
          .max = 599 },
        { .name = "finish_reason",
          .kind = FIELD_CHOICE,
          .offset = offsetof(struct expect_request, finish_reason),
          .choices = &finish_choices },
        { .name = "silent", .kind = FIELD_BOOL, .offset = offsetof(struct expect_request, silent) },
    };
    e->output = e->status = e->finish_reason = e->silent = -1;
    if (yaml_is_map(r->y, n, "what is expected of a request", "B: {output: identical}") &&
        yaml_fields(r->y, n, "what is expected of a request", fields, FIELDS_LEN(fields), e))
        check_expect_request(r, n, e);
}

struct number_row {
    const char *group, *name;
};

static const struct number_row number_rows[EXPECT_NUMBER_COUNT] = {
#define X(id, group, name) { group, name },
    EXPECT_NUMBER_TABLE(X)
#undef X
};

static void read_numbers(struct reader *r, const struct ynode *n, const char *group, struct expect *e)
{
    struct field fields[EXPECT_NUMBER_COUNT];
    size_t fields_len = 0;
    char what[40];

    for (int i = 0; i < EXPECT_NUMBER_COUNT; i++)
        if (strcmp(number_rows[i].group, group) == 0)
            fields[fields_len++] = (struct field){ .name = number_rows[i].name,
                                                   .kind = FIELD_RANGE,
                                                   .offset = (size_t)i * sizeof e->numbers[0],
                                                   .max = UINT32_MAX };
    snprintf(what, sizeof what, "'%s'", group);
    if (!yaml_is_map(r->y, n, what, "memory: {stale_pages: 0}"))
        return;
    yaml_fields(r->y, n, what, fields, fields_len, e->numbers);
    for (int i = 0; i < EXPECT_NUMBER_COUNT; i++) {
        const struct ynode *number = strcmp(number_rows[i].group, group) == 0 ? yaml_get(n, number_rows[i].name) : NULL;
        if (number)
            e->number_places[i] = number->place;
    }
    const struct ynode *watched = yaml_get(n, number_rows[EXPECT_WATCHED_TOKENS_CHANGED].name);
    if (watched && r->s->watch.request < 0 && !yaml_get(r->y->root, "watch"))
        yaml_error(r->y, watched->key, "nothing is watched in this scenario; add 'watch: {request: B, tokens: 64}'");
    else if (watched && r->s->watch.request >= 0 && e->numbers[EXPECT_WATCHED_TOKENS_CHANGED].min > r->s->watch.tokens)
        yaml_error(r->y, watched, "only %u tokens are watched", r->s->watch.tokens);
}

/* What is expected of a request that an arm never submits would hold of nothing. */
static bool expected_request(struct reader *r, const struct ynode *key, const struct sequence *seq, int *request)
{
    if (!read_request_name(r, key, request))
        return false;
    if (seq->submitted[*request] || seq->unsure)
        return true;
    yaml_error(r->y, key, "%s is never submitted in this arm", r->s->requests[*request].name);
    return false;
}

static void read_holds(struct reader *r, const struct ynode *map, const struct sequence *seq, struct expect *e)
{
    static const struct field fields[] = {
        { .name = "ended_by",
          .kind = FIELD_CHOICE,
          .offset = offsetof(struct expect_hold, ended_by),
          .choices = &hold_end_choices },
        { .name = "held",
          .kind = FIELD_RANGE_US,
          .offset = offsetof(struct expect_hold, held_us),
          .max = DURATION_MAX_US },
    };
    if (!yaml_is_map(r->y, map, "'holds'", "holds: {A: {ended_by: timer, held: 30s}}"))
        return;
    e->holds = arena_alloc(&r->y->arena, map->len * sizeof *e->holds);
    for (const struct ynode *n = map->first; n; n = n->next) {
        struct expect_hold hold = { .place = n->key->place, .ended_by = -1 };
        int request;
        if (!expected_request(r, n->key, seq, &request) ||
            !yaml_is_map(r->y, n, "what is expected of a hold", "A: {ended_by: timer, held: 30s}"))
            continue;
        hold.request = (uint32_t)request;
        yaml_fields(r->y, n, "what is expected of a hold", fields, FIELDS_LEN(fields), &hold);
        e->holds[e->holds_len++] = hold;
    }
}

static void read_order(struct reader *r, const struct ynode *list, struct expect *e)
{
    if (!yaml_is_list(r->y, list, "'order'",
                      "order: [{point: pages.free, request: A}, {point: kv.landed, request: A}]"))
        return;
    if (list->len < 2 || list->len > SCENARIO_ITEMS_MAX) {
        yaml_error(r->y, list, "%u points in 'order'; it takes 2 to %d", list->len, (int)SCENARIO_ITEMS_MAX);
        return;
    }
    e->order = arena_alloc(&r->y->arena, list->len * sizeof *e->order);
    for (const struct ynode *n = list->first; n; n = n->next)
        if (read_match(r, n, &e->order[e->order_len]))
            e->order_len++;
}

static void read_prevented(struct reader *r, const struct ynode *n, const struct sequence *seq, struct expect *e)
{
    static const struct field fields[] = { { .name = "step", .kind = FIELD_NODE, .required = true } };
    struct ynode *step = NULL;
    uint64_t number;

    if (!yaml_is_map(r->y, n, "'prevented'", "prevented: {step: 5}") ||
        !yaml_fields(r->y, n, "'prevented'", fields, FIELDS_LEN(fields), &step) ||
        !yaml_number(r->y, step, 1, SCENARIO_STEPS_MAX, &number))
        return;
    if (number > seq->steps_len) {
        yaml_error(r->y, step, "this arm has %u steps, the common ones counted first", seq->steps_len);
        return;
    }
    e->prevented_step = (int)number;
    e->prevented_place = step->place;
}

/* Names for the nearest right key: the requests, then the fixed ones. */
static const char *const expect_words[] = { "memory", "liveness", "holds", "order", "prevented" };

static const char *expect_key_at(const void *ctx, unsigned idx)
{
    const struct choices *requests = ctx;
    return idx < requests->len ? requests->at(requests->ctx, idx) : expect_words[idx - requests->len];
}

static void read_expect(struct reader *r, const struct ynode *map, const struct sequence *seq, struct expect *e)
{
    struct choices keys = { "key", r->requests.len + FIELDS_LEN(expect_words), expect_key_at, &r->requests };
    int key, request;

    if (!yaml_is_map(r->y, map, "'expect'", "expect: {B: {output: identical}}"))
        return;
    e->requests = arena_alloc(&r->y->arena, map->len * sizeof *e->requests);
    for (const struct ynode *n = map->first; n; n = n->next) {
        if (!yaml_choice(r->y, n->key, &keys, &key))
            continue;
        if ((unsigned)key < r->requests.len) {
            if (expected_request(r, n->key, seq, &request)) {
                struct expect_request *q = &e->requests[e->requests_len++];
                *q = (struct expect_request){ .place = n->key->place, .request = (uint32_t)request };
                read_expect_request(r, n, q);
            }
            continue;
        }
        switch ((unsigned)key - r->requests.len) {
        case 0:
        case 1:
            read_numbers(r, n, n->key->text, e);
            break;
        case 2:
            read_holds(r, n, seq, e);
            break;
        case 3:
            read_order(r, n, e);
            break;
        default:
            read_prevented(r, n, seq, e);
        }
    }
}

static void read_end(struct reader *r, const struct ynode *n, const struct sequence *seq, struct arm *arm)
{
    static const struct field fields[] = { { .name = "parked", .kind = FIELD_NODE, .required = true } };
    struct ynode *parked = NULL;

    if (!yaml_is_map(r->y, n, "'end'", "end: {parked: [writer]}") ||
        !yaml_fields(r->y, n, "'end'", fields, FIELDS_LEN(fields), &parked) ||
        !yaml_is_list(r->y, parked, "'parked'", "end: {parked: [writer]}"))
        return;
    for (const struct ynode *name = parked->first; name; name = name->next) {
        int park = read_park_name(r, name, seq);
        if (park < 0)
            continue;
        if (seq->parks[park].released)
            yaml_error(r->y, name, "park '%s' is released in this arm: it can't be closed at the end",
                       seq->parks[park].spec.name);
        else if (arm->end_parked[park])
            yaml_error(r->y, name, "park '%s' is named twice", seq->parks[park].spec.name);
        arm->end_parked[park] = true;
    }
}

static const char *const published_words[] = { "identical", "diverged" };

struct published_fields {
    int output; /* index in published_words */
    uint32_t first, differing, tokens;
    const char *note;
};

static void read_published(struct reader *r, const struct ynode *n, struct published *p)
{
    static const struct choices outputs = { "outputs", 2, choice_word, published_words };
    static const struct field fields[] = {
        { .name = "output", .kind = FIELD_CHOICE, .required = true, .offset = offsetof(struct published_fields, output),
          .choices = &outputs },
        { .name = "first", .kind = FIELD_U32, .offset = offsetof(struct published_fields, first),
          .max = SCENARIO_TOKENS_MAX },
        { .name = "differing", .kind = FIELD_U32, .offset = offsetof(struct published_fields, differing),
          .max = SCENARIO_TOKENS_MAX },
        { .name = "tokens", .kind = FIELD_U32, .offset = offsetof(struct published_fields, tokens),
          .max = SCENARIO_TOKENS_MAX },
        { .name = "note", .kind = FIELD_TEXT, .offset = offsetof(struct published_fields, note) },
    };
    struct published_fields got = { 0 };

    if (!yaml_is_map(r->y, n, "'published'", "published: {output: diverged, first: 269, differing: 241, tokens: 512}") ||
        !yaml_fields(r->y, n, "'published'", fields, FIELDS_LEN(fields), &got))
        return;
    if (got.output && (got.tokens == 0 || got.differing == 0 || got.differing > got.tokens || got.first >= got.tokens)) {
        yaml_error(r->y, n, "a published divergence needs 'first', 'differing' and 'tokens', the first two within the third");
        return;
    }
    *p = (struct published){ true, got.first, got.differing, got.tokens, got.output == 0, got.note };
}

struct arm_nodes {
    const char *name, *about;
    struct ynode *core, *engine, *steps, *expect, *end, *published;
};

static bool any_submitted(const struct sequence *seq)
{
    for (uint32_t i = 0; i < SCENARIO_REQUESTS_MAX; i++)
        if (seq->submitted[i])
            return true;
    return false;
}

static void read_arm(struct reader *r, const struct ynode *n, const struct sequence *common, struct arm *arm)
{
    static const struct field fields[] = {
        { .name = "name", .kind = FIELD_LINE, .required = true, .offset = offsetof(struct arm_nodes, name) },
        { .name = "about", .kind = FIELD_TEXT, .offset = offsetof(struct arm_nodes, about) },
        { .name = "core", .kind = FIELD_NODE, .required = true, .offset = offsetof(struct arm_nodes, core) },
        { .name = "engine", .kind = FIELD_NODE, .offset = offsetof(struct arm_nodes, engine) },
        { .name = "steps", .kind = FIELD_NODE, .offset = offsetof(struct arm_nodes, steps) },
        { .name = "expect", .kind = FIELD_NODE, .offset = offsetof(struct arm_nodes, expect) },
        { .name = "end", .kind = FIELD_NODE, .offset = offsetof(struct arm_nodes, end) },
        { .name = "published", .kind = FIELD_NODE, .offset = offsetof(struct arm_nodes, published) },
    };
    struct arm_nodes nodes = { 0 };
    struct sequence seq;

    arm->place = n->place;
    arm->expect.prevented_step = -1;
    if (!yaml_is_map(r->y, n, "an arm", "- name: without the fix"))
        return;
    yaml_fields(r->y, n, "an arm", fields, FIELDS_LEN(fields), &nodes);
    arm->name = nodes.name;
    arm->about = nodes.about;
    read_policy(r, nodes.core, nodes.engine, arm);
    read_steps(r, common, nodes.steps, &seq);
    if (seq.steps_len == 0 && !seq.unsure)
        yaml_error(r->y, n, "this arm has no steps, neither common nor its own; submit a request");
    else if (!any_submitted(&seq) && !seq.unsure && r->requests.len)
        yaml_error(r->y, n, "this arm submits no request: nothing would happen");
    arm->steps = seq.steps;
    arm->steps_len = seq.steps_len;
    arm->phases = seq.phases;
    arm->parks_len = seq.parks_len;
    arm->parks = arena_alloc(&r->y->arena, seq.parks_len * sizeof *arm->parks);
    arm->end_parked = arena_alloc(&r->y->arena, seq.parks_len * sizeof *arm->end_parked);
    for (uint32_t i = 0; i < seq.parks_len; i++)
        arm->parks[i] = seq.parks[i].spec;
    if (nodes.expect)
        read_expect(r, nodes.expect, &seq, &arm->expect);
    if (nodes.end)
        read_end(r, nodes.end, &seq, arm);
    if (nodes.published)
        read_published(r, nodes.published, &arm->published);
}

void read_arms(struct reader *r, const struct ynode *list, const struct sequence *common)
{
    struct scenario *s = r->s;

    if (!yaml_is_list(r->y, list, "'arms'", "arms: [{name: without the fix, core: unpatched}]"))
        return;
    if (list->len == 0 || list->len > SCENARIO_ARMS_MAX) {
        yaml_error(r->y, list, "%u arms; a scenario has 1 to %d", list->len, (int)SCENARIO_ARMS_MAX);
        return;
    }
    s->arms = arena_alloc(&r->y->arena, list->len * sizeof *s->arms);
    for (const struct ynode *n = list->first; n; n = n->next) {
        struct arm *arm = &s->arms[s->arms_len];
        read_arm(r, n, common, arm);
        for (uint32_t i = 0; arm->name && i < s->arms_len; i++)
            if (s->arms[i].name && strcmp(s->arms[i].name, arm->name) == 0)
                yaml_error(r->y, yaml_get(n, "name"), "an arm named '%.60s' is in line %u already; choose another name",
                           arm->name, s->arms[i].place.line);
        s->arms_len++;
    }
}
