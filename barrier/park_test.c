#include "park.h"

#include <criterion/criterion.h>
#include <string.h>

/* Two keys are enough to tell actors apart; the others are the same everywhere. */
struct keys {
    int32_t of[PARK_KEYS];
};

static struct keys keys(int32_t a, int32_t b)
{
    struct keys k = { { a, b } };

    return k;
}

static struct keys wild(int32_t a, int32_t b)
{
    struct keys k;

    for (int i = 0; i < PARK_KEYS; i++)
        k.of[i] = PARK_ANY;
    k.of[0] = a;
    k.of[1] = b;
    return k;
}

enum { PARKS = 4, POINT = 7, OTHER_POINT = 8 };

struct rig {
    struct park_set set;
    struct park parks[PARKS];
};

static void rig_init(struct rig *g)
{
    memset(g->parks, 0xa5, sizeof g->parks);
    park_set_init(&g->set, g->parks, PARKS);
}

static void arm(struct rig *g, uint32_t idx, struct keys k, uint32_t occurrence)
{
    park_arm(&g->set, idx, POINT, k.of, occurrence);
}

static int arrive(struct rig *g, int32_t a, int32_t b)
{
    return park_arrive(&g->set, POINT, keys(a, b).of);
}

Test(park, nothing_armed_nobody_held)
{
    struct rig g;

    rig_init(&g);
    for (uint32_t i = 0; i < PARKS; i++) {
        cr_assert_eq(g.parks[i].state, PARK_UNUSED);
        cr_assert_not(park_release(&g.set, i));
        cr_assert_eq(g.parks[i].state, PARK_UNUSED);
    }
    cr_assert_eq(arrive(&g, 0, 0), -1);
    /* Also an arrival at the point and keys that an unused park's zeros would match. */
    cr_assert_eq(park_arrive(&g.set, 0, keys(0, 0).of), -1);
}

Test(park, takes_one_arrival_and_none_after_it)
{
    struct rig g;

    rig_init(&g);
    arm(&g, 2, keys(1, 2), 1);
    cr_assert_eq(g.parks[2].state, PARK_ARMED);
    cr_assert_eq(arrive(&g, 1, 2), 2);
    cr_assert_eq(g.parks[2].state, PARK_HOLDS);
    cr_assert_eq(arrive(&g, 1, 2), -1);
    cr_assert(park_release(&g.set, 2));
    cr_assert_eq(g.parks[2].state, PARK_PASSED);
    for (int i = 0; i < 10; i++)
        cr_assert_eq(arrive(&g, 1, 2), -1);
    cr_assert_eq(g.parks[2].state, PARK_PASSED);
}

Test(park, takes_the_occurrence_it_was_armed_for)
{
    for (uint32_t occurrence = 1; occurrence <= 5; occurrence++) {
        struct rig g;
        rig_init(&g);
        arm(&g, 0, keys(1, 2), occurrence);
        for (uint32_t i = 1; i <= 8; i++)
            cr_assert_eq(arrive(&g, 1, 2), i == occurrence ? 0 : -1, "occurrence %u, arrival %u", occurrence, i);
    }
}

Test(park, unrelated_arrivals_are_not_counted)
{
    struct rig g;

    rig_init(&g);
    arm(&g, 0, keys(1, 2), 2);
    cr_assert_eq(park_arrive(&g.set, OTHER_POINT, keys(1, 2).of), -1);
    cr_assert_eq(arrive(&g, 1, 3), -1);
    cr_assert_eq(arrive(&g, 3, 2), -1);
    cr_assert_eq(arrive(&g, 2, 1), -1);
    cr_assert_eq(g.parks[0].seen, 0);
    cr_assert_eq(arrive(&g, 1, 2), -1);
    cr_assert_eq(g.parks[0].seen, 1);
    cr_assert_eq(park_arrive(&g.set, OTHER_POINT, keys(1, 2).of), -1);
    cr_assert_eq(arrive(&g, 1, 2), 0);
}

Test(park, every_key_tells_arrivals_apart)
{
    for (int k = 0; k < PARK_KEYS; k++) {
        struct rig g;
        struct keys want = { { 0 } }, other = { { 0 } };
        rig_init(&g);
        want.of[k] = 5;
        other.of[k] = 6;
        arm(&g, 0, want, 1);
        cr_assert_eq(park_arrive(&g.set, POINT, other.of), -1, "key %d", k);
        cr_assert_eq(park_arrive(&g.set, POINT, want.of), 0, "key %d", k);
    }
}

Test(park, a_wildcard_matches_every_value_of_its_key_only)
{
    struct keys want = wild(PARK_ANY, 2);
    static const int32_t values[] = { 0, 1, -2, INT32_MAX, INT32_MIN, PARK_ANY };

    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        cr_assert(park_matches(POINT, want.of, POINT, keys(values[i], 2).of));
        cr_assert_not(park_matches(POINT, want.of, POINT, keys(values[i], 3).of));
        cr_assert_not(park_matches(POINT, want.of, OTHER_POINT, keys(values[i], 2).of));
    }
    /* In an arrival, -1 is a value like any other. */
    cr_assert_not(park_matches(POINT, keys(1, 2).of, POINT, keys(PARK_ANY, 2).of));
    for (int k = 0; k < PARK_KEYS; k++) {
        struct keys all = wild(PARK_ANY, PARK_ANY), one = { { 0 } };
        one.of[k] = 9;
        cr_assert(park_matches(POINT, all.of, POINT, one.of));
        all.of[k] = 8;
        cr_assert_not(park_matches(POINT, all.of, POINT, one.of), "key %d", k);
    }
}

Test(park, an_early_release_is_remembered)
{
    struct rig g;

    rig_init(&g);
    arm(&g, 0, keys(1, 2), 1);
    cr_assert_not(park_release(&g.set, 0));
    cr_assert_eq(g.parks[0].state, PARK_RELEASED);
    cr_assert_eq(arrive(&g, 1, 3), -1);
    cr_assert_eq(g.parks[0].state, PARK_RELEASED);
    cr_assert_eq(arrive(&g, 1, 2), -1);
    cr_assert_eq(g.parks[0].state, PARK_PASSED);
    cr_assert_eq(arrive(&g, 1, 2), -1);
}

Test(park, an_early_release_waits_for_its_occurrence)
{
    struct rig g;

    rig_init(&g);
    arm(&g, 0, keys(1, 2), 3);
    cr_assert_eq(arrive(&g, 1, 2), -1);
    cr_assert_not(park_release(&g.set, 0));
    cr_assert_eq(arrive(&g, 1, 2), -1);
    cr_assert_eq(g.parks[0].state, PARK_RELEASED);
    cr_assert_eq(arrive(&g, 1, 2), -1);
    cr_assert_eq(g.parks[0].state, PARK_PASSED);
}

Test(park, only_the_first_release_lets_somebody_go)
{
    struct rig g;

    rig_init(&g);
    arm(&g, 0, keys(1, 2), 1);
    cr_assert_eq(arrive(&g, 1, 2), 0);
    cr_assert(park_release(&g.set, 0));
    cr_assert_not(park_release(&g.set, 0));
    cr_assert_eq(g.parks[0].state, PARK_PASSED);

    arm(&g, 1, keys(1, 2), 1);
    cr_assert_not(park_release(&g.set, 1));
    cr_assert_not(park_release(&g.set, 1));
    cr_assert_eq(g.parks[1].state, PARK_RELEASED);
    cr_assert_eq(arrive(&g, 1, 2), -1);
    cr_assert_not(park_release(&g.set, 1));
    cr_assert_eq(g.parks[1].state, PARK_PASSED);
}

Test(park, of_two_parks_one_holds_and_the_other_waits_for_another_arrival)
{
    struct rig g;

    rig_init(&g);
    arm(&g, 0, keys(1, 2), 1);
    arm(&g, 1, wild(1, PARK_ANY), 1);
    cr_assert_eq(arrive(&g, 1, 2), 0);
    cr_assert_eq(g.parks[1].state, PARK_ARMED);
    cr_assert_eq(arrive(&g, 1, 2), 1);
    cr_assert_eq(arrive(&g, 1, 2), -1);
    /* Each release is for its own. */
    cr_assert(park_release(&g.set, 1));
    cr_assert_eq(g.parks[0].state, PARK_HOLDS);
    cr_assert(park_release(&g.set, 0));
}

Test(park, an_arrival_held_by_one_park_counts_for_the_occurrence_of_another)
{
    struct rig g;

    rig_init(&g);
    arm(&g, 0, keys(1, 2), 1);
    arm(&g, 1, keys(1, 2), 2);
    cr_assert_eq(arrive(&g, 1, 2), 0);
    cr_assert_eq(arrive(&g, 1, 2), 1);
}

Test(park, one_released_early_does_not_shield_from_another)
{
    struct rig g;

    rig_init(&g);
    arm(&g, 0, keys(1, 2), 1);
    arm(&g, 1, keys(1, 2), 1);
    cr_assert_not(park_release(&g.set, 0));
    cr_assert_eq(arrive(&g, 1, 2), 1);
    cr_assert_eq(g.parks[0].state, PARK_PASSED);
}

Test(park, tickets_increase_with_every_arrival)
{
    struct rig g;
    uint64_t last = 0;

    rig_init(&g);
    for (uint32_t i = 0; i < PARKS; i++)
        arm(&g, i, keys(1, 2), 1);
    for (uint32_t i = 0; i < PARKS; i++) {
        cr_assert_eq(arrive(&g, 9, 9), -1);
        cr_assert_eq(arrive(&g, 1, 2), (int)i);
        cr_assert_gt(g.parks[i].ticket, last + 1, "arrivals that go on take a ticket too");
        last = g.parks[i].ticket;
        cr_assert_eq(last, g.set.arrivals);
    }
    /* A release does not change whose ticket it was. */
    cr_assert(park_release(&g.set, 0));
    cr_assert_eq(g.parks[0].ticket, 2);
}

Test(park, can_be_armed_again)
{
    struct rig g;

    rig_init(&g);
    for (int i = 0; i < 3; i++) {
        arm(&g, 0, keys(1, 2), 2);
        cr_assert_eq(arrive(&g, 1, 2), -1);
        cr_assert_eq(arrive(&g, 1, 2), 0);
        cr_assert(park_release(&g.set, 0));
        cr_assert_eq(arrive(&g, 1, 2), -1);
    }
}

/*
 * The reference keeps no state. It asks the whole history, each time anew: which arrival did this park take? Histories
 * are of operations on parks at one point, with one key that matters.
 */
enum op_kind { OP_ARM, OP_ARRIVE, OP_RELEASE };

struct op {
    enum op_kind kind;
    int park;
    int32_t key; /* of an arrival, or what an armed park wants */
    uint32_t point, occurrence;
};

/* Rules that are wrong on purpose: the comparison must notice each. */
enum wrong { RIGHT, RELEASE_FORGOTTEN, NOT_ONE_SHOT, HIGHEST_HOLDS, HELD_UNCOUNTED, WILDCARD_LITERAL, WRONG_COUNT };

struct taken {
    int by_arrival; /* place in the history, or -1 */
    bool held;      /* it was held; otherwise it went on because of an early release */
};

static int ref_holder(const struct op *h, int at, int parks, enum wrong wrong);

static int ref_armed(const struct op *h, int n, int park)
{
    for (int i = n - 1; i >= 0; i--)
        if (h[i].kind == OP_ARM && h[i].park == park)
            return i;
    return -1;
}

static bool ref_released(const struct op *h, int from, int to, int park)
{
    for (int i = from; i < to; i++)
        if (h[i].kind == OP_RELEASE && h[i].park == park)
            return true;
    return false;
}

static bool ref_matches(const struct op *armed, const struct op *arrival, enum wrong wrong)
{
    bool any = armed->key == PARK_ANY && wrong != WILDCARD_LITERAL;

    return arrival->kind == OP_ARRIVE && arrival->point == armed->point && (any || arrival->key == armed->key);
}

/* The arrival that a park took by the time that n operations had happened. */
static struct taken ref_taken(const struct op *h, int n, int park, int parks, enum wrong wrong)
{
    int armed = ref_armed(h, n, park);
    uint32_t seen = 0;

    for (int i = armed + 1; armed >= 0 && i < n; i++) {
        if (!ref_matches(&h[armed], &h[i], wrong))
            continue;
        if (wrong == HELD_UNCOUNTED && ref_holder(h, i, park, RIGHT) >= 0)
            continue;
        if (++seen < h[armed].occurrence)
            continue;
        if (ref_released(h, armed, i, park) && wrong != RELEASE_FORGOTTEN)
            return (struct taken){ i, false };
        int rival = wrong == HIGHEST_HOLDS ? -1 : ref_holder(h, i, park, wrong);
        for (int p = park + 1; wrong == HIGHEST_HOLDS && p < parks; p++)
            if (ref_taken(h, i + 1, p, parks, wrong).by_arrival == i)
                rival = p;
        if (rival >= 0)
            continue;
        if (wrong == NOT_ONE_SHOT && ref_released(h, i, n, park))
            continue;
        return (struct taken){ i, true };
    }
    return (struct taken){ -1, false };
}

/* Who of the parks below `parks` holds the arrival at h[at]; what came after it does not matter. */
static int ref_holder(const struct op *h, int at, int parks, enum wrong wrong)
{
    for (int p = 0; p < parks; p++) {
        struct taken t = ref_taken(h, at + 1, p, parks, wrong);
        if (t.by_arrival == at && t.held)
            return p;
    }
    return -1;
}

static enum park_state ref_state(const struct op *h, int n, int park, int parks, enum wrong wrong)
{
    int armed = ref_armed(h, n, park);

    if (armed < 0)
        return PARK_UNUSED;
    struct taken t = ref_taken(h, n, park, parks, wrong);
    if (t.by_arrival < 0)
        return ref_released(h, armed, n, park) ? PARK_RELEASED : PARK_ARMED;
    return t.held && !ref_released(h, t.by_arrival, n, park) ? PARK_HOLDS : PARK_PASSED;
}

/* Does the last operation of the history, and the state after it, agree with the reference? */
struct comparison {
    enum wrong wrong;
    int parks;
    uint64_t compared, differing;
    uint64_t held, contended, let_go, released_early, passed_early;
};

static void step_and_compare(struct comparison *c, struct park_set *set, const struct op *h, int n)
{
    const struct op *op = &h[n - 1];
    struct keys k = op->kind == OP_ARM ? wild(op->key, PARK_ANY) : keys(op->key, 0);
    bool differs = false;

    switch (op->kind) {
    case OP_ARM:
        park_arm(set, (uint32_t)op->park, op->point, k.of, op->occurrence);
        break;
    case OP_ARRIVE: {
        int due = 0, holds = park_arrive(set, op->point, k.of);
        differs = holds != ref_holder(h, n - 1, c->parks, c->wrong);
        for (int p = 0; p < c->parks; p++) {
            struct taken t = ref_taken(h, n, p, c->parks, RIGHT);
            due += t.by_arrival == n - 1;
            c->passed_early += t.by_arrival == n - 1 && !t.held;
        }
        c->held += holds >= 0;
        c->contended += holds >= 0 && due > 1;
        if (holds >= 0) {
            uint64_t arrivals = 0;
            for (int i = 0; i < n; i++)
                arrivals += h[i].kind == OP_ARRIVE;
            differs |= set->parks[holds].ticket != arrivals;
        }
        break;
    }
    case OP_RELEASE: {
        bool let_go = park_release(set, (uint32_t)op->park);
        differs = let_go != (ref_state(h, n - 1, op->park, c->parks, c->wrong) == PARK_HOLDS);
        c->let_go += let_go;
        c->released_early += set->parks[op->park].state == PARK_RELEASED;
        break;
    }
    }
    for (int p = 0; p < c->parks; p++)
        differs |= set->parks[p].state != ref_state(h, n, p, c->parks, c->wrong);
    c->compared++;
    c->differing += differs;
}

/* Every order of these, up to `DEPTH` of them; parks are armed, and armed again, at any time. */
enum { DEPTH = 7, ENUMERATED_PARKS = 2 };

static const struct op alphabet[] = {
    { OP_ARM, 0, PARK_ANY, 0, 1 }, { OP_ARM, 0, 1, 0, 2 },     { OP_ARM, 1, PARK_ANY, 0, 1 },
    { OP_ARM, 1, 1, 0, 2 },        { OP_ARRIVE, -1, 1, 0, 0 }, { OP_ARRIVE, -1, 2, 0, 0 },
    { OP_ARRIVE, -1, 1, 1, 0 },    { OP_RELEASE, 0, 0, 0, 0 }, { OP_RELEASE, 1, 0, 0, 0 },
};

enum { ALPHABET_LEN = sizeof alphabet / sizeof alphabet[0] };

static void enumerate(struct comparison *c, const struct park_set *before, struct op *h, int n, int depth)
{
    if (n == depth)
        return;
    for (int i = 0; i < ALPHABET_LEN; i++) {
        struct park parks[ENUMERATED_PARKS];
        struct park_set set = { parks, before->len, before->arrivals };
        memcpy(parks, before->parks, sizeof parks);
        h[n] = alphabet[i];
        step_and_compare(c, &set, h, n + 1);
        enumerate(c, &set, h, n + 1, depth);
    }
}

static void enumerate_all(struct comparison *c, int depth)
{
    struct op history[DEPTH];
    struct park parks[ENUMERATED_PARKS];
    struct park_set set;

    c->parks = ENUMERATED_PARKS;
    park_set_init(&set, parks, ENUMERATED_PARKS);
    enumerate(c, &set, history, 0, depth);
}

Test(park_orders, all_agree_with_a_replay_of_their_history, .timeout = 120)
{
    struct comparison c = { .wrong = RIGHT };
    uint64_t expected = 0;

    enumerate_all(&c, DEPTH);
    for (uint64_t d = 0, power = ALPHABET_LEN; d < DEPTH; d++, power *= ALPHABET_LEN)
        expected += power;
    cr_assert_eq(c.compared, expected);
    cr_assert_eq(c.differing, 0, "%llu of %llu orders differ", (unsigned long long)c.differing,
                 (unsigned long long)c.compared);
    /* It would prove little if these were rare. */
    cr_assert_gt(c.held, 1000);
    cr_assert_gt(c.contended, 100);
    cr_assert_gt(c.let_go, 1000);
    cr_assert_gt(c.released_early, 1000);
    cr_assert_gt(c.passed_early, 1000);
}

Test(park_orders, a_wrong_rule_is_noticed, .timeout = 120)
{
    for (int wrong = RIGHT + 1; wrong < WRONG_COUNT; wrong++) {
        struct comparison c = { .wrong = (enum wrong)wrong };
        enumerate_all(&c, 5);
        cr_assert_gt(c.differing, 0, "wrong rule %d", wrong);
    }
}

/* Longer ones, with four parks and higher occurrences. */
Test(park_orders, random_long_ones_agree_too, .timeout = 120)
{
    enum { ORDERS = 2000, LONG = 24 };
    struct comparison c = { .wrong = RIGHT, .parks = PARKS };
    uint32_t seed = 12345;

    for (int i = 0; i < ORDERS; i++) {
        struct op h[LONG];
        struct rig g;
        rig_init(&g);
        for (int n = 0; n < LONG; n++) {
            uint32_t r[4];
            for (int k = 0; k < 4; k++)
                r[k] = (seed = seed * 1664525 + 1013904223) >> 16;
            h[n].kind = r[0] % 8 < 2 ? OP_ARM : r[0] % 8 < 6 ? OP_ARRIVE : OP_RELEASE;
            h[n].park = (int)(r[1] % PARKS);
            h[n].key = h[n].kind == OP_ARM && r[2] % 3 == 2 ? PARK_ANY : (int32_t)(r[2] % 3);
            h[n].point = r[3] % 8 == 7;
            h[n].occurrence = 1 + r[3] / 8 % 4;
            step_and_compare(&c, &g.set, h, n + 1);
        }
    }
    cr_assert_eq(c.compared, (uint64_t)ORDERS * LONG);
    cr_assert_eq(c.differing, 0, "%llu of %llu steps differ; seed 12345", (unsigned long long)c.differing,
                 (unsigned long long)c.compared);
    cr_assert_gt(c.contended, 100);
    cr_assert_gt(c.passed_early, 100);
}
