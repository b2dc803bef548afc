/* Speed of one thread: prefill of a 512-token prompt and the 512 greedy tokens after it (mean position 768).
 * Prints the median of the repetitions in tokens a second. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#endif

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "model.h"

enum { PROMPT = 512, OUTPUT = 512, PAGE = 16, PAGES = (PROMPT + OUTPUT) / PAGE, REPETITIONS = 15 };

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *v)
{
    qsort(v, REPETITIONS, sizeof *v, compare);
    return v[REPETITIONS / 2];
}

int main(void)
{
    const size_t layer_len = (size_t)PAGES * PAGE * MODEL_ROW_FLOATS;
    float *memory = calloc(MODEL_ATTN_LAYERS * layer_len + MODEL_STATE_FLOATS, sizeof *memory);
    struct model *m = model_new(MODEL_SEED);
    struct model_work *w = model_work_new();
    struct model_seq s = { .kv = { .page_tokens = PAGE } };
    double prefill_s[REPETITIONS], decode_s[REPETITIONS];
    uint32_t prompt[PROMPT], token = 0;
    uint16_t pages[PAGES];

    if (memory == NULL || m == NULL || w == NULL) {
        fputs("model_bench: out of memory\n", stderr);
        return 1;
    }
    for (uint32_t i = 0; i < PAGES; i++)
        pages[i] = (uint16_t)i;
    for (int l = 0; l < MODEL_ATTN_LAYERS; l++)
        s.kv.layer[l] = memory + (size_t)l * layer_len;
    s.pages = pages;
    s.state = memory + MODEL_ATTN_LAYERS * layer_len;
    model_prompt(1, PROMPT, prompt);
    for (int r = 0; r < REPETITIONS; r++) {
        double start = now_s(), middle;

        token = model_prefill(m, w, &s, 0, prompt, PROMPT);
        middle = now_s();
        for (uint32_t i = 0; i < OUTPUT; i++)
            token = model_decode(m, w, &s, PROMPT + i, token, NULL);
        prefill_s[r] = middle - start;
        decode_s[r] = now_s() - middle;
    }
    printf("prefill %.0f tokens/s\n", PROMPT / median(prefill_s));
    printf("decode %.0f tokens/s\n", OUTPUT / median(decode_s));
    printf("last token %" PRIu32 "\n", token);
    model_work_free(w);
    model_free(m);
    free(memory);
    return 0;
}
