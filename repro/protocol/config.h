/*
 * What a run is made of, read-only while it is played: machines, requests, policy, and where each table of their state
 * lies in the world's block. Made once by config_new(), shared by every driver; the machines only read it.
 *
 * Machines are numbered prefill first. A machine knows only its own requests: they have local numbers (`local`), and the
 * tables of a machine are indexed by them. A room is named, on each machine, by the lowest local number that uses it.
 */
#ifndef KVREPRO_CONFIG_H
#define KVREPRO_CONFIG_H

#include <stdbool.h>

#include "cells.h"
#include "points.h"
#include "policy.h"

enum allocator { ALLOCATOR_SORTED, ALLOCATOR_LIFO, ALLOCATOR_FIFO, ALLOCATOR_LOWEST, ALLOCATOR_ANY, ALLOCATOR_COUNT };

/* An allocator's state: an ordered free list and, for `sorted`, the separate list of what was freed since. */
struct allocator_layout {
    enum allocator kind;
    uint32_t len; /* how many ids: 1..len */
    struct cells free_len, free, released_len, released;
};

/* One actor's registers. */
struct actor_layout {
    struct cells pc, request, chunk, status, peer;
};

struct worker_layout {
    struct actor_layout actor;
    struct cells dest_pages; /* [chunk_pages_max]: the copy taken at chunk.check */
    struct cells dest_slot, dest_aux;
    struct cells handles; /* asynchronous engines: bit e - EFFECT_KV for each effect that is not done */
};

struct prefill_layout {
    struct actor_layout scheduler, receiver;
    struct worker_layout *workers;              /* [workers] */
    struct cells queue_len, queue, queue_chunk; /* all transfer queues in one list, in the order of arrival */
    struct cells order_len, order;              /* local requests in the order of arrival until they are answered */
    struct cells stage, chunks_computed;        /* [requests] */
    struct cells concluded;                     /* [requests] aborted here: its sender answers failed from now on */
    /* The source, as the chunks carry it: kept until no chunk of the request is queued or in a worker, even if the
     * scheduler has released it by then. */
    struct cells slot;                                                            /* [requests] */
    struct cells pages;                                                           /* [requests x prompt_pages_max] */
    struct cells room_status, room_target, room_outstanding, room_slot, room_aux; /* [requests] by room */
    struct cells room_pages;     /* [requests x prompt_pages_max] destination pages */
    struct cells session_failed; /* [decode machines] */
    struct allocator_layout page_pool, slot_pool;
};

struct decode_layout {
    struct actor_layout scheduler, receiver;
    struct cells phase;
    struct cells order_len, order; /* local requests sorted by stage, within a stage by arrival */
    struct cells stage, failed, status, aux, expired, fence, in_batch, slot, aux_slot, request_slot, pages_len,
        tokens;           /* [requests] */
    struct cells arrived; /* [requests x parts_max] notifications seen: KV chunks, state, aux */
    struct cells pages;   /* [requests x pages_max] */
    struct cells room_request, room_armed, room_acks; /* [requests] by room */
    struct cells page_owner, slot_owner, aux_owner;   /* [len + 1]: local request + 1, 0: free */
    struct allocator_layout page_pool, slot_pool, aux_pool, request_pool;
};

struct machine_config {
    enum side side;
    uint32_t instance, rank;
    uint32_t workers;   /* prefill: transfer workers, each with its queue */
    uint32_t actors;    /* 2 + workers */
    uint32_t *requests; /* [requests_len]: local to global */
    uint32_t *rooms;    /* [requests_len]: local request to local room */
    uint32_t requests_len;
    uint32_t prompt_pages_max, pages_max, chunk_pages_max, parts_max; /* parts of a transfer: its chunks, state, aux */
    uint32_t offset, size;                                            /* of its block in the world */
    struct prefill_layout prefill;
    struct decode_layout decode;
};

struct request_config {
    uint32_t prompt_tokens, max_tokens, prompt_pages, pages_max, chunks;
    uint32_t prefill, decode;             /* machines */
    uint32_t prefill_local, decode_local; /* its number on each */
    uint32_t room;
    uint32_t wire; /* first of its wire entries: per attempt its chunks' KV, state, aux */
};

/* One side as config_new() takes it. */
struct side_config {
    uint32_t instances, ranks, pages, state_slots, aux_slots, request_slots, workers, reserve_pages;
    enum allocator allocator, slot_allocator;
};

struct request_input {
    uint32_t prompt_tokens, max_tokens, prefill, decode, room; /* machines counted within their side */
};

struct wire_layout {
    struct cells state, worker, fragment, dest, source; /* [entries]; dest, source: the slot of state and aux writes */
    struct cells dest_pages, source_pages;              /* [entries x chunk_pages_max], KV writes only */
    struct cells revoked;                               /* [requests] the keys of its destination are dead: a fence */
};

struct config {
    struct policy policy;
    struct side_config sides[SIDE_COUNT];
    uint32_t page_tokens, chunk_tokens, layers; /* layers: attention layers, whose rows travel */
    struct machine_config *machines;
    uint32_t machines_len, prefill_len;
    struct request_config *requests;
    uint32_t requests_len;
    bool wire_reverse; /* fragments of a write land in the reverse order */
    uint32_t attempts; /* of one write: 1 + the engine's retries */
    uint32_t messages_max, wire_len, chunk_pages_max, prompt_pages_max;
    /* the world's own tables */
    struct cells messages_len, message_type, message_from, message_to, message_request, message_status, message_part;
    struct cells metadata_pages, metadata_slot, metadata_aux; /* a published destination on its way, by request */
    struct wire_layout wire;
    struct cells *page_tags, *slot_tags, *aux_tags; /* [machines]: writer tags of decode machines; request + 1 */
    uint32_t world_size;
    void *memory;
};

/* What config_new() is told. All counts at least 1; pages of a prompt must fit both pools. chunk_tokens 0: whole prompts. */
struct config_input {
    struct policy policy;
    struct side_config sides[SIDE_COUNT];
    uint32_t page_tokens, chunk_tokens, layers;
    bool wire_reverse;
    uint32_t message_spare; /* messages beyond those of an ordinary life: doubled ones, aborts told again */
    const struct request_input *requests;
    uint32_t requests_len;
};

/* Pages of a prompt that one chunk covers: [chunk_first, chunk_first + chunk_pages). */
static inline uint32_t chunk_first(const struct config *c, uint32_t chunk)
{
    return chunk * (c->chunk_tokens / c->page_tokens);
}

static inline uint32_t chunk_pages(const struct config *c, uint32_t request, uint32_t chunk)
{
    uint32_t pages = c->requests[request].prompt_pages, first = chunk_first(c, chunk);
    uint32_t whole = c->chunk_tokens ? c->chunk_tokens / c->page_tokens : pages;

    return pages - first < whole ? pages - first : whole;
}

/* NULL when memory is short. The caller has checked the input (scenario_load does). */
struct config *config_new(const struct config_input *input);
void config_free(struct config *c);

#endif
