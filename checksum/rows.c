#include "rows.h"

#include <errno.h>
#include <stdlib.h>
#include <xxhash.h>

#ifndef MUTANT
#define MUTANT(n) 0 /* planted faults, for tests of the tests */
#endif

static uint64_t digest(const struct rows *r, uint32_t i)
{
    return XXH3_64bits(r->row[i], MUTANT(35) ? r->row_bytes / 2 : r->row_bytes);
}

int rows_init(struct rows *r, uint32_t len, size_t row_bytes)
{
    *r = (struct rows){ .len = len, .row_bytes = row_bytes };
    r->row = calloc(len, sizeof *r->row);
    r->baseline = calloc(len, sizeof *r->baseline);
    r->changed = calloc(len, sizeof *r->changed);
    if (r->row && r->baseline && r->changed)
        return 0;
    rows_fini(r);
    return -ENOMEM;
}

void rows_fini(struct rows *r)
{
    free(r->row);
    free(r->baseline);
    free(r->changed);
    *r = (struct rows){ 0 };
}

void rows_baseline(struct rows *r)
{
    for (uint32_t i = 0; i < r->len; i++)
        r->baseline[i] = digest(r, i);
}

uint32_t rows_look(struct rows *r)
{
    uint32_t fresh = 0;

    for (uint32_t i = 0; i < r->len; i++) {
        if (r->changed[i] || digest(r, i) == r->baseline[i])
            continue;
        r->changed[i] = true;
        fresh++;
    }
    return fresh;
}

uint64_t rows_root(const struct rows *r)
{
    XXH3_state_t *state = XXH3_createState();
    uint64_t root = 0;

    if (!state)
        return 0;
    XXH3_64bits_reset(state);
    for (uint32_t i = 0; i < r->len; i++) {
        XXH64_canonical_t canonical;

        XXH64_canonicalFromHash(&canonical, digest(r, i));
        XXH3_64bits_update(state, &canonical, sizeof canonical);
    }
    root = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return root;
}
