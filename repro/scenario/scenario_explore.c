#include "scenario_read.h"

#include <stddef.h>
#include <string.h>

struct explore_nodes {
    struct ynode *events, *faults, *cores, *engines;
};

static const char *const event_words[] = { "submit", "abort" };
static const struct choices event_choices = { "event", FIELDS_LEN(event_words), choice_word, event_words };
static const char *const at_words[] = { "decode", "prefill" };
static const struct choices at_choices = { "side of an abort", FIELDS_LEN(at_words), choice_word, at_words };

static bool read_explore_abort(struct reader *r, const struct ynode *n, struct explore_event *e, int *request)
{
    struct {
        struct ynode *request, *at;
    } got = { NULL, NULL };
    static const struct field fields[] = {
        { .name = "request", .kind = FIELD_NODE, .required = true, .offset = 0 },
        { .name = "at", .kind = FIELD_NODE, .required = true, .offset = sizeof(struct ynode *) },
        { .name = "first",
          .kind = FIELD_REFUSED,
          .why = "orders an abort at both sides; here every order is taken, leave it out" },
    };
    int at = 0;

    if (!yaml_is_map(r->y, n, "an abort", "abort: {request: A, at: decode}"))
        return false;
    bool ok = yaml_fields(r->y, n, "an abort", fields, FIELDS_LEN(fields), &got);
    if (got.request)
        ok = read_request_name(r, got.request, request) && ok;
    if (got.at && got.at->kind == YNODE_SCALAR && strcmp(got.at->text, "both") == 0) {
        yaml_error(r->y, got.at, "an abort at both sides is two events here; write one for each side");
        ok = false;
    } else if (got.at) {
        ok = yaml_choice(r->y, got.at, &at_choices, &at) && ok;
    }
    e->at = at ? ABORT_AT_PREFILL : ABORT_AT_DECODE;
    return ok;
}

static bool read_event(struct reader *r, const struct ynode *n, struct explore_event *e)
{
    int kind, request = 0;

    if (!yaml_is_map(r->y, n, "an event", "- submit: A"))
        return false;
    if (n->len != 1) {
        yaml_error(r->y, n, "an event is one of submit and abort, this has %u keys; begin each event with '-'", n->len);
        return false;
    }
    if (!yaml_choice(r->y, n->first->key, &event_choices, &kind))
        return false;
    *e = (struct explore_event){ .place = n->first->key->place, .kind = kind ? STEP_ABORT : STEP_SUBMIT };
    bool ok =
        e->kind == STEP_ABORT ? read_explore_abort(r, n->first, e, &request) : read_request_name(r, n->first, &request);
    e->request = (uint32_t)request;
    return ok;
}

/* The event before e that is the same, or NULL. */
static const struct explore_event *same_event(const struct explore_spec *x, const struct explore_event *e)
{
    for (const struct explore_event *before = x->events; before != e; before++)
        if (before->kind == e->kind && before->request == e->request && before->at == e->at)
            return before;
    return NULL;
}

static bool submits(const struct explore_spec *x, uint32_t request)
{
    for (uint32_t i = 0; i < x->events_len; i++)
        if (x->events[i].kind == STEP_SUBMIT && x->events[i].request == request)
            return true;
    return false;
}

/* False if an event could not be read: then nothing is said about what is missing. */
static bool read_events(struct reader *r, const struct ynode *list, struct explore_spec *x)
{
    bool ok = true;

    if (!yaml_is_list(r->y, list, "'events'", "events: [{submit: A}, {abort: {request: A, at: decode}}]"))
        return false;
    if (list->len == 0 || list->len > SCENARIO_EVENTS_MAX) {
        yaml_error(r->y, list, "%u events; 1 to %d can be explored", list->len, (int)SCENARIO_EVENTS_MAX);
        return false;
    }
    x->events = arena_alloc(&r->y->arena, list->len * sizeof *x->events);
    for (const struct ynode *n = list->first; n; n = n->next) {
        struct explore_event *e = &x->events[x->events_len];
        if (!read_event(r, n, e)) {
            ok = false;
            continue;
        }
        const struct explore_event *before = same_event(x, e);
        if (before) {
            yaml_error(r->y, n, "this event is in line %u already; each happens at most once", before->place.line);
            ok = false;
            continue;
        }
        x->events_len++;
    }
    if (!ok)
        return false;
    const struct ynode *n = list->first;
    for (uint32_t i = 0; i < x->events_len; i++, n = n->next)
        if (!submits(x, x->events[i].request)) {
            yaml_error(r->y, n, "%s is aborted but never submitted; add the event '{submit: %s}'",
                       r->s->requests[x->events[i].request].name, r->s->requests[x->events[i].request].name);
            ok = false;
        }
    return ok;
}

static void read_explore_faults(struct reader *r, const struct ynode *n, bool events_ok, struct explore_spec *x)
{
    struct {
        struct ynode *stall;
        int engine_timeout;
    } got = { NULL, 0 };
    const struct field fields[] = {
        { .name = "stall", .kind = FIELD_NODE, .offset = offsetof(__typeof__(got), stall) },
        { .name = "engine_timeout", .kind = FIELD_BOOL, .offset = offsetof(__typeof__(got), engine_timeout) },
    };
    int stall;

    if (!yaml_is_map(r->y, n, "what may go wrong", "faults: {stall: A, engine_timeout: false}"))
        return;
    yaml_fields(r->y, n, "what may go wrong", fields, FIELDS_LEN(fields), &got);
    x->engine_timeout = got.engine_timeout == 1;
    if (!got.stall || !read_request_name(r, got.stall, &stall))
        return;
    if (events_ok && !submits(x, (uint32_t)stall)) {
        yaml_error(r->y, got.stall, "%s is never submitted: it has no write that could stall",
                   r->s->requests[stall].name);
        return;
    }
    x->stall = stall;
}

/* `all`, which is meant too if nothing is said, or a list of names. */
static void read_rows(struct reader *r, const struct ynode *n, const struct choices *rows, const char *example,
                      unsigned **out, uint32_t *out_len)
{
    *out = arena_alloc(&r->y->arena, rows->len * sizeof **out);
    if (!n || (n->kind == YNODE_SCALAR && strcmp(n->text, "all") == 0)) {
        for (unsigned i = 0; i < rows->len; i++)
            (*out)[(*out_len)++] = i;
        return;
    }
    if (n->kind != YNODE_LIST) {
        yaml_error(r->y, n, "'%s' is 'all' or a list of names; write it as in '%s'", n->key->text, example);
        return;
    }
    if (n->len == 0)
        yaml_error(r->y, n, "no names in '%s'; it takes one or several, or 'all'", n->key->text);
    for (const struct ynode *item = n->first; item; item = item->next) {
        int row;
        bool twice = false;
        if (!yaml_choice(r->y, item, rows, &row))
            continue;
        for (uint32_t i = 0; i < *out_len; i++)
            twice = twice || (*out)[i] == (unsigned)row;
        if (twice)
            yaml_error(r->y, item, "%s '%s' is in this list already", rows->what, item->text);
        else
            (*out)[(*out_len)++] = (unsigned)row;
    }
}

void read_explore(struct reader *r, const struct ynode *n)
{
    static const struct field fields[] = {
        { .name = "events", .kind = FIELD_NODE, .required = true, .offset = offsetof(struct explore_nodes, events) },
        { .name = "faults", .kind = FIELD_NODE, .offset = offsetof(struct explore_nodes, faults) },
        { .name = "cores", .kind = FIELD_NODE, .offset = offsetof(struct explore_nodes, cores) },
        { .name = "engines", .kind = FIELD_NODE, .offset = offsetof(struct explore_nodes, engines) },
        { .name = "core", .kind = FIELD_REFUSED, .why = "is 'cores' here: 'all' or a list of names" },
        { .name = "engine", .kind = FIELD_REFUSED, .why = "is 'engines' here: 'all' or a list of names" },
    };
    const struct choices cores = core_choices(), engines = engine_choices();
    struct explore_spec *x = &r->s->explore;
    struct explore_nodes nodes = { 0 };
    bool events_ok = false;

    x->place = n->key->place;
    if (!yaml_is_map(r->y, n, "'explore'", "explore: {events: [{submit: A}, {abort: {request: A, at: decode}}]}"))
        return;
    yaml_fields(r->y, n, "'explore'", fields, FIELDS_LEN(fields), &nodes);
    if (nodes.events)
        events_ok = read_events(r, nodes.events, x);
    if (nodes.faults)
        read_explore_faults(r, nodes.faults, events_ok, x);
    read_rows(r, nodes.cores, &cores, "cores: [unpatched, deferred-35360]", &x->cores, &x->cores_len);
    read_rows(r, nodes.engines, &engines, "engines: [mooncake, nixl]", &x->engines, &x->engines_len);
    if (r->core_override >= 0) {
        x->cores[0] = (unsigned)r->core_override;
        x->cores_len = 1;
    }
    x->given = true;
}
