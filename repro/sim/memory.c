#include "memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int memory_init(struct memory *m, const struct config *c, enum side side)
{
    const struct side_config *s = &c->sides[side];
    size_t page_floats = (size_t)c->page_tokens * MODEL_ROW_FLOATS;
    int failed = 0;

    memset(m, 0, sizeof *m);
    m->kv.page_tokens = c->page_tokens;
    for (int layer = 0; layer < MODEL_ATTN_LAYERS; layer++) {
        m->kv.layer[layer] = calloc((size_t)s->pages + 1, page_floats * sizeof(float));
        m->row_writer[layer] = calloc((size_t)s->pages + 1, c->page_tokens);
        failed |= m->kv.layer[layer] == NULL || m->row_writer[layer] == NULL;
    }
    m->state = calloc((size_t)s->state_slots + 1, MODEL_STATE_FLOATS * sizeof(float));
    m->slot_writer = calloc((size_t)s->state_slots + 1, 1);
    failed |= m->slot_writer == NULL;
    if (side == SIDE_DECODE)
        m->aux = calloc((size_t)s->aux_slots + 1, sizeof *m->aux);
    if (!failed && m->state && (m->aux || side == SIDE_PREFILL))
        return 0;
    memory_fini(m);
    return -ENOMEM;
}

void memory_fini(struct memory *m)
{
    for (int layer = 0; layer < MODEL_ATTN_LAYERS; layer++) {
        free(m->kv.layer[layer]);
        free(m->row_writer[layer]);
    }
    free(m->slot_writer);
    free(m->state);
    free(m->aux);
    memset(m, 0, sizeof *m);
}
