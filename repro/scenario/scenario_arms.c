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

struct choices engine_choices(void)
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
    uint64_t us, number;
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
    case KNOB_NUMBER:
        if (!yaml_number(r->y, n, 0, knob == &engine_knobs[ENGINE_RETRIES] ? RETRIES_MAX : UINT32_MAX, &number))
            return false;
        *out = (uint32_t)number;
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

/* One of the cores, or engines, that an arm is played with. */
struct variant {
    const char *name;
    const struct ynode *item; /* of the list; NULL: there is none */
    struct policy policy;     /* its half */
    bool overridden;
};

struct variants {
    struct variant at[SCENARIO_ARMS_MAX];
    uint32_t len;
};

static const char *row_name(const struct axis *axis, int row)
{
    const struct choices rows = axis->rows();
    return row >= 0 ? rows.at(rows.ctx, (unsigned)row) : "?";
}

/* From `core: …`, or from the names of `cores: […]`. */
static void read_variants(struct reader *r, const struct ynode *one, const struct ynode *list, const struct axis *axis,
                          struct variants *out)
{
    if (!list) {
        struct variant *v = &out->at[out->len++];
        v->name = row_name(axis, read_axis(r, one, axis, &v->policy));
        v->overridden = one->kind == YNODE_MAP && one->len > 1;
        return;
    }
    const struct choices rows = axis->rows();
    for (const struct ynode *n = list->first; n; n = n->next) {
        struct variant *v = &out->at[out->len];
        int row;
        if (!yaml_choice(r->y, n, &rows, &row))
            continue;
        *v = (struct variant){ .name = row_name(axis, row), .item = n };
        read_axis(r, n, axis, &v->policy);
        bool twice = false;
        for (uint32_t i = 0; i < out->len; i++)
            twice = twice || out->at[i].name == v->name;
        if (twice)
            yaml_error(r->y, n, "%s '%s' is in this list already", axis->what, v->name);
        else
            out->len++;
    }
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

/* Somebody else, of whose writing this request may read something. */
static bool foreign_request(struct reader *r, const struct ynode *n, const struct sequence *seq, uint32_t reader,
                            int *request)
{
    if (!expected_request(r, n, seq, request))
        return false;
    if ((uint32_t)*request != reader)
        return true;
    yaml_error(r->y, n, "what %s wrote itself is its own; name another request", r->s->requests[reader].name);
    return false;
}

static void read_rows_from(struct reader *r, const struct ynode *map, const struct sequence *seq,
                           struct expect_request *e)
{
    if (!yaml_is_map(r->y, map, "'rows_from'", "rows_from: {A: 512}"))
        return;
    e->rows = arena_alloc(&r->y->arena, map->len * sizeof *e->rows);
    for (const struct ynode *n = map->first; n; n = n->next) {
        struct expect_rows *rows = &e->rows[e->rows_len];
        int writer;
        bool ok = foreign_request(r, n->key, seq, e->request, &writer);
        ok = yaml_range(r->y, n, false, 0, UINT32_MAX, &rows->rows) && ok;
        if (!ok)
            continue;
        rows->writer = (uint32_t)writer;
        e->rows_len++;
    }
}

struct expect_request_nodes {
    struct expect_request e;
    struct ynode *rows_from, *state_from;
};

static void read_expect_request(struct reader *r, const struct ynode *n, const struct sequence *seq,
                                struct expect_request *out)
{
#define EXPECT_RANGE(key)                                                                          \
    {                                                                                              \
        .name = #key, .kind = FIELD_RANGE, .offset = offsetof(struct expect_request_nodes, e.key), \
        .max = SCENARIO_TOKENS_MAX                                                                 \
    }
    static const struct field fields[] = {
        { .name = "output",
          .kind = FIELD_CHOICE,
          .offset = offsetof(struct expect_request_nodes, e.output),
          .choices = &output_choices },
        EXPECT_RANGE(first),
        EXPECT_RANGE(differing),
        EXPECT_RANGE(tokens),
        { .name = "status",
          .kind = FIELD_INT,
          .offset = offsetof(struct expect_request_nodes, e.status),
          .min = 100,
          .max = 599 },
        { .name = "finish_reason",
          .kind = FIELD_CHOICE,
          .offset = offsetof(struct expect_request_nodes, e.finish_reason),
          .choices = &finish_choices },
        { .name = "silent", .kind = FIELD_BOOL, .offset = offsetof(struct expect_request_nodes, e.silent) },
        { .name = "rows_from", .kind = FIELD_NODE, .offset = offsetof(struct expect_request_nodes, rows_from) },
        { .name = "state_from", .kind = FIELD_NODE, .offset = offsetof(struct expect_request_nodes, state_from) },
    };
    struct expect_request_nodes nodes = { .e = *out };
    struct expect_request *e = &nodes.e;

    e->output = e->status = e->finish_reason = e->silent = e->state_from = -1;
    if (yaml_is_map(r->y, n, "what is expected of a request", "B: {output: identical}") &&
        yaml_fields(r->y, n, "what is expected of a request", fields, FIELDS_LEN(fields), &nodes)) {
        check_expect_request(r, n, e);
        if (nodes.rows_from)
            read_rows_from(r, nodes.rows_from, seq, e);
        if (nodes.state_from)
            foreign_request(r, nodes.state_from, seq, e->request, &e->state_from);
    }
    *out = *e;
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
                read_expect_request(r, n, seq, q);
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
        { .name = "output",
          .kind = FIELD_CHOICE,
          .required = true,
          .offset = offsetof(struct published_fields, output),
          .choices = &outputs },
        { .name = "first",
          .kind = FIELD_U32,
          .offset = offsetof(struct published_fields, first),
          .max = SCENARIO_TOKENS_MAX },
        { .name = "differing",
          .kind = FIELD_U32,
          .offset = offsetof(struct published_fields, differing),
          .max = SCENARIO_TOKENS_MAX },
        { .name = "tokens",
          .kind = FIELD_U32,
          .offset = offsetof(struct published_fields, tokens),
          .max = SCENARIO_TOKENS_MAX },
        { .name = "note", .kind = FIELD_TEXT, .offset = offsetof(struct published_fields, note) },
    };
    struct published_fields got = { 0 };

    if (!yaml_is_map(r->y, n, "'published'",
                     "published: {output: diverged, first: 269, differing: 241, tokens: 512}") ||
        !yaml_fields(r->y, n, "'published'", fields, FIELDS_LEN(fields), &got))
        return;
    if (got.output &&
        (got.tokens == 0 || got.differing == 0 || got.differing > got.tokens || got.first >= got.tokens)) {
        yaml_error(r->y, n,
                   "a published divergence needs 'first', 'differing' and 'tokens', the first two within the third");
        return;
    }
    *p = (struct published){ true, got.first, got.differing, got.tokens, got.output == 0, got.note };
}

struct arm_nodes {
    const char *name, *about;
    struct ynode *core, *cores, *engine, *engines, *faults, *steps, *expect, *end, *published;
};

static bool any_submitted(const struct sequence *seq)
{
    for (uint32_t i = 0; i < SCENARIO_REQUESTS_MAX; i++)
        if (seq->submitted[i])
            return true;
    return false;
}

/* A key and its plural, of which an arm has one. */
static bool check_alternatives(struct reader *r, const struct ynode *one, const struct ynode *list, const char *example)
{
    if (one && list) {
        yaml_error(r->y, list->key, "'%s' and '%s' exclude each other; leave one out", one->key->text, list->key->text);
        return false;
    }
    if (!list)
        return true;
    char label[YAML_LABEL_MAX];
    if (!yaml_is_list(r->y, list, yaml_label(list, label), example))
        return false;
    if (list->len == 0)
        yaml_error(r->y, list, "no names in '%s'; it takes one or several", list->key->text);
    return list->len > 0;
}

/* Whether the keys are there and there is room for the arms that they stand for. */
static bool check_variants(struct reader *r, const struct ynode *n, const struct arm_nodes *nodes)
{
    bool ok = check_alternatives(r, nodes->core, nodes->cores, "cores: [unpatched, deferred-35360]");
    ok = check_alternatives(r, nodes->engine, nodes->engines, "engines: [mooncake, nixl]") && ok;
    if (!nodes->core && !nodes->cores) {
        yaml_error(r->y, n, "an arm needs the key 'core', or 'cores' for one arm each");
        ok = false;
    }
    if (!ok)
        return false;
    uint64_t len = (uint64_t)(nodes->cores ? nodes->cores->len : 1) * (nodes->engines ? nodes->engines->len : 1);
    if (r->s->arms_len + len > SCENARIO_ARMS_MAX) {
        yaml_error(r->y, n, "%llu arms with this one, which stands for %llu; a scenario has 1 to %d",
                   (unsigned long long)(r->s->arms_len + len), (unsigned long long)len, (int)SCENARIO_ARMS_MAX);
        return false;
    }
    return true;
}

/* Names differ before cores and engines are added to them: else `--core` would make them alike. */
static bool name_taken(struct reader *r, const struct ynode *n, const char *name)
{
    for (const struct ynode *before = n->parent->first; before != n; before = before->next) {
        const struct ynode *other = yaml_get(before, "name");
        if (other && other->kind == YNODE_SCALAR && strcmp(other->text, name) == 0) {
            yaml_error(r->y, yaml_get(n, "name"), "an arm named '%.60s' is in line %u already; choose another name",
                       name, before->place.line);
            return true;
        }
    }
    return false;
}

static const char *variant_name(struct reader *r, const char *name, const struct variant *core,
                                const struct variant *engine)
{
    char text[YAML_LINE_MAX + 2 * (YAML_NAME_MAX + 1) + 8];

    if (!name || (!core->item && !engine->item))
        return name;
    int len = snprintf(text, sizeof text, "%s (%.*s%s%.*s)", name, (int)YAML_NAME_MAX, core->item ? core->name : "",
                       core->item && engine->item ? ", " : "", (int)YAML_NAME_MAX, engine->item ? engine->name : "");
    return arena_copy(&r->y->arena, text, (size_t)len);
}

static void add_arm(struct reader *r, const struct ynode *n, const struct arm *arm)
{
    struct scenario *s = r->s;

    for (uint32_t i = 0; arm->name && i < s->arms_len; i++)
        if (s->arms[i].name && strcmp(s->arms[i].name, arm->name) == 0) {
            yaml_error(r->y, n, "an arm named '%.60s' is in line %u already; choose another name", arm->name,
                       s->arms[i].place.line);
            break;
        }
    s->arms[s->arms_len++] = *arm;
}

/* Adds the arms that `arm` stands for: one for each core and engine. */
static void add_arms(struct reader *r, const struct ynode *n, const struct arm_nodes *nodes, struct arm arm)
{
    struct variants cores = { .len = 0 }, engines = { .len = 0 };
    const char *name = arm.name;

    read_variants(r, nodes->core, nodes->cores, &core_axis, &cores);
    if (r->core_override >= 0) {
        cores.len = 1;
        cores.at[0].name = core_rows[r->core_override].name;
        cores.at[0].overridden = false;
        policy_set_core(&cores.at[0].policy, (unsigned)r->core_override);
    }
    if (nodes->engine || nodes->engines) {
        read_variants(r, nodes->engine, nodes->engines, &engine_axis, &engines);
    } else {
        int row = engine_by_name("mooncake");
        engines.at[engines.len++].name = row_name(&engine_axis, row);
        if (row >= 0)
            policy_set_engine(&engines.at[0].policy, (unsigned)row);
    }
    for (uint32_t c = 0; c < cores.len; c++)
        for (uint32_t e = 0; e < engines.len; e++) {
            const struct variant *core = &cores.at[c], *engine = &engines.at[e];
            const struct ynode *item = core->item ? core->item : engine->item;
            arm.name = variant_name(r, name, core, engine);
            arm.core_name = core->name;
            arm.core_overridden = core->overridden;
            arm.engine_name = engine->name;
            memcpy(arm.policy.core, core->policy.core, sizeof arm.policy.core);
            memcpy(arm.policy.engine, engine->policy.engine, sizeof arm.policy.engine);
            add_arm(r, item ? item : yaml_get(n, "name"), &arm);
        }
}

static void read_arm(struct reader *r, const struct ynode *n, const struct sequence *common)
{
    static const struct field fields[] = {
        { .name = "name", .kind = FIELD_LINE, .required = true, .offset = offsetof(struct arm_nodes, name) },
        { .name = "about", .kind = FIELD_TEXT, .offset = offsetof(struct arm_nodes, about) },
        { .name = "core", .kind = FIELD_NODE, .offset = offsetof(struct arm_nodes, core) },
        { .name = "cores", .kind = FIELD_NODE, .offset = offsetof(struct arm_nodes, cores) },
        { .name = "engine", .kind = FIELD_NODE, .offset = offsetof(struct arm_nodes, engine) },
        { .name = "engines", .kind = FIELD_NODE, .offset = offsetof(struct arm_nodes, engines) },
        { .name = "faults", .kind = FIELD_NODE, .offset = offsetof(struct arm_nodes, faults) },
        { .name = "steps", .kind = FIELD_NODE, .offset = offsetof(struct arm_nodes, steps) },
        { .name = "expect", .kind = FIELD_NODE, .offset = offsetof(struct arm_nodes, expect) },
        { .name = "end", .kind = FIELD_NODE, .offset = offsetof(struct arm_nodes, end) },
        { .name = "published", .kind = FIELD_NODE, .offset = offsetof(struct arm_nodes, published) },
    };
    struct arm arm = { .place = n->place, .expect.prevented_step = -1 };
    struct arm_nodes nodes = { 0 };
    struct sequence seq;

    if (!yaml_is_map(r->y, n, "an arm", "- name: without the fix"))
        return;
    yaml_fields(r->y, n, "an arm", fields, FIELDS_LEN(fields), &nodes);
    arm.name = nodes.name && !name_taken(r, n, nodes.name) ? nodes.name : NULL;
    arm.about = nodes.about;
    bool known = check_variants(r, n, &nodes);
    read_steps(r, common, nodes.steps, &seq);
    if (seq.steps_len == 0 && !seq.unsure)
        yaml_error(r->y, n, "this arm has no steps, neither common nor its own; submit a request");
    else if (!any_submitted(&seq) && !seq.unsure && r->requests.len)
        yaml_error(r->y, n, "this arm submits no request: nothing would happen");
    arm.steps = seq.steps;
    arm.steps_len = seq.steps_len;
    arm.phases = seq.phases;
    arm.parks_len = seq.parks_len;
    arm.parks = arena_alloc(&r->y->arena, seq.parks_len * sizeof *arm.parks);
    arm.end_parked = arena_alloc(&r->y->arena, seq.parks_len * sizeof *arm.end_parked);
    for (uint32_t i = 0; i < seq.parks_len; i++)
        arm.parks[i] = seq.parks[i].spec;
    arm.faults_len = read_faults(r, nodes.faults, &seq, &arm.faults);
    if (nodes.expect)
        read_expect(r, nodes.expect, &seq, &arm.expect);
    if (nodes.end)
        read_end(r, nodes.end, &seq, &arm);
    if (nodes.published)
        read_published(r, nodes.published, &arm.published);
    if (known)
        add_arms(r, n, &nodes, arm);
}

void read_arms(struct reader *r, const struct ynode *list, const struct sequence *common)
{
    if (!yaml_is_list(r->y, list, "'arms'", "arms: [{name: without the fix, core: unpatched}]"))
        return;
    if (list->len == 0 || list->len > SCENARIO_ARMS_MAX) {
        yaml_error(r->y, list, "%u arms; a scenario has 1 to %d", list->len, (int)SCENARIO_ARMS_MAX);
        return;
    }
    r->s->arms = arena_alloc(&r->y->arena, SCENARIO_ARMS_MAX * sizeof *r->s->arms);
    for (const struct ynode *n = list->first; n; n = n->next)
        read_arm(r, n, common);
}
