/*
 * What the parts of the prefill machine share: prefill.c (scheduler, receiver, the contract), transfer_worker.c and
 * prefill_room.c (a room's status, count and ack; the source's life). `q` is a local request number throughout, `room` a
 * local room.
 */
#ifndef KVREPRO_PREFILL_PARTS_H
#define KVREPRO_PREFILL_PARTS_H

#include "machine.h"

/* A room's status; the order matters: a status is replaced by the larger one, and failed is the smallest
 * (disaggregation/base/conn.py KVPoll, common/conn.py update_status). */
enum { ROOM_UNKNOWN, ROOM_FAILED, ROOM_BOOTSTRAPPING, ROOM_WAITING_FOR_INPUT, ROOM_SUCCESS };

enum { STAGE_NONE, STAGE_WAITING, STAGE_COMPUTING, STAGE_IN_FLIGHT, STAGE_RELEASED, STAGE_ANSWERED };

/* What every function here works on. */
struct prefill {
    const struct config *c;
    const struct machine_config *m;
    const struct prefill_layout *l;
    uint8_t *s;
    struct actions *out;
};

/* Actions, appended to p->out. */
void prefill_point(struct prefill *p, uint32_t actor, enum point at, uint32_t q, uint32_t chunk,
                   enum point_status status);
void prefill_send(struct prefill *p, enum message_type type, uint32_t to, uint32_t q, enum point_status status);
void prefill_effect(struct prefill *p, enum action_type type, uint32_t actor, enum effect effect, uint32_t q,
                    uint32_t chunk);

static inline uint32_t prefill_decode_of(const struct prefill *p, uint32_t q)
{
    return p->c->requests[p->m->requests[q]].decode;
}

void prefill_room_update(struct prefill *p, uint32_t room, unsigned status);
void prefill_room_clear(struct prefill *p, uint32_t room);
void prefill_room_count(struct prefill *p, uint32_t room, int by);
/* Unknown or failed: not to be written for. */
bool prefill_room_gone(const struct prefill *p, uint32_t room);
/* Sends the drain ack and passes ack.send if there is a target and nothing is outstanding. */
bool prefill_room_try_ack(struct prefill *p, uint32_t actor, uint32_t q);
/* Forgets the source's pages and slot once they are released and no chunk of the request is left. */
void prefill_forget_source(struct prefill *p, uint32_t q);

/* Transfer worker k of the machine, for the contract. */
void worker_step(struct prefill *p, const struct event *e);
struct ready worker_ready(const struct prefill *p, uint32_t k);
bool worker_awaits(const struct prefill *p, uint32_t k, enum effect effect);
bool worker_local(const struct prefill *p, uint32_t k);

#endif
