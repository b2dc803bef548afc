/*
 * The decode machine: scheduler and control receiver. One iteration of the scheduler resolves holds, preallocates waiting
 * requests, takes finished or failed transfers, and runs one step of the model, in this order (SGLang 90354326c7
 * disaggregation/decode.py process_decode_queue): memory that a failed transfer frees is handed out one iteration later.
 */
#include "decode.h"

#include <stddef.h>

#include "../mutant.h"
#include "allocator.h"

enum { STATUS_NONE, STATUS_FAILED, STATUS_SUCCESS };

enum { FENCE_NONE, FENCE_POSTED, FENCE_UP };

enum { AUX_UNREAD, AUX_READING, AUX_OWN, AUX_FOREIGN };

enum { PHASE_HOLDS, PHASE_PREALLOC, PHASE_TRANSFERS, PHASE_STEP };

enum {
    SCHEDULER_IDLE,
    SCHEDULER_FORWARD,     /* waits for the model */
    SCHEDULER_PICK,        /* chooses a page or slot under `any`, for a prompt */
    SCHEDULER_PICK_GROWTH, /* the same for the next page of a running request */
    /* the rest stand at points */
    SCHEDULER_ALLOCATED,
    SCHEDULER_METADATA_SENT,
    SCHEDULER_ABORT_ACCEPTED,
    SCHEDULER_ARMED_FIRST,
    SCHEDULER_ABORT_SENT,
    SCHEDULER_ARMED,
    SCHEDULER_FAILURE_ANSWERED,
    SCHEDULER_HOLD_BEGUN,
    SCHEDULER_HOLD_EXPIRED,
    SCHEDULER_FENCED,
    SCHEDULER_FREED,
    SCHEDULER_CONSUMED,
    SCHEDULER_COMMITTED,
    SCHEDULER_TOKEN,
    SCHEDULER_FINISHED,
    SCHEDULER_FINISHED_FREED,
    SCHEDULER_FINISHED_ANSWERED
};

enum { RECEIVER_IDLE, RECEIVER_AT_POINT };

/* What every function here works on. `q` is a local request number throughout. */
struct decode {
    const struct config *c;
    const struct machine_config *m;
    const struct decode_layout *l;
    uint8_t *s;
    struct actions *out;
};

static struct decode open_machine(const struct config *c, uint32_t machine, uint8_t *state, struct actions *out)
{
    return (struct decode){ c, &c->machines[machine], &c->machines[machine].decode, state, out };
}

/* For the questions that change nothing: machine_ready() and its like. */
static struct decode look_at(const struct config *c, uint32_t machine, const uint8_t *state)
{
    return open_machine(c, machine, (uint8_t *)(uintptr_t)state, NULL);
}

static const struct request_config *request_of(const struct decode *d, uint32_t q)
{
    return &d->c->requests[d->m->requests[q]];
}

static struct action *point(struct decode *d, uint32_t actor, enum point at, uint32_t q, enum point_status status)
{
    struct action *a = act(d->out, ACTION_POINT);

    a->actor = actor;
    a->point = at;
    a->request = d->m->requests[q];
    a->status = status;
    return a;
}

static void scheduler_at(struct decode *d, uint32_t q, unsigned pc, enum point at, enum point_status status)
{
    cell_set(d->s, &d->l->scheduler.request, 0, q + 1);
    cell_set(d->s, &d->l->scheduler.pc, 0, pc);
    point(d, ACTOR_SCHEDULER, at, q, status);
}

static void scheduler_idle(struct decode *d)
{
    cell_set(d->s, &d->l->scheduler.pc, 0, SCHEDULER_IDLE);
    cell_set(d->s, &d->l->scheduler.request, 0, 0);
    cell_set(d->s, &d->l->scheduler.status, 0, 0);
    cell_set(d->s, &d->l->phase, 0, 0);
}

static void answer(struct decode *d, uint32_t q, enum point_status status)
{
    struct action *a = act(d->out, ACTION_ANSWER);

    a->request = d->m->requests[q];
    a->status = status;
}

static void post(struct decode *d, enum effect effect, uint32_t request)
{
    struct action *a = act(d->out, ACTION_POST);

    a->actor = ACTOR_SCHEDULER;
    a->effect = effect;
    a->request = request;
}

/* --- the list of live requests, sorted by stage, within a stage by arrival --- */

static void stage_set(struct decode *d, uint32_t q, unsigned stage)
{
    uint32_t len = cell(d->s, &d->l->order_len, 0), at = 0;

    for (uint32_t i = 0; i < len; i++) /* take it out */
        if (cell(d->s, &d->l->order, i) != q)
            cell_set(d->s, &d->l->order, at++, cell(d->s, &d->l->order, i));
    if (at < len)
        cell_set(d->s, &d->l->order, at, 0);
    len = at;
    cell_set(d->s, &d->l->stage, q, stage);
    if (stage != DECODE_DONE) {
        for (at = len; at > 0 && cell(d->s, &d->l->stage, cell(d->s, &d->l->order, at - 1)) > stage; at--)
            cell_set(d->s, &d->l->order, at, cell(d->s, &d->l->order, at - 1));
        cell_set(d->s, &d->l->order, at, q);
        len++;
    }
    cell_set(d->s, &d->l->order_len, 0, len);
}

/* The first request at `stage` from index *at of the order; false if there is none. Leaves *at on it. */
static bool next_at(const struct decode *d, unsigned stage, uint32_t *at, uint32_t *q)
{
    uint32_t len = cell(d->s, &d->l->order_len, 0);

    for (; *at < len; (*at)++) {
        *q = cell(d->s, &d->l->order, *at);
        if (cell(d->s, &d->l->stage, *q) == stage)
            return true;
    }
    return false;
}

/* --- memory --- */

static void own_page(struct decode *d, uint32_t q, uint32_t choice)
{
    uint32_t len = cell(d->s, &d->l->pages_len, q), page = allocator_take(&d->l->page_pool, d->s, choice);

    assert(page != 0 && cell(d->s, &d->l->page_owner, page) == 0);
    cell_set(d->s, &d->l->pages, q * d->m->pages_max + len, page);
    cell_set(d->s, &d->l->pages_len, q, len + 1);
    cell_set(d->s, &d->l->page_owner, page, q + 1);
}

static void own_slot(struct decode *d, uint32_t q, const struct allocator_layout *pool, const struct cells *slots,
                     const struct cells *owners, uint32_t choice)
{
    uint32_t slot;

    allocator_want(pool, d->s, 1);
    slot = allocator_take(pool, d->s, choice);
    assert(slot != 0);
    cell_set(d->s, slots, q, slot);
    if (owners)
        cell_set(d->s, owners, slot, q + 1);
}

/* Gives the request what needs no choice. Returns the pool from which something has to be chosen, or NULL when it has all. */
static const struct allocator_layout *alloc_next(struct decode *d, uint32_t q, bool chosen, uint32_t choice)
{
    const struct decode_layout *l = d->l;

    while (cell(d->s, &l->pages_len, q) < request_of(d, q)->prompt_pages) {
        if (l->page_pool.kind == ALLOCATOR_ANY && !chosen)
            return &l->page_pool;
        own_page(d, q, chosen ? choice : 0);
        chosen = false;
        choice = 0;
    }
    if (cell(d->s, &l->slot, q) == 0) {
        if (l->slot_pool.kind == ALLOCATOR_ANY && !chosen)
            return &l->slot_pool;
        own_slot(d, q, &l->slot_pool, &l->slot, &l->slot_owner, chosen ? choice : 0);
        chosen = false;
    }
    if (cell(d->s, &l->aux_slot, q) == 0) {
        if (l->aux_pool.kind == ALLOCATOR_ANY && !chosen)
            return &l->aux_pool;
        own_slot(d, q, &l->aux_pool, &l->aux_slot, &l->aux_owner, chosen ? choice : 0);
    }
    if (cell(d->s, &l->request_slot, q) == 0)
        own_slot(d, q, &l->request_pool, &l->request_slot, NULL, 0);
    return NULL;
}

static const struct allocator_layout *pick_pool(const struct decode *d, uint32_t q)
{
    if (cell(d->s, &d->l->pages_len, q) < request_of(d, q)->prompt_pages)
        return &d->l->page_pool;
    return cell(d->s, &d->l->slot, q) == 0 ? &d->l->slot_pool : &d->l->aux_pool;
}

static bool fits(const struct decode *d, uint32_t q)
{
    return allocator_available(&d->l->page_pool, d->s) >=
               request_of(d, q)->prompt_pages + d->c->sides[SIDE_DECODE].reserve_pages &&
           allocator_available(&d->l->slot_pool, d->s) >= 1 && allocator_available(&d->l->aux_pool, d->s) >= 1 &&
           allocator_available(&d->l->request_pool, d->s) >= 1;
}

static void aux_release(struct decode *d, uint32_t q)
{
    uint32_t slot = cell(d->s, &d->l->aux_slot, q);
    struct action *clear;

    if (slot == 0)
        return;
    allocator_give(&d->l->aux_pool, d->s, &d->l->aux_slot, q, 1);
    cell_set(d->s, &d->l->aux_owner, slot, 0);
    cell_set(d->s, &d->l->aux_slot, q, 0);
    cell_set(d->s, &d->l->aux, q, AUX_UNREAD);
    clear = act(d->out, ACTION_AUX_CLEAR);
    clear->request = d->m->requests[q];
    clear->n = slot;
    clear->status = d->c->policy.core[CORE_AUX_CLEAR] ? POINT_STATUS_OK : POINT_STATUS_SKIP;
}

static void room_forget(struct decode *d, uint32_t q)
{
    uint32_t room = d->m->rooms[q];

    if (cell(d->s, &d->l->room_request, room) == q + 1)
        cell_set(d->s, &d->l->room_request, room, 0);
    /* The tracker is the held request's, even if its room has another one by now. */
    if (cell(d->s, &d->l->stage, q) != DECODE_HELD)
        return;
    cell_set(d->s, &d->l->room_armed, room, 0);
    cell_set(d->s, &d->l->room_acks, room, 0);
}

static void forget_parts(struct decode *d, uint32_t q)
{
    for (uint32_t i = 0; d->l->arrived.len && i < d->m->parts_max; i++)
        cell_set(d->s, &d->l->arrived, q * d->m->parts_max + i, 0);
}

/* Everything the request has goes back, and nothing of it is left but that it is done. */
static void release(struct decode *d, uint32_t q)
{
    const struct decode_layout *l = d->l;
    uint32_t len = cell(d->s, &l->pages_len, q), first = q * d->m->pages_max;

    allocator_give(&l->page_pool, d->s, &l->pages, first, len);
    for (uint32_t i = 0; i < len; i++) {
        cell_set(d->s, &l->page_owner, cell(d->s, &l->pages, first + i), 0);
        cell_set(d->s, &l->pages, first + i, 0);
    }
    cell_set(d->s, &l->pages_len, q, 0);
    if (cell(d->s, &l->slot, q) && !MUTANT(10)) {
        allocator_give(&l->slot_pool, d->s, &l->slot, q, 1);
        cell_set(d->s, &l->slot_owner, cell(d->s, &l->slot, q), 0);
        cell_set(d->s, &l->slot, q, 0);
    }
    aux_release(d, q);
    if (cell(d->s, &l->request_slot, q)) {
        allocator_give(&l->request_pool, d->s, &l->request_slot, q, 1);
        cell_set(d->s, &l->request_slot, q, 0);
    }
    cell_set(d->s, &l->failed, q, 0);
    cell_set(d->s, &l->status, q, 0);
    cell_set(d->s, &l->expired, q, 0);
    cell_set(d->s, &l->fence, q, FENCE_NONE);
    forget_parts(d, q);
    cell_set(d->s, &l->tokens, q, 0);
    cell_set(d->s, &l->in_batch, q, 0);
    room_forget(d, q);
    stage_set(d, q, DECODE_DONE);
}

/* --- one iteration of the scheduler --- */

static bool hold_drained(const struct decode *d, uint32_t q)
{
    uint32_t room = d->m->rooms[q];

    return d->c->policy.core[CORE_HOLD_ENDS_BY_ACK] && cell(d->s, &d->l->room_armed, room) &&
           cell(d->s, &d->l->room_acks, room) >= 1;
}

/* A fence has to be put up, or is up. */
static bool fence_due(const struct decode *d, uint32_t q)
{
    return d->c->policy.core[CORE_FREE] == FREE_FENCE && cell(d->s, &d->l->fence, q) != FENCE_POSTED;
}

static bool find_hold(const struct decode *d, uint32_t *q)
{
    for (uint32_t at = 0; next_at(d, DECODE_HELD, &at, q); at++)
        if (hold_drained(d, *q) || cell(d->s, &d->l->expired, *q) || fence_due(d, *q) || MUTANT(12))
            return true;
    return false;
}

/* An aborted request that waits for memory, or the first one if it can be admitted: nobody overtakes it. */
static bool find_waiting(const struct decode *d, uint32_t *q)
{
    uint32_t at;

    for (at = 0; next_at(d, DECODE_WAITING, &at, q); at++)
        if (cell(d->s, &d->l->failed, *q))
            return true;
    at = 0;
    return next_at(d, DECODE_WAITING, &at, q) && fits(d, *q);
}

static bool find_transfer(const struct decode *d, uint32_t *q)
{
    for (uint32_t at = 0; next_at(d, DECODE_TRANSFER, &at, q); at++)
        if (cell(d->s, &d->l->failed, *q) || cell(d->s, &d->l->status, *q) == STATUS_FAILED ||
            (cell(d->s, &d->l->status, *q) == STATUS_SUCCESS && cell(d->s, &d->l->aux, *q) != AUX_READING))
            return true;
    return false;
}

/* The row that the next step writes lies at position prompt + tokens - 1: the last token is fed back. */
static bool needs_page(const struct decode *d, uint32_t q)
{
    uint32_t position = request_of(d, q)->prompt_tokens + cell(d->s, &d->l->tokens, q) - 1;

    return position / d->c->page_tokens >= cell(d->s, &d->l->pages_len, q) + MUTANT(14);
}

/* A running request that this step can take along: without a free page it waits until somebody gives one back. */
static bool find_runnable(const struct decode *d, uint32_t *q)
{
    for (uint32_t at = 0; next_at(d, DECODE_RUNNING, &at, q); at++)
        if (!cell(d->s, &d->l->in_batch, *q) && (!needs_page(d, *q) || allocator_available(&d->l->page_pool, d->s) > 0))
            return true;
    return false;
}

static void finish(struct decode *d, uint32_t q)
{
    cell_set(d->s, &d->l->scheduler.status, 0, cell(d->s, &d->l->failed, q) ? POINT_STATUS_ABORT : POINT_STATUS_OK);
    scheduler_at(d, q, SCHEDULER_FINISHED, POINT_REQUEST_FINISH,
                 (enum point_status)cell(d->s, &d->l->scheduler.status, 0));
}

static void free_now(struct decode *d, uint32_t q, unsigned pc)
{
    release(d, q);
    scheduler_at(d, q, pc, POINT_PAGES_FREE, POINT_STATUS_NONE);
}

static void batch_next(struct decode *d)
{
    uint32_t q, at = 0, n;

    while (next_at(d, DECODE_RUNNING, &at, &q)) {
        if (!cell(d->s, &d->l->in_batch, q)) {
            at++;
            continue;
        }
        n = cell(d->s, &d->l->tokens, q);
        cell_set(d->s, &d->l->in_batch, q, 0);
        cell_set(d->s, &d->l->tokens, q, n + 1);
        cell_set(d->s, &d->l->scheduler.request, 0, q + 1);
        cell_set(d->s, &d->l->scheduler.pc, 0, SCHEDULER_TOKEN);
        point(d, ACTOR_SCHEDULER, POINT_TOKEN, q, POINT_STATUS_NONE)->n = n;
        return;
    }
    scheduler_idle(d);
}

/* A running request that was aborted and waits for a page: no more forward can come, so it is over at once. */
static bool find_given_up(const struct decode *d, uint32_t *q)
{
    for (uint32_t at = 0; next_at(d, DECODE_RUNNING, &at, q); at++)
        if (cell(d->s, &d->l->failed, *q) && !cell(d->s, &d->l->in_batch, *q) && needs_page(d, *q) &&
            allocator_available(&d->l->page_pool, d->s) == 0)
            return true;
    return false;
}

static void batch_build(struct decode *d)
{
    uint32_t q, at, wanted = 0;
    bool any = false;

    if (find_given_up(d, &q)) {
        finish(d, q);
        return;
    }

    for (at = 0; next_at(d, DECODE_RUNNING, &at, &q); at++)
        wanted += !cell(d->s, &d->l->in_batch, q) && needs_page(d, q);
    if (wanted)
        allocator_want(&d->l->page_pool, d->s, wanted);
    while (find_runnable(d, &q)) {
        if (needs_page(d, q)) {
            if (d->l->page_pool.kind == ALLOCATOR_ANY) {
                cell_set(d->s, &d->l->scheduler.request, 0, q + 1);
                cell_set(d->s, &d->l->scheduler.pc, 0, SCHEDULER_PICK_GROWTH);
                return;
            }
            own_page(d, q, 0);
        }
        cell_set(d->s, &d->l->in_batch, q, 1);
    }
    for (at = 0; next_at(d, DECODE_RUNNING, &at, &q); at++)
        any = any || cell(d->s, &d->l->in_batch, q);
    if (!any) {
        scheduler_idle(d);
        return;
    }
    cell_set(d->s, &d->l->scheduler.request, 0, 0);
    cell_set(d->s, &d->l->scheduler.pc, 0, SCHEDULER_FORWARD);
    post(d, EFFECT_FORWARD, d->c->requests_len);
}

static void alloc_go(struct decode *d, uint32_t q, bool chosen, uint32_t choice)
{
    if (alloc_next(d, q, chosen, choice)) {
        cell_set(d->s, &d->l->scheduler.request, 0, q + 1);
        cell_set(d->s, &d->l->scheduler.pc, 0, SCHEDULER_PICK);
        return;
    }
    stage_set(d, q, DECODE_TRANSFER);
    scheduler_at(d, q, SCHEDULER_ALLOCATED, POINT_PAGES_ALLOC, POINT_STATUS_NONE);
}

static void take_waiting(struct decode *d, uint32_t q)
{
    if (cell(d->s, &d->l->failed, q)) {
        answer(d, q, POINT_STATUS_ABORT);
        scheduler_at(d, q, SCHEDULER_FAILURE_ANSWERED, POINT_CLIENT_ANSWER, POINT_STATUS_ABORT);
        return;
    }
    allocator_want(&d->l->page_pool, d->s, request_of(d, q)->prompt_tokens / d->c->page_tokens + 2);
    alloc_go(d, q, false, 0);
}

static void take_transfer(struct decode *d, uint32_t q)
{
    unsigned aux = cell(d->s, &d->l->aux, q);
    bool aborted = cell(d->s, &d->l->failed, q) != 0;

    if (aborted || cell(d->s, &d->l->status, q) == STATUS_FAILED) {
        enum point_status status = aborted ? POINT_STATUS_ABORT : POINT_STATUS_ERROR;

        answer(d, q, status);
        cell_set(d->s, &d->l->scheduler.status, 0, status);
        scheduler_at(d, q, SCHEDULER_FAILURE_ANSWERED, POINT_CLIENT_ANSWER, status);
    } else if (aux == AUX_UNREAD) {
        cell_set(d->s, &d->l->aux, q, AUX_READING);
        post(d, EFFECT_AUX_READ, d->m->requests[q]);
        scheduler_idle(d);
    } else {
        cell_set(d->s, &d->l->scheduler.status, 0, aux == AUX_OWN ? POINT_STATUS_OWN : POINT_STATUS_FOREIGN);
        scheduler_at(d, q, SCHEDULER_CONSUMED, POINT_AUX_CONSUME,
                     aux == AUX_OWN ? POINT_STATUS_OWN : POINT_STATUS_FOREIGN);
    }
}

static void take_hold(struct decode *d, uint32_t q)
{
    if (hold_drained(d, q)) {
        free_now(d, q, SCHEDULER_FREED);
    } else if (!fence_due(d, q)) {
        scheduler_at(d, q, SCHEDULER_HOLD_EXPIRED, POINT_HOLD_EXPIRE, POINT_STATUS_NONE);
    } else if (cell(d->s, &d->l->fence, q) == FENCE_UP) {
        scheduler_at(d, q, SCHEDULER_FENCED, POINT_FENCE, POINT_STATUS_NONE);
    } else {
        cell_set(d->s, &d->l->fence, q, FENCE_POSTED);
        post(d, EFFECT_FENCE, d->m->requests[q]);
        scheduler_idle(d);
    }
}

static void iterate(struct decode *d, unsigned phase)
{
    uint32_t q = 0;

    for (;; phase++) {
        cell_set(d->s, &d->l->phase, 0, phase);
        switch (phase) {
        case PHASE_HOLDS:
            if (!find_hold(d, &q))
                break;
            take_hold(d, q);
            return;
        case PHASE_PREALLOC:
            if (!find_waiting(d, &q))
                break;
            take_waiting(d, q);
            return;
        case PHASE_TRANSFERS:
            if (!find_transfer(d, &q))
                break;
            take_transfer(d, q);
            return;
        default:
            batch_build(d);
            return;
        }
    }
}

/* --- the scheduler's steps --- */

static void hold_arm(struct decode *d, uint32_t q, unsigned pc)
{
    uint32_t room = d->m->rooms[q];

    cell_set(d->s, &d->l->room_armed, room, 1);
    cell_set(d->s, &d->l->room_acks, room, 0);
    scheduler_at(d, q, pc, POINT_HOLD_ARM, POINT_STATUS_NONE);
}

static void abort_send(struct decode *d, uint32_t q)
{
    struct action *a = act(d->out, ACTION_SEND);

    a->message = MESSAGE_ABORT;
    a->to = request_of(d, q)->prefill;
    a->request = d->m->requests[q];
    scheduler_at(d, q, SCHEDULER_ABORT_SENT, POINT_ABORT_SEND, POINT_STATUS_NONE);
}

static void after_failure(struct decode *d, uint32_t q)
{
    const uint32_t *core = d->c->policy.core;
    bool aborted = cell(d->s, &d->l->failed, q) != 0;

    if (cell(d->s, &d->l->stage, q) == DECODE_WAITING) { /* has no memory */
        unsigned phase = cell(d->s, &d->l->phase, 0);

        release(d, q);
        iterate(d, phase);
    } else if (core[CORE_FREE] != FREE_AT_ABORT && (aborted || core[CORE_HOLD_FAILURES])) {
        stage_set(d, q, DECODE_HELD);
        cell_set(d->s, &d->l->status, q, 0);
        cell_set(d->s, &d->l->aux, q, AUX_UNREAD);
        forget_parts(d, q);
        scheduler_at(d, q, SCHEDULER_HOLD_BEGUN, POINT_HOLD_BEGIN, POINT_STATUS_NONE);
    } else {
        free_now(d, q, SCHEDULER_FREED);
    }
}

static void commit(struct decode *d, uint32_t q)
{
    aux_release(d, q);
    cell_set(d->s, &d->l->status, q, 0);
    cell_set(d->s, &d->l->tokens, q, 1);
    forget_parts(d, q);
    stage_set(d, q, DECODE_RUNNING);
    scheduler_at(d, q, SCHEDULER_COMMITTED, POINT_TRANSFER_COMMIT, POINT_STATUS_NONE);
}

static void after_consume(struct decode *d, uint32_t q)
{
    if (cell(d->s, &d->l->scheduler.status, 0) == POINT_STATUS_OWN || !d->c->policy.core[CORE_AUX_GUARD] ||
        MUTANT(13)) {
        commit(d, q);
        return;
    }
    /* decode.py _commit_transfer_to_req: "Context corruption detected", HTTP 500 */
    cell_set(d->s, &d->l->status, q, STATUS_FAILED);
    take_transfer(d, q);
}

static void scheduler_go(struct decode *d, uint32_t choice)
{
    const uint32_t *core = d->c->policy.core;
    unsigned pc = cell(d->s, &d->l->scheduler.pc, 0), phase = cell(d->s, &d->l->phase, 0);
    uint32_t q = cell(d->s, &d->l->scheduler.request, 0) - 1;
    bool holds = core[CORE_FREE] == FREE_HOLD;

    switch (pc) {
    case SCHEDULER_IDLE:
        iterate(d, PHASE_HOLDS);
        break;
    case SCHEDULER_PICK:
        alloc_go(d, q, true, choice);
        break;
    case SCHEDULER_PICK_GROWTH:
        own_page(d, q, choice);
        cell_set(d->s, &d->l->in_batch, q, 1);
        batch_build(d);
        break;
    case SCHEDULER_ALLOCATED: {
        struct action *a = act(d->out, ACTION_SEND);

        a->message = MESSAGE_METADATA;
        a->to = request_of(d, q)->prefill;
        a->request = d->m->requests[q];
        scheduler_at(d, q, SCHEDULER_METADATA_SENT, POINT_METADATA_SEND, POINT_STATUS_NONE);
        break;
    }
    case SCHEDULER_METADATA_SENT:
    case SCHEDULER_HOLD_BEGUN:
    case SCHEDULER_FREED:
        iterate(d, MUTANT(9) ? PHASE_HOLDS : phase);
        break;
    case SCHEDULER_ABORT_ACCEPTED:
        if (!core[CORE_ABORT_NOTICE])
            scheduler_idle(d);
        else if (holds && core[CORE_ARM] == ARM_BEFORE_SEND && cell(d->s, &d->l->stage, q) == DECODE_TRANSFER)
            hold_arm(d, q, SCHEDULER_ARMED_FIRST);
        else
            abort_send(d, q);
        break;
    case SCHEDULER_ARMED_FIRST:
        abort_send(d, q);
        break;
    case SCHEDULER_ABORT_SENT:
        if (holds && core[CORE_ARM] == ARM_AFTER_SEND && cell(d->s, &d->l->stage, q) == DECODE_TRANSFER)
            hold_arm(d, q, SCHEDULER_ARMED);
        else
            scheduler_idle(d);
        break;
    case SCHEDULER_ARMED:
        scheduler_idle(d);
        break;
    case SCHEDULER_FAILURE_ANSWERED:
        after_failure(d, q);
        break;
    case SCHEDULER_HOLD_EXPIRED:
    case SCHEDULER_FENCED:
        free_now(d, q, SCHEDULER_FREED);
        break;
    case SCHEDULER_CONSUMED:
        after_consume(d, q);
        break;
    case SCHEDULER_COMMITTED:
        cell_set(d->s, &d->l->scheduler.pc, 0, SCHEDULER_TOKEN);
        point(d, ACTOR_SCHEDULER, POINT_TOKEN, q, POINT_STATUS_NONE);
        break;
    case SCHEDULER_TOKEN:
        if (cell(d->s, &d->l->tokens, q) == request_of(d, q)->max_tokens || cell(d->s, &d->l->failed, q))
            finish(d, q);
        else if (phase == PHASE_STEP)
            batch_next(d);
        else
            iterate(d, phase);
        break;
    case SCHEDULER_FINISHED:
        free_now(d, q, SCHEDULER_FINISHED_FREED);
        break;
    case SCHEDULER_FINISHED_FREED: {
        enum point_status status = (enum point_status)cell(d->s, &d->l->scheduler.status, 0);

        answer(d, q, status);
        scheduler_at(d, q, SCHEDULER_FINISHED_ANSWERED, POINT_CLIENT_ANSWER, status);
        break;
    }
    case SCHEDULER_FINISHED_ANSWERED:
        cell_set(d->s, &d->l->scheduler.status, 0, 0);
        if (phase == PHASE_STEP)
            batch_next(d);
        else
            iterate(d, phase);
        break;
    default:
        assert(0 && "a scheduler that waits can't go");
    }
}

static void scheduler_message(struct decode *d, const struct message *msg, uint32_t q)
{
    unsigned stage = cell(d->s, &d->l->stage, q);

    if (msg->type == MESSAGE_SUBMIT && stage == DECODE_NONE) {
        cell_set(d->s, &d->l->room_request, d->m->rooms[q], q + 1);
        stage_set(d, q, DECODE_WAITING);
    } else if (msg->type == MESSAGE_ABORT_REQUEST && cell(d->s, &d->l->failed, q) == 0) {
        if (stage == DECODE_RUNNING) { /* one more forward, then a normal release */
            cell_set(d->s, &d->l->failed, q, 1);
        } else if (stage == DECODE_WAITING || stage == DECODE_TRANSFER) {
            cell_set(d->s, &d->l->failed, q, 1);
            scheduler_at(d, q, SCHEDULER_ABORT_ACCEPTED, POINT_ABORT_ACCEPT, POINT_STATUS_NONE);
        }
    } /* an unknown request id is ignored, and still answered 200 (managers/scheduler.py) */
}

/* Counts each part of a transfer once. True when this one was the last that was missing. */
static bool part_arrives(struct decode *d, uint32_t current, uint32_t part)
{
    uint32_t first = (current - 1) * d->m->parts_max, parts, seen = 0;

    if (!current || cell(d->s, &d->l->stage, current - 1) != DECODE_TRANSFER ||
        cell(d->s, &d->l->arrived, first + part))
        return false;
    cell_set(d->s, &d->l->arrived, first + part, 1);
    parts = request_of(d, current - 1)->chunks + 2;
    for (uint32_t i = 0; i < parts; i++)
        seen += cell(d->s, &d->l->arrived, first + i);
    return seen + MUTANT(15) == parts;
}

static void receiver_message(struct decode *d, const struct message *msg, uint32_t q)
{
    uint32_t room = d->m->rooms[q], current = cell(d->s, &d->l->room_request, room);
    enum point_status status = POINT_STATUS_DROPPED;

    if (msg->type == MESSAGE_NOTIFY) {
        if (!part_arrives(d, current, msg->part))
            return;
        cell_set(d->s, &d->l->status, current - 1, STATUS_SUCCESS);
        cell_set(d->s, &d->l->receiver.pc, 0, RECEIVER_AT_POINT);
        point(d, ACTOR_RECEIVER, POINT_STATUS_RECEIVE, q, POINT_STATUS_SUCCESS);
        return;
    }
    cell_set(d->s, &d->l->receiver.pc, 0, RECEIVER_AT_POINT);
    if (msg->type == MESSAGE_STATUS) {
        if (current && cell(d->s, &d->l->stage, current - 1) == DECODE_TRANSFER) {
            unsigned old = cell(d->s, &d->l->status, current - 1);

            status = msg->status;
            if (status == POINT_STATUS_FAILED)
                cell_set(d->s, &d->l->status, current - 1, STATUS_FAILED);
            else if (old != STATUS_FAILED || !d->c->policy.engine[ENGINE_FAILED_STICKY])
                cell_set(d->s, &d->l->status, current - 1, STATUS_SUCCESS);
        }
        point(d, ACTOR_RECEIVER, POINT_STATUS_RECEIVE, q, status);
        return;
    }
    /* Acks count only while the tracker is armed: protection against a room that is used again. */
    if (msg->status == POINT_STATUS_DRAINED && (cell(d->s, &d->l->room_armed, room) || MUTANT(11))) {
        cell_set(d->s, &d->l->room_acks, room, cell(d->s, &d->l->room_acks, room) + 1);
        status = POINT_STATUS_COUNTED;
    }
    point(d, ACTOR_RECEIVER, POINT_ACK_RECEIVE, q, status);
}

static void scheduler_done(struct decode *d, const struct event *e)
{
    if (e->effect == EFFECT_FORWARD) {
        batch_next(d);
        return;
    }
    if (e->effect == EFFECT_FENCE) {
        cell_set(d->s, &d->l->fence, d->c->requests[e->request].decode_local, FENCE_UP);
        return;
    }
    cell_set(d->s, &d->l->aux, d->c->requests[e->request].decode_local,
             e->status == POINT_STATUS_OWN ? AUX_OWN : AUX_FOREIGN);
}

/* --- the contract --- */

void decode_step(const struct config *c, uint32_t machine, uint8_t *state, const struct event *e, struct actions *out)
{
    struct decode d = open_machine(c, machine, state, out);

    switch (e->type) {
    case EVENT_TIMER:
        cell_set(state, &d.l->expired, c->requests[e->request].decode_local, 1);
        break;
    case EVENT_MESSAGE:
        if (e->actor == ACTOR_SCHEDULER)
            scheduler_message(&d, &e->message, c->requests[e->message.request].decode_local);
        else
            receiver_message(&d, &e->message, c->requests[e->message.request].decode_local);
        break;
    case EVENT_DONE:
        scheduler_done(&d, e);
        break;
    case EVENT_GO:
        if (e->actor == ACTOR_SCHEDULER)
            scheduler_go(&d, e->choice);
        else
            cell_set(state, &d.l->receiver.pc, 0, RECEIVER_IDLE);
        break;
    }
}

struct ready decode_ready(const struct config *c, uint32_t machine, const uint8_t *state, uint32_t actor)
{
    struct decode d = look_at(c, machine, state);
    const struct ready go = { READY_GO, 1 }, idle = { READY_IDLE, 0 }, waiting = { READY_WAITING, 0 };
    uint32_t q = cell(state, &d.l->scheduler.request, 0) - 1;

    if (actor == ACTOR_RECEIVER)
        return cell(state, &d.l->receiver.pc, 0) == RECEIVER_IDLE ? idle : go;
    switch (cell(state, &d.l->scheduler.pc, 0)) {
    case SCHEDULER_IDLE:
        return find_hold(&d, &q) || find_waiting(&d, &q) || find_transfer(&d, &q) || find_runnable(&d, &q) ||
                       find_given_up(&d, &q)
                   ? go
                   : idle;
    case SCHEDULER_FORWARD:
        return waiting;
    case SCHEDULER_PICK:
        return (struct ready){ READY_GO, cell(state, &pick_pool(&d, q)->free_len, 0) };
    case SCHEDULER_PICK_GROWTH:
        return (struct ready){ READY_GO, cell(state, &d.l->page_pool.free_len, 0) };
    default:
        return go;
    }
}

bool decode_local(const struct config *c, uint32_t machine, const uint8_t *state, uint32_t actor)
{
    struct decode d = look_at(c, machine, state);
    bool holds = c->policy.core[CORE_FREE] == FREE_HOLD, arms_first = c->policy.core[CORE_ARM] == ARM_BEFORE_SEND;

    if (actor == ACTOR_RECEIVER)
        return cell(state, &d.l->receiver.pc, 0) == RECEIVER_AT_POINT;
    switch (cell(state, &d.l->scheduler.pc, 0)) {
    case SCHEDULER_ALLOCATED: /* a send only enables */
    case SCHEDULER_ARMED_FIRST:
    case SCHEDULER_ARMED:
    case SCHEDULER_COMMITTED:
        return true;
    case SCHEDULER_ABORT_ACCEPTED:
        return !holds || !arms_first;
    case SCHEDULER_ABORT_SENT:
        return !holds || arms_first;
    case SCHEDULER_TOKEN: /* within a batch nothing but the program counter moves */
        return cell(state, &d.l->phase, 0) == PHASE_STEP;
    default:
        return false;
    }
}

bool decode_idle(const struct config *c, uint32_t machine, const uint8_t *state, uint32_t actor)
{
    const struct decode_layout *l = &c->machines[machine].decode;

    return cell(state, actor == ACTOR_SCHEDULER ? &l->scheduler.pc : &l->receiver.pc, 0) == 0;
}

bool decode_awaits(const struct config *c, uint32_t machine, const uint8_t *state, uint32_t actor, enum effect effect,
                   uint32_t request)
{
    const struct decode_layout *l = &c->machines[machine].decode;
    unsigned pc = cell(state, &l->scheduler.pc, 0);

    if (actor != ACTOR_SCHEDULER)
        return false;
    if (effect == EFFECT_FORWARD)
        return pc == SCHEDULER_FORWARD;
    /* Both only set a flag that the next iteration looks at: they wait for nobody. */
    if (effect == EFFECT_FENCE)
        return cell(state, &l->fence, c->requests[request].decode_local) == FENCE_POSTED;
    return effect == EFFECT_AUX_READ && cell(state, &l->aux, c->requests[request].decode_local) == AUX_READING;
}

bool decode_timer(const struct config *c, uint32_t machine, const uint8_t *state, uint32_t request)
{
    const struct decode_layout *l = &c->machines[machine].decode;
    uint32_t q = c->requests[request].decode_local;

    return c->policy.core[CORE_HOLD_ENDS_BY_TIMER] && cell(state, &l->stage, q) == DECODE_HELD &&
           cell(state, &l->expired, q) == 0;
}

bool decode_at_point(const struct config *c, uint32_t machine, const uint8_t *state, uint32_t actor)
{
    const struct decode_layout *l = &c->machines[machine].decode;

    if (actor == ACTOR_RECEIVER)
        return cell(state, &l->receiver.pc, 0) != RECEIVER_IDLE;
    return cell(state, &l->scheduler.pc, 0) >= SCHEDULER_ALLOCATED;
}

void decode_init(const struct config *c, uint32_t machine, uint8_t *state)
{
    const struct decode_layout *l = &c->machines[machine].decode;

    allocator_init(&l->page_pool, state);
    allocator_init(&l->slot_pool, state);
    allocator_init(&l->aux_pool, state);
    allocator_init(&l->request_pool, state);
}

bool decode_troubled(const struct config *c, uint32_t machine, const uint8_t *state, uint32_t request)
{
    const struct decode_layout *l = &c->machines[machine].decode;
    uint32_t q = c->requests[request].decode_local;

    return cell(state, &l->failed, q) || cell(state, &l->status, q) == STATUS_FAILED;
}
