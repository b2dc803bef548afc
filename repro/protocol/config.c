#include "config.h"

#include <stdlib.h>
#include <string.h>

/* A bump allocator: first run with base NULL only measures, the second hands out. */
struct arena {
    uint8_t *base;
    size_t used;
};

static void *take(struct arena *a, size_t count, size_t size)
{
    size_t at = (a->used + 15u) & ~(size_t)15u;

    a->used = at + count * size;
    return a->base ? a->base + at : NULL;
}

static uint32_t max32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}
static uint32_t div_up(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

static struct cells table(uint32_t *size, uint32_t len, uint32_t value_max)
{
    struct cells t = { *size, value_max > 0xff ? 2u : 1u, len };

    *size += t.width * len;
    return t;
}

static struct allocator_layout allocator_table(uint32_t *size, enum allocator kind, uint32_t len)
{
    struct allocator_layout a = { .kind = kind, .len = len };

    a.free_len = table(size, 1, len);
    a.free = table(size, len, len);
    if (kind == ALLOCATOR_SORTED) {
        a.released_len = table(size, 1, len);
        a.released = table(size, len, len);
    }
    return a;
}

static struct actor_layout actor_table(uint32_t *size, const struct config *c, const struct machine_config *m,
                                       uint32_t chunks_max)
{
    struct actor_layout a;

    a.pc = table(size, 1, 0xff);
    a.request = table(size, 1, m->requests_len);
    a.chunk = table(size, 1, chunks_max);
    a.status = table(size, 1, 0xff);
    a.peer = table(size, 1, c->machines_len + 1);
    return a;
}

static void lay_prefill(struct config *c, struct machine_config *m, uint32_t chunks_max, struct arena *arena)
{
    const struct side_config *side = &c->sides[SIDE_PREFILL], *peer = &c->sides[SIDE_DECODE];
    struct prefill_layout *l = &m->prefill;
    uint32_t n = m->requests_len, size = 0, chunks = 0;

    for (uint32_t q = 0; arena->base && q < n; q++)
        chunks += c->requests[m->requests[q]].chunks;
    l->workers = take(arena, m->workers, sizeof *l->workers);
    if (!arena->base)
        return;
    l->scheduler = actor_table(&size, c, m, chunks_max);
    l->receiver = actor_table(&size, c, m, chunks_max);
    for (uint32_t k = 0; k < m->workers; k++) {
        l->workers[k].actor = actor_table(&size, c, m, chunks_max);
        l->workers[k].dest_pages = table(&size, m->chunk_pages_max, peer->pages);
        l->workers[k].dest_slot = table(&size, 1, peer->state_slots);
        l->workers[k].dest_aux = table(&size, 1, peer->aux_slots);
        l->workers[k].handles = table(&size, c->policy.engine[ENGINE_POSTING] == POSTING_ASYNC, 0xff);
    }
    l->queue_len = table(&size, 1, chunks);
    l->queue = table(&size, chunks, n);
    l->queue_chunk = table(&size, chunks, chunks_max);
    l->order_len = table(&size, 1, n);
    l->order = table(&size, n, n);
    l->stage = table(&size, n, 0xff);
    l->chunks_computed = table(&size, n, chunks_max);
    l->concluded = table(&size, n, 1);
    l->slot = table(&size, n, side->state_slots);
    l->pages = table(&size, n * m->prompt_pages_max, side->pages);
    l->room_status = table(&size, n, 0xff);
    l->room_target = table(&size, n, c->machines_len + 1);
    l->room_outstanding = table(&size, n, chunks);
    l->room_slot = table(&size, n, peer->state_slots);
    l->room_aux = table(&size, n, peer->aux_slots);
    l->room_pages = table(&size, n * m->prompt_pages_max, peer->pages);
    l->session_failed = table(&size, c->machines_len - c->prefill_len, 1);
    l->page_pool = allocator_table(&size, side->allocator, side->pages);
    l->slot_pool = allocator_table(&size, side->slot_allocator, side->state_slots);
    m->size = size;
}

static void lay_decode(struct config *c, struct machine_config *m, uint32_t chunks_max, uint32_t tokens_max)
{
    const struct side_config *side = &c->sides[SIDE_DECODE];
    struct decode_layout *l = &m->decode;
    uint32_t n = m->requests_len, size = 0;

    l->scheduler = actor_table(&size, c, m, chunks_max);
    l->receiver = actor_table(&size, c, m, chunks_max);
    l->phase = table(&size, 1, 0xff);
    l->order_len = table(&size, 1, n);
    l->order = table(&size, n, n);
    l->stage = table(&size, n, 0xff);
    l->failed = table(&size, n, 0xff);
    l->status = table(&size, n, 0xff);
    l->aux = table(&size, n, 0xff);
    l->expired = table(&size, n, 1);
    l->fence = table(&size, n, 0xff);
    l->in_batch = table(&size, n, 1);
    l->slot = table(&size, n, side->state_slots);
    l->aux_slot = table(&size, n, side->aux_slots);
    l->request_slot = table(&size, n, side->request_slots);
    l->pages_len = table(&size, n, m->pages_max);
    l->tokens = table(&size, n, tokens_max);
    l->arrived = table(&size, c->policy.engine[ENGINE_NOTICE] == NOTICE_NOTIFICATION ? n * m->parts_max : 0, 1);
    l->pages = table(&size, n * m->pages_max, side->pages);
    l->room_request = table(&size, n, n);
    l->room_armed = table(&size, n, 1);
    l->room_acks = table(&size, n, c->machines_len);
    l->page_owner = table(&size, side->pages + 1, n);
    l->slot_owner = table(&size, side->state_slots + 1, n);
    l->aux_owner = table(&size, side->aux_slots + 1, n);
    l->page_pool = allocator_table(&size, side->allocator, side->pages);
    l->slot_pool = allocator_table(&size, side->slot_allocator, side->state_slots);
    l->aux_pool = allocator_table(&size, side->slot_allocator, side->aux_slots);
    /* Hybrid models take request slots from the tail: SGLang c58953d90 (#32208). */
    l->request_pool = allocator_table(&size, ALLOCATOR_LIFO, side->request_slots);
    m->size = size;
}

static void lay_world(struct config *c)
{
    const struct side_config *from = &c->sides[SIDE_PREFILL], *to = &c->sides[SIDE_DECODE];
    struct wire_layout *w = &c->wire;
    uint32_t size = 0, n = c->requests_len;

    for (uint32_t i = 0; i < c->machines_len; i++) {
        c->machines[i].offset = size;
        size += c->machines[i].size;
    }
    c->messages_len = table(&size, 1, c->messages_max);
    c->message_type = table(&size, c->messages_max, 0xff);
    c->message_from = table(&size, c->messages_max, c->machines_len);
    c->message_to = table(&size, c->messages_max, c->machines_len);
    c->message_request = table(&size, c->messages_max, n);
    c->message_status = table(&size, c->messages_max, 0xff);
    c->message_part =
        table(&size, c->policy.engine[ENGINE_NOTICE] == NOTICE_NOTIFICATION ? c->messages_max : 0, c->wire_len);
    c->metadata_pages = table(&size, n * c->prompt_pages_max, to->pages);
    c->metadata_slot = table(&size, n, to->state_slots);
    c->metadata_aux = table(&size, n, to->aux_slots);
    w->state = table(&size, c->wire_len, 0xff);
    w->worker = table(&size, c->wire_len, 0xff);
    w->fragment = table(&size, c->wire_len, c->chunk_pages_max * c->layers);
    w->dest = table(&size, c->wire_len, max32(to->state_slots, to->aux_slots));
    w->source = table(&size, c->wire_len, from->state_slots);
    w->dest_pages = table(&size, c->wire_len * c->chunk_pages_max, to->pages);
    w->source_pages = table(&size, c->wire_len * c->chunk_pages_max, from->pages);
    w->revoked = table(&size, n, 1);
    for (uint32_t i = c->prefill_len; i < c->machines_len; i++) {
        c->page_tags[i] = table(&size, (to->pages + 1) * c->layers, n);
        c->slot_tags[i] = table(&size, to->state_slots + 1, n);
        c->aux_tags[i] = table(&size, to->aux_slots + 1, n);
    }
    c->world_size = size;
}

static void fill_requests(struct config *c, const struct config_input *in)
{
    uint32_t wire = 0;

    for (uint32_t r = 0; r < in->requests_len; r++) {
        const struct request_input *from = &in->requests[r];
        struct request_config *q = &c->requests[r];
        uint32_t chunk_tokens = in->chunk_tokens ? in->chunk_tokens : from->prompt_tokens;

        q->prompt_tokens = from->prompt_tokens;
        q->max_tokens = from->max_tokens;
        q->prompt_pages = div_up(from->prompt_tokens, in->page_tokens);
        /* The last token is never fed back: its row is not written. */
        q->pages_max = div_up(from->prompt_tokens + from->max_tokens - 1, in->page_tokens);
        q->chunks = div_up(from->prompt_tokens, chunk_tokens);
        q->prefill = from->prefill;
        q->decode = c->prefill_len + from->decode;
        q->room = from->room;
        q->wire = wire;
        wire += (q->chunks + 2) * c->attempts;
    }
    c->wire_len = wire;
}

static uint32_t add_request(struct config *c, struct machine_config *m, uint32_t r)
{
    uint32_t local = m->requests_len++;

    m->requests[local] = r;
    m->rooms[local] = local;
    for (uint32_t q = 0; q < local; q++)
        if (c->requests[m->requests[q]].room == c->requests[r].room) {
            m->rooms[local] = m->rooms[q];
            break;
        }
    return local;
}

static void lay_out(struct config *c, const struct config_input *in, struct arena *arena)
{
    uint32_t chunks_max = 1, tokens_max = 1;

    c->requests = take(arena, in->requests_len, sizeof *c->requests);
    c->machines = take(arena, c->machines_len, sizeof *c->machines);
    c->page_tags = take(arena, c->machines_len, sizeof *c->page_tags);
    c->slot_tags = take(arena, c->machines_len, sizeof *c->slot_tags);
    c->aux_tags = take(arena, c->machines_len, sizeof *c->aux_tags);
    if (arena->base)
        fill_requests(c, in);
    for (uint32_t r = 0; arena->base && r < c->requests_len; r++) {
        const struct request_config *q = &c->requests[r];
        uint32_t chunk_tokens = in->chunk_tokens ? in->chunk_tokens : q->prompt_tokens;

        chunks_max = max32(chunks_max, q->chunks);
        tokens_max = max32(tokens_max, q->max_tokens);
        c->prompt_pages_max = max32(c->prompt_pages_max, q->prompt_pages);
        c->chunk_pages_max =
            max32(c->chunk_pages_max,
                  div_up(chunk_tokens < q->prompt_tokens ? chunk_tokens : q->prompt_tokens, in->page_tokens));
    }
    for (uint32_t i = 0; i < c->machines_len; i++) {
        uint32_t *requests = take(arena, in->requests_len, sizeof *requests);
        uint32_t *rooms = take(arena, in->requests_len, sizeof *rooms);
        enum side side = i < c->prefill_len ? SIDE_PREFILL : SIDE_DECODE;
        uint32_t workers = side == SIDE_PREFILL ? in->sides[side].workers : 0;
        struct machine_config measured = { .workers = workers }, *m = &measured;

        if (arena->base) {
            uint32_t idx = side == SIDE_PREFILL ? i : i - c->prefill_len;

            m = &c->machines[i];
            *m = (struct machine_config){ .side = side,
                                          .instance = idx / in->sides[side].ranks,
                                          .rank = idx % in->sides[side].ranks,
                                          .workers = workers,
                                          .actors = ACTOR_WORKER + workers,
                                          .requests = requests,
                                          .rooms = rooms,
                                          .prompt_pages_max = c->prompt_pages_max,
                                          .chunk_pages_max = c->chunk_pages_max,
                                          .parts_max = chunks_max + 2 };
            for (uint32_t r = 0; r < c->requests_len; r++) {
                struct request_config *q = &c->requests[r];

                if (q->prefill == i)
                    q->prefill_local = add_request(c, m, r);
                else if (q->decode == i)
                    q->decode_local = add_request(c, m, r);
                else
                    continue;
                m->pages_max = max32(m->pages_max, q->pages_max);
            }
        }
        if (side == SIDE_PREFILL)
            lay_prefill(c, m, chunks_max, arena);
        else if (arena->base)
            lay_decode(c, m, chunks_max, tokens_max);
    }
    if (arena->base)
        lay_world(c);
}

struct config *config_new(const struct config_input *in)
{
    struct arena arena = { 0 };
    struct config shape = { .policy = in->policy,
                            .page_tokens = in->page_tokens,
                            .chunk_tokens = in->chunk_tokens,
                            .layers = in->layers,
                            .requests_len = in->requests_len,
                            .wire_reverse = in->wire_reverse,
                            .attempts = 1 + in->policy.engine[ENGINE_RETRIES] },
                  *c;

    memcpy(shape.sides, in->sides, sizeof shape.sides);
    shape.prefill_len = in->sides[SIDE_PREFILL].instances * in->sides[SIDE_PREFILL].ranks;
    shape.machines_len = shape.prefill_len + in->sides[SIDE_DECODE].instances * in->sides[SIDE_DECODE].ranks;
    /* Per request: submit and abort on each side, metadata, abort, an ack, one status a chunk at the most, one notification a
     * write. */
    shape.messages_max = in->message_spare;
    for (uint32_t r = 0; r < in->requests_len; r++) {
        uint32_t chunk_tokens = in->chunk_tokens ? in->chunk_tokens : in->requests[r].prompt_tokens;
        uint32_t chunks = div_up(in->requests[r].prompt_tokens, chunk_tokens);

        shape.messages_max += 7 + chunks;
        if (in->policy.engine[ENGINE_NOTICE] == NOTICE_NOTIFICATION)
            shape.messages_max += (chunks + 2) * shape.attempts;
    }
    c = &shape;
    lay_out(c, in, &arena);
    c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    *c = shape;
    arena.base = calloc(1, arena.used + 16);
    if (!arena.base) {
        free(c);
        return NULL;
    }
    c->memory = arena.base;
    arena.used = 0;
    lay_out(c, in, &arena);
    return c;
}

void config_free(struct config *c)
{
    if (!c)
        return;
    free(c->memory);
    free(c);
}
