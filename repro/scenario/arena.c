#include "arena.h"

#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 16 * 1024 };

struct arena_block {
    struct arena_block *next;
    size_t used, max;
    alignas(max_align_t) unsigned char bytes[];
};

void *arena_alloc(struct arena *a, size_t bytes)
{
    const size_t align = alignof(max_align_t);
    size_t need = (bytes + align - 1) / align * align;
    struct arena_block *b = a->head;

    if (!b || b->max - b->used < need) {
        size_t max = need > BLOCK_BYTES ? need : BLOCK_BYTES;
        b = calloc(1, sizeof *b + max);
        if (!b) {
            fputs("out of memory while reading a scenario\n", stderr);
            abort();
        }
        b->max = max;
        b->next = a->head;
        a->head = b;
    }
    void *p = b->bytes + b->used;
    b->used += need;
    return p;
}

char *arena_copy(struct arena *a, const void *bytes, size_t bytes_len)
{
    char *copy = arena_alloc(a, bytes_len + 1);
    if (bytes_len)
        memcpy(copy, bytes, bytes_len);
    return copy;
}

void arena_fini(struct arena *a)
{
    while (a->head) {
        struct arena_block *next = a->head->next;
        free(a->head);
        a->head = next;
    }
}
