#include "allocator.h"

#include "../mutant.h"

static void insert(uint8_t *state, const struct cells *len_cell, const struct cells *list, uint32_t at, uint32_t id)
{
    uint32_t len = cell(state, len_cell, 0);

    for (uint32_t i = len; i > at; i--)
        cell_set(state, list, i, cell(state, list, i - 1));
    cell_set(state, list, at, id);
    cell_set(state, len_cell, 0, len + 1);
}

static uint32_t sorted_place(const struct allocator_layout *l, const uint8_t *state, uint32_t id)
{
    uint32_t low = 0, high = cell(state, &l->free_len, 0);

    while (low < high) {
        uint32_t mid = (low + high) / 2;

        if (cell(state, &l->free, mid) < id)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

void allocator_init(const struct allocator_layout *l, uint8_t *state)
{
    for (uint32_t i = 0; i < l->len; i++)
        cell_set(state, &l->free, i, i + 1);
    cell_set(state, &l->free_len, 0, l->len);
}

uint32_t allocator_available(const struct allocator_layout *l, const uint8_t *state)
{
    uint32_t free = cell(state, &l->free_len, 0);

    return l->kind == ALLOCATOR_SORTED ? free + cell(state, &l->released_len, 0) : free;
}

void allocator_want(const struct allocator_layout *l, uint8_t *state, uint32_t wanted)
{
    uint32_t free, released;

    if (l->kind != ALLOCATOR_SORTED || cell(state, &l->free_len, 0) >= wanted || MUTANT(16))
        return;
    free = cell(state, &l->free_len, 0);
    released = cell(state, &l->released_len, 0);
    for (uint32_t i = 0; i < released; i++) {
        cell_set(state, &l->free, free + i, cell(state, &l->released, i));
        cell_set(state, &l->released, i, 0);
    }
    cell_set(state, &l->released_len, 0, 0);
    cell_set(state, &l->free_len, 0, free + released);
    /* Insertion sort: nearly sorted in practice, and the ids are few. */
    for (uint32_t i = 1; i < free + released; i++) {
        uint32_t id = cell(state, &l->free, i), j = i;

        for (; j > 0 && cell(state, &l->free, j - 1) > id && !MUTANT(17); j--)
            cell_set(state, &l->free, j, cell(state, &l->free, j - 1));
        cell_set(state, &l->free, j, id);
    }
}

uint32_t allocator_take(const struct allocator_layout *l, uint8_t *state, uint32_t choice)
{
    uint32_t free = cell(state, &l->free_len, 0), id;

    if (choice >= free)
        return 0;
    id = cell(state, &l->free, choice);
    for (uint32_t i = choice + 1; i < free; i++)
        cell_set(state, &l->free, i - 1, cell(state, &l->free, i));
    cell_set(state, &l->free, free - 1, 0);
    cell_set(state, &l->free_len, 0, free - 1);
    return id;
}

void allocator_give(const struct allocator_layout *l, uint8_t *state, const struct cells *ids, uint32_t first,
                    uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t id = cell(state, ids, first + i);

        assert(id >= 1 && id <= l->len);
        switch (l->kind) {
        case ALLOCATOR_SORTED:
            insert(state, &l->released_len, &l->released, MUTANT(18) ? cell(state, &l->released_len, 0) : i, id);
            break;
        case ALLOCATOR_LIFO:
            insert(state, &l->free_len, &l->free, i, id);
            break;
        case ALLOCATOR_FIFO:
            insert(state, &l->free_len, &l->free, cell(state, &l->free_len, 0), id);
            break;
        case ALLOCATOR_LOWEST:
        case ALLOCATOR_ANY:
        case ALLOCATOR_COUNT:
            insert(state, &l->free_len, &l->free, sorted_place(l, state, id), id);
            break;
        }
    }
}
