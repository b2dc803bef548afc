#include "scenario_read.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "../protocol/names.h"

#define WITHIN_US UINT64_C(120000000)

struct match_nodes {
    struct point_match match;
    struct ynode *request, *actor, *as, *within;
};

static const struct field match_fields[] = {
#define MATCH_INT(key)                                                                                     \
    {                                                                                                      \
        .name = #key, .kind = FIELD_INT, .offset = offsetof(struct match_nodes, match.key), .max = INT_MAX \
    }
    { .name = "point",
      .kind = FIELD_CHOICE,
      .required = true,
      .offset = offsetof(struct match_nodes, match.point),
      .choices = &point_choices },
    { .name = "request", .kind = FIELD_NODE, .offset = offsetof(struct match_nodes, request) },
    { .name = "side",
      .kind = FIELD_CHOICE,
      .offset = offsetof(struct match_nodes, match.side),
      .choices = &side_choices },
    { .name = "actor", .kind = FIELD_NODE, .offset = offsetof(struct match_nodes, actor) },
    { .name = "status",
      .kind = FIELD_CHOICE,
      .offset = offsetof(struct match_nodes, match.status),
      .choices = &status_choices },
    { .name = "occurrence",
      .kind = FIELD_U32,
      .offset = offsetof(struct match_nodes, match.occurrence),
      .min = 1,
      .max = INT_MAX },
    MATCH_INT(instance),
    MATCH_INT(rank),
    MATCH_INT(chunk),
    MATCH_INT(fragment),
    MATCH_INT(n),
    /* The last row is `as` for a park, `within` for an await. */
    { .name = "" },
};

static const struct field as_field = {
    .name = "as", .kind = FIELD_NODE, .required = true, .offset = offsetof(struct match_nodes, as)
};
static const struct field within_field = { .name = "within",
                                           .kind = FIELD_NODE,
                                           .offset = offsetof(struct match_nodes, within) };

bool read_request_name(struct reader *r, const struct ynode *n, int *out)
{
    return yaml_choice(r->y, n, &r->requests, out);
}

static bool read_actor(struct reader *r, const struct ynode *n, int *out)
{
    static const char *const words[] = { "scheduler", "receiver", "worker 0" };
    static const struct choices actors = { "actor", 3, choice_word, words };
    static const char prefix[] = "worker ";
    const char *number = NULL;

    if (n->kind == YNODE_SCALAR && strncmp(n->text, prefix, strlen(prefix)) == 0)
        number = n->text + strlen(prefix);
    if (number && *number && strspn(number, "0123456789") == strlen(number) && strlen(number) < 6) {
        *out = ACTOR_WORKER + atoi(number);
        return true;
    }
    return yaml_choice(r->y, n, &actors, out);
}

/* `extra` is the one key beyond the match that this place allows, or NULL. */
static bool read_match_with(struct reader *r, const struct ynode *n, const char *what, const struct field *extra,
                            struct match_nodes *out)
{
    struct field fields[FIELDS_LEN(match_fields)];
    size_t fields_len = FIELDS_LEN(fields) - (extra ? 0 : 1);

    memcpy(fields, match_fields, sizeof fields);
    if (extra)
        fields[fields_len - 1] = *extra;
    *out = (struct match_nodes){ .match = { .place = n->place,
                                            .request = -1,
                                            .side = -1,
                                            .instance = -1,
                                            .rank = -1,
                                            .actor = -1,
                                            .chunk = -1,
                                            .fragment = -1,
                                            .n = -1,
                                            .status = -1,
                                            .occurrence = 1 } };
    if (!yaml_is_map(r->y, n, what, "{point: kv.landed, request: A}"))
        return false;
    bool ok = yaml_fields(r->y, n, what, fields, fields_len, out);
    if (out->request)
        ok = read_request_name(r, out->request, &out->match.request) && ok;
    if (out->actor)
        ok = read_actor(r, out->actor, &out->match.actor) && ok;
    return ok && check_match(r, n, &out->match);
}

bool read_match(struct reader *r, const struct ynode *n, struct point_match *out)
{
    struct match_nodes nodes;
    bool ok = read_match_with(r, n, "a point match", NULL, &nodes);
    *out = nodes.match;
    return ok;
}

static const char *park_at(const void *ctx, unsigned idx)
{
    return ((const struct park_state *)ctx)[idx].spec.name;
}

int read_park_name(struct reader *r, const struct ynode *n, const struct sequence *seq)
{
    struct choices parks = { "park", seq->parks_len, park_at, seq->parks };
    char remedy[YAML_REMEDY_MAX];
    const char *name;

    if (!yaml_name(r->y, n, &name))
        return -1;
    for (uint32_t i = 0; i < seq->parks_len; i++)
        if (strcmp(seq->parks[i].spec.name, name) == 0)
            return (int)i;
    if (seq->park_lost)
        return -1;
    yaml_error(r->y, n, "no park '%.63s' is armed before this%s", name, name_remedy(name, &parks, remedy));
    return -1;
}

/* Requests that may pass the match and have been submitted; -1: none. */
static int submitted_match(const struct reader *r, const struct sequence *seq, const struct point_match *m)
{
    for (uint32_t i = 0; i < r->s->requests_len; i++)
        if (seq->submitted[i] && match_allows(r->s, m, i))
            return (int)i;
    return -1;
}

static bool read_park(struct reader *r, const struct ynode *n, struct sequence *seq, struct step *step)
{
    struct match_nodes nodes;
    const char *name = NULL;

    bool ok = read_match_with(r, n, "a park", &as_field, &nodes);
    if (!nodes.as || !yaml_name(r->y, nodes.as, &name)) {
        seq->park_lost = true;
        return false;
    }
    for (uint32_t i = 0; i < seq->parks_len; i++)
        if (strcmp(seq->parks[i].spec.name, name) == 0) {
            yaml_error(r->y, nodes.as, "a park '%s' is armed already, in line %u; choose another name", name,
                       seq->parks[i].spec.place.line);
            return false;
        }
    int before = ok && r->topology_ok ? submitted_match(r, seq, &nodes.match) : -1;
    if (before >= 0) {
        yaml_error(
            r->y, n,
            "%s is submitted before this park is armed, so it may be past the point; move the park before 'submit: %s'",
            r->s->requests[before].name, r->s->requests[before].name);
        ok = false;
    }
    step->park = seq->parks_len;
    step->match = nodes.match;
    struct point_match *match = arena_alloc(&r->y->arena, sizeof *match);
    *match = nodes.match;
    seq->parks[seq->parks_len++] =
        (struct park_state){ .spec = { .name = name, .place = nodes.as->place }, .match = ok ? match : NULL };
    return ok;
}

static bool read_submit(struct reader *r, const struct ynode *n, struct sequence *seq, struct step *step)
{
    int request;
    if (!read_request_name(r, n, &request))
        return false;
    step->request = (uint32_t)request;
    if (seq->submitted[request]) {
        yaml_error(r->y, n, "%s is submitted already; a request runs once in an arm", r->s->requests[request].name);
        return false;
    }
    seq->submitted[request] = true;
    return true;
}

static bool read_abort(struct reader *r, const struct ynode *n, struct sequence *seq, struct step *step)
{
    static const char *const at_words[] = { "decode", "prefill", "both" };
    static const struct choices at = { "side of an abort", 3, choice_word, at_words };
    struct {
        struct ynode *request;
        int at, first;
    } abort = { NULL, -1, -1 };
    const struct field fields[] = {
        { .name = "request", .kind = FIELD_NODE, .required = true, .offset = 0 },
        { .name = "at",
          .kind = FIELD_CHOICE,
          .required = true,
          .offset = offsetof(__typeof__(abort), at),
          .choices = &at },
        { .name = "first",
          .kind = FIELD_CHOICE,
          .offset = offsetof(__typeof__(abort), first),
          .choices = &side_choices },
    };
    int request;

    if (!yaml_is_map(r->y, n, "an abort", "abort: {request: A, at: decode}"))
        return false;
    bool ok = yaml_fields(r->y, n, "an abort", fields, FIELDS_LEN(fields), &abort);
    if (!abort.request || !read_request_name(r, abort.request, &request) || !ok)
        return false;
    step->request = (uint32_t)request;
    if (abort.first >= 0 && abort.at != 2) {
        yaml_error(r->y, yaml_get(n, "first"),
                   "'first' orders an abort at both sides; leave it out or write 'at: both'");
        return false;
    }
    step->at = abort.at == 0                 ? ABORT_AT_DECODE
               : abort.at == 1               ? ABORT_AT_PREFILL
               : abort.first == SIDE_PREFILL ? ABORT_AT_PREFILL_DECODE
                                             : ABORT_AT_DECODE_PREFILL;
    if (!seq->submitted[request] && !seq->unsure) {
        yaml_error(r->y, abort.request, "%s is not submitted before this; abort a request after its 'submit'",
                   r->s->requests[request].name);
        return false;
    }
    return true;
}

struct await_nodes {
    struct ynode *park, *all, *first, *within;
};

static bool read_await_item(struct reader *r, const struct ynode *n, const struct sequence *seq, bool within_allowed,
                            struct await_item *item, const struct ynode **within)
{
    static const struct field park_fields[] = {
        { .name = "park", .kind = FIELD_NODE, .required = true, .offset = offsetof(struct await_nodes, park) },
        { .name = "within", .kind = FIELD_NODE, .offset = offsetof(struct await_nodes, within) },
    };
    struct await_nodes nodes = { 0 };
    struct match_nodes match;
    const struct ynode *name = n;

    if (n->kind == YNODE_LIST) {
        yaml_error(r->y, n, "a list within a list can't be awaited; write all items in one");
        return false;
    }
    if (n->kind == YNODE_MAP && !yaml_get(n, "park")) {
        item->kind = AWAIT_POINT;
        bool ok = read_match_with(r, n, within_allowed ? "an await" : "an item of an await",
                                  within_allowed ? &within_field : NULL, &match);
        item->match = match.match;
        *within = match.within;
        return ok;
    }
    if (n->kind == YNODE_MAP) {
        if (!yaml_fields(r->y, n, "an await of a park", park_fields, within_allowed ? 2 : 1, &nodes))
            return false;
        name = nodes.park;
        *within = nodes.within;
    }
    int park = read_park_name(r, name, seq);
    item->kind = AWAIT_PARK;
    item->park = park >= 0 ? (uint32_t)park : 0;
    return park >= 0;
}

/* Steps run one after another: what is submitted later can't end a wait. */
static bool can_end(const struct reader *r, const struct sequence *seq, const struct await_item *item)
{
    const struct point_match *m = item->kind == AWAIT_PARK ? seq->parks[item->park].match : &item->match;
    return !m || submitted_match(r, seq, m) >= 0;
}

static bool check_await_ends(struct reader *r, const struct ynode *n, const struct sequence *seq,
                             const struct step *step)
{
    const struct await_item *stuck = NULL;
    uint32_t stuck_len = 0;
    char what[160];

    if (seq->unsure || !r->topology_ok)
        return true;
    for (uint32_t i = 0; i < step->items_len; i++)
        if (!can_end(r, seq, &step->items[i])) {
            stuck = stuck ? stuck : &step->items[i];
            stuck_len++;
        }
    if (step->all ? stuck_len == 0 : stuck_len < step->items_len)
        return true;
    bool park = stuck->kind == AWAIT_PARK;
    int request = park ? seq->parks[stuck->park].match->request : stuck->match.request;
    if (park)
        snprintf(what, sizeof what, "park '%.63s'", seq->parks[stuck->park].spec.name);
    else
        snprintf(what, sizeof what, "point %s", point_name(stuck->match.point));
    yaml_error(r->y, n, "this wait can't end: no step before it submits %s, which %s waits for; submit it first",
               request >= 0 ? r->s->requests[request].name : "a request", what);
    return false;
}

static bool read_await(struct reader *r, const struct ynode *n, struct sequence *seq, struct step *step)
{
    static const struct field fields[] = {
        { .name = "all", .kind = FIELD_NODE, .offset = offsetof(struct await_nodes, all) },
        { .name = "first", .kind = FIELD_NODE, .offset = offsetof(struct await_nodes, first) },
        { .name = "within", .kind = FIELD_NODE, .offset = offsetof(struct await_nodes, within) },
    };
    struct await_nodes nodes = { 0 };
    const struct ynode *within = NULL, *ignored = NULL, *list = n->kind == YNODE_LIST ? n : NULL;
    bool ok = true;

    step->within_us = WITHIN_US;
    if (n->kind == YNODE_MAP && (yaml_get(n, "all") || yaml_get(n, "first"))) {
        ok = yaml_fields(r->y, n, "an await of several", fields, FIELDS_LEN(fields), &nodes);
        if (nodes.all && nodes.first) {
            yaml_error(r->y, nodes.first->key, "'all' and 'first' exclude each other; use two awaits");
            return false;
        }
        list = nodes.all ? nodes.all : nodes.first;
        step->all = nodes.all != NULL;
        within = nodes.within;
        if (!yaml_is_list(r->y, list, "what is awaited", "all: [writer, {point: kv.landed, request: A}]"))
            return false;
    }
    step->items_len = list ? list->len : 1;
    if (step->items_len == 0 || step->items_len > SCENARIO_ITEMS_MAX) {
        yaml_error(r->y, list, "%u things to await; 1 to %d can be", step->items_len, (int)SCENARIO_ITEMS_MAX);
        return false;
    }
    step->items = arena_alloc(&r->y->arena, step->items_len * sizeof *step->items);
    if (!list) {
        ok = read_await_item(r, n, seq, true, &step->items[0], &within) && ok;
    } else {
        uint32_t i = 0;
        for (const struct ynode *item = list->first; item; item = item->next)
            ok = read_await_item(r, item, seq, false, &step->items[i++], &ignored) && ok;
    }
    if (within)
        ok = yaml_duration(r->y, within, 0, DURATION_MAX_US, &step->within_us) && ok;
    return ok && check_await_ends(r, n, seq, step);
}

static bool read_release(struct reader *r, const struct ynode *n, struct sequence *seq, struct step *step)
{
    int park = read_park_name(r, n, seq);
    if (park < 0)
        return false;
    step->park = (uint32_t)park;
    if (seq->parks[park].released) {
        yaml_error(r->y, n, "park '%s' is released already; a park holds once, arm a second one",
                   seq->parks[park].spec.name);
        return false;
    }
    seq->parks[park].released = true;
    return true;
}

static bool read_wait(struct reader *r, const struct ynode *n, struct sequence *seq, struct step *step)
{
    struct {
        uint64_t from, to;
        uint32_t phases;
    } phased = { 0 };
    const struct field fields[] = {
        { .name = "from",
          .kind = FIELD_DURATION,
          .required = true,
          .offset = offsetof(__typeof__(phased), from),
          .max = DURATION_MAX_US },
        { .name = "to",
          .kind = FIELD_DURATION,
          .required = true,
          .offset = offsetof(__typeof__(phased), to),
          .max = DURATION_MAX_US },
        { .name = "phases",
          .kind = FIELD_U32,
          .required = true,
          .offset = offsetof(__typeof__(phased), phases),
          .min = 2,
          .max = SCENARIO_PHASES_MAX },
    };

    if (n->kind != YNODE_MAP)
        return yaml_duration(r->y, n, 0, DURATION_MAX_US, &step->wait_us);
    if (!yaml_fields(r->y, n, "a wait in phases", fields, FIELDS_LEN(fields), &phased))
        return false;
    if (phased.from >= phased.to) {
        yaml_error(r->y, yaml_get(n, "to"), "'to' must be later than 'from'");
        return false;
    }
    if (seq->phased) {
        yaml_error(r->y, n, "a second wait in phases, the first is in line %u; an arm has at most one",
                   seq->phased->place.line);
        return false;
    }
    seq->phased = step;
    seq->phases = phased.phases;
    step->phased = true;
    step->wait_us = phased.from;
    step->wait_to_us = phased.to;
    return true;
}

static bool read_step(struct reader *r, const struct ynode *n, struct sequence *seq, struct step *step)
{
    static const char *const words[] = { "park", "submit", "abort", "await", "release", "wait" };
    static const struct choices kinds = { "step", 6, choice_word, words };
    int kind;

    if (!yaml_is_map(r->y, n, "a step", "- submit: A"))
        return false;
    if (n->len != 1) {
        yaml_error(
            r->y, n,
            "a step is one of park, submit, abort, await, release and wait, this has %u keys; begin each step with '-'",
            n->len);
        return false;
    }
    if (!yaml_choice(r->y, n->first->key, &kinds, &kind))
        return false;
    step->place = n->first->key->place;
    static const enum step_kind step_kinds[] = {
        STEP_PARK, STEP_SUBMIT, STEP_ABORT, STEP_AWAIT, STEP_RELEASE, STEP_WAIT
    };
    step->kind = step_kinds[kind];
    switch (step->kind) {
    case STEP_PARK:
        return read_park(r, n->first, seq, step);
    case STEP_SUBMIT:
        return read_submit(r, n->first, seq, step);
    case STEP_ABORT:
        return read_abort(r, n->first, seq, step);
    case STEP_AWAIT:
        return read_await(r, n->first, seq, step);
    case STEP_RELEASE:
        return read_release(r, n->first, seq, step);
    case STEP_WAIT:
        return read_wait(r, n->first, seq, step);
    }
    return false;
}

void read_steps(struct reader *r, const struct sequence *base, const struct ynode *list, struct sequence *out)
{
    uint32_t base_len = base ? base->steps_len : 0, own_len = 0;

    *out = base ? *base : (struct sequence){ .phases = 1 };
    if (list && yaml_is_list(r->y, list, "'steps'", "steps: [submit: A]")) {
        own_len = list->len;
        if (base_len + own_len > SCENARIO_STEPS_MAX) {
            yaml_error(r->y, list, "%u steps in one arm, more than %d", base_len + own_len, (int)SCENARIO_STEPS_MAX);
            own_len = 0;
            out->unsure = true;
        }
    } else if (list) {
        out->unsure = true;
    }
    out->steps = arena_alloc(&r->y->arena, (base_len + own_len + 1) * sizeof *out->steps);
    out->parks = arena_alloc(&r->y->arena, (base_len + own_len + 1) * sizeof *out->parks);
    if (base_len)
        memcpy(out->steps, base->steps, base_len * sizeof *out->steps);
    if (base && base->parks_len)
        memcpy(out->parks, base->parks, base->parks_len * sizeof *out->parks);
    const struct ynode *n = own_len ? list->first : NULL;
    for (; n; n = n->next) {
        struct step *step = &out->steps[out->steps_len++];
        if (!read_step(r, n, out, step))
            out->unsure = true;
    }
}
