#include "search.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <xxhash.h>

enum { CLIENTS_MAX = 32, NO_STATE = UINT32_MAX };

/* All states found, in the order in which they were found: their bytes, where they came from, and an open-addressing
 * table of their indices. A state is the world and the set of client events that have not happened yet. */
struct states {
    size_t bytes;
    uint8_t *at;
    uint32_t *parent;
    uint32_t *depth;
    uint16_t *by;       /* which transition of the parent's list */
    uint32_t *indegree; /* ways in; for the check that there is no way back */
    uint64_t len, max;
    uint32_t *table;
    uint64_t mask;
};

static void *big(uint64_t count, size_t size)
{
    size_t bytes = count * size;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (p == MAP_FAILED)
        return NULL;
    madvise(p, bytes, MADV_HUGEPAGE); /* a page fault costs tens of microseconds in a virtual machine */
    return p;
}

static void drop(void *p, uint64_t count, size_t size)
{
    if (p)
        munmap(p, count * size);
}

static int states_init(struct states *s, size_t bytes, uint64_t max)
{
    uint64_t table = 1024;

    while (table < 2 * max)
        table *= 2;
    *s = (struct states){ .bytes = bytes, .max = max, .mask = table - 1 };
    s->at = big(max, bytes);
    s->parent = big(max, sizeof *s->parent);
    s->depth = big(max, sizeof *s->depth);
    s->by = big(max, sizeof *s->by);
    s->indegree = big(max, sizeof *s->indegree);
    s->table = big(table, sizeof *s->table);
    return s->at && s->parent && s->depth && s->by && s->indegree && s->table ? 0 : -ENOMEM;
}

static void states_fini(struct states *s)
{
    drop(s->at, s->max, s->bytes);
    drop(s->parent, s->max, sizeof *s->parent);
    drop(s->depth, s->max, sizeof *s->depth);
    drop(s->by, s->max, sizeof *s->by);
    drop(s->indegree, s->max, sizeof *s->indegree);
    drop(s->table, s->mask + 1, sizeof *s->table);
}

static uint8_t *state_at(const struct states *s, uint64_t idx)
{
    return s->at + idx * s->bytes;
}

/* The index of an equal state, found or added; NO_STATE when there is no room. */
static uint32_t intern(struct states *s, const uint8_t *state, bool *fresh)
{
    uint64_t slot = XXH3_64bits(state, s->bytes) & s->mask;

    for (; s->table[slot]; slot = (slot + 1) & s->mask)
        if (memcmp(state_at(s, s->table[slot] - 1), state, s->bytes) == 0) {
            *fresh = false;
            return s->table[slot] - 1;
        }
    if (s->len == s->max)
        return NO_STATE;
    memcpy(state_at(s, s->len), state, s->bytes);
    s->table[slot] = (uint32_t)++s->len;
    *fresh = true;
    return (uint32_t)s->len - 1;
}

struct search {
    const struct search_input *in;
    const struct config *c;
    struct states states;
    struct transition *enabled;
    uint8_t *next;
    struct search_result *out;
};

static uint32_t clients_left(const struct search *s, const uint8_t *state)
{
    uint32_t left;

    memcpy(&left, state + s->c->world_size, sizeof left);
    return left;
}

static bool client_enabled(const struct search *s, uint32_t left, uint32_t i)
{
    if (!(left & 1u << i))
        return false;
    for (uint32_t k = 0; s->in->clients[i].kind == CLIENT_ABORT && k < s->in->clients_len; k++)
        if (s->in->clients[k].kind == CLIENT_SUBMIT && s->in->clients[k].request == s->in->clients[i].request &&
            (left & 1u << k))
            return false;
    return true;
}

static void client_happens(const struct search *s, uint8_t *state, uint32_t i)
{
    const struct client_event *e = &s->in->clients[i];
    uint32_t left = clients_left(s, state) & ~(1u << i);

    memcpy(state + s->c->world_size, &left, sizeof left);
    if (e->kind == CLIENT_ABORT) {
        world_abort(s->c, state, e->request, e->side);
    } else {
        world_submit(s->c, state, e->request, SIDE_PREFILL);
        world_submit(s->c, state, e->request, SIDE_DECODE);
    }
}

/* Decode's batch is about to run and one of its requests reads what another has written. */
static bool corrupts(const struct search *s, const uint8_t *world, const struct transition *t)
{
    const struct machine_config *m = &s->c->machines[t->machine];

    if (t->kind != TRANSITION_FORWARD || m->side != SIDE_DECODE)
        return false;
    for (uint32_t q = 0; q < m->requests_len; q++)
        if (world_in_batch(s->c, world, m->requests[q]) && world_reads_stale(s->c, world, m->requests[q]))
            return true;
    return false;
}

/* --- the step contract --- */

static void check_idle_actors(struct search *s, const uint8_t *state)
{
    for (uint32_t m = 0; m < s->c->machines_len; m++)
        for (uint32_t actor = 0; s->c->machines[m].requests_len && actor < s->c->machines[m].actors; actor++) {
            struct event go = { .type = EVENT_GO, .actor = actor };
            struct actions actions = { 0 };

            if (machine_ready(s->c, m, state + s->c->machines[m].offset, actor).kind != READY_IDLE)
                continue;
            memcpy(s->next, state, s->states.bytes);
            machine_step(s->c, m, s->next + s->c->machines[m].offset, &go, &actions);
            s->out->idle_changes += memcmp(s->next, state, s->states.bytes) != 0 || actions.len != 0;
        }
}

static void check_pool(struct search *s, const uint8_t *block, const struct allocator_layout *pool,
                       const struct cells *owners)
{
    for (uint32_t id = 1; id <= pool->len; id++) {
        uint32_t free = 0;

        for (uint32_t i = 0; i < cell(block, &pool->free_len, 0); i++)
            free += cell(block, &pool->free, i) == id;
        for (uint32_t i = 0; pool->kind == ALLOCATOR_SORTED && i < cell(block, &pool->released_len, 0); i++)
            free += cell(block, &pool->released, i) == id;
        s->out->unbalanced += free + (cell(block, owners, id) != 0) != 1;
    }
}

static void check_pools(struct search *s, const uint8_t *state)
{
    for (uint32_t m = s->c->prefill_len; m < s->c->machines_len; m++) {
        const struct decode_layout *l = &s->c->machines[m].decode;
        const uint8_t *block = state + s->c->machines[m].offset;

        check_pool(s, block, &l->page_pool, &l->page_owner);
        check_pool(s, block, &l->slot_pool, &l->slot_owner);
        check_pool(s, block, &l->aux_pool, &l->aux_owner);
    }
}

/* --- the search --- */

static void reach(struct search *s, uint32_t from, uint32_t by)
{
    bool fresh;
    uint32_t idx = intern(&s->states, s->next, &fresh);

    s->out->transitions++;
    if (idx == NO_STATE) {
        s->out->complete = false;
        return;
    }
    s->states.indegree[idx]++;
    if (fresh) {
        s->states.parent[idx] = from;
        s->states.depth[idx] = s->states.depth[from] + 1;
        s->states.by[idx] = (uint16_t)by;
    }
}

/*
 * Whether everything that prefill machine m does from here on commutes with the rest of the world, landing aside: it has one
 * request, which nobody can abort any more and nothing can make fail. Then what it still receives (submit, metadata), what
 * it sends and what it posts only enables.
 */
static bool calm(const struct search *s, const uint8_t *state, uint32_t left, uint32_t m)
{
    const struct config *c = s->c;
    uint32_t r, messages = cell(state, &c->messages_len, 0);

    if (m >= c->prefill_len || c->machines[m].requests_len != 1 || c->policy.engine[ENGINE_TIMEOUT] != 0 ||
        (c->policy.core[CORE_FREE] == FREE_FENCE && c->policy.core[CORE_FENCE_SCOPE] != FENCE_ROOM))
        return false;
    r = c->machines[m].requests[0];
    for (uint32_t i = 0; i < s->in->clients_len; i++)
        if ((left & 1u << i) && s->in->clients[i].kind == CLIENT_ABORT && s->in->clients[i].request == r)
            return false;
    for (uint32_t i = 0; i < messages; i++) {
        unsigned type = cell(state, &c->message_type, i);

        if (cell(state, &c->message_request, i) == r && (type == MESSAGE_ABORT_REQUEST || type == MESSAGE_ABORT))
            return false;
    }
    return !world_troubled(c, state, r);
}

/*
 * Landing commutes too while the request is calm and nobody else has a destination that overlaps its own: its memory stays
 * its own until decode has committed, and what decode publishes meanwhile is other memory. Decode's note of a part that has
 * landed always does, except of the last one that it waits for: from then on its scheduler decides otherwise.
 */
static bool quiet(const struct search *s, const uint8_t *state, uint32_t left, const struct transition *t)
{
    const struct config *c = s->c;
    uint32_t r = t->request;

    for (uint32_t x = 0; x < c->requests_len; x++) /* a notification counts for whoever has the room by now */
        if (x != r && c->requests[x].room == c->requests[r].room)
            return false;
    if (t->kind == TRANSITION_DELIVER)
        return cell(state, &c->message_type, t->index) == MESSAGE_NOTIFY &&
               (world_stage(c, state, r) != DECODE_TRANSFER || world_parts_missing(c, state, r) > 1);
    return t->kind == TRANSITION_LAND && calm(s, state, left, c->requests[r].prefill) &&
           world_stage(c, state, r) == DECODE_TRANSFER && !world_destination_shared(c, state, r);
}

static bool of_stalled_writer(const struct search *s, const struct transition *t)
{
    uint32_t r = (uint32_t)s->in->stall;

    if (t->machine != s->c->requests[r].prefill)
        return false;
    if (t->kind == TRANSITION_LAND || t->kind == TRANSITION_COMPLETE || t->kind == TRANSITION_GIVE_UP)
        return t->request == r;
    return t->kind == TRANSITION_GO && t->actor >= ACTOR_WORKER;
}

/* What is to be taken in this state: [*first, end) of the enabled list, client events from n on. */
static uint32_t choose(const struct search *s, const uint8_t *state, uint32_t n, uint32_t *first)
{
    uint32_t left = clients_left(s, state);

    *first = 0;
    for (uint32_t i = 0; s->in->reduce && i < n; i++) {
        /* A state in which only the stalled writer could go on is an end: its steps must not be taken eagerly. */
        if (s->in->stall >= 0 && of_stalled_writer(s, &s->enabled[i]))
            continue;
        if (world_local(s->c, state, &s->enabled[i]) ||
            (s->enabled[i].kind != TRANSITION_LAND && calm(s, state, left, s->enabled[i].machine)) ||
            quiet(s, state, left, &s->enabled[i])) {
            *first = i;
            return i + 1;
        }
    }
    return n + s->in->clients_len;
}

/* Nothing can happen any more, or nothing but what a stalled writer would do. */
static bool is_end(const struct search *s, const uint8_t *state, uint32_t n)
{
    uint32_t left = clients_left(s, state);

    for (uint32_t i = 0; i < n; i++)
        if (s->in->stall < 0 || !of_stalled_writer(s, &s->enabled[i]))
            return false;
    for (uint32_t i = 0; i < s->in->clients_len; i++)
        if (client_enabled(s, left, i))
            return false;
    return true;
}

/* The enabled transitions, timers as the search treats them. */
static uint32_t enabled_in(struct search *s, const uint8_t *state)
{
    uint32_t n = world_enabled(s->c, state, s->enabled), kept = 0;

    if (s->in->timers == TIMERS_ANY)
        return n;
    for (uint32_t i = 0; i < n; i++)
        if (s->enabled[i].kind != TRANSITION_TIMER)
            s->enabled[kept++] = s->enabled[i];
    if (s->in->timers == TIMERS_NEVER || !is_end(s, state, kept))
        return kept;
    return world_enabled(s->c, state, s->enabled);
}

static void tell_step(struct search *s, struct search_step *step, const uint8_t *state, uint32_t by)
{
    uint32_t n = enabled_in(s, state);
    struct actions actions = { 0 };

    *step = (struct search_step){ .client = by >= n };
    if (step->client) {
        step->event = s->in->clients[by - n];
        step->request = step->event.request;
        return;
    }
    step->transition = s->enabled[by];
    step->request = s->enabled[by].request;
    memcpy(s->next, state, s->states.bytes);
    world_apply(s->c, s->next, &s->enabled[by], &actions);
    if (actions.len > 0 && actions.at[actions.len - 1].type == ACTION_POINT) {
        step->has_point = true;
        step->point = actions.at[actions.len - 1].point;
        step->request = actions.at[actions.len - 1].request;
    }
}

/* The way to state `at`, and one more transition from there if `by` is one (not UINT32_MAX). Changes s->enabled. */
static struct search_step *tell(struct search *s, uint32_t at, uint32_t by, uint32_t *len)
{
    bool more = by != UINT32_MAX;
    uint32_t n = s->states.depth[at] + more;
    struct search_step *steps = calloc(n + 1u, sizeof *steps);

    if (!steps)
        return NULL;
    *len = n;
    if (more)
        tell_step(s, &steps[--n], state_at(&s->states, at), by);
    for (; n > 0; n--) {
        by = s->states.by[at];
        at = s->states.parent[at];
        tell_step(s, &steps[n - 1], state_at(&s->states, at), by);
    }
    return steps;
}

static void note_end(struct search *s, uint32_t idx)
{
    const uint8_t *state = state_at(&s->states, idx);
    uint32_t pages = 0;

    s->out->terminal++;
    s->out->terminal_digest += XXH3_64bits(state, s->states.bytes); /* a sum: the order of finding doesn't matter */
    for (uint32_t r = 0; r < s->c->requests_len; r++)
        pages += world_pages_len(s->c, state, r);
    if (pages == 0 || s->out->pinned++ > 0)
        return;
    s->out->pinned_after = s->states.depth[idx];
    s->out->pinned_steps = tell(s, idx, UINT32_MAX, &s->out->pinned_steps_len);
}

static void expand(struct search *s, uint32_t idx)
{
    const uint8_t *state = state_at(&s->states, idx);
    uint32_t n, left = clients_left(s, state), first, end;

    if (s->in->contract) {
        check_idle_actors(s, state);
        check_pools(s, state);
    }
    n = enabled_in(s, state);
    if (is_end(s, state, n)) {
        note_end(s, idx);
        n = enabled_in(s, state);
    }
    end = choose(s, state, n, &first);
    for (uint32_t i = first; i < end && i < n; i++) {
        struct actions actions = { 0 };

        if (!s->out->corrupts && corrupts(s, state, &s->enabled[i])) {
            s->out->corrupts = true;
            s->out->shortest = s->states.depth[idx] + 1u;
            s->out->steps = tell(s, idx, i, &s->out->steps_len);
            n = enabled_in(s, state);
        }
        memcpy(s->next, state, s->states.bytes);
        world_apply(s->c, s->next, &s->enabled[i], &actions);
        s->out->go_keeps += memcmp(s->next, state, s->states.bytes) == 0;
        reach(s, idx, i);
    }
    for (uint32_t i = 0; n + i < end; i++) {
        if (!client_enabled(s, left, i))
            continue;
        memcpy(s->next, state, s->states.bytes);
        client_happens(s, s->next, i);
        reach(s, idx, n + i);
    }
}

/* Takes states away that nothing leads to any more; what is left lies on a cycle. */
static uint64_t count_cyclic(struct search *s)
{
    uint32_t *queue = big(s->states.len, sizeof *queue);
    uint64_t head = 0, tail = 0, len = s->states.len;

    if (!queue)
        return 0;
    for (uint64_t i = 0; i < len; i++)
        if (s->states.indegree[i] == 0)
            queue[tail++] = (uint32_t)i;
    while (head < tail) {
        const uint8_t *state = state_at(&s->states, queue[head++]);
        uint32_t n = enabled_in(s, state), left = clients_left(s, state), first, end;

        end = choose(s, state, n, &first);
        for (uint32_t i = first; i < end; i++) {
            struct actions actions = { 0 };
            bool fresh;
            uint32_t idx;

            if (i >= n && !client_enabled(s, left, i - n))
                continue;
            memcpy(s->next, state, s->states.bytes);
            if (i < n)
                world_apply(s->c, s->next, &s->enabled[i], &actions);
            else
                client_happens(s, s->next, i - n);
            idx = intern(&s->states, s->next, &fresh);
            if (idx != NO_STATE && --s->states.indegree[idx] == 0)
                queue[tail++] = idx;
        }
    }
    drop(queue, len, sizeof *queue);
    return len - tail;
}

int search_run(const struct search_input *in, struct search_result *out)
{
    struct search s = { .in = in, .c = in->config, .out = out };
    uint32_t left = in->clients_len == 32 ? UINT32_MAX : (1u << in->clients_len) - 1u;
    bool fresh;
    int rc;

    *out = (struct search_result){ .complete = true };
    if (in->clients_len > CLIENTS_MAX)
        return -E2BIG;
    rc = states_init(&s.states, in->config->world_size + sizeof left, in->states_max);
    s.enabled = calloc(world_enabled_max(in->config), sizeof *s.enabled);
    s.next = calloc(1, s.states.bytes);
    if (!rc && (!s.enabled || !s.next))
        rc = -ENOMEM;
    if (!rc) {
        world_init(in->config, s.next);
        memcpy(s.next + in->config->world_size, &left, sizeof left);
        intern(&s.states, s.next, &fresh);
        for (uint64_t i = 0; i < s.states.len; i++)
            expand(&s, (uint32_t)i);
        out->states = s.states.len;
        if (out->complete && in->contract)
            out->cycles = count_cyclic(&s);
    }
    free(s.enabled);
    free(s.next);
    states_fini(&s.states);
    return rc;
}

void search_result_free(struct search_result *r)
{
    free(r->steps);
    free(r->pinned_steps);
    *r = (struct search_result){ 0 };
}
