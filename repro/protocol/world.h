/*
 * The world: all machines, the channels between them, the one-sided writes on the wire, and the tags that say who wrote
 * what. One block of config.world_size bytes; to clone it is memcpy, to compare it is memcmp. The simulator adds times to
 * its transitions, the explorer takes them in every order; both call the same two functions.
 *
 * Channels: per ordered pair of machines first in, first out (one zmq socket each); between pairs nothing is ordered.
 * Wire: an entry per request and KV chunk, and one for its state and its aux slot. Fragments (layer x page run) of one
 * entry land in order; entries overtake each other. A completion waits on the wire until its worker waits for it.
 * Tags: decode's pages (per layer), state slots and aux slots carry the request whose bytes landed last. A tag is zero
 * while nobody owns the memory, except in an aux slot, which the real system clears when it frees it, not when it is taken.
 */
#ifndef KVREPRO_WORLD_H
#define KVREPRO_WORLD_H

#include "machine.h"

enum transition_kind {
    TRANSITION_GO,       /* an actor passes its point, starts work, or makes a choice */
    TRANSITION_DELIVER,  /* a control message arrives */
    TRANSITION_FORWARD,  /* the model has run */
    TRANSITION_LAND,     /* the next fragment of a write lands */
    TRANSITION_COMPLETE, /* a write's completion reaches its worker */
    TRANSITION_GIVE_UP,  /* the engine times a write out, or sends it again; its bytes fly on */
    TRANSITION_AUX_READ, /* decode finds a room id in its aux slot */
    TRANSITION_FENCE,    /* destination keys are revoked: what still flies with them is refused */
    TRANSITION_TIMER     /* a hold's timer runs out */
};

struct transition {
    enum transition_kind kind;
    uint32_t machine;
    uint32_t actor;
    uint32_t request; /* TIMER, AUX_READ; of the message or wire entry */
    uint32_t index;   /* GO: choice; DELIVER: message; LAND, COMPLETE, GIVE_UP: wire entry */
};

/* A machine and its actors change by its own transitions only; `world` is the block. */
void world_init(const struct config *c, uint8_t *world);

/* All enabled transitions in a fixed order. `out` must hold world_enabled_max(c) of them. */
uint32_t world_enabled(const struct config *c, const uint8_t *world, struct transition *out);
uint32_t world_enabled_max(const struct config *c);
/* The same for one part: a machine's own (GO, FORWARD, TIMER, AUX_READ), or with machine == machines_len the messages and
 * the wire. world_enabled() is all parts one after the other. */
uint32_t world_enabled_part(const struct config *c, const uint8_t *world, uint32_t machine, struct transition *out);

/* Takes one enabled transition. Actions come from the machine that stepped, and from the wire: a wire point is an
 * ACTION_POINT whose actor is the worker that posted, whose n is the fragment and whose to is the wire entry. */
void world_apply(const struct config *c, uint8_t *world, const struct transition *t, struct actions *actions);

/* Whether an enabled transition is local (machine_local() for a go): it commutes with all others, disables none and
 * changes nothing that decode reads. */
bool world_local(const struct config *c, const uint8_t *world, const struct transition *t);

/* A client submits a request to one side, or aborts it there: queued at once. */
void world_submit(const struct config *c, uint8_t *world, uint32_t request, enum side side);
void world_abort(const struct config *c, uint8_t *world, uint32_t request, enum side side);

/* --- the wire, for drivers that move bytes --- */

enum {
    WIRE_NONE,
    WIRE_FLYING,
    WIRE_LANDED,    /* completion not yet delivered */
    WIRE_ABANDONED, /* flies, but nobody waits for it, and no notification will follow */
    WIRE_HANDED,    /* flies, but its completion has been delivered: the engine completes when it has handed over */
    WIRE_REFUSED    /* its destination was fenced: the error not yet delivered */
};

struct wire_entry {
    uint32_t request, chunk, attempt;
    enum effect kind; /* KV, STATE, AUX */
};
struct wire_entry wire_entry(const struct config *c, uint32_t index);
/* attempt 0 is the first; the live attempt of a write is the one that its worker's completion comes from. */
uint32_t wire_index(const struct config *c, uint32_t request, enum effect kind, uint32_t chunk, uint32_t attempt);
uint32_t wire_live(const struct config *c, const uint8_t *world, uint32_t request, enum effect kind, uint32_t chunk);
/* The engine reports that a write has failed while its bytes fly on (or sends it once more, if it has retries left): a
 * fault, possible while the write flies and is awaited. */
bool wire_can_fail(const struct config *c, const uint8_t *world, uint32_t index);
void wire_fail(const struct config *c, uint8_t *world, uint32_t index, struct actions *actions);

/* --- a hostile network: what can happen to the message at `index` of the world's list --- */

void world_message_lose(const struct config *c, uint8_t *world, uint32_t index);
/* It goes to `first`, an earlier place in its own channel. */
void world_message_overtake(const struct config *c, uint8_t *world, uint32_t index, uint32_t first);
/* The copy follows its original in the same channel. */
void world_message_double(const struct config *c, uint8_t *world, uint32_t index);

/* One fragment of a KV write: `pages` pages of `layer` from source_first to dest_first, both runs of adjacent pages. */
struct wire_fragment {
    uint32_t layer, pages, source_first, dest_first;
};
uint32_t wire_fragments(const struct config *c, const uint8_t *world, uint32_t index);
struct wire_fragment wire_fragment(const struct config *c, const uint8_t *world, uint32_t index, uint32_t fragment);

/* --- owners and tags, for oracles; page, slot of a decode machine; request + 1, 0: nobody --- */

uint32_t world_page_owner(const struct config *c, const uint8_t *world, uint32_t machine, uint32_t page);
uint32_t world_slot_owner(const struct config *c, const uint8_t *world, uint32_t machine, uint32_t slot);
uint32_t world_aux_owner(const struct config *c, const uint8_t *world, uint32_t machine, uint32_t slot);
/* A request's page table on its decode machine: its length, and the page at idx. */
uint32_t world_pages_len(const struct config *c, const uint8_t *world, uint32_t request);
uint32_t world_page(const struct config *c, const uint8_t *world, uint32_t request, uint32_t idx);
uint32_t world_state_slot(const struct config *c, const uint8_t *world, uint32_t request);
uint32_t world_aux_slot(const struct config *c, const uint8_t *world, uint32_t request);
enum decode_stage world_stage(const struct config *c, const uint8_t *world, uint32_t request);
bool world_in_batch(const struct config *c, const uint8_t *world, uint32_t request);
uint32_t world_tokens(const struct config *c, const uint8_t *world, uint32_t request);
/* The source pages and slot on its prefill machine. */
uint32_t world_source_page(const struct config *c, const uint8_t *world, uint32_t request, uint32_t idx);
uint32_t world_source_slot(const struct config *c, const uint8_t *world, uint32_t request);

/* Whether the request has been aborted or has failed at either side, so far as its machines know or keys tell. */
bool world_troubled(const struct config *c, const uint8_t *world, uint32_t request);

/* Parts of the request's transfer whose notification decode has not counted yet; UINT32_MAX if the engine has none. */
uint32_t world_parts_missing(const struct config *c, const uint8_t *world, uint32_t request);
/* Whether any other request has a destination, published and not yet used up, that overlaps memory of this one. */
bool world_destination_shared(const struct config *c, const uint8_t *world, uint32_t request);

/* Whether decode now reads memory of this request that holds another request's bytes: the corruption itself. */
bool world_reads_stale(const struct config *c, const uint8_t *world, uint32_t request);

#endif
