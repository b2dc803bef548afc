/*
 * Allocators of page and slot ids 1..len (0 is the dummy that is never handed out), pure, on the cells of a machine's
 * block. Orders:
 *   sorted  freed ids go in front of a separate list; both are merged and sorted ascending only when the free list can't
 *           serve (SGLang 90354326c7 mem_cache/allocator/paged.py with need_sort);
 *   lifo    freed ids go in front, as a batch; fifo: at the end; lowest: the list is kept ascending;
 *   any     kept ascending too; which one is taken is the caller's choice (the explorer's).
 */
#ifndef KVREPRO_ALLOCATOR_H
#define KVREPRO_ALLOCATOR_H

#include <stdbool.h>

#include "config.h"

void allocator_init(const struct allocator_layout *l, uint8_t *state);
/* Free ids in all, those that a merge would bring back included. */
uint32_t allocator_available(const struct allocator_layout *l, const uint8_t *state);
/* `sorted`: merge and sort if fewer than `wanted` are on the free list. Others: nothing. */
void allocator_want(const struct allocator_layout *l, uint8_t *state, uint32_t wanted);
/* Takes the free list's id at index `choice` (0 but for `any`); 0 when the free list is empty. */
uint32_t allocator_take(const struct allocator_layout *l, uint8_t *state, uint32_t choice);
/* Gives ids[0..n) of table `ids` starting at cell `first` back, in that order, as one batch. */
void allocator_give(const struct allocator_layout *l, uint8_t *state, const struct cells *ids, uint32_t first,
                    uint32_t n);

#endif
