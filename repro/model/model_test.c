#include "model.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fmath.h"

enum {
    PROMPT = 512,
    OUTPUT = 512,
    TOKENS = PROMPT + OUTPUT,
    PAGE = 16,
    PAGES_MAX = 300,
    FLOATS_MAX = PAGES_MAX * PAGE * MODEL_ROW_FLOATS
};

/* Of the default model's weights and of model_reference_digest(). They change only together with the model itself. */
static const uint64_t weights_digest = 0x0041e1d46121135au;
static const uint64_t reference_digest = 0x34bcbc9979ea4425u;

/* One sequence with pools of its own; pages 0, 1, 2, ... unless a test says otherwise. */
struct rig {
    struct model *model;
    struct model_work *work;
    struct model_seq seq;
    uint16_t pages[TOKENS];
    float *memory;
};

static void rig_init(struct rig *r, uint64_t seed, uint32_t page_tokens)
{
    r->model = model_new(seed);
    r->work = model_work_new();
    r->memory = calloc((size_t)MODEL_ATTN_LAYERS * FLOATS_MAX + MODEL_STATE_FLOATS, sizeof(float));
    cr_assert(r->model != NULL && r->work != NULL && r->memory != NULL);
    for (uint32_t i = 0; i < TOKENS; i++)
        r->pages[i] = (uint16_t)i;
    for (int l = 0; l < MODEL_ATTN_LAYERS; l++)
        r->seq.kv.layer[l] = r->memory + (size_t)l * FLOATS_MAX;
    r->seq.kv.page_tokens = page_tokens;
    r->seq.pages = r->pages;
    r->seq.state = r->memory + (size_t)MODEL_ATTN_LAYERS * FLOATS_MAX;
}

static void rig_fini(struct rig *r)
{
    model_free(r->model);
    model_work_free(r->work);
    free(r->memory);
}

static float *rig_row(const struct rig *r, int layer, uint32_t pos)
{
    uint32_t page_tokens = r->seq.kv.page_tokens;

    return r->seq.kv.layer[layer] +
           ((size_t)r->pages[pos / page_tokens] * page_tokens + pos % page_tokens) * MODEL_ROW_FLOATS;
}

static int rig_same_memory(const struct rig *a, const struct rig *b, uint32_t tokens)
{
    for (int l = 0; l < MODEL_ATTN_LAYERS; l++)
        for (uint32_t pos = 0; pos < tokens; pos++)
            if (memcmp(rig_row(a, l, pos), rig_row(b, l, pos), MODEL_ROW_FLOATS * sizeof(float)) != 0)
                return 0;
    return memcmp(a->seq.state, b->seq.state, MODEL_STATE_FLOATS * sizeof(float)) == 0;
}

static uint32_t rig_prefill(struct rig *r, uint64_t prompt_seed)
{
    uint32_t prompt[PROMPT];

    model_prompt(prompt_seed, PROMPT, prompt);
    return model_prefill(r->model, r->work, &r->seq, 0, prompt, PROMPT);
}

enum overwrite { PAGES_ONLY = 1, SLOT_ONLY = 2, PAGES_AND_SLOT = 3 };

/* A request's output; right after token `after` (0-based) is chosen, its prompt pages and state slot get the bytes of stale. */
static void generate(struct rig *r, uint64_t prompt_seed, const struct rig *stale, int after, enum overwrite what,
                     uint32_t output[OUTPUT])
{
    output[0] = rig_prefill(r, prompt_seed);
    for (uint32_t i = 0; i + 1 < OUTPUT; i++) {
        if (stale != NULL && (int)i == after) {
            for (int l = 0; l < MODEL_ATTN_LAYERS && (what & PAGES_ONLY); l++)
                memcpy(r->seq.kv.layer[l], stale->seq.kv.layer[l], (size_t)PROMPT * MODEL_ROW_FLOATS * sizeof(float));
            if (what & SLOT_ONLY)
                memcpy(r->seq.state, stale->seq.state, MODEL_STATE_FLOATS * sizeof(float));
        }
        output[i + 1] = model_decode(r->model, r->work, &r->seq, PROMPT + i, output[i], NULL);
    }
}

static int first_difference(const uint32_t *a, const uint32_t *b)
{
    for (int i = 0; i < OUTPUT; i++)
        if (a[i] != b[i])
            return i;
    return -1;
}

static int differences(const uint32_t *a, const uint32_t *b)
{
    int n = 0;

    for (int i = 0; i < OUTPUT; i++)
        n += a[i] != b[i];
    return n;
}

Test(fmath, exp_sin_cos_are_accurate)
{
    float s, c;

    for (float x = -87.0f; x < 88.0f; x += 0.0137f) {
        double e = exp((double)x);

        cr_assert_lt(fabs(fm_exp(fm_splat(x))[2] - e), 2e-7 * e, "exp(%g)", x);
    }
    for (float x = 0.0f; x < (float)MODEL_POSITIONS_MAX; x += 0.737f) {
        fm_sincos(x, &s, &c);
        cr_assert(fabs(s - sin((double)x)) < 1e-6 && fabs(c - cos((double)x)) < 1e-6, "sin, cos(%g)", x);
    }
}

Test(fmath, exp_is_finite_for_any_bits)
{
    const float odd[] = { NAN, -NAN, INFINITY, -INFINITY, FLT_MAX, -FLT_MAX, 0.0f, -0.0f };

    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        float e = fm_exp(fm_splat(odd[i]))[0];

        cr_assert(e > 0.0f && e <= FLT_MAX, "case %zu", i);
    }
}

Test(fmath, sum4_adds_like_sum)
{
    v4f a = { 1.0f, 1e-8f, -1.0f, 3e7f }, b = { 0.1f, 0.2f, 0.3f, 0.4f }, c = { 1e30f, 1.0f, -1e30f, 2.0f },
        d = { 5.0f, 6.0f, 7.0f, 1e9f };
    v4f sums = fm_sum4(a, b, c, d);

    cr_assert(sums[0] == fm_sum(a) && sums[1] == fm_sum(b) && sums[2] == fm_sum(c) && sums[3] == fm_sum(d));
}

Test(model, digests_are_pinned)
{
    struct model *m = model_new(MODEL_SEED);

    cr_assert_eq(model_digest(m), weights_digest, "weights: %016llx", (unsigned long long)model_digest(m));
    cr_assert_eq(model_reference_digest(), reference_digest, "logits: %016llx",
                 (unsigned long long)model_reference_digest());
    model_free(m);
}

Test(model, digest_tells_seeds_apart)
{
    struct model *a = model_new(1), *b = model_new(2), *c = model_new(1);

    cr_assert_neq(model_digest(a), model_digest(b));
    cr_assert_eq(model_digest(a), model_digest(c));
    model_free(a);
    model_free(b);
    model_free(c);
}

Test(model, prompt_is_in_range_and_seeded)
{
    uint32_t a[PROMPT], b[PROMPT];

    model_prompt(1, PROMPT, a);
    model_prompt(2, PROMPT, b);
    cr_assert_gt(differences(a, b), 480);
    for (int i = 0; i < PROMPT; i++)
        cr_assert(a[i] < MODEL_VOCAB && b[i] < MODEL_VOCAB);
    model_prompt(1, 7, b);
    cr_assert_arr_eq(a, b, 7 * sizeof a[0]);
}

Test(model, prefill_equals_decode_however_it_is_cut)
{
    static const uint32_t cuts[][8] = { { PROMPT },      { 1, PROMPT - 1 },   { PROMPT - 1, 1 },
                                        { 16, 16, 480 }, { 15, 17, 33, 447 }, { 2, 3, 5, 7, 11, 13, 17, 454 },
                                        { 256, 256 } };
    struct rig steps, chunks;
    uint32_t prompt[PROMPT], expected = 0, token = 0;
    float a[MODEL_VOCAB], b[MODEL_VOCAB];

    rig_init(&steps, MODEL_SEED, PAGE);
    rig_init(&chunks, MODEL_SEED, PAGE);
    model_prompt(5, PROMPT, prompt);
    for (uint32_t i = 0; i < PROMPT; i++)
        expected = model_decode(steps.model, steps.work, &steps.seq, i, prompt[i], NULL);
    for (size_t c = 0; c < sizeof cuts / sizeof cuts[0]; c++) {
        uint32_t at = 0;

        /* Remains of another request: position 0 has to start afresh. */
        for (size_t i = 0; i < (size_t)MODEL_ATTN_LAYERS * FLOATS_MAX + MODEL_STATE_FLOATS; i++)
            chunks.memory[i] = NAN;
        for (int i = 0; at < PROMPT; at += cuts[c][i++])
            token = model_prefill(chunks.model, chunks.work, &chunks.seq, at, prompt + at, cuts[c][i]);
        cr_assert_eq(at, PROMPT);
        cr_assert_eq(token, expected, "cut %zu", c);
        cr_assert(rig_same_memory(&steps, &chunks, PROMPT), "cut %zu", c);
    }
    model_decode(steps.model, steps.work, &steps.seq, PROMPT, expected, a);
    model_decode(chunks.model, chunks.work, &chunks.seq, PROMPT, expected, b);
    cr_assert_arr_eq(a, b, sizeof a);
    rig_fini(&steps);
    rig_fini(&chunks);
}

Test(model, page_places_and_sizes_do_not_matter)
{
    /* Page numbers are taken modulo `pages`, a power of two: an odd factor makes that a permutation. */
    static const struct {
        uint32_t page_tokens, pages;
    } shapes[] = { { 1, 1024 }, { 3, 512 }, { 5, 256 }, { 16, 64 }, { 64, 16 } };
    struct rig plain, other;

    rig_init(&plain, MODEL_SEED, PAGE);
    for (size_t c = 0; c < sizeof shapes / sizeof shapes[0]; c++) {
        float a[MODEL_VOCAB], b[MODEL_VOCAB];
        uint32_t x = rig_prefill(&plain, 9), y;

        rig_init(&other, MODEL_SEED, shapes[c].page_tokens);
        for (uint32_t i = 0; i < shapes[c].pages; i++)
            other.pages[i] = (uint16_t)((i * 37 + 11) % shapes[c].pages);
        y = rig_prefill(&other, 9);
        for (uint32_t i = 0; i < 40; i++) {
            cr_assert_eq(x, y, "pages of %u tokens, token %u", shapes[c].page_tokens, i);
            x = model_decode(plain.model, plain.work, &plain.seq, PROMPT + i, x, a);
            y = model_decode(other.model, other.work, &other.seq, PROMPT + i, y, b);
            cr_assert_arr_eq(a, b, sizeof a);
        }
        cr_assert(rig_same_memory(&plain, &other, PROMPT + 40));
        rig_fini(&other);
    }
    rig_fini(&plain);
}

Test(model, greedy_output_is_not_cyclic)
{
    struct rig r;
    uint32_t output[OUTPUT];

    rig_init(&r, MODEL_SEED, PAGE);
    for (uint64_t seed = 1; seed <= 16; seed++) {
        char seen[MODEL_VOCAB] = { 0 };
        int distinct = 0;

        generate(&r, seed, NULL, 0, PAGES_AND_SLOT, output);
        for (int i = 0; i < OUTPUT; i++) {
            distinct += !seen[output[i]];
            seen[output[i]] = 1;
        }
        cr_assert_geq(distinct, 150, "prompt seed %d: %d distinct tokens", (int)seed, distinct);
        for (int period = 1; period <= OUTPUT / 2; period++)
            cr_assert_neq(memcmp(output + OUTPUT - 128, output + OUTPUT - 128 - period, 128 * sizeof output[0]), 0,
                          "prompt seed %d: period %d", (int)seed, period);
    }
    rig_fini(&r);
}

/* The default case of the scenarios: A is prompt seed 1, B is prompt seed 2. */
Test(stale, default_seeds_diverge_at_the_next_token)
{
    static const int after[] = { 268, 313 };
    struct rig a, b;
    uint32_t baseline[OUTPUT], output[OUTPUT];

    rig_init(&a, MODEL_SEED, PAGE);
    rig_init(&b, MODEL_SEED, PAGE);
    rig_prefill(&a, 1);
    generate(&b, 2, NULL, 0, PAGES_AND_SLOT, baseline);
    for (size_t i = 0; i < sizeof after / sizeof after[0]; i++) {
        generate(&b, 2, &a, after[i], PAGES_AND_SLOT, output);
        cr_assert_eq(first_difference(baseline, output), after[i] + 1, "%d", first_difference(baseline, output));
        cr_assert_geq(differences(baseline, output), OUTPUT - after[i] - 1 - 8);
    }
    rig_fini(&a);
    rig_fini(&b);
}

Test(stale, any_seeds_diverge_within_a_few_tokens)
{
    static const enum overwrite whats[] = { PAGES_AND_SLOT, PAGES_ONLY, SLOT_ONLY };
    struct rig a, b;
    uint32_t baseline[OUTPUT], output[OUTPUT];

    rig_init(&a, MODEL_SEED, PAGE);
    rig_init(&b, MODEL_SEED, PAGE);
    for (uint64_t seed = 11; seed < 15; seed++) {
        rig_prefill(&a, seed);
        generate(&b, seed + 100, NULL, 0, PAGES_AND_SLOT, baseline);
        for (int w = 0; w < 3; w++) {
            int first;

            generate(&b, seed + 100, &a, 268, whats[w], output);
            first = first_difference(baseline, output);
            cr_assert(first >= 269 && first <= 269 + 4, "prompt seeds %d: %d", (int)seed, first);
            cr_assert_geq(differences(baseline, output), 235);
        }
    }
    rig_fini(&a);
    rig_fini(&b);
}

/* The control of the two above: the write itself does no harm, the foreign bytes do. */
Test(stale, own_bytes_written_again_change_nothing)
{
    struct rig b, copy;
    uint32_t baseline[OUTPUT], output[OUTPUT];

    rig_init(&b, MODEL_SEED, PAGE);
    rig_init(&copy, MODEL_SEED, PAGE);
    rig_prefill(&copy, 2);
    generate(&b, 2, NULL, 0, PAGES_AND_SLOT, baseline);
    generate(&b, 2, &copy, 268, PAGES_ONLY, output);
    cr_assert_arr_eq(baseline, output, sizeof output);
    rig_fini(&b);
    rig_fini(&copy);
}

/* A NaN anywhere has to reach the next logits. */
Test(model, decode_reads_every_row_and_the_whole_state)
{
    struct rig r;
    float state[MODEL_STATE_FLOATS], logits[MODEL_VOCAB];
    uint32_t token;

    rig_init(&r, MODEL_SEED, PAGE);
    token = rig_prefill(&r, 3);
    memcpy(state, r.seq.state, sizeof state);
    for (int l = 0; l < MODEL_ATTN_LAYERS; l++) {
        for (uint32_t pos = 0; pos < PROMPT; pos += 3) {
            float *value = rig_row(&r, l, pos) + MODEL_ROW_FLOATS / 2 + pos % (MODEL_ROW_FLOATS / 2);
            float kept = *value;

            *value = NAN;
            model_decode(r.model, r.work, &r.seq, PROMPT, token, logits);
            cr_assert(isnan(logits[0]), "layer %d, row %u", l, pos);
            *value = kept;
            memcpy(r.seq.state, state, sizeof state);
        }
    }
    for (uint32_t i = 0; i < MODEL_STATE_FLOATS; i += 41) {
        r.seq.state[i] = NAN;
        model_decode(r.model, r.work, &r.seq, PROMPT, token, logits);
        cr_assert(isnan(logits[0]), "state %u", i);
        memcpy(r.seq.state, state, sizeof state);
    }
    model_decode(r.model, r.work, &r.seq, PROMPT, token, logits);
    cr_assert_not(isnan(logits[0]));
    rig_fini(&r);
}

Test(model, any_garbage_gives_a_token_in_range)
{
    const float fills[] = { NAN, -NAN, INFINITY, -INFINITY, FLT_MAX, -FLT_MAX, FLT_MIN / 2 };
    const size_t len = (size_t)MODEL_ATTN_LAYERS * FLOATS_MAX + MODEL_STATE_FLOATS;
    const int fills_len = (int)(sizeof fills / sizeof fills[0]);
    struct rig r;

    rig_init(&r, MODEL_SEED, PAGE);
    for (int c = 0; c < fills_len + 4; c++) {
        uint32_t token = rig_prefill(&r, 4), bits = 12345u + (uint32_t)c;

        for (size_t i = 0; i < len; i++) {
            if (c < fills_len) {
                r.memory[i] = fills[c];
            } else {
                bits = bits * 1664525u + 1013904223u;
                memcpy(&r.memory[i], &bits, sizeof bits);
            }
        }
        for (uint32_t i = 0; i < 8; i++) {
            token = model_decode(r.model, r.work, &r.seq, PROMPT + i, token, NULL);
            cr_assert_lt(token, MODEL_VOCAB);
            if (c < 2)
                cr_assert_eq(token, 0, "NaN logits never win");
        }
    }
    rig_fini(&r);
}
