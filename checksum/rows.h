/*
 * Row digests: who may have written into rows that their owner never rewrites. XXH3-64 of each row, so that `xxhsum -H3`
 * can check one, and a root digest over them. Knows nothing of who owns the memory; only reads it. One thread.
 *
 * Uses libxxhash's plain entry points: the AVX dispatch variant leaves the upper register halves dirty and slows down
 * whatever SSE code runs after it in the same thread.
 */
#ifndef KVCHECKSUM_ROWS_H
#define KVCHECKSUM_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rows {
    const void **row;   /* [len] */
    uint64_t *baseline; /* [len] digests when the watch began */
    bool *changed;      /* [len] seen to differ from the baseline at some look */
    uint32_t len;
    size_t row_bytes;
};

/* Makes room for len rows of row_bytes bytes; the caller sets row[] and calls rows_baseline(). -ENOMEM. */
int rows_init(struct rows *r, uint32_t len, size_t row_bytes);
void rows_fini(struct rows *r);
void rows_baseline(struct rows *r);
/* Compares every row with its baseline; returns how many were seen to differ for the first time. */
uint32_t rows_look(struct rows *r);
/* XXH3-64 over the rows' digests as they are now, each in its canonical (big-endian) form. */
uint64_t rows_root(const struct rows *r);

#endif
