#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "allocator.h"

/* A pool on its own: a block that holds one allocator and a table of ids to give back. */
struct pool {
    struct allocator_layout l;
    struct cells ids;
    uint8_t block[16384];
};

static struct cells lay(uint32_t *at, uint32_t len)
{
    struct cells t = { *at, 2, len };

    *at += 2 * len;
    return t;
}

static void pool_init(struct pool *p, enum allocator kind, uint32_t len)
{
    uint32_t at = 0;

    memset(p, 0, sizeof *p);
    p->l = (struct allocator_layout){ .kind = kind, .len = len };
    p->l.free_len = lay(&at, 1);
    p->l.free = lay(&at, len);
    p->l.released_len = lay(&at, 1);
    p->l.released = lay(&at, len);
    p->ids = lay(&at, len);
    cr_assert_leq(at, sizeof p->block);
    allocator_init(&p->l, p->block);
}

static uint32_t take(struct pool *p)
{
    return allocator_take(&p->l, p->block, 0);
}

static void give(struct pool *p, const uint32_t *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        cell_set(p->block, &p->ids, i, ids[i]);
    allocator_give(&p->l, p->block, &p->ids, 0, n);
}

/* A prompt of `tokens` tokens, as decode admits it. */
static void prompt(struct pool *p, uint32_t tokens, uint32_t page_tokens, uint32_t *pages)
{
    allocator_want(&p->l, p->block, tokens / page_tokens + 2);
    for (uint32_t i = 0; i < (tokens + page_tokens - 1) / page_tokens; i++)
        pages[i] = take(p);
}

/* How many of A's 32 pages B's prompt gets, and whether B's 32 pages of growth reach any of A's. */
static uint32_t shared(uint32_t pool_pages, bool *growth_hits)
{
    struct pool p;
    uint32_t a[32], b[32], n = 0;
    uint8_t was_a[256] = { 0 };

    pool_init(&p, ALLOCATOR_SORTED, pool_pages);
    prompt(&p, 512, 16, a);
    give(&p, a, 32);
    prompt(&p, 512, 16, b);
    for (int i = 0; i < 32; i++)
        was_a[a[i]] = 1;
    for (int i = 0; i < 32; i++)
        n += was_a[b[i]];
    *growth_hits = false;
    for (int i = 0; i < 32; i++) {
        allocator_want(&p.l, p.block, 1);
        *growth_hits = *growth_hits || was_a[take(&p)];
    }
    return n;
}

Test(allocator, sorted_shares_all_pages_up_to_65_and_none_of_the_prompt_from_66)
{
    bool growth;

    for (uint32_t pages = 64; pages <= 65; pages++)
        cr_assert_eq(shared(pages, &growth), 32, "pool of %u", pages);
    for (uint32_t pages = 66; pages <= 128; pages++) {
        cr_assert_eq(shared(pages, &growth), 0, "pool of %u", pages);
        cr_assert_eq(growth, pages < 96, "growth in a pool of %u", pages);
    }
}

Test(allocator, sorted_keeps_freed_ids_apart_until_they_are_needed)
{
    struct pool p;
    uint32_t first[] = { 1, 2 }, second[] = { 3 };

    pool_init(&p, ALLOCATOR_SORTED, 6);
    for (uint32_t i = 1; i <= 4; i++)
        cr_assert_eq(take(&p), i);
    give(&p, first, 2);
    give(&p, second, 1); /* in front of the separate list */
    cr_assert_eq(cell(p.block, &p.l.released, 0), 3);
    cr_assert_eq(cell(p.block, &p.l.released, 1), 1);
    allocator_want(&p.l, p.block, 2);
    cr_assert_eq(take(&p), 5, "two are free: no merge");
    allocator_want(&p.l, p.block, 2);
    cr_assert_eq(take(&p), 1, "merged and sorted");
    cr_assert_eq(allocator_available(&p.l, p.block), 3);
}

Test(allocator, orders)
{
    static const struct {
        enum allocator kind;
        uint32_t next[4];
    } cases[] = {
        { ALLOCATOR_LIFO, { 3, 1, 4, 5 } },
        { ALLOCATOR_FIFO, { 4, 5, 3, 1 } },
        { ALLOCATOR_LOWEST, { 1, 3, 4, 5 } },
    };
    const uint32_t back[] = { 3, 1 };

    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct pool p;

        pool_init(&p, cases[c].kind, 5);
        for (int i = 0; i < 3; i++)
            take(&p);
        give(&p, back, 2);
        for (int i = 0; i < 4; i++)
            cr_assert_eq(take(&p), cases[c].next[i], "case %zu, id %d", c, i);
        cr_assert_eq(take(&p), 0, "nothing is left, and 0 is never handed out");
    }
}

Test(allocator, any_takes_what_is_chosen)
{
    struct pool p;
    const uint32_t back[] = { 2 };

    pool_init(&p, ALLOCATOR_ANY, 4);
    cr_assert_eq(allocator_take(&p.l, p.block, 2), 3);
    cr_assert_eq(allocator_take(&p.l, p.block, 1), 2);
    cr_assert_eq(allocator_take(&p.l, p.block, 2), 0);
    give(&p, back, 1);
    cr_assert_eq(allocator_take(&p.l, p.block, 1), 2);
}

/* Whatever the order, every id is handed out once, and all come back. */
Test(allocator, never_hands_out_an_id_twice)
{
    for (int kind = 0; kind < ALLOCATOR_COUNT; kind++) {
        struct pool p;
        uint8_t out[33] = { 0 };
        uint32_t held[32], held_len = 0, random = 7;

        pool_init(&p, (enum allocator)kind, 32);
        for (int i = 0; i < 20000; i++) {
            random = random * 1664525u + 1013904223u;
            if (random >> 31 || held_len == 0) {
                uint32_t id;

                allocator_want(&p.l, p.block, 1 + (random >> 8) % 4);
                id = take(&p);
                if (id == 0) {
                    cr_assert_eq(held_len, 32);
                    continue;
                }
                cr_assert_not(out[id]);
                out[id] = 1;
                held[held_len++] = id;
            } else {
                uint32_t n = 1 + (random >> 8) % held_len;

                give(&p, held + held_len - n, n);
                for (uint32_t k = held_len - n; k < held_len; k++)
                    out[held[k]] = 0;
                held_len -= n;
            }
            cr_assert_eq(allocator_available(&p.l, p.block) + held_len, 32);
        }
    }
}
