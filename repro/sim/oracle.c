#include "oracle.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "../mutant.h"

static bool allocate(struct oracle *o)
{
    const struct config *c = o->c;
    const struct side_config *d = &c->sides[SIDE_DECODE];

    o->requests = calloc(c->requests_len, sizeof *o->requests);
    o->holds = calloc(c->requests_len, sizeof *o->holds);
    o->hold_begin_us = calloc(c->requests_len, sizeof *o->hold_begin_us);
    o->hold_ends_by = calloc(c->requests_len, sizeof *o->hold_ends_by);
    o->wire_stale = calloc(c->wire_len, 1);
    o->stale_page = calloc(c->machines_len, sizeof *o->stale_page);
    o->stale_slot = calloc(c->machines_len, sizeof *o->stale_slot);
    o->stale_aux = calloc(c->machines_len, sizeof *o->stale_aux);
    o->last_page_owner = calloc(c->machines_len, sizeof *o->last_page_owner);
    o->last_slot_owner = calloc(c->machines_len, sizeof *o->last_slot_owner);
    o->noted_pages = calloc(c->requests_len, sizeof *o->noted_pages);
    o->shared = calloc((size_t)c->requests_len * c->requests_len, sizeof *o->shared);
    o->foreign = calloc((size_t)c->requests_len * c->requests_len, sizeof *o->foreign);
    o->foreign_now = calloc(c->requests_len, sizeof *o->foreign_now);
    if (!o->foreign || !o->foreign_now || !o->requests || !o->holds || !o->hold_begin_us || !o->hold_ends_by ||
        !o->wire_stale || !o->stale_page || !o->stale_slot || !o->stale_aux || !o->last_page_owner ||
        !o->last_slot_owner || !o->noted_pages || !o->shared)
        return false;
    for (uint32_t m = c->prefill_len; m < c->machines_len; m++) {
        o->stale_page[m] = calloc(d->pages + 1u, 1);
        o->stale_slot[m] = calloc(d->state_slots + 1u, 1);
        o->stale_aux[m] = calloc(d->aux_slots + 1u, 1);
        o->last_page_owner[m] = calloc(d->pages + 1u, sizeof **o->last_page_owner);
        o->last_slot_owner[m] = calloc(d->state_slots + 1u, sizeof **o->last_slot_owner);
        if (!o->stale_page[m] || !o->stale_slot[m] || !o->stale_aux[m] || !o->last_page_owner[m] ||
            !o->last_slot_owner[m])
            return false;
    }
    return true;
}

int oracle_init(struct oracle *o, const struct config *c, const struct watch_spec *watch)
{
    *o = (struct oracle){ .c = c,
                          .watch = watch,
                          .write_end_us = UINT64_MAX,
                          .first_change_us = UINT64_MAX,
                          .first_stale_us = UINT64_MAX,
                          .rows_per_token = c->layers };
    if (!allocate(o))
        return -ENOMEM;
    for (uint32_t r = 0; r < c->requests_len; r++) {
        o->hold_begin_us[r] = UINT64_MAX;
        o->requests[r] = (struct request_result){ .output = -1,
                                                  .finish_reason = FINISH_NONE,
                                                  .admitted_us = UINT64_MAX,
                                                  .answered_us = { UINT64_MAX, UINT64_MAX },
                                                  .committed_us = UINT64_MAX,
                                                  .freed_us = UINT64_MAX,
                                                  .write_end_us = UINT64_MAX,
                                                  .shared_with = -1,
                                                  .foreign_state = -1 };
    }
    return watch->request >= 0 ? rows_init(&o->rows, watch->tokens * c->layers, MODEL_ROW_FLOATS * sizeof(float)) : 0;
}

void oracle_fini(struct oracle *o)
{
    for (uint32_t m = 0; o->c && m < o->c->machines_len; m++) {
        free(o->stale_page ? o->stale_page[m] : NULL);
        free(o->stale_slot ? o->stale_slot[m] : NULL);
        free(o->stale_aux ? o->stale_aux[m] : NULL);
        free(o->last_page_owner ? o->last_page_owner[m] : NULL);
        free(o->last_slot_owner ? o->last_slot_owner[m] : NULL);
    }
    free(o->requests);
    free(o->holds);
    free(o->hold_begin_us);
    free(o->hold_ends_by);
    free(o->wire_stale);
    free(o->stale_page);
    free(o->stale_slot);
    free(o->stale_aux);
    free(o->last_page_owner);
    free(o->last_slot_owner);
    free(o->noted_pages);
    free(o->shared);
    free(o->foreign);
    free(o->foreign_now);
    rows_fini(&o->rows);
    *o = (struct oracle){ 0 };
}

/* --- who owned what when bytes landed --- */

static void count_landing(struct oracle *o, uint32_t owner, uint32_t writer, uint8_t *seen, enum expect_number number,
                          uint64_t bytes, bool *stale)
{
    if (owner == writer)
        return;
    if (owner == 0) {
        o->numbers[EXPECT_STALE_FREE_BYTES] += bytes;
        return;
    }
    *stale = true;
    o->numbers[EXPECT_STALE_BYTES] += bytes;
    o->numbers[number] += !*seen;
    *seen = 1;
}

void oracle_landing(struct oracle *o, struct sim *s, uint32_t wire, uint32_t fragment)
{
    const struct config *c = o->c;
    struct wire_entry e = wire_entry(c, wire);
    uint32_t m = c->requests[e.request].decode, dest = cell(s->world, &c->wire.dest, wire), writer = e.request + 1;
    bool stale = false;

    if (e.kind == EFFECT_KV) {
        struct wire_fragment f = wire_fragment(c, s->world, wire, fragment);
        uint64_t page_bytes = (uint64_t)c->page_tokens * MODEL_ROW_FLOATS * sizeof(float);

        for (uint32_t i = 0; i < f.pages; i++)
            count_landing(o, world_page_owner(c, s->world, m, f.dest_first + i), writer,
                          &o->stale_page[m][f.dest_first + i], EXPECT_STALE_PAGES, page_bytes, &stale);
    } else if (e.kind == EFFECT_STATE) {
        count_landing(o, MUTANT(26) ? writer : world_slot_owner(c, s->world, m, dest), writer, &o->stale_slot[m][dest],
                      EXPECT_STALE_SLOTS, MODEL_STATE_FLOATS * sizeof(float), &stale);
    } else {
        count_landing(o, world_aux_owner(c, s->world, m, dest), writer, &o->stale_aux[m][dest], EXPECT_STALE_AUX,
                      sizeof(struct aux_record), &stale);
    }
    if (!stale)
        return;
    o->wire_stale[wire] = 1;
    if (o->first_stale_us == UINT64_MAX) {
        o->first_stale_us = s->now_us;
        o->first_stale_token = o->watch->request >= 0 ? s->tokens_len[o->watch->request] : UINT32_MAX;
    }
}

/* --- the watched rows --- */

static void watch_begin(struct oracle *o, struct sim *s, const struct pass *p)
{
    for (uint32_t token = 0; token < o->watch->tokens; token++)
        for (uint32_t layer = 0; layer < o->c->layers; layer++)
            o->rows.row[token * o->c->layers + layer] = memory_row(
                &s->memory[p->machine], MUTANT(27) ? 0 : layer,
                world_page(o->c, s->world, p->request, token / o->c->page_tokens), token % o->c->page_tokens);
    rows_baseline(&o->rows);
    o->watching = true;
}

static void watch_look(struct oracle *o, struct sim *s)
{
    if (o->watching && rows_look(&o->rows) > 0 && o->first_change_us == UINT64_MAX)
        o->first_change_us = s->now_us;
}

void oracle_landed(struct oracle *o, struct sim *s, uint32_t wire)
{
    if (o->watch->request >= 0 && !MUTANT(38) &&
        o->c->requests[wire_entry(o->c, wire).request].decode == o->c->requests[o->watch->request].decode)
        watch_look(o, s);
}

/* --- memory that goes from one request to another --- */

static void note_pages(struct oracle *o, struct sim *s, uint32_t request)
{
    uint32_t m = o->c->requests[request].decode, len = world_pages_len(o->c, s->world, request);
    struct request_result *r = &o->requests[request];

    for (uint32_t i = o->noted_pages[request]; i < len; i++) {
        uint32_t *last = &o->last_page_owner[m][world_page(o->c, s->world, request, i)];

        if (*last && *last != request + 1) {
            uint32_t *shared = &o->shared[request * o->c->requests_len + *last - 1];

            r->shared_pages++;
            ++*shared;
            if (r->shared_with < 0 || *shared > o->shared[request * o->c->requests_len + (uint32_t)r->shared_with])
                r->shared_with = (int)*last - 1;
            o->numbers[EXPECT_SHARED_PAGES]++;
        }
        *last = request + 1;
    }
    o->noted_pages[request] = len;
}

static void note_alloc(struct oracle *o, struct sim *s, uint32_t request)
{
    uint32_t m = o->c->requests[request].decode;
    uint32_t *last = &o->last_slot_owner[m][world_state_slot(o->c, s->world, request)];
    struct request_result *r = &o->requests[request];

    r->admitted = true;
    r->admitted_us = s->now_us;
    note_pages(o, s, request);
    r->shared_prompt_pages = r->shared_pages;
    r->shared_slot = *last && *last != request + 1;
    if (r->shared_slot && r->shared_with < 0)
        r->shared_with = (int)*last - 1;
    *last = request + 1;
}

/* Whose rows this step of the request reads. */
static void note_foreign(struct oracle *o, struct sim *s, uint32_t request)
{
    const struct config *c = o->c;
    const struct memory *m = &s->memory[c->requests[request].decode];
    uint32_t rows = c->requests[request].prompt_tokens + world_tokens(c, s->world, request) - 1;
    uint32_t state = m->slot_writer[world_state_slot(c, s->world, request)];

    memset(o->foreign_now, 0, c->requests_len * sizeof *o->foreign_now);
    for (uint32_t token = 0; token < rows; token++) {
        uint32_t page = world_page(c, s->world, request, token / c->page_tokens), seen = 0;

        for (uint32_t layer = 0; layer < c->layers; layer++) {
            uint32_t writer = *memory_row_writer(m, layer, page, token % c->page_tokens);

            if (writer == 0 || writer == request + 1 || writer == seen)
                continue;
            seen = writer;
            if (o->foreign_now[writer - 1].rows++ == 0)
                o->foreign_now[writer - 1].first = token;
            o->foreign_now[writer - 1].last = token;
        }
    }
    for (uint32_t w = 0; w < c->requests_len; w++)
        if (o->foreign_now[w].rows > o->foreign[request * c->requests_len + w].rows)
            o->foreign[request * c->requests_len + w] = o->foreign_now[w];
    if (state && state != request + 1)
        o->requests[request].foreign_state = (int)state - 1;
}

void oracle_forward(struct oracle *o, struct sim *s, uint32_t machine)
{
    for (uint32_t q = 0; q < o->c->machines[machine].requests_len; q++) {
        uint32_t request = o->c->machines[machine].requests[q];

        if (!world_in_batch(o->c, s->world, request))
            continue;
        note_pages(o, s, request);
        note_foreign(o, s, request);
    }
}

/* --- holds and clients --- */

static void hold_end(struct oracle *o, uint32_t request, int ended_by, uint64_t now_us)
{
    o->holds[o->holds_len++] = (struct hold_result){ .request = request,
                                                     .ended_by = ended_by,
                                                     .began_us = o->hold_begin_us[request],
                                                     .held_us = now_us - o->hold_begin_us[request] };
    o->hold_begin_us[request] = UINT64_MAX;
}

static void trace_add(struct oracle *o, const struct pass *p)
{
    uint64_t fields[] = { p->time_us, p->machine, p->actor, p->point, p->status, p->request, p->chunk, p->n };
    uint8_t bytes[sizeof fields];

    for (size_t i = 0; i < sizeof fields; i++)
        bytes[i] = (uint8_t)(fields[i / 8] >> (8 * (i % 8)));
    o->trace = XXH3_64bits_withSeed(bytes, sizeof bytes, o->trace);
}

void oracle_passed(struct oracle *o, struct sim *s, const struct pass *p)
{
    trace_add(o, p);
    switch (p->point) {
    case POINT_PAGES_ALLOC:
        note_alloc(o, s, p->request);
        break;
    case POINT_TRANSFER_COMMIT:
        o->requests[p->request].committed_us = s->now_us;
        if ((int)p->request == o->watch->request)
            watch_begin(o, s, p);
        break;
    case POINT_REQUEST_FINISH:
        if ((int)p->request == o->watch->request)
            watch_look(o, s);
        break;
    case POINT_HOLD_BEGIN:
        o->hold_begin_us[p->request] = s->now_us;
        o->hold_ends_by[p->request] = HOLD_END_ACK;
        break;
    case POINT_HOLD_EXPIRE:
        o->hold_ends_by[p->request] = MUTANT(28) ? HOLD_END_ACK : HOLD_END_TIMER;
        break;
    case POINT_FENCE:
        o->hold_ends_by[p->request] = HOLD_END_FENCE;
        break;
    case POINT_PAGES_FREE:
        o->requests[p->request].freed_us = s->now_us;
        if (o->hold_begin_us[p->request] != UINT64_MAX)
            hold_end(o, p->request, o->hold_ends_by[p->request], s->now_us);
        if ((int)p->request == o->watch->request)
            o->watching = false;
        break;
    case POINT_KV_LANDED:
        o->requests[p->request].write_end_us = s->now_us;
        if (o->wire_stale[p->wire])
            o->write_end_us = s->now_us;
        break;
    default:
        break;
    }
}

void oracle_answered(struct oracle *o, struct sim *s, uint32_t request, enum side side, enum point_status status)
{
    struct request_result *r = &o->requests[request];
    /* An aborted or failed request ends as HTTP 500 (SGLang 90354326c7 disaggregation/decode.py pop_transferred). */
    uint32_t http = status == POINT_STATUS_OK ? 200 : 500;

    r->answered_us[side] = s->now_us;
    if (side == SIDE_PREFILL) {
        r->prefill_status = http;
        return;
    }
    r->status = http;
    r->finish_reason = status == POINT_STATUS_OK      ? FINISH_LENGTH
                       : status == POINT_STATUS_ABORT ? FINISH_ABORT
                                                      : FINISH_ERROR;
}

void oracle_close(struct oracle *o, struct sim *s)
{
    const struct config *c = o->c;

    for (uint32_t r = 0; r < c->requests_len; r++)
        if (o->hold_begin_us[r] != UINT64_MAX)
            hold_end(o, r, HOLD_END_NEVER, s->now_us);
    for (uint32_t m = c->prefill_len; m < c->machines_len; m++)
        for (uint32_t page = 1; c->machines[m].requests_len && page <= c->sides[SIDE_DECODE].pages; page++)
            o->numbers[EXPECT_PINNED_PAGES] += world_page_owner(c, s->world, m, page) != 0;
    watch_look(o, s);
    for (uint32_t token = 0; o->watch->request >= 0 && token < o->watch->tokens; token++) {
        bool changed = false;

        for (uint32_t layer = 0; layer < c->layers; layer++)
            changed = changed || o->rows.changed[token * c->layers + layer];
        o->numbers[EXPECT_WATCHED_TOKENS_CHANGED] += changed;
    }
}
