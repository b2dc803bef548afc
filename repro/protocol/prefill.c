/*
 * The prefill machine: scheduler, control receiver, transfer workers. What it keeps of the real system is in DESIGN
 * section 5; the worker's order is SGLang 90354326c7 disaggregation/mooncake/conn.py transfer_worker.
 */
#include "prefill.h"

#include <stddef.h>

#include "../mutant.h"
#include "allocator.h"

/* A room's status; the order matters: a status is replaced by the larger one, and failed is the smallest
 * (disaggregation/base/conn.py KVPoll, common/conn.py update_status). */
enum { ROOM_UNKNOWN, ROOM_FAILED, ROOM_BOOTSTRAPPING, ROOM_WAITING_FOR_INPUT, ROOM_SUCCESS };

enum { STAGE_NONE, STAGE_WAITING, STAGE_COMPUTING, STAGE_IN_FLIGHT, STAGE_RELEASED, STAGE_ANSWERED };

enum {
    SCHEDULER_IDLE,
    SCHEDULER_FORWARD, /* waits for the model */
    SCHEDULER_ENQUEUED,
    SCHEDULER_FAILURE_SEEN,
    SCHEDULER_CLEARED,
    SCHEDULER_RELEASED,
    SCHEDULER_ANSWERED
};

enum { RECEIVER_IDLE, RECEIVER_ABORT, RECEIVER_ACKED };

enum {
    WORKER_IDLE,
    WORKER_DEQUEUED,
    WORKER_COUNTED,
    WORKER_CHECKED,
    WORKER_SENDING,
    WORKER_RECHECKED,
    WORKER_KV_POSTED,
    WORKER_KV_WAITS,
    WORKER_KV_COMPLETE,
    WORKER_STATE_POSTED,
    WORKER_STATE_WAITS,
    WORKER_AUX_POSTED,
    WORKER_AUX_WAITS,
    WORKER_POLLS, /* asynchronous engines: waits for all handles, and stops at the first error */
    WORKER_STATUS_SENT,
    WORKER_DONE,
    WORKER_ACKED
};

/* What every function here works on. `q` is a local request number throughout. */
struct prefill {
    const struct config *c;
    const struct machine_config *m;
    const struct prefill_layout *l;
    uint8_t *s;
    struct actions *out;
};

static struct prefill open_machine(const struct config *c, uint32_t machine, uint8_t *state, struct actions *out)
{
    return (struct prefill){c, &c->machines[machine], &c->machines[machine].prefill, state, out};
}

/* For the questions that change nothing: machine_ready() and its like. */
static struct prefill look_at(const struct config *c, uint32_t machine, const uint8_t *state)
{
    return open_machine(c, machine, (uint8_t *)(uintptr_t)state, NULL);
}

static void point(struct prefill *p, uint32_t actor, enum point at, uint32_t q, uint32_t chunk, enum point_status status)
{
    struct action *a = act(p->out, ACTION_POINT);

    a->actor = actor;
    a->point = at;
    a->request = p->m->requests[q];
    a->chunk = chunk;
    a->status = status;
}

static void send(struct prefill *p, enum message_type type, uint32_t to, uint32_t q, enum point_status status)
{
    struct action *a = act(p->out, ACTION_SEND);

    a->message = type;
    a->to = to;
    a->request = p->m->requests[q];
    a->status = status;
}

static void effect_action(struct prefill *p, enum action_type type, uint32_t actor, enum effect effect, uint32_t q,
                          uint32_t chunk)
{
    struct action *a = act(p->out, type);

    a->actor = actor;
    a->effect = effect;
    a->request = p->m->requests[q];
    a->chunk = chunk;
}

static uint32_t decode_of(const struct prefill *p, uint32_t q) { return p->c->requests[p->m->requests[q]].decode; }

/* --- rooms --- */

static void room_update(struct prefill *p, uint32_t room, unsigned status)
{
    unsigned old = cell(p->s, &p->l->room_status, room);

    if (old == ROOM_UNKNOWN && status == ROOM_FAILED)
        return;
    if (old == ROOM_FAILED && p->c->policy.engine[ENGINE_FAILED_STICKY])
        return;
    if (status == ROOM_FAILED || status > old)
        cell_set(p->s, &p->l->room_status, room, status);
}

static void room_clear(struct prefill *p, uint32_t room)
{
    unsigned keep = p->c->policy.core[CORE_CLEAR_KEEPS_TARGET];

    cell_set(p->s, &p->l->room_status, room, ROOM_UNKNOWN);
    cell_set(p->s, &p->l->room_slot, room, 0);
    cell_set(p->s, &p->l->room_aux, room, 0);
    for (uint32_t i = 0; i < p->m->prompt_pages_max; i++)
        cell_set(p->s, &p->l->room_pages, room * p->m->prompt_pages_max + i, 0);
    if (MUTANT(1))
        return;
    if (keep == CLEAR_KEEPS_NEVER ||
        (keep == CLEAR_KEEPS_WHILE_OUTSTANDING && cell(p->s, &p->l->room_outstanding, room) == 0))
        cell_set(p->s, &p->l->room_target, room, 0);
}

static void room_count(struct prefill *p, uint32_t room, int by)
{
    unsigned outstanding = cell(p->s, &p->l->room_outstanding, room);

    assert(by > 0 || outstanding > 0);
    cell_set(p->s, &p->l->room_outstanding, room, (unsigned)((int)outstanding + by));
}

/* The drain ack, at most once a target (common/conn.py _maybe_ack_drained_abort). */
static bool room_try_ack(struct prefill *p, uint32_t actor, uint32_t q)
{
    uint32_t room = p->m->rooms[q];
    unsigned target = cell(p->s, &p->l->room_target, room);

    if (p->c->policy.core[CORE_ABORT_ACK] != ABORT_ACK_DRAINED || target == 0 ||
        (cell(p->s, &p->l->room_outstanding, room) != 0 && !MUTANT(2)))
        return false;
    cell_set(p->s, &p->l->room_target, room, 0);
    send(p, MESSAGE_ACK, target - 1, q, POINT_STATUS_DRAINED);
    point(p, actor, POINT_ACK_SEND, q, 0, POINT_STATUS_DRAINED);
    return true;
}

/* --- the source: pages and slot of a request --- */

static bool chunk_somewhere(const struct prefill *p, uint32_t q)
{
    uint32_t queued = cell(p->s, &p->l->queue_len, 0);

    for (uint32_t i = 0; i < queued; i++)
        if (cell(p->s, &p->l->queue, i) == q)
            return true;
    for (uint32_t k = 0; k < p->m->workers; k++)
        if (cell(p->s, &p->l->workers[k].actor.request, 0) == q + 1)
            return true;
    return false;
}

static void forget_source(struct prefill *p, uint32_t q)
{
    unsigned stage = cell(p->s, &p->l->stage, q);

    if ((stage != STAGE_RELEASED && stage != STAGE_ANSWERED) || chunk_somewhere(p, q))
        return;
    cell_set(p->s, &p->l->slot, q, 0);
    for (uint32_t i = 0; i < p->m->prompt_pages_max; i++)
        cell_set(p->s, &p->l->pages, q * p->m->prompt_pages_max + i, 0);
}

static bool source_fits(const struct prefill *p, uint32_t q)
{
    return allocator_available(&p->l->page_pool, p->s) >= p->c->requests[p->m->requests[q]].prompt_pages &&
           allocator_available(&p->l->slot_pool, p->s) >= 1;
}

static void source_alloc(struct prefill *p, uint32_t q)
{
    const struct request_config *r = &p->c->requests[p->m->requests[q]];

    allocator_want(&p->l->page_pool, p->s, r->prompt_tokens / p->c->page_tokens + 2);
    for (uint32_t i = 0; i < r->prompt_pages; i++)
        cell_set(p->s, &p->l->pages, q * p->m->prompt_pages_max + i, allocator_take(&p->l->page_pool, p->s, 0));
    allocator_want(&p->l->slot_pool, p->s, 1);
    cell_set(p->s, &p->l->slot, q, allocator_take(&p->l->slot_pool, p->s, 0));
}

static void source_release(struct prefill *p, uint32_t q)
{
    unsigned stage = cell(p->s, &p->l->stage, q);

    if (stage == STAGE_IN_FLIGHT) {
        allocator_give(&p->l->page_pool, p->s, &p->l->pages, q * p->m->prompt_pages_max,
                       p->c->requests[p->m->requests[q]].prompt_pages);
        allocator_give(&p->l->slot_pool, p->s, &p->l->slot, q, 1);
    }
    cell_set(p->s, &p->l->stage, q, STAGE_RELEASED);
    forget_source(p, q);
}

/* --- scheduler --- */

static void order_remove(struct prefill *p, uint32_t q)
{
    uint32_t len = cell(p->s, &p->l->order_len, 0), to = 0;

    for (uint32_t i = 0; i < len; i++)
        if (cell(p->s, &p->l->order, i) != q)
            cell_set(p->s, &p->l->order, to++, cell(p->s, &p->l->order, i));
    assert(to + 1 == len);
    cell_set(p->s, &p->l->order, to, 0);
    cell_set(p->s, &p->l->order_len, 0, to);
}

enum work { WORK_NONE, WORK_FAILURE, WORK_SUCCESS, WORK_FORWARD, WORK_NEXT_CHUNK };

/* One round of the scheduler's loop: rooms in flight are polled first, then the model runs. A computing request goes on
 * before a new one starts. */
static enum work scheduler_work(const struct prefill *p, uint32_t *of)
{
    uint32_t len = cell(p->s, &p->l->order_len, 0);

    for (uint32_t i = 0; i < len; i++) {
        uint32_t q = cell(p->s, &p->l->order, i), room = p->m->rooms[q];
        unsigned stage = cell(p->s, &p->l->stage, q), status = cell(p->s, &p->l->room_status, room);

        *of = q;
        if ((stage == STAGE_WAITING || stage == STAGE_IN_FLIGHT) && status == ROOM_FAILED)
            return WORK_FAILURE;
        /* Only success waits for the outstanding chunks; failure doesn't (facts: pd-protocol 4.3). */
        if (stage == STAGE_IN_FLIGHT && status == ROOM_SUCCESS &&
            (cell(p->s, &p->l->room_outstanding, room) == 0 || MUTANT(4)))
            return WORK_SUCCESS;
    }
    for (uint32_t i = 0; i < len; i++) {
        *of = cell(p->s, &p->l->order, i);
        if (cell(p->s, &p->l->stage, *of) == STAGE_COMPUTING)
            return WORK_NEXT_CHUNK;
    }
    for (uint32_t i = 0; i < len; i++) {
        *of = cell(p->s, &p->l->order, i);
        if (cell(p->s, &p->l->stage, *of) == STAGE_WAITING &&
            cell(p->s, &p->l->room_status, p->m->rooms[*of]) >= ROOM_WAITING_FOR_INPUT && source_fits(p, *of))
            return WORK_FORWARD;
    }
    return WORK_NONE;
}

static void scheduler_forward(struct prefill *p, uint32_t q)
{
    uint32_t chunk = cell(p->s, &p->l->chunks_computed, q);

    cell_set(p->s, &p->l->stage, q, STAGE_COMPUTING);
    cell_set(p->s, &p->l->scheduler.request, 0, q + 1);
    cell_set(p->s, &p->l->scheduler.chunk, 0, chunk);
    cell_set(p->s, &p->l->scheduler.pc, 0, SCHEDULER_FORWARD);
    effect_action(p, ACTION_POST, ACTOR_SCHEDULER, EFFECT_FORWARD, q, chunk);
}

static void scheduler_begin(struct prefill *p)
{
    uint32_t q = 0;

    switch (scheduler_work(p, &q)) {
    case WORK_NONE:
        break;
    case WORK_FAILURE:
        cell_set(p->s, &p->l->scheduler.request, 0, q + 1);
        cell_set(p->s, &p->l->scheduler.status, 0, POINT_STATUS_ABORT);
        cell_set(p->s, &p->l->scheduler.pc, 0, SCHEDULER_FAILURE_SEEN);
        point(p, ACTOR_SCHEDULER, POINT_FAILURE_SEE, q, 0, POINT_STATUS_NONE);
        break;
    case WORK_SUCCESS:
        /* The order of the success path differs: release, then clear. Nothing is outstanding, so nobody can tell. */
        cell_set(p->s, &p->l->scheduler.request, 0, q + 1);
        cell_set(p->s, &p->l->scheduler.status, 0, POINT_STATUS_OK);
        cell_set(p->s, &p->l->scheduler.pc, 0, SCHEDULER_CLEARED);
        room_clear(p, p->m->rooms[q]);
        point(p, ACTOR_SCHEDULER, POINT_ROOM_CLEAR, q, 0, POINT_STATUS_NONE);
        break;
    case WORK_FORWARD:
        source_alloc(p, q);
        scheduler_forward(p, q);
        break;
    case WORK_NEXT_CHUNK:
        scheduler_forward(p, q);
        break;
    }
}

static void scheduler_idle(struct prefill *p)
{
    cell_set(p->s, &p->l->scheduler.pc, 0, SCHEDULER_IDLE);
    cell_set(p->s, &p->l->scheduler.request, 0, 0);
    cell_set(p->s, &p->l->scheduler.chunk, 0, 0);
    cell_set(p->s, &p->l->scheduler.status, 0, 0);
}

static void scheduler_go(struct prefill *p)
{
    uint32_t q = cell(p->s, &p->l->scheduler.request, 0) - 1;
    struct action *answer;

    switch (cell(p->s, &p->l->scheduler.pc, 0)) {
    case SCHEDULER_IDLE:
        scheduler_begin(p);
        break;
    case SCHEDULER_FAILURE_SEEN:
        room_clear(p, p->m->rooms[q]);
        cell_set(p->s, &p->l->scheduler.pc, 0, SCHEDULER_CLEARED);
        point(p, ACTOR_SCHEDULER, POINT_ROOM_CLEAR, q, 0, POINT_STATUS_NONE);
        break;
    case SCHEDULER_CLEARED:
        source_release(p, q);
        cell_set(p->s, &p->l->scheduler.pc, 0, SCHEDULER_RELEASED);
        point(p, ACTOR_SCHEDULER, POINT_SOURCE_RELEASE, q, 0, POINT_STATUS_NONE);
        break;
    case SCHEDULER_RELEASED:
        order_remove(p, q);
        cell_set(p->s, &p->l->stage, q, STAGE_ANSWERED);
        cell_set(p->s, &p->l->chunks_computed, q, 0);
        answer = act(p->out, ACTION_ANSWER);
        answer->request = p->m->requests[q];
        answer->status = (enum point_status)cell(p->s, &p->l->scheduler.status, 0);
        cell_set(p->s, &p->l->scheduler.pc, 0, SCHEDULER_ANSWERED);
        point(p, ACTOR_SCHEDULER, POINT_CLIENT_ANSWER, q, 0, answer->status);
        break;
    case SCHEDULER_ENQUEUED:
    case SCHEDULER_ANSWERED:
        scheduler_idle(p);
        break;
    default:
        assert(0 && "a scheduler that waits can't go");
    }
}

static void scheduler_computed(struct prefill *p)
{
    uint32_t q = cell(p->s, &p->l->scheduler.request, 0) - 1, chunk = cell(p->s, &p->l->scheduler.chunk, 0);
    uint32_t queued = cell(p->s, &p->l->queue_len, 0), chunks = p->c->requests[p->m->requests[q]].chunks;

    cell_set(p->s, &p->l->queue, queued, q);
    cell_set(p->s, &p->l->queue_chunk, queued, chunk);
    cell_set(p->s, &p->l->queue_len, 0, queued + 1);
    cell_set(p->s, &p->l->chunks_computed, q, chunk + 1);
    if (chunk + 1 == chunks)
        cell_set(p->s, &p->l->stage, q, STAGE_IN_FLIGHT);
    cell_set(p->s, &p->l->scheduler.pc, 0, SCHEDULER_ENQUEUED);
    point(p, ACTOR_SCHEDULER, POINT_CHUNK_ENQUEUE, q, chunk, POINT_STATUS_NONE);
}

static void scheduler_message(struct prefill *p, const struct message *msg, uint32_t q)
{
    uint32_t room = p->m->rooms[q], len = cell(p->s, &p->l->order_len, 0);
    unsigned stage = cell(p->s, &p->l->stage, q);

    if (msg->type == MESSAGE_SUBMIT && stage == STAGE_NONE) {
        cell_set(p->s, &p->l->stage, q, STAGE_WAITING);
        cell_set(p->s, &p->l->order, len, q);
        cell_set(p->s, &p->l->order_len, 0, len + 1);
        room_update(p, room, ROOM_BOOTSTRAPPING);
    } else if (msg->type == MESSAGE_ABORT_REQUEST &&
               (stage == STAGE_WAITING || stage == STAGE_COMPUTING || stage == STAGE_IN_FLIGHT)) {
        room_update(p, room, ROOM_FAILED);
    } /* an unknown request id is ignored, and still answered 200 (facts: pd-protocol 4.1) */
}

/* --- receiver --- */

static void receiver_ack(struct prefill *p, uint32_t q, uint32_t to, enum point_status status)
{
    send(p, MESSAGE_ACK, to, q, status);
    cell_set(p->s, &p->l->receiver.pc, 0, RECEIVER_ACKED);
    point(p, ACTOR_RECEIVER, POINT_ACK_SEND, q, 0, status);
}

static void receiver_idle(struct prefill *p)
{
    cell_set(p->s, &p->l->receiver.pc, 0, RECEIVER_IDLE);
    cell_set(p->s, &p->l->receiver.request, 0, 0);
    cell_set(p->s, &p->l->receiver.peer, 0, 0);
}

static void receiver_metadata(struct prefill *p, const struct message *msg, uint32_t q)
{
    const struct config *c = p->c;
    uint32_t room = p->m->rooms[q], n = c->requests[msg->request].prompt_pages;

    for (uint32_t i = 0; i < n; i++)
        cell_set(p->s, &p->l->room_pages, room * p->m->prompt_pages_max + i,
                 cell(msg->world, &c->metadata_pages, msg->request * c->prompt_pages_max + i));
    cell_set(p->s, &p->l->room_slot, room, cell(msg->world, &c->metadata_slot, msg->request));
    cell_set(p->s, &p->l->room_aux, room, cell(msg->world, &c->metadata_aux, msg->request));
    room_update(p, room, ROOM_WAITING_FOR_INPUT);
}

static void receiver_abort(struct prefill *p, const struct message *msg, uint32_t q)
{
    const uint32_t *core = p->c->policy.core;
    uint32_t room = p->m->rooms[q];
    unsigned status = cell(p->s, &p->l->room_status, room), cleared_ack = core[CORE_ACK_CLEARED_ROOM];
    bool drained = cell(p->s, &p->l->room_outstanding, room) == 0;

    if (status != ROOM_UNKNOWN && status != ROOM_SUCCESS) {
        room_update(p, room, ROOM_FAILED);
        cell_set(p->s, &p->l->receiver.request, 0, q + 1);
        cell_set(p->s, &p->l->receiver.peer, 0, msg->from + 1);
        cell_set(p->s, &p->l->receiver.pc, 0, RECEIVER_ABORT);
        point(p, ACTOR_RECEIVER, POINT_ABORT_RECEIVE, q, 0, POINT_STATUS_NONE);
    } else if (core[CORE_ABORT_ACK] == ABORT_ACK_RECEIVED) {
        receiver_ack(p, q, msg->from, POINT_STATUS_RECEIVED);
    } else if (core[CORE_ABORT_ACK] == ABORT_ACK_DRAINED) {
        if (cleared_ack == ACK_CLEARED_ALWAYS || (cleared_ack == ACK_CLEARED_WHEN_DRAINED && (drained || MUTANT(7))))
            receiver_ack(p, q, msg->from, POINT_STATUS_DRAINED);
        else if (!drained && core[CORE_CLEARED_ROOM_REGISTERS])
            cell_set(p->s, &p->l->room_target, room, msg->from + 1);
    }
}

static void receiver_go(struct prefill *p)
{
    uint32_t q = cell(p->s, &p->l->receiver.request, 0) - 1, peer = cell(p->s, &p->l->receiver.peer, 0);
    unsigned pc = cell(p->s, &p->l->receiver.pc, 0), ack = p->c->policy.core[CORE_ABORT_ACK];

    receiver_idle(p);
    if (pc != RECEIVER_ABORT)
        return;
    if (ack == ABORT_ACK_RECEIVED) {
        receiver_ack(p, q, peer - 1, POINT_STATUS_RECEIVED);
    } else if (ack == ABORT_ACK_DRAINED) {
        cell_set(p->s, &p->l->room_target, p->m->rooms[q], peer);
        if (p->c->policy.core[CORE_ACK_LIVE_ROOM] && room_try_ack(p, ACTOR_RECEIVER, q))
            cell_set(p->s, &p->l->receiver.pc, 0, RECEIVER_ACKED);
    }
}

/* --- transfer workers --- */

/* All rooms of one decode machine share one queue (facts: pd-protocol 1.3). */
static uint32_t queue_of(const struct prefill *p, uint32_t q)
{
    return (decode_of(p, q) - p->c->prefill_len) % p->m->workers;
}

/* Index in the list of the first chunk of worker k's queue; the list's length if there is none. */
static uint32_t queue_head(const struct prefill *p, uint32_t k)
{
    uint32_t len = cell(p->s, &p->l->queue_len, 0), i = 0;

    while (i < len && queue_of(p, cell(p->s, &p->l->queue, i)) != k)
        i++;
    return i;
}

static void queue_remove(struct prefill *p, uint32_t at)
{
    uint32_t len = cell(p->s, &p->l->queue_len, 0);

    for (uint32_t i = at + 1; i < len; i++) {
        cell_set(p->s, &p->l->queue, i - 1, cell(p->s, &p->l->queue, i));
        cell_set(p->s, &p->l->queue_chunk, i - 1, cell(p->s, &p->l->queue_chunk, i));
    }
    cell_set(p->s, &p->l->queue, len - 1, 0);
    cell_set(p->s, &p->l->queue_chunk, len - 1, 0);
    cell_set(p->s, &p->l->queue_len, 0, len - 1);
}

/* One transfer worker at work on one chunk. */
struct work_unit {
    const struct worker_layout *w;
    uint32_t actor, q, chunk, room;
};

static void worker_at(struct prefill *p, const struct work_unit *u, unsigned pc, enum point at, enum point_status status)
{
    cell_set(p->s, &u->w->actor.pc, 0, pc);
    point(p, u->actor, at, u->q, u->chunk, status);
}

static void worker_idle(struct prefill *p, const struct work_unit *u)
{
    cell_set(p->s, &u->w->actor.pc, 0, WORKER_IDLE);
    cell_set(p->s, &u->w->actor.request, 0, 0);
    cell_set(p->s, &u->w->actor.chunk, 0, 0);
    cell_set(p->s, &u->w->actor.status, 0, 0);
    forget_source(p, u->q);
}

static void worker_forget_destination(struct prefill *p, const struct work_unit *u)
{
    for (uint32_t i = 0; i < p->m->chunk_pages_max; i++)
        cell_set(p->s, &u->w->dest_pages, i, 0);
    cell_set(p->s, &u->w->dest_slot, 0, 0);
    cell_set(p->s, &u->w->dest_aux, 0, 0);
}

static void worker_copy_destination(struct prefill *p, const struct work_unit *u)
{
    uint32_t first = u->room * p->m->prompt_pages_max + chunk_first(p->c, u->chunk);
    uint32_t n = chunk_pages(p->c, p->m->requests[u->q], u->chunk);

    for (uint32_t i = 0; i < n; i++)
        cell_set(p->s, &u->w->dest_pages, i, cell(p->s, &p->l->room_pages, first + i));
    cell_set(p->s, &u->w->dest_slot, 0, cell(p->s, &p->l->room_slot, u->room));
    cell_set(p->s, &u->w->dest_aux, 0, cell(p->s, &p->l->room_aux, u->room));
}

static bool room_gone(const struct prefill *p, uint32_t room)
{
    unsigned status = cell(p->s, &p->l->room_status, room);

    return status == ROOM_UNKNOWN || status == ROOM_FAILED;
}

static void worker_done(struct prefill *p, const struct work_unit *u, enum point_status status)
{
    worker_forget_destination(p, u);
    if (status != POINT_STATUS_ERROR || !p->c->policy.engine[ENGINE_ERROR_KEEPS_COUNT] || MUTANT(5))
        room_count(p, u->room, -1);
    worker_at(p, u, WORKER_DONE, POINT_CHUNK_DONE, status);
}

static bool polls(const struct prefill *p)
{
    return p->c->policy.engine[ENGINE_POSTING] == POSTING_ASYNC;
}

static bool counts_at_dequeue(const struct prefill *p)
{
    return p->c->policy.core[CORE_COUNT_AT] == COUNT_AT_DEQUEUE;
}

/* A fence that takes more than the room's keys ends the session; what is published later belongs to a new one, which is
 * not on the blacklist. */
static bool session_renewed(const struct prefill *p)
{
    return p->c->policy.core[CORE_FREE] == FREE_FENCE && p->c->policy.core[CORE_FENCE_SCOPE] != FENCE_ROOM;
}

static bool is_error(unsigned status)
{
    return status == POINT_STATUS_ERROR || status == POINT_STATUS_REFUSED;
}

static void worker_fail(struct prefill *p, const struct work_unit *u)
{
    uint32_t decode = decode_of(p, u->q);
    bool refused = cell(p->s, &u->w->actor.status, 0) == POINT_STATUS_REFUSED;

    if (p->c->policy.engine[ENGINE_BLACKLIST] && !MUTANT(8) && !(refused && session_renewed(p)))
        cell_set(p->s, &p->l->session_failed, decode - p->c->prefill_len, 1);
    room_update(p, u->room, ROOM_FAILED);
    cell_set(p->s, &u->w->actor.status, 0, POINT_STATUS_ERROR);
    if (p->c->policy.engine[ENGINE_NOTICE] != NOTICE_STATUS) { /* nobody tells decode */
        worker_done(p, u, POINT_STATUS_ERROR);
        return;
    }
    send(p, MESSAGE_STATUS, decode, u->q, POINT_STATUS_FAILED);
    worker_at(p, u, WORKER_STATUS_SENT, POINT_STATUS_SEND, POINT_STATUS_FAILED);
}

static void worker_check(struct prefill *p, const struct work_unit *u)
{
    if (p->c->policy.engine[ENGINE_UNKNOWN_ROOM] == UNKNOWN_ROOM_FAIL &&
        cell(p->s, &p->l->room_status, u->room) == ROOM_UNKNOWN) {
        cell_set(p->s, &u->w->actor.status, 0, POINT_STATUS_ERROR);
        worker_at(p, u, WORKER_CHECKED, POINT_CHUNK_CHECK, POINT_STATUS_ERROR);
        return;
    }
    if (room_gone(p, u->room) && !MUTANT(3)) {
        cell_set(p->s, &u->w->actor.status, 0, POINT_STATUS_SKIP);
        worker_at(p, u, WORKER_CHECKED, POINT_CHUNK_CHECK, POINT_STATUS_SKIP);
        return;
    }
    worker_copy_destination(p, u);
    if (cell(p->s, &p->l->session_failed, decode_of(p, u->q) - p->c->prefill_len))
        cell_set(p->s, &u->w->actor.status, 0, POINT_STATUS_ERROR);
    worker_at(p, u, WORKER_CHECKED, POINT_CHUNK_CHECK,
              cell(p->s, &u->w->actor.status, 0) ? POINT_STATUS_ERROR : POINT_STATUS_OK);
}

static void worker_post(struct prefill *p, const struct work_unit *u, enum effect effect, unsigned pc, enum point at)
{
    effect_action(p, ACTION_POST, u->actor, effect, u->q, u->chunk);
    if (polls(p))
        cell_set(p->s, &u->w->handles, 0, cell(p->s, &u->w->handles, 0) | 1u << (effect - EFFECT_KV));
    worker_at(p, u, pc, at, POINT_STATUS_NONE);
}

static bool last_chunk(const struct prefill *p, const struct work_unit *u)
{
    return u->chunk + 1 == p->c->requests[p->m->requests[u->q]].chunks;
}

/* An asynchronous engine posts KV, state and aux of the last chunk before it polls any of them. */
static void worker_posts_on(struct prefill *p, const struct work_unit *u, unsigned pc)
{
    const uint32_t *core = p->c->policy.core;
    bool gone = room_gone(p, u->room);

    if (pc == WORKER_KV_POSTED && last_chunk(p, u) && !(core[CORE_RECHECK_STATE] && gone))
        worker_post(p, u, EFFECT_STATE, WORKER_STATE_POSTED, POINT_STATE_POST);
    else if (pc == WORKER_STATE_POSTED && !(core[CORE_RECHECK_AUX] && gone))
        worker_post(p, u, EFFECT_AUX, WORKER_AUX_POSTED, POINT_AUX_POST);
    else
        cell_set(p->s, &u->w->actor.pc, 0, WORKER_POLLS);
}

/* Every write of the last chunk is over: the room has succeeded, which revives a cleared one (facts: pd-protocol 1.1). */
static void worker_succeeds(struct prefill *p, const struct work_unit *u)
{
    if (p->c->policy.core[CORE_RECHECK_STATUS] && room_gone(p, u->room)) {
        worker_done(p, u, POINT_STATUS_SKIP);
        return;
    }
    room_update(p, u->room, ROOM_SUCCESS);
    if (p->c->policy.engine[ENGINE_NOTICE] != NOTICE_STATUS) {
        worker_done(p, u, POINT_STATUS_OK);
        return;
    }
    send(p, MESSAGE_STATUS, decode_of(p, u->q), u->q, POINT_STATUS_SUCCESS);
    worker_at(p, u, WORKER_STATUS_SENT, POINT_STATUS_SEND, POINT_STATUS_SUCCESS);
}

/* After the KV write of a chunk: the last chunk drags state, aux and status behind it. */
static void worker_follow(struct prefill *p, const struct work_unit *u)
{
    if (!last_chunk(p, u))
        worker_done(p, u, POINT_STATUS_OK);
    else if (polls(p))
        worker_succeeds(p, u);
    else if (p->c->policy.core[CORE_RECHECK_STATE] && room_gone(p, u->room))
        worker_done(p, u, POINT_STATUS_SKIP);
    else
        worker_post(p, u, EFFECT_STATE, WORKER_STATE_POSTED, POINT_STATE_POST);
}

/* Checked and counted: into the send, unless the session is on the blacklist. */
static void worker_enter(struct prefill *p, const struct work_unit *u)
{
    if (is_error(cell(p->s, &u->w->actor.status, 0)))
        worker_fail(p, u);
    else
        worker_at(p, u, WORKER_SENDING, POINT_SEND_BEGIN, POINT_STATUS_NONE);
}

static void worker_go(struct prefill *p, const struct work_unit *u)
{
    const uint32_t *core = p->c->policy.core;
    bool count_first = counts_at_dequeue(p);
    unsigned pc = cell(p->s, &u->w->actor.pc, 0), status = cell(p->s, &u->w->actor.status, 0);

    switch (pc) {
    case WORKER_DEQUEUED:
        if (count_first) {
            room_count(p, u->room, +1);
            worker_at(p, u, WORKER_COUNTED, POINT_CHUNK_COUNT, POINT_STATUS_NONE);
        } else {
            worker_check(p, u);
        }
        break;
    case WORKER_COUNTED:
        if (count_first)
            worker_check(p, u);
        else
            worker_enter(p, u);
        break;
    case WORKER_CHECKED:
        if (status == POINT_STATUS_SKIP && count_first) {
            worker_done(p, u, POINT_STATUS_SKIP);
        } else if (status == POINT_STATUS_SKIP) {
            worker_at(p, u, WORKER_DONE, POINT_CHUNK_DONE, POINT_STATUS_SKIP); /* was never counted */
        } else if (!count_first) {
            room_count(p, u->room, +1);
            worker_at(p, u, WORKER_COUNTED, POINT_CHUNK_COUNT, POINT_STATUS_NONE);
        } else {
            worker_enter(p, u);
        }
        break;
    case WORKER_SENDING:
        if (!core[CORE_RECHECK_KV]) {
            worker_post(p, u, EFFECT_KV, WORKER_KV_POSTED, POINT_KV_POST);
        } else {
            bool gone = room_gone(p, u->room);

            cell_set(p->s, &u->w->actor.status, 0, gone ? POINT_STATUS_SKIP : 0);
            worker_at(p, u, WORKER_RECHECKED, POINT_KV_RECHECK, gone ? POINT_STATUS_SKIP : POINT_STATUS_OK);
        }
        break;
    case WORKER_RECHECKED:
        if (status == POINT_STATUS_SKIP && !MUTANT(6))
            worker_done(p, u, POINT_STATUS_SKIP);
        else
            worker_post(p, u, EFFECT_KV, WORKER_KV_POSTED, POINT_KV_POST);
        break;
    case WORKER_KV_POSTED:
    case WORKER_STATE_POSTED:
    case WORKER_AUX_POSTED:
        if (polls(p))
            worker_posts_on(p, u, pc);
        else
            cell_set(p->s, &u->w->actor.pc, 0, pc + 1); /* waits for the effect */
        break;
    case WORKER_KV_COMPLETE:
        if (is_error(status))
            worker_fail(p, u);
        else
            worker_follow(p, u);
        break;
    case WORKER_STATUS_SENT:
        worker_done(p, u, status == POINT_STATUS_ERROR ? POINT_STATUS_ERROR : POINT_STATUS_OK);
        break;
    case WORKER_DONE:
        if (room_try_ack(p, u->actor, u->q))
            cell_set(p->s, &u->w->actor.pc, 0, WORKER_ACKED);
        else
            worker_idle(p, u);
        break;
    case WORKER_ACKED:
        worker_idle(p, u);
        break;
    default:
        assert(0 && "a worker that waits can't go");
    }
}

/* One handle of an asynchronous engine. The first error ends the polling; what the others write goes on. */
static void worker_polled(struct prefill *p, const struct work_unit *u, enum effect effect, enum point_status rc)
{
    unsigned handles = cell(p->s, &u->w->handles, 0) & ~(1u << (effect - EFFECT_KV));

    if (is_error(rc)) {
        for (int e = EFFECT_KV; e <= EFFECT_AUX; e++)
            if (handles & 1u << (e - EFFECT_KV))
                effect_action(p, ACTION_ABANDON, u->actor, (enum effect)e, u->q, u->chunk);
        handles = 0;
    }
    cell_set(p->s, &u->w->handles, 0, handles);
    if (handles)
        return;
    cell_set(p->s, &u->w->actor.status, 0, is_error(rc) ? rc : 0);
    worker_at(p, u, WORKER_KV_COMPLETE, POINT_KV_COMPLETE, rc);
}

static void worker_finished(struct prefill *p, const struct work_unit *u, enum effect effect, enum point_status rc)
{
    if (polls(p)) {
        worker_polled(p, u, effect, rc);
    } else if (effect == EFFECT_KV) {
        cell_set(p->s, &u->w->actor.status, 0, is_error(rc) ? rc : 0);
        worker_at(p, u, WORKER_KV_COMPLETE, POINT_KV_COMPLETE, rc);
    } else if (is_error(rc)) {
        cell_set(p->s, &u->w->actor.status, 0, rc);
        worker_fail(p, u);
    } else if (effect == EFFECT_STATE) {
        if (p->c->policy.core[CORE_RECHECK_AUX] && room_gone(p, u->room))
            worker_done(p, u, POINT_STATUS_SKIP);
        else
            worker_post(p, u, EFFECT_AUX, WORKER_AUX_POSTED, POINT_AUX_POST);
    } else {
        worker_succeeds(p, u);
    }
}

static void worker_begin(struct prefill *p, uint32_t k)
{
    const struct worker_layout *w = &p->l->workers[k];
    uint32_t at = queue_head(p, k), q, chunk;

    if (at == cell(p->s, &p->l->queue_len, 0))
        return;
    q = cell(p->s, &p->l->queue, at);
    chunk = cell(p->s, &p->l->queue_chunk, at);
    queue_remove(p, at);
    cell_set(p->s, &w->actor.request, 0, q + 1);
    cell_set(p->s, &w->actor.chunk, 0, chunk);
    cell_set(p->s, &w->actor.pc, 0, WORKER_DEQUEUED);
    point(p, ACTOR_WORKER + k, POINT_CHUNK_DEQUEUE, q, chunk, POINT_STATUS_NONE);
}

/* --- the contract --- */

static const struct actor_layout *actor_of(const struct prefill *p, uint32_t actor)
{
    if (actor == ACTOR_SCHEDULER)
        return &p->l->scheduler;
    return actor == ACTOR_RECEIVER ? &p->l->receiver : &p->l->workers[actor - ACTOR_WORKER].actor;
}

static void worker_step(struct prefill *p, const struct event *e)
{
    uint32_t k = e->actor - ACTOR_WORKER;
    const struct worker_layout *w = &p->l->workers[k];
    uint32_t q1 = cell(p->s, &w->actor.request, 0);
    struct work_unit u;

    if (q1 == 0) {
        worker_begin(p, k);
        return;
    }
    u = (struct work_unit){w, e->actor, q1 - 1, cell(p->s, &w->actor.chunk, 0), p->m->rooms[q1 - 1]};
    if (e->type == EVENT_DONE)
        worker_finished(p, &u, e->effect, e->status);
    else
        worker_go(p, &u);
}

void prefill_step(const struct config *c, uint32_t machine, uint8_t *state, const struct event *e, struct actions *out)
{
    struct prefill p = open_machine(c, machine, state, out);

    if (e->type == EVENT_MESSAGE) {
        uint32_t q = c->requests[e->message.request].prefill_local;

        if (e->actor == ACTOR_SCHEDULER)
            scheduler_message(&p, &e->message, q);
        else if (e->message.type == MESSAGE_METADATA)
            receiver_metadata(&p, &e->message, q);
        else
            receiver_abort(&p, &e->message, q);
    } else if (e->actor == ACTOR_SCHEDULER) {
        if (e->type == EVENT_DONE)
            scheduler_computed(&p);
        else
            scheduler_go(&p);
    } else if (e->actor == ACTOR_RECEIVER) {
        receiver_go(&p);
    } else {
        worker_step(&p, e);
    }
}

struct ready prefill_ready(const struct config *c, uint32_t machine, const uint8_t *state, uint32_t actor)
{
    struct prefill p = look_at(c, machine, state);
    unsigned pc = cell(state, &actor_of(&p, actor)->pc, 0);
    const struct ready go = {READY_GO, 1}, idle = {READY_IDLE, 0}, waiting = {READY_WAITING, 0};
    uint32_t q;

    if (actor == ACTOR_SCHEDULER) {
        if (pc == SCHEDULER_IDLE)
            return scheduler_work(&p, &q) == WORK_NONE ? idle : go;
        return pc == SCHEDULER_FORWARD ? waiting : go;
    }
    if (actor == ACTOR_RECEIVER)
        return pc == RECEIVER_IDLE ? idle : go;
    if (pc == WORKER_IDLE)
        return queue_head(&p, actor - ACTOR_WORKER) < cell(state, &p.l->queue_len, 0) ? go : idle;
    return pc == WORKER_KV_WAITS || pc == WORKER_STATE_WAITS || pc == WORKER_AUX_WAITS || pc == WORKER_POLLS ? waiting : go;
}

bool prefill_local(const struct config *c, uint32_t machine, const uint8_t *state, uint32_t actor)
{
    struct prefill p = look_at(c, machine, state);
    const struct actor_layout *a = actor_of(&p, actor);
    unsigned pc = cell(state, &a->pc, 0), status = cell(state, &a->status, 0);
    const uint32_t *core = c->policy.core;

    if (actor == ACTOR_SCHEDULER)
        return pc == SCHEDULER_ENQUEUED || pc == SCHEDULER_ANSWERED;
    if (actor == ACTOR_RECEIVER)
        return pc == RECEIVER_ACKED;
    switch (pc) {
    case WORKER_CHECKED: /* into the send: the check is over, and what it copied is its own */
        return status == POINT_STATUS_NONE && counts_at_dequeue(&p);
    case WORKER_COUNTED:
        return status == POINT_STATUS_NONE && !counts_at_dequeue(&p);
    case WORKER_SENDING: /* a post only enables: landing is what others notice */
        return !core[CORE_RECHECK_KV];
    case WORKER_RECHECKED:
        return status == POINT_STATUS_NONE;
    case WORKER_KV_COMPLETE:
        return status == POINT_STATUS_NONE && !polls(&p) && !core[CORE_RECHECK_STATE] &&
               cell(state, &a->chunk, 0) + 1 == c->requests[p.m->requests[cell(state, &a->request, 0) - 1]].chunks;
    case WORKER_KV_POSTED:
        return !polls(&p) || !core[CORE_RECHECK_STATE];
    case WORKER_STATE_POSTED:
        return !polls(&p) || !core[CORE_RECHECK_AUX];
    case WORKER_AUX_POSTED:
    case WORKER_ACKED:
        return true;
    default:
        return false;
    }
}

bool prefill_idle(const struct config *c, uint32_t machine, const uint8_t *state, uint32_t actor)
{
    struct prefill p = look_at(c, machine, state);

    return cell(state, &actor_of(&p, actor)->pc, 0) == 0;
}

bool prefill_awaits(const struct config *c, uint32_t machine, const uint8_t *state, uint32_t actor, enum effect effect)
{
    struct prefill p = look_at(c, machine, state);
    unsigned pc = cell(state, &actor_of(&p, actor)->pc, 0);

    if (actor == ACTOR_SCHEDULER)
        return effect == EFFECT_FORWARD && pc == SCHEDULER_FORWARD;
    if (pc == WORKER_POLLS)
        return effect >= EFFECT_KV && effect <= EFFECT_AUX &&
               (cell(state, &p.l->workers[actor - ACTOR_WORKER].handles, 0) & 1u << (effect - EFFECT_KV)) != 0;
    return (effect == EFFECT_KV && pc == WORKER_KV_WAITS) || (effect == EFFECT_STATE && pc == WORKER_STATE_WAITS) ||
           (effect == EFFECT_AUX && pc == WORKER_AUX_WAITS);
}

void prefill_init(const struct config *c, uint32_t machine, uint8_t *state)
{
    const struct prefill_layout *l = &c->machines[machine].prefill;

    allocator_init(&l->page_pool, state);
    allocator_init(&l->slot_pool, state);
}

bool prefill_troubled(const struct config *c, uint32_t machine, const uint8_t *state, uint32_t request)
{
    const struct machine_config *m = &c->machines[machine];
    uint32_t room = m->rooms[c->requests[request].prefill_local];

    return cell(state, &m->prefill.room_status, room) == ROOM_FAILED ||
           cell(state, &m->prefill.session_failed, c->requests[request].decode - c->prefill_len);
}
