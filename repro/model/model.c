#include "model.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "fmath.h"

enum {
    PANEL = 16, /* outputs that lie together in a packed matrix */
    CHUNK = 16, /* tokens that go through a matrix together */
    INNER = MODEL_HEADS * MODEL_HEAD_DIM,
    KV = MODEL_KV_HEADS * MODEL_HEAD_DIM,
    HEAD_STATE = MODEL_HEAD_DIM * MODEL_HEAD_DIM,
    /* delta: q, k, v, output gate, then a decay and a beta for each head, filled up to a panel */
    DELTA_PROJ = 4 * INNER + PANEL,
    ATTN_PROJ = INNER + 2 * KV,
    PROJ_MAX = DELTA_PROJ,
    PERIOD = MODEL_LAYERS / MODEL_ATTN_LAYERS,
    ROPE_PAIRS = MODEL_HEAD_DIM / 2,
    REVISION = 1, /* goes up whenever the arithmetic changes and the weights do not */
};

_Static_assert(MODEL_HEAD_DIM == 16, "a head is four vectors in the code below");
_Static_assert(MODEL_HEADS == 4, "the decays of a layer are one vector");
_Static_assert(MODEL_HEADS == 2 * MODEL_KV_HEADS, "two query heads share a KV head");
_Static_assert(MODEL_WIDTH % PANEL == 0 && MODEL_MLP % PANEL == 0 && MODEL_VOCAB % PANEL == 0, "whole panels");

static const float norm_eps = 1e-6f;

/* What keeps 512 greedy tokens out of a cycle and makes foreign rows or a foreign state show at once: sharp attention (scale of the
 * query and key weights), mixers that weigh more than the token's own embedding, and a memory that fades fast (floor of the
 * decay). No temperature could do it, since the argmax ignores one. */
static const float qk_scale = 3.0f;
static const float embed_scale = 0.5f;
static const float decay_min = 0.5f;

/* Matrices are packed as [out / PANEL][in][PANEL]. */
struct layer {
    const float *proj; /* WIDTH -> DELTA_PROJ or ATTN_PROJ */
    const float *out;  /* INNER -> WIDTH */
    const float *up;   /* WIDTH -> 2 * MLP: gate, then value */
    const float *down; /* MLP -> WIDTH */
};

struct model {
    struct layer layer[MODEL_LAYERS];
    const float *embed;     /* [VOCAB][WIDTH] */
    const float *head;      /* WIDTH -> VOCAB */
    float rope[ROPE_PAIRS]; /* radians per position */
    size_t weights_len;
    float *weights;
};

struct model_work {
    float x[CHUNK][MODEL_WIDTH]; /* residual stream */
    float norm[CHUNK][MODEL_WIDTH];
    float proj[CHUNK][PROJ_MAX];
    float mix[CHUNK][INNER];
    float up[CHUNK][2 * MODEL_MLP];
    float act[CHUNK][MODEL_MLP];
    float rope_cos[CHUNK][ROPE_PAIRS];
    float rope_sin[CHUNK][ROPE_PAIRS];
    float logits[MODEL_VOCAB];
    float score[2][MODEL_POSITIONS_MAX + 4];
};

/* SplitMix64 (Steele, Lea, Flood 2014). */
static uint64_t rng_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Uniform in [-bound, bound): 24 random bits, so that the conversion is exact. */
static void fill(float *dst, size_t len, float bound, uint64_t *rng)
{
    for (size_t i = 0; i < len; i++)
        dst[i] = ((float)(int32_t)(rng_next(rng) >> 40) - 8388608.0f) / 8388608.0f * bound;
}

static float *take(float **cursor, size_t len)
{
    float *p = *cursor;

    *cursor += len;
    return p;
}

struct model *model_new(uint64_t seed)
{
    const size_t width = MODEL_WIDTH;
    /* A uniform variable on [-b, b] has the variance b^2 / 3: the outputs keep that of the inputs. */
    const float width_bound = sqrtf(3.0f / (float)MODEL_WIDTH);
    const float inner_bound = sqrtf(3.0f / (float)INNER);
    const float mlp_bound = sqrtf(3.0f / (float)MODEL_MLP);
    const size_t per_layer = width * DELTA_PROJ + INNER * width + width * 2 * MODEL_MLP + MODEL_MLP * width;
    const size_t embed_len = (size_t)MODEL_VOCAB * width;
    const size_t max_len = MODEL_LAYERS * per_layer + 2 * embed_len;
    struct model *m = calloc(1, sizeof *m);
    uint64_t rng = seed;
    float *cursor, *p;

    if (m == NULL)
        return NULL;
    m->weights = aligned_alloc(64, (max_len * sizeof(float) + 63) / 64 * 64);
    if (m->weights == NULL) {
        free(m);
        return NULL;
    }
    cursor = m->weights;
    for (int l = 0; l < MODEL_LAYERS; l++) {
        struct layer *layer = &m->layer[l];
        int attn = l % PERIOD == PERIOD - 1;
        size_t proj_len = width * (attn ? ATTN_PROJ : DELTA_PROJ);

        layer->proj = p = take(&cursor, proj_len);
        fill(p, proj_len, width_bound, &rng);
        if (attn) {
            size_t qk_len = width * (INNER + KV);

            for (size_t i = 0; i < qk_len; i++)
                p[i] *= qk_scale;
        }
        layer->out = p = take(&cursor, INNER * width);
        fill(p, INNER * width, inner_bound, &rng);
        layer->up = p = take(&cursor, width * 2 * MODEL_MLP);
        fill(p, width * 2 * MODEL_MLP, width_bound, &rng);
        layer->down = p = take(&cursor, MODEL_MLP * width);
        fill(p, MODEL_MLP * width, mlp_bound, &rng);
    }
    m->embed = p = take(&cursor, embed_len);
    fill(p, embed_len, sqrtf(3.0f) * embed_scale, &rng);
    m->head = p = take(&cursor, embed_len);
    fill(p, embed_len, width_bound, &rng);
    m->weights_len = (size_t)(cursor - m->weights);

    /* Su et al. 2021 (RoPE): pair i turns by 10000^(-i / pairs) a position. ln 10000 = 9.2103... */
    for (int i = 0; i < ROPE_PAIRS; i++)
        m->rope[i] = fm_exp(fm_splat(-9.21034037197618f * (float)i / (float)ROPE_PAIRS))[0];
    return m;
}

void model_free(struct model *m)
{
    if (m == NULL)
        return;
    free(m->weights);
    free(m);
}

uint64_t model_digest(const struct model *m)
{
    const uint32_t shape[] = { REVISION,    MODEL_VOCAB,    MODEL_WIDTH,    MODEL_LAYERS, MODEL_ATTN_LAYERS,
                               MODEL_HEADS, MODEL_KV_HEADS, MODEL_HEAD_DIM, MODEL_MLP,    PANEL };

    return XXH3_64bits_withSeed(m->weights, m->weights_len * sizeof(float), XXH3_64bits(shape, sizeof shape));
}

struct model_work *model_work_new(void)
{
    struct model_work *w = aligned_alloc(64, (sizeof *w + 63) / 64 * 64);

    if (w != NULL)
        memset(w, 0, sizeof *w);
    return w;
}

void model_work_free(struct model_work *w)
{
    free(w);
}

void model_state_reset(float *state)
{
    memset(state, 0, MODEL_STATE_FLOATS * sizeof *state);
}

/* The tiles below multiply one panel or two with one token or two. Each output is one sum over the inputs in ascending order, whatever the
 * tile: that is why a chunk of tokens gives the same bits as token by token. Eight accumulators keep both adders busy and fit the
 * sixteen SSE registers. */
static void tile_1x2(float *y0, float *y1, const float *x, const float *w0, const float *w1, size_t in)
{
    v4f a0 = { 0 }, a1 = { 0 }, a2 = { 0 }, a3 = { 0 }, b0 = { 0 }, b1 = { 0 }, b2 = { 0 }, b3 = { 0 };

    for (size_t j = 0; j < in; j++, w0 += PANEL, w1 += PANEL) {
        v4f v = fm_splat(x[j]);

        a0 += v * fm_load(w0);
        a1 += v * fm_load(w0 + 4);
        a2 += v * fm_load(w0 + 8);
        a3 += v * fm_load(w0 + 12);
        b0 += v * fm_load(w1);
        b1 += v * fm_load(w1 + 4);
        b2 += v * fm_load(w1 + 8);
        b3 += v * fm_load(w1 + 12);
    }
    fm_store(y0, a0);
    fm_store(y0 + 4, a1);
    fm_store(y0 + 8, a2);
    fm_store(y0 + 12, a3);
    fm_store(y1, b0);
    fm_store(y1 + 4, b1);
    fm_store(y1 + 8, b2);
    fm_store(y1 + 12, b3);
}

static void tile_2x1(float *y0, float *y1, const float *x0, const float *x1, const float *w, size_t in)
{
    v4f a0 = { 0 }, a1 = { 0 }, a2 = { 0 }, a3 = { 0 }, b0 = { 0 }, b1 = { 0 }, b2 = { 0 }, b3 = { 0 };

    for (size_t j = 0; j < in; j++, w += PANEL) {
        v4f u = fm_splat(x0[j]), v = fm_splat(x1[j]);
        v4f w0 = fm_load(w), w1 = fm_load(w + 4), w2 = fm_load(w + 8), w3 = fm_load(w + 12);

        a0 += u * w0;
        a1 += u * w1;
        a2 += u * w2;
        a3 += u * w3;
        b0 += v * w0;
        b1 += v * w1;
        b2 += v * w2;
        b3 += v * w3;
    }
    fm_store(y0, a0);
    fm_store(y0 + 4, a1);
    fm_store(y0 + 8, a2);
    fm_store(y0 + 12, a3);
    fm_store(y1, b0);
    fm_store(y1 + 4, b1);
    fm_store(y1 + 8, b2);
    fm_store(y1 + 12, b3);
}

static void tile_1x1(float *y, const float *x, const float *w, size_t in)
{
    v4f a0 = { 0 }, a1 = { 0 }, a2 = { 0 }, a3 = { 0 };

    for (size_t j = 0; j < in; j++, w += PANEL) {
        v4f v = fm_splat(x[j]);

        a0 += v * fm_load(w);
        a1 += v * fm_load(w + 4);
        a2 += v * fm_load(w + 8);
        a3 += v * fm_load(w + 12);
    }
    fm_store(y, a0);
    fm_store(y + 4, a1);
    fm_store(y + 8, a2);
    fm_store(y + 12, a3);
}

/* y[t] = x[t] W for n tokens; ldy and ldx are the distances between tokens. */
static void matmul(float *y, size_t ldy, const float *x, size_t ldx, const float *w, size_t in, size_t out, uint32_t n)
{
    size_t panels = out / PANEL, p = 0;

    if (n == 1) {
        for (; p + 2 <= panels; p += 2)
            tile_1x2(y + p * PANEL, y + (p + 1) * PANEL, x, w + p * in * PANEL, w + (p + 1) * in * PANEL, in);
        if (p < panels)
            tile_1x1(y + p * PANEL, x, w + p * in * PANEL, in);
        return;
    }
    for (; p < panels; p++) {
        const float *wp = w + p * in * PANEL;
        float *yp = y + p * PANEL;
        uint32_t t = 0;

        for (; t + 2 <= n; t += 2)
            tile_2x1(yp + t * ldy, yp + (t + 1) * ldy, x + t * ldx, x + (t + 1) * ldx, wp, in);
        if (t < n)
            tile_1x1(yp + t * ldy, x + t * ldx, wp, in);
    }
}

/* RMSNorm (Zhang, Sennrich 2019) without a gain: with random weights the next matrix holds it. */
static void norm_width(float *y, const float *x)
{
    v4f sum = { 0 }, scale;

    for (int i = 0; i < MODEL_WIDTH; i += 4)
        sum += fm_load(x + i) * fm_load(x + i);
    scale = fm_splat(1.0f / sqrtf(fm_sum(sum) / (float)MODEL_WIDTH + norm_eps));
    for (int i = 0; i < MODEL_WIDTH; i += 4)
        fm_store(y + i, fm_load(x + i) * scale);
}

static float head_square(const float *x)
{
    v4f a = fm_load(x), b = fm_load(x + 4), c = fm_load(x + 8), d = fm_load(x + 12);

    return fm_sum((a * a + b * b) + (c * c + d * d));
}

static void head_scale(float *x, float scale)
{
    v4f s = fm_splat(scale);

    for (int i = 0; i < MODEL_HEAD_DIM; i += 4)
        fm_store(x + i, fm_load(x + i) * s);
}

static void head_norm(float *x)
{
    head_scale(x, 1.0f / sqrtf(head_square(x) / (float)MODEL_HEAD_DIM + norm_eps));
}

/* Gated delta rule ("Gated Delta Networks", Yang et al. 2024) for one head and token, S as [key][value]:
 * S <- a S + k (beta (v - (a S)^T k))^T, o = S^T q. */
static void delta_head(float *state, const float *q, const float *k, const float *v, float decay, float beta, float *o)
{
    v4f a = fm_splat(decay), b = fm_splat(beta);
    v4f p0 = { 0 }, p1 = { 0 }, p2 = { 0 }, p3 = { 0 };
    v4f o0 = { 0 }, o1 = { 0 }, o2 = { 0 }, o3 = { 0 };

    for (int i = 0; i < MODEL_HEAD_DIM; i++) {
        const float *s = state + i * MODEL_HEAD_DIM;
        v4f ki = fm_splat(k[i]);

        p0 += ki * fm_load(s);
        p1 += ki * fm_load(s + 4);
        p2 += ki * fm_load(s + 8);
        p3 += ki * fm_load(s + 12);
    }
    p0 = b * (fm_load(v) - a * p0);
    p1 = b * (fm_load(v + 4) - a * p1);
    p2 = b * (fm_load(v + 8) - a * p2);
    p3 = b * (fm_load(v + 12) - a * p3);
    for (int i = 0; i < MODEL_HEAD_DIM; i++) {
        float *s = state + i * MODEL_HEAD_DIM;
        v4f ki = fm_splat(k[i]), qi = fm_splat(q[i]);
        v4f s0 = a * fm_load(s) + ki * p0;
        v4f s1 = a * fm_load(s + 4) + ki * p1;
        v4f s2 = a * fm_load(s + 8) + ki * p2;
        v4f s3 = a * fm_load(s + 12) + ki * p3;

        fm_store(s, s0);
        fm_store(s + 4, s1);
        fm_store(s + 8, s2);
        fm_store(s + 12, s3);
        o0 += qi * s0;
        o1 += qi * s1;
        o2 += qi * s2;
        o3 += qi * s3;
    }
    fm_store(o, o0);
    fm_store(o + 4, o1);
    fm_store(o + 8, o2);
    fm_store(o + 12, o3);
}

/* The paper's block without its short convolution. */
static void delta_mix(float *state, float *proj, float *mix)
{
    float *q = proj, *k = proj + INNER, *v = proj + 2 * INNER, *gate = proj + 3 * INNER, *ab = proj + 4 * INNER;
    v4f decay = decay_min + (1.0f - decay_min) * fm_sigmoid(fm_load(ab));
    v4f beta = fm_sigmoid(fm_load(ab + 4));

    for (int h = 0; h < MODEL_HEADS; h++) {
        int at = h * MODEL_HEAD_DIM;

        head_scale(q + at, 1.0f / sqrtf(head_square(q + at) + norm_eps));
        head_scale(k + at, 1.0f / sqrtf(head_square(k + at) + norm_eps));
        delta_head(state + h * HEAD_STATE, q + at, k + at, v + at, decay[h], beta[h], mix + at);
        head_norm(mix + at);
    }
    for (int i = 0; i < INNER; i += 4) {
        v4f g = fm_load(gate + i);

        fm_store(mix + i, fm_load(mix + i) * (g * fm_sigmoid(g)));
    }
}

static void rope_head(float *x, const float *cosine, const float *sine)
{
    for (int i = 0; i < ROPE_PAIRS; i += 4) {
        v4f a = fm_load(x + i), b = fm_load(x + ROPE_PAIRS + i), c = fm_load(cosine + i), s = fm_load(sine + i);

        fm_store(x + i, a * c - b * s);
        fm_store(x + ROPE_PAIRS + i, a * s + b * c);
    }
}

static float *row_at(const struct model_seq *s, int attn, uint32_t pos)
{
    size_t page = s->pages[pos / s->kv.page_tokens];

    return s->kv.layer[attn] + (page * s->kv.page_tokens + pos % s->kv.page_tokens) * MODEL_ROW_FLOATS;
}

/* Products of q with K, not yet summed over the lanes. */
static inline v4f partial(v4f q0, v4f q1, v4f q2, v4f q3, v4f k0, v4f k1, v4f k2, v4f k3)
{
    return (q0 * k0 + q1 * k1) + (q2 * k2 + q3 * k3);
}

/* Attention of two query heads, q[0..32), that share a KV head over the n rows of the sequence; K and V lie key and value floats
 * into a row. Lanes hold positions modulo four, so neither the page size nor the place of a page enters a sum. */
static void attend_pair(const struct model_seq *s, int attn, uint32_t n, size_t key, size_t value, const float *q,
                        float *score0, float *score1, float *out)
{
    const uint32_t page_tokens = s->kv.page_tokens;
    v4f p0 = fm_load(q), p1 = fm_load(q + 4), p2 = fm_load(q + 8), p3 = fm_load(q + 12);
    v4f r0 = fm_load(q + 16), r1 = fm_load(q + 20), r2 = fm_load(q + 24), r3 = fm_load(q + 28);
    v4f max0 = fm_splat(-FLT_MAX), max1 = max0, sum0 = { 0 }, sum1 = { 0 };
    v4f a0 = { 0 }, a1 = { 0 }, a2 = { 0 }, a3 = { 0 }, b0 = { 0 }, b1 = { 0 }, b2 = { 0 }, b3 = { 0 };
    float top0 = -FLT_MAX, top1 = -FLT_MAX;
    v4f scale0, scale1;

    for (uint32_t pos = 0; pos < n;) {
        const float *row = row_at(s, attn, pos) + key;
        uint32_t len = page_tokens < n - pos ? page_tokens : n - pos;

        for (uint32_t i = 0; i < len; i += 4) {
            v4f d0[4], d1[4];

            /* A short group repeats its last row; what that writes past the page's end is overwritten or cleared. */
            for (uint32_t g = 0; g < 4; g++) {
                const float *k = row + (size_t)(i + g < len ? i + g : len - 1) * MODEL_ROW_FLOATS;
                v4f k0 = fm_load(k), k1 = fm_load(k + 4), k2 = fm_load(k + 8), k3 = fm_load(k + 12);

                d0[g] = partial(p0, p1, p2, p3, k0, k1, k2, k3);
                d1[g] = partial(r0, r1, r2, r3, k0, k1, k2, k3);
            }
            fm_store(score0 + pos + i, fm_sum4(d0[0], d0[1], d0[2], d0[3]));
            fm_store(score1 + pos + i, fm_sum4(d1[0], d1[1], d1[2], d1[3]));
        }
        pos += len;
    }
    /* Repeating the first score fills the last vector without touching the maximum. */
    for (uint32_t i = n; i % 4 != 0; i++) {
        score0[i] = score0[0];
        score1[i] = score1[0];
    }
    for (uint32_t i = 0; i < n; i += 4) {
        max0 = fm_max(fm_load(score0 + i), max0);
        max1 = fm_max(fm_load(score1 + i), max1);
    }
    for (int i = 0; i < 4; i++) {
        top0 = max0[i] > top0 ? max0[i] : top0;
        top1 = max1[i] > top1 ? max1[i] : top1;
    }
    max0 = fm_splat(top0);
    max1 = fm_splat(top1);
    for (uint32_t i = 0; i < n; i += 4) {
        fm_store(score0 + i, fm_exp(fm_load(score0 + i) - max0));
        fm_store(score1 + i, fm_exp(fm_load(score1 + i) - max1));
    }
    for (uint32_t i = n; i % 4 != 0; i++)
        score0[i] = score1[i] = 0.0f;
    for (uint32_t i = 0; i < n; i += 4) {
        sum0 += fm_load(score0 + i);
        sum1 += fm_load(score1 + i);
    }
    for (uint32_t pos = 0; pos < n;) {
        const float *v = row_at(s, attn, pos) + value;
        uint32_t end = page_tokens < n - pos ? pos + page_tokens : n;

        for (; pos < end; pos++, v += MODEL_ROW_FLOATS) {
            v4f v0 = fm_load(v), v1 = fm_load(v + 4), v2 = fm_load(v + 8), v3 = fm_load(v + 12);
            v4f e = fm_splat(score0[pos]), f = fm_splat(score1[pos]);

            a0 += e * v0;
            a1 += e * v1;
            a2 += e * v2;
            a3 += e * v3;
            b0 += f * v0;
            b1 += f * v1;
            b2 += f * v2;
            b3 += f * v3;
        }
    }
    scale0 = fm_splat(1.0f / fm_sum(sum0));
    scale1 = fm_splat(1.0f / fm_sum(sum1));
    fm_store(out, a0 * scale0);
    fm_store(out + 4, a1 * scale0);
    fm_store(out + 8, a2 * scale0);
    fm_store(out + 12, a3 * scale0);
    fm_store(out + 16, b0 * scale1);
    fm_store(out + 20, b1 * scale1);
    fm_store(out + 24, b2 * scale1);
    fm_store(out + 28, b3 * scale1);
}

/* proj: q, k, v of the token at pos. Writes the token's row, then attends to all rows up to it. */
static void attn_mix(struct model_work *w, const struct model_seq *s, int attn, uint32_t pos, uint32_t t)
{
    float *q = w->proj[t], *k = q + INNER, *mix = w->mix[t];

    for (int h = 0; h < MODEL_HEADS; h++) {
        rope_head(q + h * MODEL_HEAD_DIM, w->rope_cos[t], w->rope_sin[t]);
        /* 1 / sqrt(MODEL_HEAD_DIM) */
        head_scale(q + h * MODEL_HEAD_DIM, 0.25f);
    }
    for (int h = 0; h < MODEL_KV_HEADS; h++)
        rope_head(k + h * MODEL_HEAD_DIM, w->rope_cos[t], w->rope_sin[t]);
    memcpy(row_at(s, attn, pos), k, MODEL_ROW_FLOATS * sizeof(float));
    for (int h = 0; h < MODEL_KV_HEADS; h++) {
        size_t key = (size_t)h * MODEL_HEAD_DIM;

        attend_pair(s, attn, pos + 1, key, KV + key, q + 2 * key, w->score[0], w->score[1], mix + 2 * key);
    }
    for (int h = 0; h < MODEL_HEADS; h++)
        head_norm(mix + h * MODEL_HEAD_DIM);
}

static void add_width(float *x, const float *y)
{
    for (int i = 0; i < MODEL_WIDTH; i += 4)
        fm_store(x + i, fm_load(x + i) + fm_load(y + i));
}

static void forward(const struct model *m, struct model_work *w, const struct model_seq *s, uint32_t first,
                    const uint32_t *tokens, uint32_t n)
{
    int attn = 0, delta = 0;

    for (uint32_t t = 0; t < n; t++) {
        assert(tokens[t] < MODEL_VOCAB && first + t < MODEL_POSITIONS_MAX);
        memcpy(w->x[t], m->embed + (size_t)tokens[t] * MODEL_WIDTH, sizeof w->x[t]);
        for (int i = 0; i < ROPE_PAIRS; i++)
            fm_sincos((float)(first + t) * m->rope[i], &w->rope_sin[t][i], &w->rope_cos[t][i]);
    }
    for (int l = 0; l < MODEL_LAYERS; l++) {
        const struct layer *layer = &m->layer[l];
        int is_attn = l % PERIOD == PERIOD - 1;

        for (uint32_t t = 0; t < n; t++)
            norm_width(w->norm[t], w->x[t]);
        matmul(w->proj[0], PROJ_MAX, w->norm[0], MODEL_WIDTH, layer->proj, MODEL_WIDTH,
               is_attn ? ATTN_PROJ : DELTA_PROJ, n);
        for (uint32_t t = 0; t < n; t++) {
            if (is_attn)
                attn_mix(w, s, attn, first + t, t);
            else
                delta_mix(s->state + delta * MODEL_HEADS * HEAD_STATE, w->proj[t], w->mix[t]);
        }
        attn += is_attn;
        delta += !is_attn;
        matmul(w->norm[0], MODEL_WIDTH, w->mix[0], INNER, layer->out, INNER, MODEL_WIDTH, n);
        for (uint32_t t = 0; t < n; t++) {
            add_width(w->x[t], w->norm[t]);
            norm_width(w->norm[t], w->x[t]);
        }
        /* SwiGLU (Shazeer 2020) */
        matmul(w->up[0], 2 * MODEL_MLP, w->norm[0], MODEL_WIDTH, layer->up, MODEL_WIDTH, 2 * MODEL_MLP, n);
        for (uint32_t t = 0; t < n; t++) {
            for (int i = 0; i < MODEL_MLP; i += 4) {
                v4f g = fm_load(&w->up[t][i]);

                fm_store(&w->act[t][i], g * fm_sigmoid(g) * fm_load(&w->up[t][MODEL_MLP + i]));
            }
        }
        matmul(w->norm[0], MODEL_WIDTH, w->act[0], MODEL_MLP, layer->down, MODEL_MLP, MODEL_WIDTH, n);
        for (uint32_t t = 0; t < n; t++)
            add_width(w->x[t], w->norm[t]);
    }
}

static uint32_t greedy(const struct model *m, struct model_work *w, uint32_t last)
{
    float best = -INFINITY;
    uint32_t id = 0;

    norm_width(w->norm[0], w->x[last]);
    matmul(w->logits, MODEL_VOCAB, w->norm[0], MODEL_WIDTH, m->head, MODEL_WIDTH, MODEL_VOCAB, 1);
    for (uint32_t i = 0; i < MODEL_VOCAB; i++) {
        if (w->logits[i] > best) {
            best = w->logits[i];
            id = i;
        }
    }
    return id;
}

uint32_t model_prefill(const struct model *m, struct model_work *w, const struct model_seq *s, uint32_t first,
                       const uint32_t *tokens, uint32_t n)
{
    uint32_t len = 0;

    assert(n > 0 && s->kv.page_tokens > 0);
    if (first == 0)
        model_state_reset(s->state);
    for (uint32_t done = 0; done < n; done += len) {
        len = n - done < CHUNK ? n - done : CHUNK;
        forward(m, w, s, first + done, tokens + done, len);
    }
    return greedy(m, w, len - 1);
}

uint32_t model_decode(const struct model *m, struct model_work *w, const struct model_seq *s, uint32_t pos,
                      uint32_t token, float *logits)
{
    uint32_t id = model_prefill(m, w, s, pos, &token, 1);

    if (logits != NULL)
        memcpy(logits, w->logits, sizeof w->logits);
    return id;
}

void model_prompt(uint64_t seed, uint32_t n, uint32_t *tokens)
{
    /* Apart from the weights' stream of the same seed. */
    uint64_t rng = seed ^ 0x70726f6d70740000u;

    _Static_assert((MODEL_VOCAB & (MODEL_VOCAB - 1)) == 0, "a mask is uniform");
    for (uint32_t i = 0; i < n; i++)
        tokens[i] = (uint32_t)(rng_next(&rng) >> 40) & (MODEL_VOCAB - 1);
}

uint64_t model_reference_digest(void)
{
    enum { RUNS = 3, PROMPT = 512, OUTPUT = 512, PAGE = 16, PAGES = (PROMPT + OUTPUT) / PAGE };
    const size_t layer_len = (size_t)PAGES * PAGE * MODEL_ROW_FLOATS;
    float *memory = calloc(MODEL_ATTN_LAYERS * layer_len + MODEL_STATE_FLOATS, sizeof *memory);
    struct model_work *w = model_work_new();
    XXH3_state_t *hash = XXH3_createState();
    struct model_seq s = { .kv = { .page_tokens = PAGE } };
    uint16_t pages[PAGES];
    uint64_t digest = 0;

    if (memory == NULL || w == NULL || hash == NULL)
        goto out;
    for (uint32_t i = 0; i < PAGES; i++)
        pages[i] = (uint16_t)i;
    for (int l = 0; l < MODEL_ATTN_LAYERS; l++)
        s.kv.layer[l] = memory + (size_t)l * layer_len;
    s.pages = pages;
    s.state = memory + MODEL_ATTN_LAYERS * layer_len;
    XXH3_64bits_reset(hash);
    for (uint32_t run = 0; run < RUNS; run++) {
        struct model *m = model_new(MODEL_SEED + run);
        uint32_t prompt[PROMPT], token;

        if (m == NULL)
            goto out;
        model_prompt(1 + run, PROMPT, prompt);
        token = model_prefill(m, w, &s, 0, prompt, PROMPT);
        for (uint32_t i = 0;; i++) {
            XXH3_64bits_update(hash, w->logits, sizeof w->logits);
            XXH3_64bits_update(hash, &token, sizeof token);
            if (i == OUTPUT - 1)
                break;
            token = model_decode(m, w, &s, PROMPT + i, token, NULL);
        }
        model_free(m);
    }
    digest = XXH3_64bits_digest(hash);
out:
    XXH3_freeState(hash);
    model_work_free(w);
    free(memory);
    return digest;
}
