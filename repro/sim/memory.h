/*
 * The bytes of one machine: KV pages of every attention layer, state slots, and on the decode side aux slots. Addresses
 * are base + page * item length, as in the real system. Zeroed when made; page 0 and slot 0 exist.
 */
#ifndef KVREPRO_MEMORY_H
#define KVREPRO_MEMORY_H

#include <stdint.h>

#include "../model/model.h"
#include "../protocol/config.h"

/* What travels last: the room id (never 0 once written), the token that the prefill chose, the prompt's length. */
struct aux_record {
    uint64_t room;
    uint32_t first_token, prompt_tokens;
};

struct memory {
    struct model_kv kv;
    float *state;           /* [slots + 1][MODEL_STATE_FLOATS] */
    struct aux_record *aux; /* [aux slots + 1]; NULL on the prefill side */
    /* Who computed what lies there: request + 1, 0 nobody. Travels with the bytes, and no result depends on it. */
    uint8_t *row_writer[MODEL_ATTN_LAYERS]; /* [pages + 1][page_tokens] */
    uint8_t *slot_writer;                   /* [slots + 1] */
};

/* -ENOMEM. */
int memory_init(struct memory *m, const struct config *c, enum side side);
void memory_fini(struct memory *m);

static inline float *memory_row(const struct memory *m, uint32_t layer, uint32_t page, uint32_t token)
{
    return m->kv.layer[layer] + ((uint64_t)page * m->kv.page_tokens + token) * MODEL_ROW_FLOATS;
}

static inline uint8_t *memory_row_writer(const struct memory *m, uint32_t layer, uint32_t page, uint32_t token)
{
    return m->row_writer[layer] + (uint64_t)page * m->kv.page_tokens + token;
}

static inline float *memory_slot(const struct memory *m, uint32_t slot)
{
    return m->state + (uint64_t)slot * MODEL_STATE_FLOATS;
}

#endif
