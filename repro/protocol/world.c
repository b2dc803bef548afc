#include "world.h"

#include <stddef.h>
#include <string.h>

#include "../mutant.h"
#include "decode.h"
#include "prefill.h"

static uint8_t *block_of(const struct config *c, uint8_t *world, uint32_t machine)
{
    return world + c->machines[machine].offset;
}

static const uint8_t *block_at(const struct config *c, const uint8_t *world, uint32_t machine)
{
    return world + c->machines[machine].offset;
}

void world_init(const struct config *c, uint8_t *world)
{
    memset(world, 0, c->world_size);
    for (uint32_t i = 0; i < c->machines_len; i++)
        if (i < c->prefill_len)
            prefill_init(c, i, block_of(c, world, i));
        else
            decode_init(c, i, block_of(c, world, i));
}

/* --- channels: one list sorted by (from, to), within a pair by age --- */

static bool after(const struct config *c, const uint8_t *world, uint32_t at, uint32_t from, uint32_t to)
{
    uint32_t f = cell(world, &c->message_from, at), t = cell(world, &c->message_to, at);

    return f > from || (f == from && t > to) || (MUTANT(19) && f == from && t == to);
}

static void message_move(const struct config *c, uint8_t *world, uint32_t to, uint32_t from)
{
    cell_set(world, &c->message_type, to, cell(world, &c->message_type, from));
    cell_set(world, &c->message_from, to, cell(world, &c->message_from, from));
    cell_set(world, &c->message_to, to, cell(world, &c->message_to, from));
    cell_set(world, &c->message_request, to, cell(world, &c->message_request, from));
    cell_set(world, &c->message_status, to, cell(world, &c->message_status, from));
    if (c->message_part.len)
        cell_set(world, &c->message_part, to, cell(world, &c->message_part, from));
}

static void message_put(const struct config *c, uint8_t *world, uint32_t at, const struct message *m)
{
    cell_set(world, &c->message_type, at, m->type);
    cell_set(world, &c->message_from, at, m->from);
    cell_set(world, &c->message_to, at, m->to);
    cell_set(world, &c->message_request, at, m->request);
    cell_set(world, &c->message_status, at, m->status);
    if (c->message_part.len)
        cell_set(world, &c->message_part, at, m->part);
}

static void message_send(const struct config *c, uint8_t *world, const struct message *m)
{
    uint32_t len = cell(world, &c->messages_len, 0), at = len;

    for (; at > 0 && after(c, world, at - 1, m->from, m->to); at--)
        message_move(c, world, at, at - 1);
    message_put(c, world, at, m);
    cell_set(world, &c->messages_len, 0, len + 1);
}

static struct message message_at(const struct config *c, const uint8_t *world, uint32_t at)
{
    return (struct message){ .type = (enum message_type)cell(world, &c->message_type, at),
                             .from = cell(world, &c->message_from, at),
                             .to = cell(world, &c->message_to, at),
                             .request = cell(world, &c->message_request, at),
                             .status = (enum point_status)cell(world, &c->message_status, at),
                             .part = c->message_part.len ? cell(world, &c->message_part, at) : 0,
                             .world = world };
}

/* A copy of this METADATA message is still on its way: what it points at stays. */
static bool metadata_doubled(const struct config *c, const uint8_t *world, uint32_t at)
{
    uint32_t len = cell(world, &c->messages_len, 0);

    for (uint32_t i = 0; i < len; i++)
        if (i != at && cell(world, &c->message_type, i) == MESSAGE_METADATA &&
            cell(world, &c->message_request, i) == cell(world, &c->message_request, at))
            return true;
    return false;
}

static void message_remove(const struct config *c, uint8_t *world, uint32_t at)
{
    static const struct message none = { .type = MESSAGE_NONE };
    uint32_t len = cell(world, &c->messages_len, 0), request = cell(world, &c->message_request, at);

    if (cell(world, &c->message_type, at) == MESSAGE_METADATA && !metadata_doubled(c, world, at)) {
        for (uint32_t i = 0; i < c->prompt_pages_max; i++)
            cell_set(world, &c->metadata_pages, request * c->prompt_pages_max + i, 0);
        cell_set(world, &c->metadata_slot, request, 0);
        cell_set(world, &c->metadata_aux, request, 0);
    }
    for (uint32_t i = at + 1; i < len; i++)
        message_move(c, world, i - 1, i);
    message_put(c, world, len - 1, &none);
    cell_set(world, &c->messages_len, 0, len - 1);
}

void world_message_lose(const struct config *c, uint8_t *world, uint32_t index)
{
    message_remove(c, world, index);
}

void world_message_overtake(const struct config *c, uint8_t *world, uint32_t index, uint32_t first)
{
    struct message own = message_at(c, world, index);

    for (uint32_t i = index; i > first; i--)
        message_move(c, world, i, i - 1);
    message_put(c, world, first, &own);
}

void world_message_double(const struct config *c, uint8_t *world, uint32_t index)
{
    uint32_t len = cell(world, &c->messages_len, 0);

    for (uint32_t i = len; i > index; i--)
        message_move(c, world, i, i - 1);
    cell_set(world, &c->messages_len, 0, len + 1);
}

static void client_send(const struct config *c, uint8_t *world, enum message_type type, uint32_t request,
                        enum side side)
{
    const struct request_config *r = &c->requests[request];
    struct message m = {
        .type = type, .from = c->machines_len, .to = side == SIDE_PREFILL ? r->prefill : r->decode, .request = request
    };

    message_send(c, world, &m);
}

void world_submit(const struct config *c, uint8_t *world, uint32_t request, enum side side)
{
    client_send(c, world, MESSAGE_SUBMIT, request, side);
}

void world_abort(const struct config *c, uint8_t *world, uint32_t request, enum side side)
{
    client_send(c, world, MESSAGE_ABORT_REQUEST, request, side);
}

static void publish_destination(const struct config *c, uint8_t *world, uint32_t request)
{
    uint32_t n = c->requests[request].prompt_pages;

    for (uint32_t i = 0; i < n; i++)
        cell_set(world, &c->metadata_pages, request * c->prompt_pages_max + i, world_page(c, world, request, i));
    cell_set(world, &c->metadata_slot, request, world_state_slot(c, world, request));
    cell_set(world, &c->metadata_aux, request, world_aux_slot(c, world, request));
}

/* --- the wire --- */

uint32_t wire_index(const struct config *c, uint32_t request, enum effect kind, uint32_t chunk, uint32_t attempt)
{
    const struct request_config *r = &c->requests[request];

    return r->wire + attempt * (r->chunks + 2) +
           (kind == EFFECT_KV      ? chunk
            : kind == EFFECT_STATE ? r->chunks
                                   : r->chunks + 1);
}

uint32_t wire_live(const struct config *c, const uint8_t *world, uint32_t request, enum effect kind, uint32_t chunk)
{
    uint32_t index = wire_index(c, request, kind, chunk, 0);

    for (uint32_t attempt = 0; attempt < c->attempts; attempt++) {
        unsigned state = cell(world, &c->wire.state, wire_index(c, request, kind, chunk, attempt));

        if (state != WIRE_NONE && state != WIRE_ABANDONED && state != WIRE_HANDED)
            index = wire_index(c, request, kind, chunk, attempt);
    }
    return index;
}

struct wire_entry wire_entry(const struct config *c, uint32_t index)
{
    uint32_t r = 0, at, attempt, parts;

    while (r + 1 < c->requests_len && c->requests[r + 1].wire <= index)
        r++;
    parts = c->requests[r].chunks + 2;
    attempt = (index - c->requests[r].wire) / parts;
    at = (index - c->requests[r].wire) % parts;
    if (at < c->requests[r].chunks)
        return (struct wire_entry){ r, at, attempt, EFFECT_KV };
    return (struct wire_entry){ r, c->requests[r].chunks - 1, attempt, at + 2 == parts ? EFFECT_STATE : EFFECT_AUX };
}

/* The run of adjacent pages (at both ends) that begins at page `from` of the chunk: its length. */
static uint32_t run_len(const struct config *c, const uint8_t *world, uint32_t index, uint32_t from, uint32_t pages)
{
    uint32_t base = index * c->chunk_pages_max, n = 1;

    while (from + n < pages &&
           cell(world, &c->wire.dest_pages, base + from + n) == cell(world, &c->wire.dest_pages, base + from) + n &&
           cell(world, &c->wire.source_pages, base + from + n) == cell(world, &c->wire.source_pages, base + from) + n)
        n++;
    return n;
}

static uint32_t runs(const struct config *c, const uint8_t *world, uint32_t index, uint32_t pages)
{
    uint32_t count = 0;

    for (uint32_t from = 0; from < pages; from += run_len(c, world, index, from, pages))
        count++;
    return count;
}

uint32_t wire_fragments(const struct config *c, const uint8_t *world, uint32_t index)
{
    struct wire_entry e = wire_entry(c, index);

    return e.kind == EFFECT_KV ? c->layers * runs(c, world, index, chunk_pages(c, e.request, e.chunk)) : 1;
}

struct wire_fragment wire_fragment(const struct config *c, const uint8_t *world, uint32_t index, uint32_t fragment)
{
    struct wire_entry e = wire_entry(c, index);
    uint32_t pages = chunk_pages(c, e.request, e.chunk), per_layer = runs(c, world, index, pages), from = 0;

    if (c->wire_reverse)
        fragment = c->layers * per_layer - 1 - fragment;

    for (uint32_t i = fragment % per_layer; i > 0; i--)
        from += run_len(c, world, index, from, pages);
    return (struct wire_fragment){ .layer = fragment / per_layer,
                                   .pages = run_len(c, world, index, from, pages),
                                   .source_first =
                                       cell(world, &c->wire.source_pages, index * c->chunk_pages_max + from),
                                   .dest_first = cell(world, &c->wire.dest_pages, index * c->chunk_pages_max + from) };
}

static void wire_post(const struct config *c, uint8_t *world, uint32_t machine, const struct action *a)
{
    const struct prefill_layout *l = &c->machines[machine].prefill;
    const struct worker_layout *w = &l->workers[a->actor - ACTOR_WORKER];
    uint32_t index = wire_index(c, a->request, a->effect, a->chunk, 0), q = c->requests[a->request].prefill_local;
    const uint8_t *s = block_at(c, world, machine);

    assert(cell(world, &c->wire.state, index) == WIRE_NONE);
    cell_set(world, &c->wire.state, index, cell(world, &c->wire.revoked, a->request) ? WIRE_REFUSED : WIRE_FLYING);
    cell_set(world, &c->wire.worker, index, a->actor);
    if (a->effect == EFFECT_KV) {
        uint32_t n = chunk_pages(c, a->request, a->chunk), first = chunk_first(c, a->chunk);

        for (uint32_t i = 0; i < n; i++) {
            cell_set(world, &c->wire.dest_pages, index * c->chunk_pages_max + i, cell(s, &w->dest_pages, i));
            cell_set(world, &c->wire.source_pages, index * c->chunk_pages_max + i,
                     cell(s, &l->pages, q * c->machines[machine].prompt_pages_max + first + i));
        }
    } else {
        cell_set(world, &c->wire.dest, index, cell(s, a->effect == EFFECT_STATE ? &w->dest_slot : &w->dest_aux, 0));
        cell_set(world, &c->wire.source, index, a->effect == EFFECT_STATE ? cell(s, &l->slot, q) : 0);
    }
}

static void wire_retire(const struct config *c, uint8_t *world, uint32_t index)
{
    cell_set(world, &c->wire.state, index, WIRE_NONE);
    cell_set(world, &c->wire.worker, index, 0);
    cell_set(world, &c->wire.fragment, index, 0);
    cell_set(world, &c->wire.dest, index, 0);
    cell_set(world, &c->wire.source, index, 0);
    for (uint32_t i = 0; i < c->chunk_pages_max; i++) {
        cell_set(world, &c->wire.dest_pages, index * c->chunk_pages_max + i, 0);
        cell_set(world, &c->wire.source_pages, index * c->chunk_pages_max + i, 0);
    }
}

/* The engine sends it again, while the first bytes may still fly. False: it has done so often enough. */
static bool wire_retry(const struct config *c, uint8_t *world, uint32_t index)
{
    struct wire_entry e = wire_entry(c, index);
    uint32_t next = index + c->requests[e.request].chunks + 2;

    if (e.attempt + 1 >= c->attempts)
        return false;
    cell_set(world, &c->wire.state, next, WIRE_FLYING);
    cell_set(world, &c->wire.worker, next, cell(world, &c->wire.worker, index));
    cell_set(world, &c->wire.dest, next, cell(world, &c->wire.dest, index));
    cell_set(world, &c->wire.source, next, cell(world, &c->wire.source, index));
    for (uint32_t i = 0; i < c->chunk_pages_max; i++) {
        cell_set(world, &c->wire.dest_pages, next * c->chunk_pages_max + i,
                 cell(world, &c->wire.dest_pages, index * c->chunk_pages_max + i));
        cell_set(world, &c->wire.source_pages, next * c->chunk_pages_max + i,
                 cell(world, &c->wire.source_pages, index * c->chunk_pages_max + i));
    }
    cell_set(world, &c->wire.state, index, WIRE_ABANDONED);
    return true;
}

static void wire_abandon(const struct config *c, uint8_t *world, uint32_t index)
{
    if (cell(world, &c->wire.state, index) == WIRE_FLYING)
        cell_set(world, &c->wire.state, index, WIRE_ABANDONED);
    else
        wire_retire(c, world, index);
}

static void wire_complete(const struct config *c, uint8_t *world, uint32_t index)
{
    if (cell(world, &c->wire.state, index) == WIRE_FLYING)
        cell_set(world, &c->wire.state, index, WIRE_HANDED);
    else
        wire_retire(c, world, index);
}

/* Revokes the keys of destinations that were published so far, of `request`, of its prefill, or of this whole decode. */
static void wire_fence(const struct config *c, uint8_t *world, uint32_t request)
{
    const struct request_config *fenced = &c->requests[request];
    unsigned scope = c->policy.core[CORE_FENCE_SCOPE];

    for (uint32_t r = 0; r < c->requests_len; r++) {
        const struct request_config *q = &c->requests[r];

        if (q->decode != fenced->decode || (scope != FENCE_POOL && q->prefill != fenced->prefill) ||
            (scope == FENCE_ROOM && r != request) || world_stage(c, world, r) < DECODE_HELD ||
            world_stage(c, world, r) == DECODE_WAITING)
            continue;
        cell_set(world, &c->wire.revoked, r, 1);
        for (uint32_t i = 0; i < (q->chunks + 2) * c->attempts; i++) {
            unsigned state = cell(world, &c->wire.state, q->wire + i);

            if (state == WIRE_FLYING && !MUTANT(20))
                cell_set(world, &c->wire.state, q->wire + i, WIRE_REFUSED);
            else if (state == WIRE_ABANDONED || state == WIRE_HANDED)
                wire_retire(c, world, q->wire + i);
        }
    }
}

/*
 * An engine that notifies does so when its poll finds the handle done (NIXL 8770b655a6 src/plugins/ucx/ucx_backend.cpp
 * checkXfer); one that completes early, when the bytes are there. A handle that was released or has failed lands without.
 */
static void wire_notify(const struct config *c, uint32_t index, struct actions *out)
{
    struct wire_entry e = wire_entry(c, index);
    struct action *a;

    if (c->policy.engine[ENGINE_NOTICE] != NOTICE_NOTIFICATION)
        return;
    a = act(out, ACTION_SEND);
    a->message = MESSAGE_NOTIFY;
    a->to = c->requests[e.request].decode;
    a->request = e.request;
    a->n = wire_index(c, e.request, e.kind, e.chunk, 0) - c->requests[e.request].wire;
}

static void wire_land(const struct config *c, uint8_t *world, uint32_t index, struct actions *out)
{
    struct wire_entry e = wire_entry(c, index);
    uint32_t decode = c->requests[e.request].decode, fragment = cell(world, &c->wire.fragment, index);
    uint32_t dest = cell(world, &c->wire.dest, index);
    enum point at = POINT_KV_LANDED;
    bool last = fragment + 1 == wire_fragments(c, world, index);
    struct action *a;

    if (e.kind == EFFECT_KV) {
        struct wire_fragment f = wire_fragment(c, world, index, fragment);

        for (uint32_t i = 0; i < f.pages; i++)
            if (world_page_owner(c, world, decode, f.dest_first + i))
                cell_set(world, &c->page_tags[decode], (f.dest_first + i) * c->layers + f.layer, e.request + 1);
        at = last ? POINT_KV_LANDED : POINT_KV_FRAGMENT;
    } else if (e.kind == EFFECT_STATE) {
        if (world_slot_owner(c, world, decode, dest))
            cell_set(world, &c->slot_tags[decode], dest, e.request + 1);
        at = POINT_STATE_LANDED;
    } else {
        cell_set(world, &c->aux_tags[decode], dest, e.request + 1);
        at = POINT_AUX_LANDED;
    }
    if (last && cell(world, &c->wire.state, index) == WIRE_HANDED)
        wire_notify(c, index, out);
    a = act(out, ACTION_POINT);
    a->point = at;
    a->actor = cell(world, &c->wire.worker, index);
    a->request = e.request;
    a->chunk = e.chunk;
    a->n = fragment;
    a->to = index;
    if (!last)
        cell_set(world, &c->wire.fragment, index, fragment + 1);
    else if (cell(world, &c->wire.state, index) == WIRE_FLYING)
        cell_set(world, &c->wire.state, index, WIRE_LANDED);
    else
        wire_retire(c, world, index);
}

/* --- owners and tags --- */

static uint32_t owner(const struct config *c, const uint8_t *world, uint32_t machine, const struct cells *owners,
                      uint32_t id)
{
    uint32_t q = cell(block_at(c, world, machine), owners, id);

    return q ? c->machines[machine].requests[q - 1] + 1 : 0;
}

uint32_t world_page_owner(const struct config *c, const uint8_t *world, uint32_t machine, uint32_t page)
{
    return owner(c, world, machine, &c->machines[machine].decode.page_owner, page);
}

uint32_t world_slot_owner(const struct config *c, const uint8_t *world, uint32_t machine, uint32_t slot)
{
    return owner(c, world, machine, &c->machines[machine].decode.slot_owner, slot);
}

uint32_t world_aux_owner(const struct config *c, const uint8_t *world, uint32_t machine, uint32_t slot)
{
    return owner(c, world, machine, &c->machines[machine].decode.aux_owner, slot);
}

static uint32_t of_request(const struct config *c, const uint8_t *world, uint32_t request, const struct cells *t)
{
    const struct request_config *r = &c->requests[request];

    return cell(block_at(c, world, r->decode), t, r->decode_local);
}

uint32_t world_pages_len(const struct config *c, const uint8_t *world, uint32_t request)
{
    return of_request(c, world, request, &c->machines[c->requests[request].decode].decode.pages_len);
}

uint32_t world_page(const struct config *c, const uint8_t *world, uint32_t request, uint32_t idx)
{
    const struct request_config *r = &c->requests[request];
    const struct machine_config *m = &c->machines[r->decode];

    return cell(block_at(c, world, r->decode), &m->decode.pages, r->decode_local * m->pages_max + idx);
}

uint32_t world_state_slot(const struct config *c, const uint8_t *world, uint32_t request)
{
    return of_request(c, world, request, &c->machines[c->requests[request].decode].decode.slot);
}

uint32_t world_aux_slot(const struct config *c, const uint8_t *world, uint32_t request)
{
    return of_request(c, world, request, &c->machines[c->requests[request].decode].decode.aux_slot);
}

enum decode_stage world_stage(const struct config *c, const uint8_t *world, uint32_t request)
{
    return (enum decode_stage)of_request(c, world, request, &c->machines[c->requests[request].decode].decode.stage);
}

bool world_in_batch(const struct config *c, const uint8_t *world, uint32_t request)
{
    return of_request(c, world, request, &c->machines[c->requests[request].decode].decode.in_batch) != 0;
}

uint32_t world_tokens(const struct config *c, const uint8_t *world, uint32_t request)
{
    return of_request(c, world, request, &c->machines[c->requests[request].decode].decode.tokens);
}

uint32_t world_source_page(const struct config *c, const uint8_t *world, uint32_t request, uint32_t idx)
{
    const struct request_config *r = &c->requests[request];
    const struct machine_config *m = &c->machines[r->prefill];

    return cell(block_at(c, world, r->prefill), &m->prefill.pages, r->prefill_local * m->prompt_pages_max + idx);
}

uint32_t world_source_slot(const struct config *c, const uint8_t *world, uint32_t request)
{
    const struct request_config *r = &c->requests[request];

    return cell(block_at(c, world, r->prefill), &c->machines[r->prefill].prefill.slot, r->prefill_local);
}

bool world_troubled(const struct config *c, const uint8_t *world, uint32_t request)
{
    const struct request_config *r = &c->requests[request];

    return cell(world, &c->wire.revoked, request) ||
           decode_troubled(c, r->decode, block_at(c, world, r->decode), request) ||
           prefill_troubled(c, r->prefill, block_at(c, world, r->prefill), request);
}

uint32_t world_parts_missing(const struct config *c, const uint8_t *world, uint32_t request)
{
    const struct request_config *r = &c->requests[request];
    const struct machine_config *m = &c->machines[r->decode];
    uint32_t missing = 0;

    if (m->decode.arrived.len == 0)
        return UINT32_MAX;
    for (uint32_t i = 0; i < r->chunks + 2; i++)
        missing += !cell(block_at(c, world, r->decode), &m->decode.arrived, r->decode_local * m->parts_max + i);
    return missing;
}

static bool owns_page(const struct config *c, const uint8_t *world, uint32_t request, const struct cells *pages,
                      const uint8_t *block, uint32_t first, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t page = cell(block, pages, first + i);

        if (page && world_page_owner(c, world, c->requests[request].decode, page) == request + 1)
            return true;
    }
    return false;
}

static bool owns_slot(const struct config *c, const uint8_t *world, uint32_t request, uint32_t slot, uint32_t aux)
{
    return (slot && slot == world_state_slot(c, world, request)) || (aux && aux == world_aux_slot(c, world, request));
}

bool world_destination_shared(const struct config *c, const uint8_t *world, uint32_t request)
{
    uint32_t decode = c->requests[request].decode;

    for (uint32_t x = 0; x < c->requests_len; x++) {
        const struct request_config *q = &c->requests[x];
        const struct machine_config *m = &c->machines[q->prefill];
        const struct prefill_layout *l = &m->prefill;
        const uint8_t *block = block_at(c, world, q->prefill);
        uint32_t room = m->rooms[q->prefill_local];

        if (x == request || q->decode != decode)
            continue;
        if (owns_page(c, world, request, &c->metadata_pages, world, x * c->prompt_pages_max, c->prompt_pages_max) ||
            owns_slot(c, world, request, cell(world, &c->metadata_slot, x), cell(world, &c->metadata_aux, x)) ||
            owns_page(c, world, request, &l->room_pages, block, room * m->prompt_pages_max, m->prompt_pages_max) ||
            owns_slot(c, world, request, cell(block, &l->room_slot, room), cell(block, &l->room_aux, room)))
            return true;
        for (uint32_t k = 0; k < m->workers; k++)
            if (cell(block, &l->workers[k].actor.request, 0) == q->prefill_local + 1 &&
                (owns_page(c, world, request, &l->workers[k].dest_pages, block, 0, m->chunk_pages_max) ||
                 owns_slot(c, world, request, cell(block, &l->workers[k].dest_slot, 0),
                           cell(block, &l->workers[k].dest_aux, 0))))
                return true;
        for (uint32_t i = 0; i < (q->chunks + 2) * c->attempts; i++) {
            struct wire_entry e = wire_entry(c, q->wire + i);
            uint32_t dest = cell(world, &c->wire.dest, q->wire + i);

            if (cell(world, &c->wire.state, q->wire + i) != WIRE_NONE &&
                (owns_page(c, world, request, &c->wire.dest_pages, world, (q->wire + i) * c->chunk_pages_max,
                           c->chunk_pages_max) ||
                 owns_slot(c, world, request, e.kind == EFFECT_STATE ? dest : 0, e.kind == EFFECT_AUX ? dest : 0)))
                return true;
        }
    }
    return false;
}

bool world_reads_stale(const struct config *c, const uint8_t *world, uint32_t request)
{
    uint32_t decode = c->requests[request].decode, slot = world_state_slot(c, world, request), tag;

    for (uint32_t i = world_pages_len(c, world, request); i > 0; i--) {
        uint32_t page = world_page(c, world, request, i - 1);

        for (uint32_t layer = 0; layer < c->layers; layer++) {
            tag = cell(world, &c->page_tags[decode], page * c->layers + layer);
            if (tag != 0 && tag != request + 1)
                return true;
        }
    }
    tag = slot ? cell(world, &c->slot_tags[decode], slot) : 0;
    return tag != 0 && tag != request + 1;
}

static void forget_tags(const struct config *c, uint8_t *world, uint32_t machine)
{
    const struct side_config *side = &c->sides[SIDE_DECODE];

    for (uint32_t page = 1; page <= side->pages; page++)
        if (!world_page_owner(c, world, machine, page))
            for (uint32_t layer = 0; layer < c->layers; layer++)
                cell_set(world, &c->page_tags[machine], page * c->layers + layer, 0);
    for (uint32_t slot = 1; slot <= side->state_slots; slot++)
        if (!world_slot_owner(c, world, machine, slot))
            cell_set(world, &c->slot_tags[machine], slot, 0);
}

/* --- transitions --- */

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

uint32_t world_enabled_max(const struct config *c)
{
    uint32_t max = c->messages_max + 3 * c->wire_len + c->requests_len * 3, choices = 1;

    for (int s = 0; s < SIDE_COUNT; s++)
        choices = larger(larger(c->sides[s].pages, c->sides[s].state_slots), larger(c->sides[s].aux_slots, choices));
    for (uint32_t i = 0; i < c->machines_len; i++)
        max += c->machines[i].actors + (i >= c->prefill_len ? choices : 0);
    return max;
}

static uint32_t enabled_machine(const struct config *c, const uint8_t *world, uint32_t i, struct transition *out)
{
    const struct machine_config *m = &c->machines[i];
    const uint8_t *s = block_at(c, world, i);
    uint32_t n = 0;

    if (m->requests_len == 0)
        return 0;
    for (uint32_t actor = 0; actor < m->actors; actor++) {
        struct ready r = machine_ready(c, i, s, actor);

        for (uint32_t choice = 0; choice < r.choices; choice++)
            out[n++] = (struct transition){ TRANSITION_GO, i, actor, 0, choice };
        if (r.kind == READY_WAITING && machine_awaits(c, i, s, actor, EFFECT_FORWARD, 0))
            out[n++] = (struct transition){ TRANSITION_FORWARD, i, actor, 0, 0 };
    }
    for (uint32_t q = 0; m->side == SIDE_DECODE && q < m->requests_len; q++) {
        uint32_t r = m->requests[q];

        if (machine_timer(c, i, s, r))
            out[n++] = (struct transition){ TRANSITION_TIMER, i, ACTOR_SCHEDULER, r, 0 };
        if (machine_awaits(c, i, s, ACTOR_SCHEDULER, EFFECT_FENCE, r))
            out[n++] = (struct transition){ TRANSITION_FENCE, i, ACTOR_SCHEDULER, r, 0 };
        if (machine_awaits(c, i, s, ACTOR_SCHEDULER, EFFECT_AUX_READ, r) &&
            cell(world, &c->aux_tags[i], world_aux_slot(c, world, r)) != 0)
            out[n++] = (struct transition){ TRANSITION_AUX_READ, i, ACTOR_SCHEDULER, r, 0 };
    }
    return n;
}

static uint32_t enabled_between(const struct config *c, const uint8_t *world, struct transition *out)
{
    uint32_t n = 0, len = cell(world, &c->messages_len, 0);

    for (uint32_t i = 0; i < len; i++) {
        struct message m = message_at(c, world, i);
        uint32_t actor = machine_recipient(m.type);

        if (i > 0 && cell(world, &c->message_from, i - 1) == m.from && cell(world, &c->message_to, i - 1) == m.to)
            continue;
        if (machine_accepts(c, m.to, block_at(c, world, m.to), actor))
            out[n++] = (struct transition){ TRANSITION_DELIVER, m.to, actor, m.request, i };
    }
    for (uint32_t i = 0; i < c->wire_len; i++) {
        unsigned state = cell(world, &c->wire.state, i);
        struct wire_entry e;
        struct transition t;
        bool awaited;

        if (state == WIRE_NONE)
            continue;
        e = wire_entry(c, i);
        t = (struct transition){ TRANSITION_LAND, c->requests[e.request].prefill, cell(world, &c->wire.worker, i),
                                 e.request, i };
        awaited = (state != WIRE_ABANDONED || MUTANT(22)) && state != WIRE_HANDED &&
                  machine_awaits(c, t.machine, block_at(c, world, t.machine), t.actor, e.kind, e.request);
        if (state == WIRE_FLYING || state == WIRE_ABANDONED || state == WIRE_HANDED)
            out[n++] = t;
        t.kind = TRANSITION_COMPLETE;
        if (awaited && (state != WIRE_FLYING || c->policy.engine[ENGINE_COMPLETION] == COMPLETION_POSTED))
            out[n++] = t;
        t.kind = TRANSITION_GIVE_UP;
        if (awaited && state == WIRE_FLYING && c->policy.engine[ENGINE_TIMEOUT])
            out[n++] = t;
    }
    return n;
}

uint32_t world_enabled_part(const struct config *c, const uint8_t *world, uint32_t machine, struct transition *out)
{
    return machine < c->machines_len ? enabled_machine(c, world, machine, out) : enabled_between(c, world, out);
}

uint32_t world_enabled(const struct config *c, const uint8_t *world, struct transition *out)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i <= c->machines_len; i++)
        n += world_enabled_part(c, world, i, out + n);
    return n;
}

/* What a machine asked of its surroundings. */
static void carry_out(const struct config *c, uint8_t *world, uint32_t machine, const struct actions *actions)
{
    for (uint32_t i = 0; i < actions->len; i++) {
        const struct action *a = &actions->at[i];

        if (a->type == ACTION_SEND) {
            struct message m = { .type = a->message,
                                 .from = machine,
                                 .to = a->to,
                                 .request = a->request,
                                 .status = a->status,
                                 .part = a->message == MESSAGE_NOTIFY ? a->n : 0 };

            if (a->message == MESSAGE_METADATA)
                publish_destination(c, world, a->request);
            message_send(c, world, &m);
        } else if (a->type == ACTION_POST &&
                   (a->effect == EFFECT_KV || a->effect == EFFECT_STATE || a->effect == EFFECT_AUX)) {
            wire_post(c, world, machine, a);
        } else if (a->type == ACTION_ABANDON) {
            wire_abandon(c, world, wire_live(c, world, a->request, a->effect, a->chunk));
        } else if (a->type == ACTION_AUX_CLEAR) {
            if (a->status == POINT_STATUS_OK)
                cell_set(world, &c->aux_tags[machine], a->n, 0);
        } else if (a->type == ACTION_POINT && a->point == POINT_PAGES_FREE && !MUTANT(21)) {
            forget_tags(c, world, machine);
        }
    }
}

bool wire_can_fail(const struct config *c, const uint8_t *world, uint32_t index)
{
    struct wire_entry e = wire_entry(c, index);
    uint32_t machine = c->requests[e.request].prefill;

    return cell(world, &c->wire.state, index) == WIRE_FLYING &&
           machine_awaits(c, machine, block_at(c, world, machine), cell(world, &c->wire.worker, index), e.kind,
                          e.request);
}

void wire_fail(const struct config *c, uint8_t *world, uint32_t index, struct actions *actions)
{
    struct wire_entry e = wire_entry(c, index);
    uint32_t machine = c->requests[e.request].prefill;
    struct event failed = { .type = EVENT_DONE,
                            .actor = cell(world, &c->wire.worker, index),
                            .request = e.request,
                            .effect = e.kind,
                            .status = POINT_STATUS_ERROR };

    if (wire_retry(c, world, index))
        return;
    machine_step(c, machine, block_of(c, world, machine), &failed, actions);
    cell_set(world, &c->wire.state, index, WIRE_ABANDONED);
    carry_out(c, world, machine, actions);
}

void world_apply(const struct config *c, uint8_t *world, const struct transition *t, struct actions *actions)
{
    struct event e = { .actor = t->actor, .request = t->request };

    switch (t->kind) {
    case TRANSITION_LAND:
        wire_land(c, world, t->index, actions);
        carry_out(c, world, t->machine, actions);
        return;
    case TRANSITION_GO:
        e.type = EVENT_GO;
        e.choice = t->index;
        break;
    case TRANSITION_DELIVER:
        e.type = EVENT_MESSAGE;
        e.message = message_at(c, world, t->index);
        break;
    case TRANSITION_FORWARD:
        e.type = EVENT_DONE;
        e.effect = EFFECT_FORWARD;
        e.status = POINT_STATUS_OK;
        break;
    case TRANSITION_GIVE_UP:
        wire_fail(c, world, t->index, actions);
        return;
    case TRANSITION_COMPLETE:
        e.type = EVENT_DONE;
        e.effect = wire_entry(c, t->index).kind;
        e.status = cell(world, &c->wire.state, t->index) == WIRE_REFUSED ? POINT_STATUS_REFUSED : POINT_STATUS_OK;
        if (cell(world, &c->wire.state, t->index) == WIRE_LANDED)
            wire_notify(c, t->index, actions);
        break;
    case TRANSITION_FENCE:
        wire_fence(c, world, t->request);
        e.type = EVENT_DONE;
        e.effect = EFFECT_FENCE;
        e.status = POINT_STATUS_OK;
        break;
    case TRANSITION_AUX_READ: {
        uint32_t tag = cell(world, &c->aux_tags[t->machine], world_aux_slot(c, world, t->request));

        e.type = EVENT_DONE;
        e.effect = EFFECT_AUX_READ;
        e.status = c->requests[tag - 1].room == c->requests[t->request].room ? POINT_STATUS_OWN : POINT_STATUS_FOREIGN;
        break;
    }
    case TRANSITION_TIMER:
        e.type = EVENT_TIMER;
        break;
    }
    machine_step(c, t->machine, block_of(c, world, t->machine), &e, actions);
    if (t->kind == TRANSITION_DELIVER)
        message_remove(c, world, t->index);
    else if (t->kind == TRANSITION_COMPLETE)
        wire_complete(c, world, t->index);
    carry_out(c, world, t->machine, actions);
}

bool world_local(const struct config *c, const uint8_t *world, const struct transition *t)
{
    switch (t->kind) {
    case TRANSITION_GO:
        return machine_ready(c, t->machine, block_at(c, world, t->machine), t->actor).choices == 1 &&
               machine_local(c, t->machine, block_at(c, world, t->machine), t->actor);
    case TRANSITION_FORWARD: /* a prefill's: its chunk goes to the end of a queue */
        return t->machine < c->prefill_len;
    case TRANSITION_COMPLETE: /* of the last effect a status follows, which others read */
        if (cell(world, &c->wire.state, t->index) != WIRE_LANDED)
            return false;
        return c->policy.engine[ENGINE_POSTING] == POSTING_ASYNC || wire_entry(c, t->index).kind == EFFECT_KV ||
               (wire_entry(c, t->index).kind == EFFECT_STATE && !c->policy.core[CORE_RECHECK_AUX]);
    default:
        return false;
    }
}
