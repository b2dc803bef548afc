#include "explored.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "../protocol/names.h"
#include "../scenario/scenario_config.h"
#include "text.h"

/* A core without a timer is searched once: the three treatments are the same then. */
static bool has_timer(const struct explore_cell *c)
{
    return c->last.states > 0;
}

static const struct search_result *liveness_of(const struct explore_cell *c)
{
    return has_timer(c) ? &c->last : &c->any;
}

/* --- the table --- */

enum { CORE_COLUMNS = 18, SAFETY_COLUMNS = 20, LIVENESS_COLUMNS = 15, WORD_MAX = 40 };

static const char *safety(const struct search_result *r, char *buf)
{
    if (!r->corrupts)
        return r->complete ? "safe" : "bounded";
    snprintf(buf, WORD_MAX, "corrupts after %" PRIu64, r->shortest);
    return buf;
}

static const char *liveness(const struct search_result *r, char *buf)
{
    if (!r->pinned)
        return r->complete ? "live" : "bounded";
    snprintf(buf, WORD_MAX, "pins after %" PRIu64, r->pinned_after);
    return buf;
}

static void put_row(FILE *f, const char *name, const char *safe, const char *live, uint64_t states,
                    uint64_t transitions, double seconds, bool complete)
{
    char states_text[TEXT_NUMBER_MAX], transitions_text[TEXT_NUMBER_MAX], seconds_text[TEXT_NUMBER_MAX] = "";

    if (seconds >= 0)
        snprintf(seconds_text, sizeof seconds_text, "%.1f", seconds);
    fprintf(f, "  %-*s  %-*s  %-*s %11s %11s %6s  %s\n", (int)CORE_COLUMNS, name, (int)SAFETY_COLUMNS, safe,
            (int)LIVENESS_COLUMNS, live, text_count(states, states_text), text_count(transitions, transitions_text),
            seconds_text, complete ? "complete" : "bounded");
}

static void put_timers(FILE *f, const char *name, const struct search_result *r)
{
    char safe[WORD_MAX], live[WORD_MAX];

    put_row(f, name, safety(r, safe), liveness(r, live), r->states, r->transitions, -1, r->complete);
}

static void put_cell(FILE *f, const struct explored_cell *cell)
{
    const struct explore_cell *c = &cell->result;
    char safe[WORD_MAX], live[WORD_MAX];

    if (!cell->done) {
        fprintf(f, "  %-*s  not explored\n", (int)CORE_COLUMNS, core_rows[cell->core].name);
        return;
    }
    put_row(f, core_rows[cell->core].name, safety(&c->any, safe), liveness(liveness_of(c), live), c->states,
            c->transitions, c->seconds, c->complete);
    if (!has_timer(c))
        return;
    put_timers(f, "  timers any time", &c->any);
    put_timers(f, "  timers last", &c->last);
    put_timers(f, "  timers never", &c->never);
}

static void put_table(FILE *f, const struct explored *x)
{
    for (uint32_t i = 0; i < x->cells_len; i++) {
        if (i == 0 || x->cells[i].engine != x->cells[i - 1].engine) {
            fprintf(f, "\nENGINE %s\n", engine_rows[x->cells[i].engine].name);
            fprintf(f, "  %-*s  %-*s  %-*s %11s %11s %6s  %s\n", (int)CORE_COLUMNS, "core", (int)SAFETY_COLUMNS,
                    "safety", (int)LIVENESS_COLUMNS, "liveness", "states", "transitions", "s", "search");
        }
        put_cell(f, &x->cells[i]);
    }
}

/* --- in short --- */

enum verdict { SAFE_AND_LIVE, SAFE_BUT_PINS, SAFE_LIVENESS_OPEN, CORRUPTS, OPEN, NOT_EXPLORED, VERDICTS };

static enum verdict verdict(const struct explored_cell *cell)
{
    if (!cell->done)
        return NOT_EXPLORED;
    if (cell->result.any.corrupts)
        return CORRUPTS;
    if (!cell->result.safe)
        return OPEN;
    return cell->result.live ? SAFE_AND_LIVE : liveness_of(&cell->result)->pinned ? SAFE_BUT_PINS : SAFE_LIVENESS_OPEN;
}

static void put_verdicts(FILE *f, const struct explored *x, unsigned engine)
{
    static const char *const words[VERDICTS] = { "safe and live",       "safe, but pins memory for ever",
                                                 "safe, liveness open", "corrupts",
                                                 "open (bounded)",      "not explored" };
    struct text out = { .len = 0 };

    for (int v = 0; v < VERDICTS; v++) {
        const char *between = ": ";
        for (uint32_t i = 0; i < x->cells_len; i++) {
            if (x->cells[i].engine != engine || verdict(&x->cells[i]) != (enum verdict)v)
                continue;
            text_add(&out, "%s%s%s", *between == ':' ? words[v] : "", between, core_rows[x->cells[i].core].name);
            between = ", ";
        }
        if (*between == ':' && v == SAFE_AND_LIVE)
            text_add(&out, "%s: none\n", words[v]);
        else if (*between != ':')
            text_add(&out, "\n");
    }
    text_row(f, 2, 14, engine_rows[engine].name, out.s);
}

static uint32_t chunks_of(const struct scenario *s, const struct request_spec *q)
{
    uint32_t chunk = s->prefill.chunk_tokens;

    return chunk ? (q->prompt_tokens + chunk - 1) / chunk : 1;
}

static void put_scope(FILE *f, const struct scenario *s)
{
    const struct explore_spec *e = &s->explore;
    struct text out = { .len = 0 };
    const char *between = "";

    for (uint32_t i = 0; i < e->events_len; i++) {
        const struct request_spec *q = &s->requests[e->events[i].request];
        if (e->events[i].kind != STEP_SUBMIT)
            continue;
        text_add(&out, "%s%s of %u chunk%s and %u token%s", between, q->name, chunks_of(s, q),
                 chunks_of(s, q) == 1 ? "" : "s", q->max_tokens, q->max_tokens == 1 ? "" : "s");
        between = ", ";
    }
    text_add(&out, "; decode has %u page%s of %u token%s and %u state slot%s, one attention layer.", s->decode.pages,
             s->decode.pages == 1 ? "" : "s", s->decode.page_tokens, s->decode.page_tokens == 1 ? "" : "s",
             s->decode.state_slots, s->decode.state_slots == 1 ? "" : "s");
    text_row(f, 2, 14, "requests", out.s);
    out.len = 0;
    between = "";
    for (uint32_t i = 0; i < e->events_len; i++) {
        const char *name = s->requests[e->events[i].request].name;
        if (e->events[i].kind == STEP_SUBMIT)
            text_add(&out, "%ssubmit %s", between, name);
        else
            text_add(&out, "%sabort %s at %s", between, name,
                     e->events[i].at == ABORT_AT_PREFILL ? "prefill" : "decode");
        between = ", ";
    }
    text_add(&out, ": each at most once, at any time.");
    text_row(f, 2, 14, "clients", out.s);
    out.len = 0;
    text_add(&out, "messages, fragments, completions and actors take as long as they like. ");
    if (e->stall >= 0)
        text_add(&out, "%s's writer may stop for ever. ", s->requests[e->stall].name);
    else
        text_add(&out, "No writer stops for ever. ");
    text_add(&out, "%s Nothing is lost, doubled or reordered within a channel; no machine dies.",
             e->engine_timeout ? "The engine may give a write up, whose bytes fly on." : "No engine gives a write up.");
    text_row(f, 2, 14, "faults", out.s);
}

static bool any_cell(const struct explored *x, bool (*holds)(const struct explored_cell *))
{
    for (uint32_t i = 0; i < x->cells_len; i++)
        if (holds(&x->cells[i]))
            return true;
    return false;
}

static bool is_timed(const struct explored_cell *cell)
{
    return cell->done && has_timer(&cell->result);
}
static bool has_way(const struct explored_cell *cell)
{
    return cell->done && (cell->result.any.corrupts || liveness_of(&cell->result)->pinned);
}

static void put_notes(FILE *f, const struct explored *x)
{
    struct text out = { .len = 0 };
    char number[TEXT_NUMBER_MAX];

    text_row(f, 2, 14, "safe",
             "no order within this scope lets decode read what another request has written. It says nothing of larger "
             "worlds.");
    text_row(f, 2, 14, "live",
             "every order ends with decode owning no memory; 'pins' is an end at which it still does.");
    if (any_cell(x, is_timed))
        text_row(
            f, 2, 14, "timers",
            "of holds may fire at any time, only when nothing else can happen, or never. A core's own line takes its "
            "safety from any time and its liveness from last; its states are those of all three searches. With "
            "timers never, the acks alone have to end a hold.");
    text_add(&out,
             "is never 'safe' and never 'live': a search that ended early, after %s states (--states-limit, "
             "--memory-limit).",
             text_count(x->options.states_max, number));
    text_row(f, 2, 14, "bounded", out.s);
    text_row(f, 2, 14, "after N",
             x->options.reduce
                 ? "transitions. No way is shorter among the orders that are left when steps which commute "
                   "with everything else are taken at once; with --no-reduce it is the shortest of all."
                 : "transitions: no order is shorter.");
    if (!x->told && any_cell(x, has_way)) {
        out.len = 0;
        text_add(&out, "%s explore --story %s   tells each way, step by step", x->program, x->s->path);
        fputc('\n', f);
        text_row(f, 0, 6, "next:", out.s);
    }
}

void explored_print(FILE *f, const struct explored *x)
{
    double seconds = 0;

    fprintf(f, "%s: every order of what machines, network and clients can do\n", x->s->name);
    put_table(f, x);
    fprintf(f, "\nIN SHORT, within the scope below\n");
    for (uint32_t i = 0; i < x->cells_len; i++)
        if (i == 0 || x->cells[i].engine != x->cells[i - 1].engine)
            put_verdicts(f, x, x->cells[i].engine);
    fprintf(f, "\nSCOPE\n");
    put_scope(f, x->s);
    fprintf(f, "\nHOW TO READ IT\n");
    put_notes(f, x);
    for (uint32_t i = 0; i < x->cells_len; i++)
        seconds += x->cells[i].done ? x->cells[i].result.seconds : 0;
    fprintf(f, "\n%.1f s in all\n", seconds);
}

/* --- stories: the recorded transitions are taken again, and each is told from the world before it --- */

struct story {
    FILE *f;
    const struct scenario *s;
    struct config *c;
    uint8_t *world;
    struct transition *enabled;
    uint32_t number;
    bool explained[POINT_COUNT]; /* a point's meaning is told the first time */
};

static const char *request_name(const struct story *t, uint32_t request)
{
    return request < t->s->requests_len ? t->s->requests[request].name : "?";
}

static void put_actor(const struct story *t, struct text *out, uint32_t machine, uint32_t actor)
{
    const struct machine_config *m = &t->c->machines[machine];

    text_add(out, "%s", side_name(m->side));
    if (t->c->sides[m->side].instances > 1)
        text_add(out, " %u", m->instance);
    if (t->c->sides[m->side].ranks > 1)
        text_add(out, " rank %u", m->rank);
    text_add(out, " %s", actor == ACTOR_SCHEDULER ? "scheduler" : actor == ACTOR_RECEIVER ? "receiver" : "worker");
    if (actor >= ACTOR_WORKER && m->workers > 1)
        text_add(out, " %u", actor - ACTOR_WORKER);
}

/* Whose memory it is, seen by who writes it. */
static void put_owner(const struct story *t, struct text *out, uint32_t owner, uint32_t writer)
{
    if (owner == 0)
        text_add(out, "nobody's");
    else if (owner == writer + 1)
        text_add(out, "its own");
    else
        text_add(out, "now %s's", request_name(t, owner - 1));
}

static void put_write(const struct story *t, struct text *out, const struct wire_entry *e)
{
    text_add(out, "%s's ", request_name(t, e->request));
    if (e->kind == EFFECT_KV)
        text_add(out, "chunk %u", e->chunk);
    else
        text_add(out, "%s", e->kind == EFFECT_STATE ? "state" : "aux record");
    if (e->attempt)
        text_add(out, ", sent again,");
}

/* True if it lands in another request's memory. */
static bool put_landing(const struct story *t, struct text *out, uint32_t index)
{
    const struct config *c = t->c;
    const struct wire_entry e = wire_entry(c, index);
    uint32_t decode = c->requests[e.request].decode, dest = cell(t->world, &c->wire.dest, index), owner = 0;
    bool foreign = false;

    put_write(t, out, &e);
    if (e.kind != EFFECT_KV) {
        owner = e.kind == EFFECT_STATE ? world_slot_owner(c, t->world, decode, dest)
                                       : world_aux_owner(c, t->world, decode, dest);
        text_add(out, " lands in %s slot %u, ", e.kind == EFFECT_STATE ? "state" : "aux", dest);
        put_owner(t, out, owner, e.request);
        return owner != 0 && owner != e.request + 1;
    }
    const struct wire_fragment f = wire_fragment(c, t->world, index, cell(t->world, &c->wire.fragment, index));
    text_add(out, " lands in page");
    for (uint32_t i = 0; i < f.pages; i++) {
        owner = world_page_owner(c, t->world, decode, f.dest_first + i);
        text_add(out, "%s %u, ", i ? ";" : "", f.dest_first + i);
        put_owner(t, out, owner, e.request);
        foreign = foreign || (owner != 0 && owner != e.request + 1);
    }
    return foreign;
}

static void put_message(const struct story *t, struct text *out, uint32_t index)
{
    static const char *const names[MESSAGE_TYPE_COUNT] = {
        [MESSAGE_NONE] = "nothing",
        [MESSAGE_SUBMIT] = "request",
        [MESSAGE_ABORT_REQUEST] = "the client's abort",
        [MESSAGE_METADATA] = "the destination",
        [MESSAGE_ABORT] = "decode's abort",
        [MESSAGE_STATUS] = "the status",
        [MESSAGE_ACK] = "the ack",
        [MESSAGE_NOTIFY] = "a notification",
    };
    const struct config *c = t->c;
    unsigned type = cell(t->world, &c->message_type, index), status = cell(t->world, &c->message_status, index);
    uint32_t request = cell(t->world, &c->message_request, index);

    text_add(out, "receives %s", type < MESSAGE_TYPE_COUNT ? names[type] : "?");
    if (type == MESSAGE_STATUS || type == MESSAGE_ACK)
        text_add(out, " '%s'", point_status_name(status));
    if (type == MESSAGE_NOTIFY) {
        uint32_t part = cell(t->world, &c->message_part, index), chunks = c->requests[request].chunks;
        if (part < chunks)
            text_add(out, " that chunk %u has landed", part);
        else
            text_add(out, " that the %s has landed", part == chunks ? "state" : "aux record");
    }
    text_add(out, "%s %s", type == MESSAGE_SUBMIT ? "" : " of", request_name(t, request));
}

static void put_point(struct story *t, struct text *out, const struct actions *actions)
{
    const struct action *a = actions->len ? &actions->at[actions->len - 1] : NULL;

    if (!a || a->type != ACTION_POINT)
        return;
    bool worker = point_rows[a->point].who == WHO_WORKER;
    text_add(out, "%s%s", out->len ? "; " : "", point_name(a->point));
    if (a->request < t->s->requests_len)
        text_add(out, " %s", request_name(t, a->request));
    if (worker || a->point == POINT_CHUNK_ENQUEUE)
        text_add(out, " chunk %u", a->chunk);
    if (a->point == POINT_TOKEN)
        text_add(out, " n %u", a->n);
    if (a->status != POINT_STATUS_NONE)
        text_add(out, " %s", point_status_name(a->status));
    if (!t->explained[a->point])
        text_add(out, ": %s", point_rows[a->point].what);
    t->explained[a->point] = true;
}

static void put_line(struct story *t, bool marked, const char *who, const char *what)
{
    struct text label = { .len = 0 };

    text_add(&label, "%c%5u  %s", marked ? '!' : ' ', ++t->number, who);
    text_row(t->f, 0, 30, label.s, what);
}

static void tell_client(struct story *t, const struct client_event *e)
{
    struct text out = { .len = 0 };

    if (e->kind == CLIENT_SUBMIT) {
        text_add(&out, "submits %s to both sides", request_name(t, e->request));
        world_submit(t->c, t->world, e->request, SIDE_PREFILL);
        world_submit(t->c, t->world, e->request, SIDE_DECODE);
    } else {
        text_add(&out, "aborts %s at %s", request_name(t, e->request), side_name(e->side));
        world_abort(t->c, t->world, e->request, e->side);
    }
    put_line(t, false, "client", out.s);
}

static bool is_enabled(const struct story *t, const struct transition *wanted)
{
    uint32_t n = world_enabled(t->c, t->world, t->enabled);

    for (uint32_t i = 0; i < n; i++)
        if (t->enabled[i].kind == wanted->kind && t->enabled[i].machine == wanted->machine &&
            t->enabled[i].actor == wanted->actor && t->enabled[i].request == wanted->request &&
            t->enabled[i].index == wanted->index)
            return true;
    return false;
}

static void tell_transition(struct story *t, const struct transition *step)
{
    struct text who = { .len = 0 }, out = { .len = 0 };
    struct actions actions = { 0 };
    struct wire_entry e = { 0 };
    bool marked = false;

    put_actor(t, &who, step->machine, step->actor);
    switch (step->kind) {
    case TRANSITION_DELIVER:
        put_message(t, &out, step->index);
        break;
    case TRANSITION_FORWARD:
        text_add(&out, "the model has run");
        break;
    case TRANSITION_LAND:
        who.len = 0;
        text_add(&who, "wire");
        marked = put_landing(t, &out, step->index);
        break;
    case TRANSITION_COMPLETE:
    case TRANSITION_GIVE_UP:
        e = wire_entry(t->c, step->index);
        text_add(&out, "%s ", step->kind == TRANSITION_COMPLETE ? "is told by the engine of the end of" : "gives up");
        put_write(t, &out, &e);
        text_add(&out, "%s", step->kind == TRANSITION_COMPLETE ? " write" : " write, whose bytes fly on");
        break;
    case TRANSITION_AUX_READ:
        text_add(&out, "finds a room id in the aux slot of %s", request_name(t, step->request));
        break;
    case TRANSITION_FENCE:
        text_add(&out, "the keys of %s's destination are dead", request_name(t, step->request));
        break;
    case TRANSITION_TIMER:
        text_add(&out, "the timer of %s's hold runs out", request_name(t, step->request));
        break;
    case TRANSITION_GO:
        break;
    }
    world_apply(t->c, t->world, step, &actions);
    if (step->kind != TRANSITION_LAND)
        put_point(t, &out, &actions);
    if (out.len == 0)
        text_add(&out, "goes on");
    put_line(t, marked, who.s, out.s);
}

/* All that one request reads and another has written. */
static void tell_read(struct story *t, uint32_t request)
{
    const struct config *c = t->c;
    uint32_t decode = c->requests[request].decode, slot = world_state_slot(c, t->world, request), tag;
    struct text out = { .len = 0 };
    const char *between = "";

    for (uint32_t i = 0; i < world_pages_len(c, t->world, request); i++) {
        uint32_t page = world_page(c, t->world, request, i);
        tag = cell(t->world, &c->page_tags[decode], page * c->layers);
        if (tag != 0 && tag != request + 1) {
            text_add(&out, "%spage %u, which %s wrote", between, page, request_name(t, tag - 1));
            between = "; ";
        }
    }
    tag = slot ? cell(t->world, &c->slot_tags[decode], slot) : 0;
    if (tag != 0 && tag != request + 1)
        text_add(&out, "%sstate slot %u, which %s wrote", between, slot, request_name(t, tag - 1));
    struct text label = { .len = 0 };
    text_add(&label, "!       decode reads for %s", request_name(t, request));
    text_row(t->f, 0, 30, label.s, out.s);
}

static void tell_corruption(struct story *t, const struct transition *step)
{
    struct text who = { .len = 0 };

    put_actor(t, &who, step->machine, step->actor);
    put_line(t, false, who.s, "runs the model on its batch");
    for (uint32_t r = 0; r < t->c->requests_len; r++)
        if (world_in_batch(t->c, t->world, r) && world_reads_stale(t->c, t->world, r))
            tell_read(t, r);
}

static void tell_pinned(struct story *t)
{
    for (uint32_t r = 0; r < t->c->requests_len; r++) {
        struct text out = { .len = 0 };
        if (world_pages_len(t->c, t->world, r) == 0)
            continue;
        text_add(&out, "%u page%s", world_pages_len(t->c, t->world, r),
                 world_pages_len(t->c, t->world, r) == 1 ? "" : "s");
        if (world_state_slot(t->c, t->world, r))
            text_add(&out, " and state slot %u", world_state_slot(t->c, t->world, r));
        text_add(&out, ", for ever: nothing can happen any more");
        if (t->s->explore.stall >= 0)
            text_add(&out, " but what %s's stopped writer would do", request_name(t, (uint32_t)t->s->explore.stall));
        struct text label = { .len = 0 };
        text_add(&label, "!       decode owns for %s", request_name(t, r));
        text_row(t->f, 0, 30, label.s, out.s);
    }
}

/* The last transition of a counterexample is the read itself: it is told, not taken. */
static void tell_steps(struct story *t, const struct search_step *steps, uint32_t len, bool corrupts)
{
    world_init(t->c, t->world);
    t->number = 0;
    memset(t->explained, 0, sizeof t->explained);
    for (uint32_t i = 0; i < len; i++) {
        if (steps[i].client) {
            tell_client(t, &steps[i].event);
            continue;
        }
        if (!is_enabled(t, &steps[i].transition)) {
            fprintf(t->f, "  step %u is not possible here: the way cannot be told (this is a bug)\n", i + 1);
            return;
        }
        if (corrupts && i + 1 == len)
            tell_corruption(t, &steps[i].transition);
        else
            tell_transition(t, &steps[i].transition);
    }
    if (!corrupts)
        tell_pinned(t);
}

static void tell_way(struct story *t, const struct explore_cell *c, const struct search_result *r, const char *timers,
                     bool corrupts)
{
    struct text out = { .len = 0 };

    text_add(&out, "%s, %s: %s after %" PRIu64 " transitions%s", core_rows[c->core].name, engine_rows[c->engine].name,
             corrupts ? "corrupts" : "pins", corrupts ? r->shortest : r->pinned_after, timers);
    fprintf(t->f, "\n%s\n", out.s);
    if (corrupts)
        tell_steps(t, r->steps, r->steps_len, true);
    else
        tell_steps(t, r->pinned_steps, r->pinned_steps_len, false);
}

int explored_story(FILE *f, const struct explored *x, const struct explored_cell *cell)
{
    const struct explore_cell *c = &cell->result;
    const struct search_result *live = liveness_of(c);
    struct story t = { .f = f, .s = x->s };
    int rc = 0;

    t.c = explore_config(x->s, cell->core, cell->engine);
    t.world = t.c ? calloc(1, t.c->world_size) : NULL;
    t.enabled = t.c ? calloc(world_enabled_max(t.c), sizeof *t.enabled) : NULL;
    if (!t.c || !t.world || !t.enabled || (c->any.corrupts && !c->any.steps) || (live->pinned && !live->pinned_steps)) {
        rc = -ENOMEM;
    } else {
        if (c->any.corrupts)
            tell_way(&t, c, &c->any, has_timer(c) ? ", timers at any time" : "", true);
        if (c->last.corrupts && c->last.steps)
            tell_way(&t, c, &c->last, ", timers only when nothing else can happen", true);
        if (c->never.corrupts && c->never.steps)
            tell_way(&t, c, &c->never, ", though no timer ever fires", true);
        if (live->pinned)
            tell_way(&t, c, live, has_timer(c) ? ", timers only when nothing else can happen" : "", false);
        if (c->never.pinned && c->never.pinned_steps)
            tell_way(&t, c, &c->never, " if no timer ever fires", false);
    }
    config_free(t.c);
    free(t.world);
    free(t.enabled);
    return rc;
}

/* --- JSON --- */

struct writer {
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
    return json_integer((json_int_t)n);
}
static json_t *number_if(bool given, uint64_t n)
{
    return given ? number(n) : json_null();
}

/* true, false, or null: a bounded search has not found out. */
static json_t *found(bool bad, bool complete)
{
    return bad ? json_false() : complete ? json_true() : json_null();
}

static json_t *search_json(struct writer *w, const struct search_result *r)
{
    json_t *o = json_object();

    put(w, o, "complete", json_boolean(r->complete));
    put(w, o, "corrupts", json_boolean(r->corrupts));
    put(w, o, "shortest", number_if(r->corrupts, r->shortest));
    put(w, o, "pinned", number(r->pinned));
    put(w, o, "pinned_after", number_if(r->pinned > 0, r->pinned_after));
    put(w, o, "ends", number(r->terminal));
    put(w, o, "states", number(r->states));
    put(w, o, "transitions", number(r->transitions));
    return o;
}

static json_t *cell_json(struct writer *w, const struct explored_cell *cell)
{
    const struct explore_cell *c = &cell->result;
    const struct search_result *live = liveness_of(c);
    json_t *o = json_object(), *timers = json_object();

    put(w, o, "core", json_string(core_rows[cell->core].name));
    put(w, o, "engine", json_string(engine_rows[cell->engine].name));
    put(w, o, "safe", found(c->any.corrupts, c->any.complete));
    put(w, o, "shortest", number_if(c->any.corrupts, c->any.shortest));
    put(w, o, "live", found(live->pinned > 0, live->complete));
    put(w, o, "pinned_after", number_if(live->pinned > 0, live->pinned_after));
    put(w, o, "states", number(c->states));
    put(w, o, "transitions", number(c->transitions));
    put(w, o, "complete", json_boolean(c->complete));
    put(w, o, "seconds", json_real((double)(uint64_t)(c->seconds * 1000 + 0.5) / 1000));
    put(w, o, "has_timer", json_boolean(has_timer(c)));
    put(w, timers, "any", search_json(w, &c->any));
    put(w, timers, "last", search_json(w, has_timer(c) ? &c->last : &c->any));
    put(w, timers, "never", search_json(w, has_timer(c) ? &c->never : &c->any));
    put(w, o, "timers", timers);
    return o;
}

static json_t *made_of(struct writer *w, const struct explored *x, const struct provenance *p)
{
    json_t *o = json_object();

    put(w, o, "tree", json_string(p->tree));
    put(w, o, "clean", p->clean < 0 ? json_null() : json_boolean(p->clean));
    put(w, o, "compiler", json_string(p->compiler));
    put(w, o, "cflags", json_string(p->cflags));
    put(w, o, "scenario_digest", json_sprintf("%016" PRIx64, x->s->digest));
    return o;
}

char *explored_json(const struct explored *x, const struct provenance *p)
{
    struct writer w = { .failed = false };
    json_t *document = json_object(), *cells = json_array(), *missing = json_array();
    char *dump = NULL, *out = NULL;

    for (uint32_t i = 0; i < x->cells_len; i++) {
        const struct explored_cell *cell = &x->cells[i];
        if (cell->done)
            push(&w, cells, cell_json(&w, cell));
        else
            push(&w, missing,
                 json_pack("{s:s, s:s}", "core", core_rows[cell->core].name, "engine", engine_rows[cell->engine].name));
    }
    put(&w, document, "scenario", json_string(x->s->name));
    put(&w, document, "cells", cells);
    put(&w, document, "missing", missing);
    put(&w, document, "reduced", json_boolean(x->options.reduce));
    put(&w, document, "states_limit", number(x->options.states_max));
    put(&w, document, "provenance", made_of(&w, x, p));
    if (!w.failed)
        dump = json_dumps(document, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    json_decref(document);
    if (dump && asprintf(&out, "%s\n", dump) < 0)
        out = NULL;
    free(dump);
    return out;
}
