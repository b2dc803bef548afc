#include "rows.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { LEN_MAX = 64, ROW_BYTES_MAX = 2048 };

/* Rows side by side in one block, as in a pool. */
struct rig {
    struct rows rows;
    unsigned char *bytes;
};

/* splitmix64 */
static uint64_t draw(uint64_t *seed)
{
    uint64_t z = *seed += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static void rig_init(struct rig *g, uint32_t len, size_t row_bytes)
{
    uint64_t seed = 1;

    g->bytes = malloc(len * row_bytes);
    cr_assert(g->bytes != NULL);
    cr_assert_eq(rows_init(&g->rows, len, row_bytes), 0);
    for (size_t i = 0; i < len * row_bytes; i++)
        g->bytes[i] = (unsigned char)draw(&seed);
    for (uint32_t i = 0; i < len; i++)
        g->rows.row[i] = g->bytes + i * row_bytes;
    rows_baseline(&g->rows);
}

static void rig_fini(struct rig *g)
{
    rows_fini(&g->rows);
    free(g->bytes);
}

static void flip(struct rig *g, uint32_t row, size_t bit)
{
    g->bytes[row * g->rows.row_bytes + bit / 8] ^= (unsigned char)(1u << bit % 8);
}

/* Which rows are marked changed, a bit each. */
static uint64_t changed(const struct rows *r)
{
    uint64_t set = 0;

    for (uint32_t i = 0; i < r->len; i++)
        set |= (uint64_t)r->changed[i] << i;
    return set;
}

/* The root as its definition says, with none of the library's help for byte order or streaming. */
static uint64_t root_by_hand(const struct rows *r)
{
    unsigned char digests[LEN_MAX * 8];

    for (uint32_t i = 0; i < r->len; i++)
        for (int byte = 0; byte < 8; byte++)
            digests[i * 8 + byte] = (unsigned char)(XXH3_64bits(r->row[i], r->row_bytes) >> (56 - 8 * byte));
    return XXH3_64bits(digests, r->len * 8);
}

/*
 * xxHash's own vectors (tests/sanity_test_vectors.h, XSUM_XXH3_testdata, seed 0) on its sanity buffer: what `xxhsum -H3`
 * prints for a file of these bytes. One of each length class.
 */
Test(rows, digests_are_xxh3_64_of_the_published_vectors)
{
    static const struct {
        size_t len;
        uint64_t digest;
    } vectors[] = {
        { 1, 0xc44bdff4074eecdbu },    { 6, 0x27b56a84cd2d7325u },   { 12, 0xa713daf0dfbb77e7u },
        { 24, 0xa3fe70bf9d3510ebu },   { 48, 0x397da259ecba1f11u },  { 80, 0xbcdefbbb2c47c90au },
        { 195, 0xcd94217ee362ec3au },  { 403, 0xcdeb804d65c6dea4u }, { 512, 0x617e49599013cb6bu },
        { 2048, 0xdd59e2c3a5f038e0u },
    };
    unsigned char sanity[ROW_BYTES_MAX];
    uint64_t generator = 2654435761u;

    for (size_t i = 0; i < sizeof sanity; i++, generator *= 11400714785074694797u)
        sanity[i] = (unsigned char)(generator >> 56);
    for (size_t v = 0; v < sizeof vectors / sizeof vectors[0]; v++) {
        struct rows r;
        cr_assert_eq(rows_init(&r, 1, vectors[v].len), 0);
        r.row[0] = sanity;
        rows_baseline(&r);
        cr_assert_eq(r.baseline[0], vectors[v].digest, "%zu bytes: %016" PRIx64, vectors[v].len, r.baseline[0]);
        rows_fini(&r);
    }
}

Test(rows, digests_of_all_rows_are_xxh3_64)
{
    struct rig g;

    rig_init(&g, LEN_MAX, 256);
    for (uint32_t i = 0; i < LEN_MAX; i++) {
        cr_assert_eq(g.rows.baseline[i], XXH3_64bits(g.bytes + i * 256, 256), "row %u", i);
        for (uint32_t k = 0; k < i; k++)
            cr_assert_neq(g.rows.baseline[i], g.rows.baseline[k], "rows %u and %u", i, k);
    }
    rig_fini(&g);
}

Test(rows, one_changed_bit_is_told_as_that_row_once)
{
    static const size_t row_bytes[] = { 4, 16, 64, 200, 256, 2048 };

    for (size_t b = 0; b < sizeof row_bytes / sizeof row_bytes[0]; b++) {
        size_t bits = row_bytes[b] * 8, planted[] = { 0, 7, 8, bits / 3, bits / 2, bits - 8, bits - 1 };
        for (size_t p = 0; p < sizeof planted / sizeof planted[0]; p++) {
            struct rig g;
            rig_init(&g, LEN_MAX, row_bytes[b]);
            for (uint32_t i = 0; i < LEN_MAX; i++) {
                uint64_t before = changed(&g.rows);
                cr_assert_eq(rows_look(&g.rows), 0);
                flip(&g, i, planted[p]);
                cr_assert_eq(rows_look(&g.rows), 1, "row %u of %zu bytes, bit %zu", i, row_bytes[b], planted[p]);
                cr_assert_eq(changed(&g.rows), before | UINT64_C(1) << i);
                cr_assert_eq(rows_look(&g.rows), 0, "row %u is told twice", i);
                /* Changing back, or further, is no news. */
                flip(&g, i, planted[p]);
                cr_assert_eq(rows_look(&g.rows), 0);
                flip(&g, i, (planted[p] + 1) % bits);
                cr_assert_eq(rows_look(&g.rows), 0);
                cr_assert_eq(changed(&g.rows), before | UINT64_C(1) << i);
            }
            rig_fini(&g);
        }
    }
}

Test(rows, rows_that_change_together_are_counted)
{
    struct rig g;

    rig_init(&g, LEN_MAX, 64);
    for (uint32_t i = 0; i < LEN_MAX; i += 3)
        flip(&g, i, i);
    cr_assert_eq(rows_look(&g.rows), 22);
    cr_assert_eq(changed(&g.rows), 0x9249249249249249u);
    for (uint32_t i = 0; i < LEN_MAX; i++)
        flip(&g, i, 500);
    cr_assert_eq(rows_look(&g.rows), 42);
    cr_assert_eq(changed(&g.rows), UINT64_MAX);
    rig_fini(&g);
}

/*
 * Each is planted, seen and restored; then the rows move on by a bit and a new baseline, so that no two are alike. Few
 * rows, so that this is short.
 */
Test(rows, a_million_planted_changes_are_all_seen, .timeout = 60)
{
    enum { ROWS = 4, BITS = 64 * 8 };
    struct rig g;
    uint64_t seed = 20240607;
    uint32_t missed = 0, misplaced = 0, false_alarms = 0;
    bool hit[ROWS][BITS] = { 0 };

    rig_init(&g, ROWS, BITS / 8);
    for (int i = 0; i < 1000000; i++) {
        uint64_t random = draw(&seed);
        uint32_t row = random % ROWS;
        size_t bit = random / ROWS % BITS;
        hit[row][bit] = true;
        flip(&g, row, bit);
        missed += rows_look(&g.rows) != 1;
        misplaced += changed(&g.rows) != UINT64_C(1) << row;
        flip(&g, row, bit);
        g.rows.changed[row] = false;
        false_alarms += rows_look(&g.rows) != 0;
        flip(&g, random >> 32 & 3, random >> 40 & 511);
        rows_baseline(&g.rows);
    }
    cr_assert_eq(missed, 0, "%u missed; seed 20240607", missed);
    cr_assert_eq(misplaced, 0, "%u told as another row; seed 20240607", misplaced);
    cr_assert_eq(false_alarms, 0, "%u told after all was restored; seed 20240607", false_alarms);
    for (uint32_t row = 0; row < ROWS; row++)
        for (size_t bit = 0; bit < BITS; bit++)
            cr_assert(hit[row][bit], "row %u, bit %zu was never planted", row, bit);
    rig_fini(&g);
}

Test(rows, a_million_looks_at_rows_that_nobody_writes_are_silent, .timeout = 60)
{
    struct rig g;
    uint64_t seen = 0;

    rig_init(&g, 4, 64);
    for (int i = 0; i < 1000000; i++)
        seen += rows_look(&g.rows);
    cr_assert_eq(seen, 0);
    cr_assert_eq(changed(&g.rows), 0);
    /* The same looks do see. */
    flip(&g, 3, 511);
    cr_assert_eq(rows_look(&g.rows), 1);
    rig_fini(&g);
}

/* What lies between the rows is nobody's business. */
Test(rows, bytes_beside_a_row_do_not_count)
{
    struct rig g;

    rig_init(&g, 8, 64);
    g.rows.row_bytes = 63;
    rows_baseline(&g.rows);
    uint64_t root = rows_root(&g.rows);
    for (uint32_t i = 0; i < 8; i++)
        g.bytes[i * 64 + 63] ^= 0xff;
    cr_assert_eq(rows_look(&g.rows), 0);
    cr_assert_eq(rows_root(&g.rows), root);
    rig_fini(&g);
}

Test(rows, root_is_xxh3_64_of_the_big_endian_digests)
{
    static const uint32_t lens[] = { 1, 2, 3, 16, 17, 33, 64 };

    for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        struct rig g;
        rig_init(&g, lens[i], 128);
        cr_assert_eq(rows_root(&g.rows), root_by_hand(&g.rows), "%u rows", lens[i]);
        rig_fini(&g);
    }
}

Test(rows, root_of_no_rows_is_that_of_no_bytes)
{
    struct rows r;

    cr_assert_eq(rows_init(&r, 0, 64), 0);
    rows_baseline(&r);
    cr_assert_eq(rows_look(&r), 0);
    cr_assert_eq(rows_root(&r), 0x2d06800538d394c2u);
    rows_fini(&r);
}

Test(rows, root_changes_exactly_when_a_row_does)
{
    struct rig g;

    rig_init(&g, LEN_MAX, 64);
    uint64_t root = rows_root(&g.rows);
    for (uint32_t i = 0; i < LEN_MAX; i++)
        for (size_t bit = 0; bit < 512; bit += 73) {
            cr_assert_eq(rows_root(&g.rows), root);
            flip(&g, i, bit);
            cr_assert_neq(rows_root(&g.rows), root, "row %u, bit %zu", i, bit);
            flip(&g, i, bit);
        }
    cr_assert_eq(rows_root(&g.rows), root);
    /* It is of the rows as they are: neither a look nor a new baseline moves it. */
    flip(&g, 5, 5);
    uint64_t other = rows_root(&g.rows);
    rows_look(&g.rows);
    rows_baseline(&g.rows);
    cr_assert_eq(rows_root(&g.rows), other);
    rig_fini(&g);
}

Test(rows, root_depends_on_the_order_of_rows)
{
    struct rig g;
    uint64_t root;

    rig_init(&g, LEN_MAX, 64);
    root = rows_root(&g.rows);
    for (uint32_t i = 1; i < LEN_MAX; i++) {
        const void *first = g.rows.row[0];
        g.rows.row[0] = g.rows.row[i];
        g.rows.row[i] = first;
        cr_assert_neq(rows_root(&g.rows), root, "rows 0 and %u swapped", i);
        g.rows.row[i] = g.rows.row[0];
        g.rows.row[0] = first;
    }
    cr_assert_eq(rows_root(&g.rows), root);
    /* Two rows with the same bytes may change places. */
    memcpy(g.bytes, g.bytes + 64, 64);
    root = rows_root(&g.rows);
    g.rows.row[0] = g.bytes + 64;
    g.rows.row[1] = g.bytes;
    cr_assert_eq(rows_root(&g.rows), root);
    rig_fini(&g);
}

Test(rows, the_address_of_a_row_does_not_matter)
{
    struct rig a, b;
    unsigned char *moved = malloc(LEN_MAX * 64 + 1);

    cr_assert(moved != NULL);
    rig_init(&a, LEN_MAX, 64);
    rig_init(&b, LEN_MAX, 64);
    memcpy(moved + 1, b.bytes, LEN_MAX * 64);
    for (uint32_t i = 0; i < LEN_MAX; i++)
        b.rows.row[i] = moved + 1 + i * 64;
    cr_assert_eq(rows_look(&b.rows), 0);
    cr_assert_eq(rows_root(&a.rows), rows_root(&b.rows));
    rig_fini(&a);
    rig_fini(&b);
    free(moved);
}
