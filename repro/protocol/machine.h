/*
 * The step contract. A machine is one rank of one side; inside it are actors (scheduler, receiver, transfer workers), each
 * with a program counter. machine_step() takes one event for one actor and appends ordered actions. It is pure: no clock,
 * no randomness, no allocation, no I/O, no writable globals; `state` is the machine's block and nothing else changes.
 *
 * A point ends a step: it is the step's last action, and only EVENT_GO for that actor passes it. A driver that holds
 * actors at points therefore never has to undo or delay anything.
 *
 * Effects are posted by an action and finished by EVENT_DONE, delivered only while machine_awaits() says so; until then
 * the completion stays with the driver. An error retires the effect here, never the bytes on the wire.
 */
#ifndef KVREPRO_MACHINE_H
#define KVREPRO_MACHINE_H

#include <stdbool.h>

#include "config.h"

/* Control messages. Client to scheduler: SUBMIT, ABORT_REQUEST. Decode to prefill's receiver: METADATA (the destination
 * pages and slots), ABORT. Prefill to decode's receiver: STATUS (success, failed), ACK (received, drained); from the wire, if the
 * engine notifies, NOTIFY (a part of the transfer has landed). They carry the request, of which a receiver uses the room
 * only. */
enum message_type {
    MESSAGE_NONE,
    MESSAGE_SUBMIT,
    MESSAGE_ABORT_REQUEST,
    MESSAGE_METADATA,
    MESSAGE_ABORT,
    MESSAGE_STATUS,
    MESSAGE_ACK,
    MESSAGE_NOTIFY,
    MESSAGE_TYPE_COUNT
};

struct message {
    enum message_type type;
    uint32_t from, to; /* machines; the client is config.machines_len */
    uint32_t request;
    enum point_status status;
    uint32_t part;        /* NOTIFY: chunk of a KV write, or chunks (the state slot), or chunks + 1 (the aux slot) */
    const uint8_t *world; /* METADATA: the block that the destination is read from (config.metadata_*); not kept */
};

enum effect {
    EFFECT_NONE,
    EFFECT_FORWARD,  /* run the model: a prefill's chunk, or decode's batch */
    EFFECT_KV,       /* write one chunk's pages, one-sidedly */
    EFFECT_STATE,    /* write the state slot */
    EFFECT_AUX,      /* write the aux record */
    EFFECT_AUX_READ, /* wait until the aux slot holds a room id, and compare it: status own or foreign */
    EFFECT_FENCE     /* revoke destination keys, in the core's fence_scope: no write that has them can land any more */
};

enum event_type { EVENT_GO, EVENT_MESSAGE, EVENT_DONE, EVENT_TIMER };

struct event {
    enum event_type type;
    uint32_t actor;
    uint32_t choice;          /* GO: below ready.choices */
    enum effect effect;       /* DONE */
    uint32_t request;         /* DONE of AUX_READ, FENCE; TIMER: whose hold */
    enum point_status status; /* DONE: ok, error, refused (its destination was fenced); own, foreign */
    struct message message;   /* MESSAGE */
};

enum action_type {
    ACTION_POINT,
    ACTION_SEND,     /* message */
    ACTION_POST,     /* effect, by worker `actor` */
    ACTION_ABANDON,  /* effect: its worker waits for it no longer; the bytes fly on */
    ACTION_ANSWER,   /* tell the client of this side: status ok, abort or error */
    ACTION_AUX_CLEAR /* aux slot n was given back; status ok: zero its room id, skip: leave it */
};

struct action {
    enum action_type type;
    enum point point;
    enum effect effect;
    uint32_t actor;
    uint32_t request; /* global number; config.requests_len: none */
    uint32_t chunk;
    uint32_t n; /* POINT token: which; AUX_CLEAR: slot; SEND of NOTIFY: part */
    enum point_status status;
    enum message_type message;
    uint32_t to;
};

enum { ACTIONS_MAX = 8 };

struct actions {
    uint32_t len;
    struct action at[ACTIONS_MAX];
};

enum ready_kind { READY_IDLE, READY_GO, READY_WAITING };

struct ready {
    enum ready_kind kind;
    uint32_t choices; /* GO: 1 unless something has to be chosen */
};

/* Where a request is on its decode machine. The order is the order in which an iteration visits them. */
enum decode_stage {
    DECODE_NONE,
    DECODE_HELD,     /* aborted, memory held */
    DECODE_WAITING,  /* for memory */
    DECODE_TRANSFER, /* has memory, waits for its KV */
    DECODE_RUNNING,
    DECODE_DONE,
    DECODE_STAGE_COUNT
};

/* `state` is the machine's own block. What has to hold before: GO only if machine_ready() says go; MESSAGE and DONE only if
 * machine_accepts() / machine_awaits(); TIMER only if machine_timer(). */
void machine_step(const struct config *c, uint32_t machine, uint8_t *state, const struct event *event,
                  struct actions *actions);

/* An idle actor is go exactly if its step would change the state. */
struct ready machine_ready(const struct config *c, uint32_t machine, const uint8_t *state, uint32_t actor);

/* The actor that a message is for, and whether it can take one now (it is idle between two pieces of work). */
uint32_t machine_recipient(enum message_type type);
bool machine_accepts(const struct config *c, uint32_t machine, const uint8_t *state, uint32_t actor);

/* Whether `actor` waits for this effect (of this request, for AUX_READ and FENCE) right now. */
bool machine_awaits(const struct config *c, uint32_t machine, const uint8_t *state, uint32_t actor, enum effect effect,
                    uint32_t request);

/* Whether the hold timer of this request is armed: derivable from the state, so nothing is ever cancelled. */
bool machine_timer(const struct config *c, uint32_t machine, const uint8_t *state, uint32_t request);

/* Whether the actor stands at a point (its GO passes it), as opposed to starting new work. */
bool machine_at_point(const struct config *c, uint32_t machine, const uint8_t *state, uint32_t actor);

/*
 * Whether the actor's go is local: it commutes with everything that anybody else can do, disables nothing, frees, allocates
 * and counts nothing that others read. Whoever explores orders may take a local go at once and leave the other orders
 * out: they lead to the same states. Only for an actor that is go with one choice.
 */
bool machine_local(const struct config *c, uint32_t machine, const uint8_t *state, uint32_t actor);

/* --- for the two machines and the world, not for drivers --- */

static inline struct action *act(struct actions *a, enum action_type type)
{
    assert(a->len < ACTIONS_MAX);
    a->at[a->len] = (struct action){ .type = type };
    return &a->at[a->len++];
}

#endif
