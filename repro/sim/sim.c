#include "sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../mutant.h"

/* --- matches --- */

enum {
    KEY_REQUEST,
    KEY_SIDE,
    KEY_INSTANCE,
    KEY_RANK,
    KEY_ACTOR,
    KEY_CHUNK,
    KEY_FRAGMENT,
    KEY_N,
    KEY_STATUS,
    KEY_COUNT
};
_Static_assert((int)KEY_COUNT == (int)PARK_KEYS, "a park compares exactly the keys of a match");

static bool on_wire(enum point p)
{
    return p == POINT_KV_FRAGMENT || p == POINT_KV_LANDED || p == POINT_STATE_LANDED || p == POINT_AUX_LANDED;
}

void sim_keys(const struct config *c, const struct pass *p, int32_t keys[PARK_KEYS])
{
    const struct machine_config *m = &c->machines[p->machine];

    keys[KEY_REQUEST] = (int32_t)p->request;
    keys[KEY_SIDE] = (int32_t)m->side;
    keys[KEY_INSTANCE] = (int32_t)m->instance;
    keys[KEY_RANK] = (int32_t)m->rank;
    keys[KEY_ACTOR] = (int32_t)p->actor;
    keys[KEY_CHUNK] = (int32_t)p->chunk;
    keys[KEY_FRAGMENT] = on_wire(p->point) ? (int32_t)p->n : 0;
    keys[KEY_N] = (int32_t)p->n;
    keys[KEY_STATUS] = (int32_t)p->status;
}

void sim_match_keys(const struct point_match *m, int32_t keys[PARK_KEYS])
{
    keys[KEY_REQUEST] = m->request;
    keys[KEY_SIDE] = m->side;
    keys[KEY_INSTANCE] = m->instance;
    keys[KEY_RANK] = m->rank;
    keys[KEY_ACTOR] = m->actor;
    keys[KEY_CHUNK] = m->chunk;
    keys[KEY_FRAGMENT] = m->fragment;
    keys[KEY_N] = m->n;
    keys[KEY_STATUS] = m->status;
}

/* --- messages: the world's list with the times that the world doesn't know --- */

/* Returns its index in the list, which is the world's too. */
static uint32_t message_sent(struct sim *s, uint32_t from, uint32_t to)
{
    uint32_t at = s->messages_len++;

    for (; at > 0 &&
           (s->messages[at - 1].from > from || (s->messages[at - 1].from == from && s->messages[at - 1].to > to));
         at--)
        s->messages[at] = s->messages[at - 1];
    s->messages[at] = (struct sim_message){ from, to, s->now_us + s->in.times->message_us, ++s->seq };
    return at;
}

static void message_taken(struct sim *s, uint32_t at)
{
    s->messages_len--;
    memmove(&s->messages[at], &s->messages[at + 1], (s->messages_len - at) * sizeof *s->messages);
}

/* --- faults --- */

/* The fault that hits this message or write, or NULL; each match is counted, the occurrence-th is hit. */
static const struct fault *fault_hits(struct sim *s, const struct fault *what)
{
    const struct fault *hit = NULL;

    for (uint32_t i = 0; i < s->in.faults_len; i++) {
        const struct fault *f = &s->in.faults[i];

        if (f->is_write != what->is_write || f->request != what->request ||
            (f->is_write ? f->effect != what->effect || (f->chunk >= 0 && f->chunk != what->chunk) ||
                               (f->fragment >= 0 && f->fragment != what->fragment)
                         : f->message != what->message) ||
            (f->kind == FAULT_ERROR) != (what->kind == FAULT_ERROR))
            continue;
        if (++s->fault_seen[i] == f->occurrence && !hit)
            hit = f;
    }
    return hit;
}

static void message_faulted(struct sim *s, uint32_t at, const struct action *a)
{
    struct fault what = { .message = (int)a->message, .request = (int)a->request };
    const struct fault *f = fault_hits(s, &what);

    if (!f)
        return;
    s->fault_hit[f - s->in.faults] = true;
    if (f->kind == FAULT_DELAY) {
        s->messages[at].due_us += f->by_us;
    } else if (f->kind == FAULT_LOSE) {
        world_message_lose(s->c, s->world, at);
        message_taken(s, at);
    } else if (f->kind == FAULT_OVERTAKE) {
        struct sim_message own = s->messages[at];
        uint32_t first = at;

        while (first > 0 && s->messages[first - 1].from == own.from && s->messages[first - 1].to == own.to)
            first--;
        s->fault_hit[f - s->in.faults] = first < at; /* with nobody in front, nobody was overtaken */
        world_message_overtake(s->c, s->world, at, first);
        memmove(&s->messages[first + 1], &s->messages[first], (at - first) * sizeof *s->messages);
        s->messages[first] = own;
    } else {
        world_message_double(s->c, s->world, at);
        memmove(&s->messages[at + 1], &s->messages[at], (s->messages_len - at) * sizeof *s->messages);
        s->messages_len++;
        s->messages[at + 1].seq = ++s->seq;
    }
}

/* What a fault does to the flight that begins now: more time, or no end. */
static uint64_t flight_fault(struct sim *s, uint32_t wire)
{
    struct wire_entry e = wire_entry(s->c, wire);
    struct sim_flight *f = &s->flights[wire];
    uint32_t fragment = cell(s->world, &s->c->wire.fragment, wire);
    struct fault what = { .is_write = true,
                          .effect = (int)e.kind,
                          .request = (int)e.request,
                          .chunk = (int)e.chunk,
                          .fragment = (int)fragment };
    const struct fault *hit = fault_hits(s, &what);

    if (fragment == 0) {
        const struct fault *error;

        what.kind = FAULT_ERROR;
        error = fault_hits(s, &what);
        f->posted_us = s->now_us;
        f->error_us = error ? s->now_us + error->by_us : UINT64_MAX;
        f->error = error;
    }
    if (hit)
        s->fault_hit[hit - s->in.faults] = true;
    f->lost = hit && hit->kind == FAULT_LOSE;
    return hit && hit->kind == FAULT_DELAY ? hit->by_us : 0;
}

/* --- bytes --- */

static size_t page_floats(const struct sim *s)
{
    return (size_t)s->c->page_tokens * MODEL_ROW_FLOATS;
}

/* The next fragment of a write leaves: its source bytes are read now, whoever owns the source by now. */
static void flight_leave(struct sim *s, uint32_t wire)
{
    struct wire_entry e = wire_entry(s->c, wire);
    const struct memory *from = &s->memory[s->c->requests[e.request].prefill];
    struct sim_flight *f = &s->flights[wire];

    if (e.kind == EFFECT_KV) {
        struct wire_fragment g = wire_fragment(s->c, s->world, wire, cell(s->world, &s->c->wire.fragment, wire));

        memcpy(f->bytes, memory_row(from, g.layer, g.source_first, 0), g.pages * page_floats(s) * sizeof(float));
        memcpy(f->writers, memory_row_writer(from, g.layer, g.source_first, 0), (size_t)g.pages * s->c->page_tokens);
    } else if (e.kind == EFFECT_STATE) {
        memcpy(f->bytes, memory_slot(from, cell(s->world, &s->c->wire.source, wire)),
               MODEL_STATE_FLOATS * sizeof(float));
        f->state_writer = from->slot_writer[cell(s->world, &s->c->wire.source, wire)];
    } else {
        f->aux = s->aux[e.request];
    }
}

static void flight_land(struct sim *s, uint32_t wire)
{
    struct wire_entry e = wire_entry(s->c, wire);
    const struct memory *to = &s->memory[s->c->requests[e.request].decode];
    const struct sim_flight *f = &s->flights[wire];
    uint32_t dest = cell(s->world, &s->c->wire.dest, wire);

    if (MUTANT(24))
        flight_leave(s, wire);
    if (e.kind == EFFECT_KV) {
        struct wire_fragment g = wire_fragment(s->c, s->world, wire, cell(s->world, &s->c->wire.fragment, wire));

        if (MUTANT(23) && cell(s->world, &s->c->wire.fragment, wire) + 1 == wire_fragments(s->c, s->world, wire))
            return;
        memcpy(memory_row(to, g.layer, g.dest_first, 0), f->bytes, g.pages * page_floats(s) * sizeof(float));
        memcpy(memory_row_writer(to, g.layer, g.dest_first, 0), f->writers, (size_t)g.pages * s->c->page_tokens);
    } else if (e.kind == EFFECT_STATE) {
        memcpy(memory_slot(to, dest), f->bytes, MODEL_STATE_FLOATS * sizeof(float));
        to->slot_writer[dest] = f->state_writer;
    } else {
        to->aux[dest] = f->aux;
    }
}

/* --- the model --- */

static uint64_t wall_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void prefill_forward(struct sim *s, uint32_t machine)
{
    const struct prefill_layout *l = &s->c->machines[machine].prefill;
    const uint8_t *block = s->world + s->c->machines[machine].offset;
    uint32_t request = s->c->machines[machine].requests[cell(block, &l->scheduler.request, 0) - 1];
    uint32_t chunk = cell(block, &l->scheduler.chunk, 0);
    const struct request_config *r = &s->c->requests[request];
    uint32_t first = chunk_first(s->c, chunk) * s->c->page_tokens;
    uint32_t end = (chunk_first(s->c, chunk) + chunk_pages(s->c, request, chunk)) * s->c->page_tokens, next;
    struct model_seq seq = { .kv = s->memory[machine].kv,
                             .pages = s->page_table,
                             .state = memory_slot(&s->memory[machine], world_source_slot(s->c, s->world, request)) };

    if (end > r->prompt_tokens)
        end = r->prompt_tokens;
    for (uint32_t i = 0; i < r->prompt_pages; i++)
        s->page_table[i] = (uint16_t)world_source_page(s->c, s->world, request, i);
    next = model_prefill(s->in.model, s->in.work, &seq, first, s->in.prompts[request] + first, end - first);
    for (uint32_t token = first; token < end; token++)
        for (uint32_t layer = 0; layer < s->c->layers; layer++)
            *memory_row_writer(&s->memory[machine], layer, s->page_table[token / s->c->page_tokens],
                               token % s->c->page_tokens) = (uint8_t)(request + 1);
    s->memory[machine].slot_writer[world_source_slot(s->c, s->world, request)] = (uint8_t)(request + 1);
    if (end == r->prompt_tokens)
        s->aux[request] =
            (struct aux_record){ .room = r->room + 1u, .first_token = next, .prompt_tokens = r->prompt_tokens };
}

static void decode_forward(struct sim *s, uint32_t machine)
{
    const struct machine_config *m = &s->c->machines[machine];

    for (uint32_t q = 0; q < m->requests_len; q++) {
        uint32_t request = m->requests[q], n, pages, position;
        struct model_seq seq = { .kv = s->memory[machine].kv, .pages = s->page_table };

        if (!world_in_batch(s->c, s->world, request))
            continue;
        n = world_tokens(s->c, s->world, request);
        pages = world_pages_len(s->c, s->world, request);
        for (uint32_t i = 0; i < pages; i++)
            s->page_table[i] = (uint16_t)world_page(s->c, s->world, request, i);
        seq.state = memory_slot(&s->memory[machine], world_state_slot(s->c, s->world, request));
        position = s->c->requests[request].prompt_tokens + n - 1;
        s->tokens[request][n] = s->in.decode(s->in.model, s->in.work, &seq, position, s->tokens[request][n - 1], NULL);
        for (uint32_t layer = 0; layer < s->c->layers; layer++)
            *memory_row_writer(&s->memory[machine], layer, s->page_table[position / s->c->page_tokens],
                               position % s->c->page_tokens) = (uint8_t)(request + 1);
    }
}

static void forward(struct sim *s, uint32_t machine)
{
    bool prefill = s->c->machines[machine].side == SIDE_PREFILL;
    uint64_t began;

    if (!prefill)
        s->in.watcher.forward(s->in.watcher.ctx, s, machine);
    began = s->in.model_ns ? wall_ns() : 0;
    if (prefill)
        prefill_forward(s, machine);
    else
        decode_forward(s, machine);
    if (s->in.model_ns)
        *s->in.model_ns += wall_ns() - began;
}

static uint64_t forward_us(const struct sim *s, uint32_t machine)
{
    const struct prefill_layout *l = &s->c->machines[machine].prefill;
    const uint8_t *block = s->world + s->c->machines[machine].offset;
    uint32_t request, chunk, tokens, first;

    if (s->c->machines[machine].side == SIDE_DECODE)
        return s->in.times->step_us;
    request = s->c->machines[machine].requests[cell(block, &l->scheduler.request, 0) - 1];
    chunk = cell(block, &l->scheduler.chunk, 0);
    first = chunk_first(s->c, chunk) * s->c->page_tokens;
    tokens = chunk_pages(s->c, request, chunk) * s->c->page_tokens;
    if (first + tokens > s->c->requests[request].prompt_tokens)
        tokens = s->c->requests[request].prompt_tokens - first;
    return (uint64_t)tokens * s->in.times->prefill_token_us;
}

/* --- due times --- */

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The engine's own time-out, or the error that a fault makes it report. */
static uint64_t gives_up_us(const struct sim *s, uint32_t wire)
{
    uint32_t timeout_us = s->c->policy.engine[ENGINE_TIMEOUT];
    const struct sim_flight *f = &s->flights[wire];

    return timeout_us && f->posted_us + timeout_us < f->error_us ? f->posted_us + timeout_us : f->error_us;
}

static uint64_t due(struct sim *s, const struct transition *t)
{
    switch (t->kind) {
    case TRANSITION_DELIVER:
        return later(s->now_us, s->messages[t->index].due_us);
    case TRANSITION_FORWARD:
        return s->now_us + forward_us(s, t->machine);
    case TRANSITION_LAND:
        return s->now_us + s->in.times->fragment_us + flight_fault(s, t->index);
    case TRANSITION_GIVE_UP:
        return later(s->now_us, gives_up_us(s, t->index));
    case TRANSITION_FENCE:
        return s->now_us + s->in.times->fence_us;
    case TRANSITION_TIMER:
        return s->now_us + s->c->policy.core[CORE_HOLD_TIMEOUT];
    case TRANSITION_GO:
    case TRANSITION_COMPLETE:
    case TRANSITION_AUX_READ:
        break;
    }
    return s->now_us;
}

static bool parked(const struct sim *s, const struct transition *t)
{
    if (t->kind == TRANSITION_GO)
        return s->actor_park[s->actor_base[t->machine] + t->actor] >= 0;
    return ((t->kind == TRANSITION_LAND && !MUTANT(25)) || t->kind == TRANSITION_COMPLETE) &&
           s->flights[t->index].park >= 0;
}

/* One-sided writes need nobody at either end once they are posted. */
static bool stopped(const struct sim *s, const struct transition *t)
{
    return t->kind != TRANSITION_LAND && s->stopped[t->machine];
}

static const struct sim_pending *known(const struct sim *s, uint32_t part, const struct transition *t)
{
    for (uint32_t i = 0; t->kind != TRANSITION_DELIVER && i < s->pending_len[part]; i++) {
        const struct sim_pending *p = &s->pending[part][i];

        if (p->t.kind == t->kind && p->t.machine == t->machine && p->t.actor == t->actor &&
            p->t.request == t->request && p->t.index == t->index)
            return p;
    }
    return NULL;
}

/* Errors that faults make an engine report, beside what is enabled in the world. */
static uint32_t add_errors(const struct sim *s, uint32_t n)
{
    uint32_t len = n;

    for (uint32_t i = 0; i < n; i++) {
        struct transition t = s->scratch[i];

        if (t.kind == TRANSITION_LAND && s->c->policy.engine[ENGINE_TIMEOUT] == 0 &&
            wire_can_fail(s->c, s->world, t.index)) {
            t.kind = TRANSITION_GIVE_UP;
            s->scratch[len++] = t;
        }
    }
    return len;
}

/* What is enabled in one part of the world now: what was enabled before keeps its due time, what no longer is is gone. */
static void refresh(struct sim *s, uint32_t part)
{
    uint32_t n = world_enabled_part(s->c, s->world, part, s->scratch), len = 0;
    struct sim_pending *fresh;

    if (part == s->c->machines_len)
        n = add_errors(s, n);
    if (n > s->pending_max[part]) {
        uint32_t max = n * 2;

        fresh = realloc(s->pending[part], 2 * max * sizeof *fresh); /* the second half is where a refresh is built */
        if (!fresh) {
            s->failed = true;
            return;
        }
        s->pending[part] = fresh;
        s->pending_max[part] = max;
    }
    fresh = s->pending[part] + s->pending_max[part];
    for (uint32_t i = 0; i < n; i++) {
        const struct transition *t = &s->scratch[i];
        const struct sim_pending *old;

        if ((t->kind == TRANSITION_GO && t->index > 0) || parked(s, t))
            continue;
        old = known(s, part, t);
        if (old) {
            fresh[len] = *old;
            fresh[len++].held = stopped(s, t);
            continue;
        }
        if (t->kind == TRANSITION_LAND)
            flight_leave(s, t->index);
        fresh[len] = (struct sim_pending){ *t, due(s, t), 0, stopped(s, t) };
        if (fresh[len].due_us == UINT64_MAX)
            continue;
        fresh[len++].seq = t->kind == TRANSITION_DELIVER ? s->messages[t->index].seq : ++s->seq;
    }
    if (len > 0)
        memcpy(s->pending[part], fresh, len * sizeof *fresh);
    s->pending_len[part] = len;
}

static struct sim_pending *earliest(const struct sim *s, uint32_t *part)
{
    struct sim_pending *best = NULL;

    for (uint32_t i = 0; i <= s->c->machines_len; i++)
        for (uint32_t k = 0; k < s->pending_len[i]; k++) {
            struct sim_pending *p = &s->pending[i][k];

            if (p->held || (p->t.kind == TRANSITION_LAND && s->flights[p->t.index].lost))
                continue;
            if (!best || p->due_us < best->due_us || (p->due_us == best->due_us && p->seq < best->seq)) {
                best = p;
                *part = i;
            }
        }
    return best;
}

bool sim_next_due(const struct sim *s, uint64_t *due_us)
{
    uint32_t part;
    const struct sim_pending *p = earliest(s, &part);

    if (p)
        *due_us = p->due_us;
    return p != NULL;
}

/* --- one transition --- */

static void at_point(struct sim *s, uint32_t machine, const struct action *a)
{
    struct pass p = { s->now_us, machine, a->actor, a->point, a->status, a->request, a->chunk, a->n, -1, a->to };
    int32_t keys[PARK_KEYS];

    sim_keys(s->c, &p, keys);
    p.park = park_arrive(&s->parks, a->point, keys);
    if (p.park >= 0) {
        if (on_wire(a->point)) {
            s->flights[a->to].park = p.park;
        } else {
            s->actor_park[s->actor_base[machine] + a->actor] = p.park;
        }
    }
    if (a->point == POINT_TRANSFER_COMMIT)
        s->tokens[a->request][0] = s->aux_token[a->request];
    if (a->point == POINT_TOKEN)
        s->tokens_len[a->request] = a->n + 1;
    s->in.watcher.passed(s->in.watcher.ctx, s, &p);
}

static void carry_out(struct sim *s, uint32_t machine, const struct actions *actions)
{
    for (uint32_t i = 0; i < actions->len; i++) {
        const struct action *a = &actions->at[i];

        switch (a->type) {
        case ACTION_SEND:
            message_faulted(s, message_sent(s, machine, a->to), a);
            break;
        case ACTION_POST:
        case ACTION_ABANDON:
            break;
        case ACTION_ANSWER:
            s->in.watcher.answered(s->in.watcher.ctx, s, a->request, s->c->machines[machine].side, a->status);
            break;
        case ACTION_AUX_CLEAR:
            s->aux_token[a->request] = s->memory[machine].aux[a->n].first_token;
            if (a->status == POINT_STATUS_OK)
                s->memory[machine].aux[a->n].room = 0;
            break;
        case ACTION_POINT:
            at_point(s, machine, a);
            break;
        }
    }
}

static void take(struct sim *s, const struct transition *t)
{
    struct actions actions = { 0 };
    bool landing = t->kind == TRANSITION_LAND;

    s->steps++;
    if (landing) {
        s->in.watcher.landing(s->in.watcher.ctx, s, t->index, cell(s->world, &s->c->wire.fragment, t->index));
        flight_land(s, t->index);
        s->in.watcher.landed(s->in.watcher.ctx, s, t->index);
    } else if (t->kind == TRANSITION_FORWARD) {
        forward(s, t->machine);
    }
    if (t->kind == TRANSITION_GIVE_UP && s->flights[t->index].error_us <= s->now_us) {
        s->fault_hit[s->flights[t->index].error - s->in.faults] = true;
        wire_fail(s->c, s->world, t->index, &actions);
    } else {
        world_apply(s->c, s->world, t, &actions);
    }
    if (t->kind == TRANSITION_DELIVER)
        message_taken(s, t->index);
    carry_out(s, t->machine, &actions);
    refresh(s, t->machine);
    if (landing)
        refresh(s, s->c->requests[t->request].decode); /* an aux record may have become readable */
    refresh(s, s->c->machines_len);
}

void sim_step(struct sim *s)
{
    uint32_t part = 0;
    struct sim_pending *p = earliest(s, &part);
    struct transition t = p->t;

    s->now_us = later(s->now_us, p->due_us);
    *p = s->pending[part][--s->pending_len[part]];
    take(s, &t);
}

void sim_submit(struct sim *s, uint32_t request, enum side side)
{
    world_submit(s->c, s->world, request, side);
    message_sent(s, s->c->machines_len,
                 side == SIDE_PREFILL ? s->c->requests[request].prefill : s->c->requests[request].decode);
    refresh(s, s->c->machines_len);
}

void sim_abort(struct sim *s, uint32_t request, enum side side)
{
    world_abort(s->c, s->world, request, side);
    message_sent(s, s->c->machines_len,
                 side == SIDE_PREFILL ? s->c->requests[request].prefill : s->c->requests[request].decode);
    refresh(s, s->c->machines_len);
}

void sim_stop(struct sim *s, uint32_t machine, bool stop)
{
    s->stopped[machine] = stop;
    refresh(s, machine);
    refresh(s, s->c->machines_len);
}

void sim_release(struct sim *s, uint32_t park)
{
    if (!park_release(&s->parks, park))
        return;
    for (uint32_t w = 0; w < s->c->wire_len; w++)
        if (s->flights[w].park == (int)park)
            s->flights[w].park = -1;
    refresh(s, s->c->machines_len);
    for (uint32_t m = 0; m < s->c->machines_len; m++)
        for (uint32_t actor = 0; actor < s->c->machines[m].actors; actor++) {
            struct transition go = { TRANSITION_GO, m, actor, 0, 0 };

            if (s->actor_park[s->actor_base[m] + actor] != (int)park)
                continue;
            s->actor_park[s->actor_base[m] + actor] = -1;
            if (s->stopped[m])
                refresh(s, m); /* it goes on when its machine does */
            else
                take(s, &go);
            return;
        }
}

/* --- making and unmaking --- */

static int allocate(struct sim *s)
{
    const struct config *c = s->c;
    uint32_t actors = 0, pages_max = 1;
    size_t flight_floats = (size_t)c->chunk_pages_max * page_floats(s);

    if (flight_floats < MODEL_STATE_FLOATS)
        flight_floats = MODEL_STATE_FLOATS;
    s->world = calloc(1, c->world_size);
    s->pending = calloc(c->machines_len + 1, sizeof *s->pending);
    s->pending_len = calloc(c->machines_len + 1, sizeof *s->pending_len);
    s->pending_max = calloc(c->machines_len + 1, sizeof *s->pending_max);
    s->scratch = calloc(world_enabled_max(c), sizeof *s->scratch);
    s->messages = calloc(c->messages_max + 2, sizeof *s->messages);
    s->fault_seen = calloc(s->in.faults_len + 1, sizeof *s->fault_seen);
    s->fault_hit = calloc(s->in.faults_len + 1, sizeof *s->fault_hit);
    s->stopped = calloc(c->machines_len, sizeof *s->stopped);
    s->flights = calloc(c->wire_len, sizeof *s->flights);
    s->actor_base = calloc(c->machines_len, sizeof *s->actor_base);
    s->memory = calloc(c->machines_len, sizeof *s->memory);
    s->aux = calloc(c->requests_len, sizeof *s->aux);
    s->aux_token = calloc(c->requests_len, sizeof *s->aux_token);
    s->tokens = calloc(c->requests_len, sizeof *s->tokens);
    s->tokens_len = calloc(c->requests_len, sizeof *s->tokens_len);
    if (!s->world || !s->pending || !s->pending_len || !s->pending_max || !s->scratch || !s->messages ||
        !s->fault_seen || !s->fault_hit || !s->stopped || !s->flights || !s->actor_base || !s->memory || !s->aux ||
        !s->aux_token || !s->tokens || !s->tokens_len)
        return -ENOMEM;
    for (uint32_t w = 0; w < c->wire_len; w++) {
        s->flights[w].park = -1;
        s->flights[w].error_us = UINT64_MAX;
        s->flights[w].bytes = malloc(flight_floats * sizeof(float));
        s->flights[w].writers = malloc((size_t)c->chunk_pages_max * c->page_tokens);
        if (!s->flights[w].bytes || !s->flights[w].writers)
            return -ENOMEM;
    }
    for (uint32_t m = 0; m < c->machines_len; m++) {
        s->actor_base[m] = actors;
        actors += c->machines[m].actors;
        if (c->machines[m].requests_len && memory_init(&s->memory[m], c, c->machines[m].side))
            return -ENOMEM;
    }
    s->actor_park = malloc(actors * sizeof *s->actor_park);
    for (uint32_t a = 0; s->actor_park && a < actors; a++)
        s->actor_park[a] = -1;
    for (uint32_t r = 0; r < c->requests_len; r++) {
        s->tokens[r] = calloc(c->requests[r].max_tokens, sizeof **s->tokens);
        if (!s->tokens[r])
            return -ENOMEM;
        if (c->requests[r].pages_max > pages_max)
            pages_max = c->requests[r].pages_max;
    }
    s->page_table = calloc(pages_max, sizeof *s->page_table);
    return s->actor_park && s->page_table ? 0 : -ENOMEM;
}

int sim_init(struct sim *s, const struct sim_input *in)
{
    *s = (struct sim){ .in = *in, .c = in->config };
    if (!s->in.decode)
        s->in.decode = model_decode;
    if (allocate(s))
        return -ENOMEM;
    s->parks = (struct park_set){ .parks = in->parks, .len = in->parks_len };
    world_init(s->c, s->world);
    return 0;
}

void sim_fini(struct sim *s)
{
    const struct config *c = s->c;

    for (uint32_t i = 0; s->pending && i <= c->machines_len; i++)
        free(s->pending[i]);
    for (uint32_t w = 0; s->flights && w < c->wire_len; w++) {
        free(s->flights[w].bytes);
        free(s->flights[w].writers);
    }
    for (uint32_t m = 0; s->memory && m < c->machines_len; m++)
        memory_fini(&s->memory[m]);
    for (uint32_t r = 0; s->tokens && r < c->requests_len; r++)
        free(s->tokens[r]);
    free(s->world);
    free(s->pending);
    free(s->pending_len);
    free(s->pending_max);
    free(s->scratch);
    free(s->messages);
    free(s->flights);
    free(s->actor_park);
    free(s->actor_base);
    free(s->memory);
    free(s->aux);
    free(s->aux_token);
    free(s->tokens);
    free(s->tokens_len);
    free(s->page_table);
    free(s->fault_seen);
    free(s->fault_hit);
    free(s->stopped);
    *s = (struct sim){ 0 };
}
