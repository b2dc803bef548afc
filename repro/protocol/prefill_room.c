#include "prefill_parts.h"

#include "../mutant.h"

void prefill_point(struct prefill *p, uint32_t actor, enum point at, uint32_t q, uint32_t chunk,
                   enum point_status status)
{
    struct action *a = act(p->out, ACTION_POINT);

    a->actor = actor;
    a->point = at;
    a->request = p->m->requests[q];
    a->chunk = chunk;
    a->status = status;
}

void prefill_send(struct prefill *p, enum message_type type, uint32_t to, uint32_t q, enum point_status status)
{
    struct action *a = act(p->out, ACTION_SEND);

    a->message = type;
    a->to = to;
    a->request = p->m->requests[q];
    a->status = status;
}

void prefill_effect(struct prefill *p, enum action_type type, uint32_t actor, enum effect effect, uint32_t q,
                    uint32_t chunk)
{
    struct action *a = act(p->out, type);

    a->actor = actor;
    a->effect = effect;
    a->request = p->m->requests[q];
    a->chunk = chunk;
}

/* --- rooms --- */

void prefill_room_update(struct prefill *p, uint32_t room, unsigned status)
{
    unsigned old = cell(p->s, &p->l->room_status, room);

    if (old == ROOM_UNKNOWN && status == ROOM_FAILED)
        return;
    if (old == ROOM_FAILED && p->c->policy.engine[ENGINE_FAILED_STICKY])
        return;
    if (status == ROOM_FAILED || status > old)
        cell_set(p->s, &p->l->room_status, room, status);
}

void prefill_room_clear(struct prefill *p, uint32_t room)
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

void prefill_room_count(struct prefill *p, uint32_t room, int by)
{
    unsigned outstanding = cell(p->s, &p->l->room_outstanding, room);

    assert(by > 0 || outstanding > 0);
    cell_set(p->s, &p->l->room_outstanding, room, (unsigned)((int)outstanding + by));
}

/* The drain ack, at most once a target (common/conn.py _maybe_ack_drained_abort). */
bool prefill_room_try_ack(struct prefill *p, uint32_t actor, uint32_t q)
{
    uint32_t room = p->m->rooms[q];
    unsigned target = cell(p->s, &p->l->room_target, room);

    if (p->c->policy.core[CORE_ABORT_ACK] != ABORT_ACK_DRAINED || target == 0 ||
        (cell(p->s, &p->l->room_outstanding, room) != 0 && !MUTANT(2)))
        return false;
    cell_set(p->s, &p->l->room_target, room, 0);
    prefill_send(p, MESSAGE_ACK, target - 1, q, POINT_STATUS_DRAINED);
    prefill_point(p, actor, POINT_ACK_SEND, q, 0, POINT_STATUS_DRAINED);
    return true;
}

bool prefill_room_gone(const struct prefill *p, uint32_t room)
{
    unsigned status = cell(p->s, &p->l->room_status, room);

    return status == ROOM_UNKNOWN || status == ROOM_FAILED;
}

/* --- the source --- */

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

void prefill_forget_source(struct prefill *p, uint32_t q)
{
    unsigned stage = cell(p->s, &p->l->stage, q);

    if ((stage != STAGE_RELEASED && stage != STAGE_ANSWERED) || chunk_somewhere(p, q))
        return;
    cell_set(p->s, &p->l->slot, q, 0);
    for (uint32_t i = 0; i < p->m->prompt_pages_max; i++)
        cell_set(p->s, &p->l->pages, q * p->m->prompt_pages_max + i, 0);
}
