#include "scenario_read.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "../protocol/machine.h"
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

/* `stop` and `resume`: machines are numbered prefill first. */
static bool read_machine_step(struct reader *r, const struct ynode *n, struct sequence *seq, struct step *step)
{
    struct {
        int side;
        struct ynode *instance, *rank;
    } got = { -1, NULL, NULL };
    const struct field fields[] = {
        { .name = "side",
          .kind = FIELD_CHOICE,
          .required = true,
          .offset = offsetof(__typeof__(got), side),
          .choices = &side_choices },
        { .name = "instance", .kind = FIELD_NODE, .offset = offsetof(__typeof__(got), instance) },
        { .name = "rank", .kind = FIELD_NODE, .offset = offsetof(__typeof__(got), rank) },
    };
    const struct side_spec *p = &r->s->prefill;
    bool stop = step->kind == STEP_STOP;
    const char *what = stop ? "a stop" : "a resume";
    uint64_t instance = 0, rank = 0;

    if (!yaml_is_map(r->y, n, what,
                     stop ? "stop: {side: decode, instance: 0}" : "resume: {side: decode, instance: 0}") ||
        !yaml_fields(r->y, n, what, fields, FIELDS_LEN(fields), &got))
        return false;
    if (!r->topology_ok)
        return true;
    const struct side_spec *side = got.side == SIDE_PREFILL ? p : &r->s->decode;
    bool ok = !got.instance || yaml_number(r->y, got.instance, 0, side->instances - 1, &instance);
    ok = (!got.rank || yaml_number(r->y, got.rank, 0, side->ranks - 1, &rank)) && ok;
    if (!ok)
        return false;
    step->machine =
        (got.side == SIDE_PREFILL ? 0 : p->instances * p->ranks) + (uint32_t)instance * side->ranks + (uint32_t)rank;
    if (seq->stopped[step->machine] == stop && !seq->unsure) {
        yaml_error(r->y, n, "%s instance %u rank %u is %s; %s", side_name((unsigned)got.side), (unsigned)instance,
                   (unsigned)rank, stop ? "stopped already" : "not stopped before this",
                   stop ? "resume it before it is stopped again" : "resume only what an earlier 'stop' names");
        return false;
    }
    seq->stopped[step->machine] = stop;
    return true;
}

static bool read_step(struct reader *r, const struct ynode *n, struct sequence *seq, struct step *step)
{
    static const char *const words[] = { "park", "submit", "abort", "await", "release", "wait", "stop", "resume" };
    static const struct choices kinds = { "step", FIELDS_LEN(words), choice_word, words };
    int kind;

    if (!yaml_is_map(r->y, n, "a step", "- submit: A"))
        return false;
    if (n->len != 1) {
        yaml_error(
            r->y, n,
            "a step is one of park, submit, abort, await, release, wait, stop and resume, this has %u keys; begin each step "
            "with '-'",
            n->len);
        return false;
    }
    if (!yaml_choice(r->y, n->first->key, &kinds, &kind))
        return false;
    step->place = n->first->key->place;
    static const enum step_kind step_kinds[FIELDS_LEN(words)] = { STEP_PARK,    STEP_SUBMIT, STEP_ABORT, STEP_AWAIT,
                                                                  STEP_RELEASE, STEP_WAIT,   STEP_STOP,  STEP_RESUME };
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
    case STEP_STOP:
    case STEP_RESUME:
        return read_machine_step(r, n->first, seq, step);
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

/* ---- faults ---- */

struct fault_nodes {
    struct fault fault;
    int message, write, kind; /* indices of the words below, or -1 */
    struct ynode *request;
};

static const char *const message_words[] = { "metadata", "abort", "status", "ack", "notify" };
static const enum message_type message_types[FIELDS_LEN(message_words)] = { MESSAGE_METADATA, MESSAGE_ABORT,
                                                                            MESSAGE_STATUS, MESSAGE_ACK,
                                                                            MESSAGE_NOTIFY };
static const char *const write_words[] = { "kv", "state", "aux" };
static const enum effect write_effects[FIELDS_LEN(write_words)] = { EFFECT_KV, EFFECT_STATE, EFFECT_AUX };
static const char *const fault_words[] = { "lose", "double", "overtake", "delay", "error" };
static const enum fault_kind fault_kinds[FIELDS_LEN(fault_words)] = { FAULT_LOSE, FAULT_DOUBLE, FAULT_OVERTAKE,
                                                                      FAULT_DELAY, FAULT_ERROR };

static const struct choices message_choices = { "message", FIELDS_LEN(message_words), choice_word, message_words };
static const struct choices write_choices = { "write", FIELDS_LEN(write_words), choice_word, write_words };
static const struct choices fault_choices = { "fault", FIELDS_LEN(fault_words), choice_word, fault_words };

static const struct field fault_fields[] = {
    { .name = "message",
      .kind = FIELD_CHOICE,
      .offset = offsetof(struct fault_nodes, message),
      .choices = &message_choices },
    { .name = "write", .kind = FIELD_CHOICE, .offset = offsetof(struct fault_nodes, write), .choices = &write_choices },
    { .name = "request", .kind = FIELD_NODE, .required = true, .offset = offsetof(struct fault_nodes, request) },
    { .name = "do",
      .kind = FIELD_CHOICE,
      .required = true,
      .offset = offsetof(struct fault_nodes, kind),
      .choices = &fault_choices },
    { .name = "by",
      .kind = FIELD_DURATION,
      .offset = offsetof(struct fault_nodes, fault.by_us),
      .max = DURATION_MAX_US },
    { .name = "chunk", .kind = FIELD_INT, .offset = offsetof(struct fault_nodes, fault.chunk), .max = INT_MAX },
    { .name = "fragment", .kind = FIELD_INT, .offset = offsetof(struct fault_nodes, fault.fragment), .max = INT_MAX },
    { .name = "occurrence",
      .kind = FIELD_U32,
      .offset = offsetof(struct fault_nodes, fault.occurrence),
      .min = 1,
      .max = INT_MAX },
};

static bool check_fault_kind(struct reader *r, const struct ynode *n, const struct fault *f)
{
    const struct ynode *by = yaml_get(n, "by");

    if (f->is_write ? f->kind == FAULT_DOUBLE || f->kind == FAULT_OVERTAKE : f->kind == FAULT_ERROR) {
        yaml_error(r->y, yaml_get(n, "do"),
                   f->is_write ? "a write can be lost, delayed or end in an error (an engine's 'retries' send it twice)"
                               : "a message has no error; it can be lost, doubled or delayed, or overtake");
        return false;
    }
    if (f->kind == FAULT_DELAY && f->by_us == 0) {
        yaml_error(r->y, by ? by : n, "a delay needs a time, as in 'by: 5s'");
        return false;
    }
    if (by && f->kind != FAULT_DELAY && f->kind != FAULT_ERROR) {
        yaml_error(r->y, by->key, "'by' tells when a delay or an error comes; leave it out");
        return false;
    }
    return true;
}

static bool check_fault_place(struct reader *r, const struct ynode *n, const struct fault *f)
{
    const struct request_spec *q = &r->s->requests[f->request];
    const struct ynode *chunk = yaml_get(n, "chunk"), *fragment = yaml_get(n, "fragment");

    if (chunk && !(f->is_write && f->effect == EFFECT_KV)) {
        yaml_error(r->y, chunk->key, "only a KV write has chunks; leave out 'chunk'");
        return false;
    }
    if (chunk && r->topology_ok && q->prompt_tokens && (uint32_t)f->chunk >= request_chunks(r->s, q)) {
        uint32_t chunks = request_chunks(r->s, q);
        yaml_error(r->y, chunk, "%s has %u chunk%s, counted from 0", q->name, chunks, chunks == 1 ? "" : "s");
        return false;
    }
    if (fragment && !(f->is_write && (f->kind == FAULT_DELAY || f->kind == FAULT_LOSE))) {
        yaml_error(r->y, fragment->key, "only a write that is lost or delayed can be so in part; leave out 'fragment'");
        return false;
    }
    if (fragment && f->effect != EFFECT_KV && f->fragment > 0) {
        yaml_error(r->y, fragment, "a write of a slot is one fragment, number 0");
        return false;
    }
    return true;
}

/* A fault at a request that the arm never submits would hit nothing. */
static bool check_fault_request(struct reader *r, const struct ynode *n, const struct sequence *seq, int request)
{
    if (!seq || seq->unsure || seq->submitted[request])
        return true;
    yaml_error(r->y, n, "%s is never submitted in this arm", r->s->requests[request].name);
    return false;
}

static bool read_fault(struct reader *r, const struct ynode *n, const struct sequence *seq, struct fault *out)
{
    struct fault_nodes got = {
        .fault = { .place = n->place, .request = -1, .chunk = -1, .fragment = -1, .occurrence = 1 },
        .message = -1,
        .write = -1,
        .kind = -1,
    };
    struct fault *f = &got.fault;
    static const char example[] = "{message: ack, request: A, do: lose}";

    if (!yaml_is_map(r->y, n, "a fault", example))
        return false;
    bool ok = yaml_fields(r->y, n, "a fault", fault_fields, FIELDS_LEN(fault_fields), &got);
    const struct ynode *message = yaml_get(n, "message"), *write = yaml_get(n, "write");
    if (message && write) {
        yaml_error(r->y, write->key, "'message' and 'write' exclude each other; use two faults");
        return false;
    }
    if (!message && !write && ok) {
        yaml_error(r->y, n, "a fault needs the key 'message' or 'write'; write it as in '%s'", example);
        ok = false;
    }
    if (got.request)
        ok = read_request_name(r, got.request, &f->request) && ok;
    if (!ok)
        return false;
    f->kind = fault_kinds[got.kind];
    f->is_write = write != NULL;
    f->message = message ? (int)message_types[got.message] : MESSAGE_NONE;
    f->effect = write ? (int)write_effects[got.write] : EFFECT_NONE;
    *out = *f;
    return check_fault_kind(r, n, f) && check_fault_place(r, n, f) &&
           check_fault_request(r, got.request, seq, f->request);
}

uint32_t read_faults(struct reader *r, const struct ynode *list, const struct sequence *seq, struct fault **out)
{
    uint32_t len = r->faults_len, own_len = 0;

    if (list && yaml_is_list(r->y, list, "'faults'", "faults: [{message: ack, request: A, do: lose}]"))
        own_len = list->len;
    if (len + own_len > SCENARIO_ITEMS_MAX) {
        yaml_error(r->y, list, "%u faults in one arm, more than %d", len + own_len, (int)SCENARIO_ITEMS_MAX);
        own_len = 0;
    }
    *out = arena_alloc(&r->y->arena, (len + own_len) * sizeof **out);
    if (len)
        memcpy(*out, r->faults, len * sizeof **out);
    for (const struct ynode *n = own_len ? list->first : NULL; n; n = n->next)
        if (read_fault(r, n, seq, &(*out)[len]))
            len++;
    return len;
}
