/*
 * Memory that is freed all at once. Not for threads. What the reader asks for is bounded by its limits (a file of 1 MiB, so many
 * arms of so many steps): when even that can't be had, the program says so and aborts.
 */
#ifndef KVREPRO_ARENA_H
#define KVREPRO_ARENA_H

#include <stddef.h>

struct arena_block;

struct arena {
    struct arena_block *head;
};

/* Zeroed, aligned for any type, valid until arena_fini(). */
void *arena_alloc(struct arena *a, size_t bytes);
/* A copy with a terminating zero. */
char *arena_copy(struct arena *a, const void *bytes, size_t bytes_len);
void arena_fini(struct arena *a);

#endif
