/*
 * The prefill machine: scheduler and control receiver here, the transfer workers in transfer_worker.c. The real
 * system's are SGLang 90354326c7 disaggregation/prefill.py and mooncake/conn.py.
 */
#include "prefill.h"

#include <stddef.h>

#include "../mutant.h"
#include "allocator.h"
#include "prefill_parts.h"

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

static struct prefill open_machine(const struct config *c, uint32_t machine, uint8_t *state, struct actions *out)
{
    return (struct prefill){ c, &c->machines[machine], &c->machines[machine].prefill, state, out };
}

/* For the questions that change nothing: machine_ready() and its like. */
static struct prefill look_at(const struct config *c, uint32_t machine, const uint8_t *state)
{
    return open_machine(c, machine, (uint8_t *)(uintptr_t)state, NULL);
}

/* --- the source: pages and slot of a request --- */

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
    prefill_forget_source(p, q);
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
        if ((stage == STAGE_WAITING || stage == STAGE_IN_FLIGHT) &&
            (status == ROOM_FAILED || cell(p->s, &p->l->concluded, q)))
            return WORK_FAILURE;
        /* Only success waits for the outstanding chunks; failure doesn't
         * (SGLang 90354326c7 disaggregation/prefill.py process_disagg_prefill_inflight_queue). */
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
    prefill_effect(p, ACTION_POST, ACTOR_SCHEDULER, EFFECT_FORWARD, q, chunk);
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
        prefill_point(p, ACTOR_SCHEDULER, POINT_FAILURE_SEE, q, 0, POINT_STATUS_NONE);
        break;
    case WORK_SUCCESS:
        /* The order of the success path differs: release, then clear. Nothing is outstanding, so nobody can tell. */
        cell_set(p->s, &p->l->scheduler.request, 0, q + 1);
        cell_set(p->s, &p->l->scheduler.status, 0, POINT_STATUS_OK);
        cell_set(p->s, &p->l->scheduler.pc, 0, SCHEDULER_CLEARED);
        prefill_room_clear(p, p->m->rooms[q]);
        prefill_point(p, ACTOR_SCHEDULER, POINT_ROOM_CLEAR, q, 0, POINT_STATUS_NONE);
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
        prefill_room_clear(p, p->m->rooms[q]);
        cell_set(p->s, &p->l->scheduler.pc, 0, SCHEDULER_CLEARED);
        prefill_point(p, ACTOR_SCHEDULER, POINT_ROOM_CLEAR, q, 0, POINT_STATUS_NONE);
        break;
    case SCHEDULER_CLEARED:
        source_release(p, q);
        cell_set(p->s, &p->l->scheduler.pc, 0, SCHEDULER_RELEASED);
        prefill_point(p, ACTOR_SCHEDULER, POINT_SOURCE_RELEASE, q, 0, POINT_STATUS_NONE);
        break;
    case SCHEDULER_RELEASED:
        order_remove(p, q);
        cell_set(p->s, &p->l->stage, q, STAGE_ANSWERED);
        cell_set(p->s, &p->l->chunks_computed, q, 0);
        cell_set(p->s, &p->l->concluded, q, 0);
        answer = act(p->out, ACTION_ANSWER);
        answer->request = p->m->requests[q];
        answer->status = (enum point_status)cell(p->s, &p->l->scheduler.status, 0);
        cell_set(p->s, &p->l->scheduler.pc, 0, SCHEDULER_ANSWERED);
        prefill_point(p, ACTOR_SCHEDULER, POINT_CLIENT_ANSWER, q, 0, answer->status);
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
    prefill_point(p, ACTOR_SCHEDULER, POINT_CHUNK_ENQUEUE, q, chunk, POINT_STATUS_NONE);
}

static void scheduler_message(struct prefill *p, const struct message *msg, uint32_t q)
{
    uint32_t room = p->m->rooms[q], len = cell(p->s, &p->l->order_len, 0);
    unsigned stage = cell(p->s, &p->l->stage, q);

    if (msg->type == MESSAGE_SUBMIT && stage == STAGE_NONE) {
        cell_set(p->s, &p->l->stage, q, STAGE_WAITING);
        cell_set(p->s, &p->l->order, len, q);
        cell_set(p->s, &p->l->order_len, 0, len + 1);
        prefill_room_update(p, room, ROOM_BOOTSTRAPPING);
    } else if (msg->type == MESSAGE_ABORT_REQUEST &&
               (stage == STAGE_WAITING || stage == STAGE_COMPUTING || stage == STAGE_IN_FLIGHT)) {
        prefill_room_update(p, room, ROOM_FAILED);
        cell_set(p->s, &p->l->concluded, q, 1); /* MooncakeKVSender.abort: failed for good */
    } /* an unknown request id is ignored, and still answered 200 (managers/scheduler.py) */
}

/* --- receiver --- */

static void receiver_ack(struct prefill *p, uint32_t q, uint32_t to, enum point_status status)
{
    prefill_send(p, MESSAGE_ACK, to, q, status);
    cell_set(p->s, &p->l->receiver.pc, 0, RECEIVER_ACKED);
    prefill_point(p, ACTOR_RECEIVER, POINT_ACK_SEND, q, 0, status);
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
    prefill_room_update(p, room, ROOM_WAITING_FOR_INPUT);
}

static void receiver_abort(struct prefill *p, const struct message *msg, uint32_t q)
{
    const uint32_t *core = p->c->policy.core;
    uint32_t room = p->m->rooms[q];
    unsigned status = cell(p->s, &p->l->room_status, room), cleared_ack = core[CORE_ACK_CLEARED_ROOM];
    bool drained = cell(p->s, &p->l->room_outstanding, room) == 0;

    if (status != ROOM_UNKNOWN && status != ROOM_SUCCESS) {
        prefill_room_update(p, room, ROOM_FAILED);
        cell_set(p->s, &p->l->receiver.request, 0, q + 1);
        cell_set(p->s, &p->l->receiver.peer, 0, msg->from + 1);
        cell_set(p->s, &p->l->receiver.pc, 0, RECEIVER_ABORT);
        prefill_point(p, ACTOR_RECEIVER, POINT_ABORT_RECEIVE, q, 0, POINT_STATUS_NONE);
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
        if (p->c->policy.core[CORE_ACK_LIVE_ROOM] && prefill_room_try_ack(p, ACTOR_RECEIVER, q))
            cell_set(p->s, &p->l->receiver.pc, 0, RECEIVER_ACKED);
    }
}

/* --- the contract --- */

static const struct actor_layout *actor_of(const struct prefill *p, uint32_t actor)
{
    if (actor == ACTOR_SCHEDULER)
        return &p->l->scheduler;
    return actor == ACTOR_RECEIVER ? &p->l->receiver : &p->l->workers[actor - ACTOR_WORKER].actor;
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
    const struct ready go = { READY_GO, 1 }, idle = { READY_IDLE, 0 }, waiting = { READY_WAITING, 0 };
    uint32_t q;

    if (actor == ACTOR_SCHEDULER) {
        if (pc == SCHEDULER_IDLE)
            return scheduler_work(&p, &q) == WORK_NONE ? idle : go;
        return pc == SCHEDULER_FORWARD ? waiting : go;
    }
    if (actor == ACTOR_RECEIVER)
        return pc == RECEIVER_IDLE ? idle : go;
    return worker_ready(&p, actor - ACTOR_WORKER);
}

bool prefill_local(const struct config *c, uint32_t machine, const uint8_t *state, uint32_t actor)
{
    struct prefill p = look_at(c, machine, state);
    unsigned pc = cell(state, &actor_of(&p, actor)->pc, 0);

    if (actor == ACTOR_SCHEDULER)
        return pc == SCHEDULER_ENQUEUED || pc == SCHEDULER_ANSWERED;
    if (actor == ACTOR_RECEIVER)
        return pc == RECEIVER_ACKED;
    return worker_local(&p, actor - ACTOR_WORKER);
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
    return worker_awaits(&p, actor - ACTOR_WORKER, effect);
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
           cell(state, &m->prefill.receiver.pc, 0) == RECEIVER_ABORT ||
           cell(state, &m->prefill.session_failed, c->requests[request].decode - c->prefill_len);
}
