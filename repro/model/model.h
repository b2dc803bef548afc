/* The embedded engine's model: a small hybrid decoder whose output is the same bits on every build.
 *
 * Twice three gated-delta-rule layers and one softmax-attention layer; fp32; weights from a seed. What a sequence remembers lives
 * in memory of the caller's: K and V rows in pages, the recurrent state of all gated-delta layers in one state slot. Both are
 * read again at every token, so bytes that change there show in the next logits or soon after.
 *
 * A struct model is read-only once made and may be shared by threads; a struct model_work belongs to one thread; two calls
 * on one sequence must not overlap. Only model_new() and model_work_new() can fail (NULL: out of memory). Page contents and
 * states may be any bytes: once they hold a NaN the bits of a NaN are the compiler's, but which values are NaN, and the tokens,
 * remain the same. Token ids, positions and page numbers must be in range. */
#ifndef REPRO_MODEL_MODEL_H
#define REPRO_MODEL_MODEL_H

#include <stdint.h>

enum {
    MODEL_VOCAB = 512,
    MODEL_WIDTH = 64,
    MODEL_LAYERS = 8,
    MODEL_ATTN_LAYERS = 2,
    MODEL_DELTA_LAYERS = MODEL_LAYERS - MODEL_ATTN_LAYERS,
    MODEL_HEADS = 4,    /* of both kinds of layer */
    MODEL_KV_HEADS = 2, /* each serves two query heads */
    MODEL_HEAD_DIM = 16,
    MODEL_MLP = 64,
    /* K of all KV heads, then V of all KV heads */
    MODEL_ROW_FLOATS = 2 * MODEL_KV_HEADS * MODEL_HEAD_DIM,
    /* [delta layer][head][key dimension][value dimension] */
    MODEL_STATE_FLOATS = MODEL_DELTA_LAYERS * MODEL_HEADS * MODEL_HEAD_DIM * MODEL_HEAD_DIM,
    MODEL_POSITIONS_MAX = 16384,
    MODEL_SEED = 1, /* the default seed */
};

struct model;
struct model_work;

/* Base address of each attention layer's pool: [pages][page_tokens][MODEL_ROW_FLOATS]. */
struct model_kv {
    float *layer[MODEL_ATTN_LAYERS];
    uint32_t page_tokens;
};

/* One sequence: position p lies in page pages[p / page_tokens]. state: MODEL_STATE_FLOATS floats. */
struct model_seq {
    struct model_kv kv;
    const uint16_t *pages;
    float *state;
};

struct model *model_new(uint64_t seed);
void model_free(struct model *m);

/* XXH3-64 over the shape and all weights. */
uint64_t model_digest(const struct model *m);

struct model_work *model_work_new(void);
void model_work_free(struct model_work *w);

/* The state of an empty sequence. */
void model_state_reset(float *state);

/* Run tokens[0..n), n > 0, at positions first..first+n-1: write their KV rows and advance the state (first == 0 resets it before);
 * return the greedy next token after the last one (lowest id wins ties; NaN logits never win, token 0 if all are).
 * How a prompt is cut into calls, the page size and the pages' places never change a bit of rows, state or result. */
uint32_t model_prefill(const struct model *m, struct model_work *w, const struct model_seq *s, uint32_t first,
                       const uint32_t *tokens, uint32_t n);

/* The same for one token; its MODEL_VOCAB logits go to logits unless it is NULL. */
uint32_t model_decode(const struct model *m, struct model_work *w, const struct model_seq *s, uint32_t pos,
                      uint32_t token, float *logits);

/* n uniform token ids. */
void model_prompt(uint64_t seed, uint32_t n, uint32_t *tokens);

/* XXH3-64 over all logits and tokens of three reference runs (512 prompt, 512 greedy tokens; model seeds MODEL_SEED.. and prompt
 * seeds 1..): builds compute the same exactly if this agrees. Takes about 0.2 s; 0 if out of memory. */
uint64_t model_reference_digest(void);

#endif
