/*
 * A transfer worker: takes chunks from its queue and sends them. The order is SGLang 90354326c7
 * disaggregation/mooncake/conn.py transfer_worker: after chunk.check nothing looks at the room again, unless the core does.
 */
#include "../mutant.h"
#include "prefill_parts.h"

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

/* All rooms of one decode machine share one queue: upstream the queue follows from the ports of the destination's session. */
static uint32_t queue_of(const struct prefill *p, uint32_t q)
{
    return (prefill_decode_of(p, q) - p->c->prefill_len) % p->m->workers;
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

static void worker_at(struct prefill *p, const struct work_unit *u, unsigned pc, enum point at,
                      enum point_status status)
{
    cell_set(p->s, &u->w->actor.pc, 0, pc);
    prefill_point(p, u->actor, at, u->q, u->chunk, status);
}

static void worker_idle(struct prefill *p, const struct work_unit *u)
{
    cell_set(p->s, &u->w->actor.pc, 0, WORKER_IDLE);
    cell_set(p->s, &u->w->actor.request, 0, 0);
    cell_set(p->s, &u->w->actor.chunk, 0, 0);
    cell_set(p->s, &u->w->actor.status, 0, 0);
    prefill_forget_source(p, u->q);
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

static void worker_done(struct prefill *p, const struct work_unit *u, enum point_status status)
{
    worker_forget_destination(p, u);
    if (status != POINT_STATUS_ERROR || !p->c->policy.engine[ENGINE_ERROR_KEEPS_COUNT] || MUTANT(5))
        prefill_room_count(p, u->room, -1);
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
    uint32_t decode = prefill_decode_of(p, u->q);
    bool refused = cell(p->s, &u->w->actor.status, 0) == POINT_STATUS_REFUSED;

    if (p->c->policy.engine[ENGINE_BLACKLIST] && !MUTANT(8) && !(refused && session_renewed(p)))
        cell_set(p->s, &p->l->session_failed, decode - p->c->prefill_len, 1);
    prefill_room_update(p, u->room, ROOM_FAILED);
    cell_set(p->s, &u->w->actor.status, 0, POINT_STATUS_ERROR);
    if (p->c->policy.engine[ENGINE_NOTICE] != NOTICE_STATUS) { /* nobody tells decode */
        worker_done(p, u, POINT_STATUS_ERROR);
        return;
    }
    prefill_send(p, MESSAGE_STATUS, decode, u->q, POINT_STATUS_FAILED);
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
    if (prefill_room_gone(p, u->room) && !MUTANT(3)) {
        cell_set(p->s, &u->w->actor.status, 0, POINT_STATUS_SKIP);
        worker_at(p, u, WORKER_CHECKED, POINT_CHUNK_CHECK, POINT_STATUS_SKIP);
        return;
    }
    worker_copy_destination(p, u);
    if (cell(p->s, &p->l->session_failed, prefill_decode_of(p, u->q) - p->c->prefill_len))
        cell_set(p->s, &u->w->actor.status, 0, POINT_STATUS_ERROR);
    worker_at(p, u, WORKER_CHECKED, POINT_CHUNK_CHECK,
              cell(p->s, &u->w->actor.status, 0) ? POINT_STATUS_ERROR : POINT_STATUS_OK);
}

static void worker_post(struct prefill *p, const struct work_unit *u, enum effect effect, unsigned pc, enum point at)
{
    prefill_effect(p, ACTION_POST, u->actor, effect, u->q, u->chunk);
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
    bool gone = prefill_room_gone(p, u->room);

    if (pc == WORKER_KV_POSTED && last_chunk(p, u) && !(core[CORE_RECHECK_STATE] && gone))
        worker_post(p, u, EFFECT_STATE, WORKER_STATE_POSTED, POINT_STATE_POST);
    else if (pc == WORKER_STATE_POSTED && !(core[CORE_RECHECK_AUX] && gone))
        worker_post(p, u, EFFECT_AUX, WORKER_AUX_POSTED, POINT_AUX_POST);
    else
        cell_set(p->s, &u->w->actor.pc, 0, WORKER_POLLS);
}

/* Every write of the last chunk is over: the room has succeeded, which revives a cleared one (update_status). */
static void worker_succeeds(struct prefill *p, const struct work_unit *u)
{
    if (p->c->policy.core[CORE_RECHECK_STATUS] && prefill_room_gone(p, u->room)) {
        worker_done(p, u, POINT_STATUS_SKIP);
        return;
    }
    prefill_room_update(p, u->room, ROOM_SUCCESS);
    if (p->c->policy.engine[ENGINE_NOTICE] != NOTICE_STATUS) {
        worker_done(p, u, POINT_STATUS_OK);
        return;
    }
    prefill_send(p, MESSAGE_STATUS, prefill_decode_of(p, u->q), u->q, POINT_STATUS_SUCCESS);
    worker_at(p, u, WORKER_STATUS_SENT, POINT_STATUS_SEND, POINT_STATUS_SUCCESS);
}

/* After the KV write of a chunk: the last chunk drags state, aux and status behind it. */
static void worker_follow(struct prefill *p, const struct work_unit *u)
{
    if (!last_chunk(p, u))
        worker_done(p, u, POINT_STATUS_OK);
    else if (polls(p))
        worker_succeeds(p, u);
    else if (p->c->policy.core[CORE_RECHECK_STATE] && prefill_room_gone(p, u->room))
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
            prefill_room_count(p, u->room, +1);
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
            prefill_room_count(p, u->room, +1);
            worker_at(p, u, WORKER_COUNTED, POINT_CHUNK_COUNT, POINT_STATUS_NONE);
        } else {
            worker_enter(p, u);
        }
        break;
    case WORKER_SENDING:
        if (!core[CORE_RECHECK_KV]) {
            worker_post(p, u, EFFECT_KV, WORKER_KV_POSTED, POINT_KV_POST);
        } else {
            bool gone = prefill_room_gone(p, u->room);

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
        if (prefill_room_try_ack(p, u->actor, u->q))
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
                prefill_effect(p, ACTION_ABANDON, u->actor, (enum effect)e, u->q, u->chunk);
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
        if (p->c->policy.core[CORE_RECHECK_AUX] && prefill_room_gone(p, u->room))
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
    prefill_point(p, ACTOR_WORKER + k, POINT_CHUNK_DEQUEUE, q, chunk, POINT_STATUS_NONE);
}

/* --- the contract --- */

void worker_step(struct prefill *p, const struct event *e)
{
    uint32_t k = e->actor - ACTOR_WORKER;
    const struct worker_layout *w = &p->l->workers[k];
    uint32_t q1 = cell(p->s, &w->actor.request, 0);
    struct work_unit u;

    if (q1 == 0) {
        worker_begin(p, k);
        return;
    }
    u = (struct work_unit){ w, e->actor, q1 - 1, cell(p->s, &w->actor.chunk, 0), p->m->rooms[q1 - 1] };
    if (e->type == EVENT_DONE)
        worker_finished(p, &u, e->effect, e->status);
    else
        worker_go(p, &u);
}

struct ready worker_ready(const struct prefill *p, uint32_t k)
{
    unsigned pc = cell(p->s, &p->l->workers[k].actor.pc, 0);
    bool waits = pc == WORKER_KV_WAITS || pc == WORKER_STATE_WAITS || pc == WORKER_AUX_WAITS || pc == WORKER_POLLS;

    if (pc == WORKER_IDLE && queue_head(p, k) == cell(p->s, &p->l->queue_len, 0))
        return (struct ready){ READY_IDLE, 0 };
    return waits ? (struct ready){ READY_WAITING, 0 } : (struct ready){ READY_GO, 1 };
}

bool worker_awaits(const struct prefill *p, uint32_t k, enum effect effect)
{
    unsigned pc = cell(p->s, &p->l->workers[k].actor.pc, 0);

    if (pc == WORKER_POLLS)
        return effect >= EFFECT_KV && effect <= EFFECT_AUX &&
               (cell(p->s, &p->l->workers[k].handles, 0) & 1u << (effect - EFFECT_KV)) != 0;
    return (effect == EFFECT_KV && pc == WORKER_KV_WAITS) || (effect == EFFECT_STATE && pc == WORKER_STATE_WAITS) ||
           (effect == EFFECT_AUX && pc == WORKER_AUX_WAITS);
}

bool worker_local(const struct prefill *p, uint32_t k)
{
    const struct actor_layout *a = &p->l->workers[k].actor;
    const uint32_t *core = p->c->policy.core;
    unsigned pc = cell(p->s, &a->pc, 0), status = cell(p->s, &a->status, 0);

    switch (pc) {
    case WORKER_CHECKED: /* into the send: the check is over, and what it copied is its own */
        return status == POINT_STATUS_NONE && counts_at_dequeue(p);
    case WORKER_COUNTED:
        return status == POINT_STATUS_NONE && !counts_at_dequeue(p);
    case WORKER_SENDING: /* a post only enables: landing is what others notice */
        return !core[CORE_RECHECK_KV];
    case WORKER_RECHECKED:
        return status == POINT_STATUS_NONE;
    case WORKER_KV_COMPLETE:
        return status == POINT_STATUS_NONE && !polls(p) && !core[CORE_RECHECK_STATE] &&
               cell(p->s, &a->chunk, 0) + 1 == p->c->requests[p->m->requests[cell(p->s, &a->request, 0) - 1]].chunks;
    case WORKER_KV_POSTED:
        return !polls(p) || !core[CORE_RECHECK_STATE];
    case WORKER_STATE_POSTED:
        return !polls(p) || !core[CORE_RECHECK_AUX];
    case WORKER_AUX_POSTED:
    case WORKER_ACKED:
        return true;
    default:
        return false;
    }
}
