/*
 * The smallest worlds in which the seed's corruption exists: two requests, two chunks each, a decode pool that holds one
 * request at a time. Every order of every enabled transition.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "search.h"

#if defined(__SANITIZE_ADDRESS__)
enum { CHUNKS_B = 1, TOKENS_A = 1, CROSS_CHECKS = 1, VERDICTS = 1 };
#else
enum { CHUNKS_B = 2, TOKENS_A = 1, CROSS_CHECKS = 3, VERDICTS = 16 };
#endif

static const struct client_event clients[] = { { CLIENT_SUBMIT, 0, SIDE_PREFILL },
                                               { CLIENT_ABORT, 0, SIDE_DECODE },
                                               { CLIENT_SUBMIT, 1, SIDE_PREFILL } };

struct scope {
    uint32_t chunks_a, chunks_b, tokens_a, tokens_b, prefills;
};

static struct config *world_with(const char *core, const char *engine, const struct scope *s, enum core_knob knob,
                                 uint32_t value)
{
    struct request_input requests[] = { { s->chunks_a, s->tokens_a, 0, 0, 0 },
                                        { s->chunks_b, s->tokens_b, s->prefills - 1, 0, 1 } };
    struct config_input in = {
        .page_tokens = 1, .chunk_tokens = 1, .layers = 1, .requests = requests, .requests_len = 2
    };
    uint32_t pages_a = s->chunks_a + s->tokens_a - 1, pages_b = s->chunks_b + s->tokens_b - 1;
    struct config *c;

    policy_set_core(&in.policy, (unsigned)core_by_name(core));
    policy_set_engine(&in.policy, (unsigned)engine_by_name(engine));
    in.policy.engine[ENGINE_TIMEOUT] = 0; /* a fault of its own, and not the seed's */
    if (knob != CORE_KNOB_COUNT)
        in.policy.core[knob] = value;
    in.sides[SIDE_PREFILL] = (struct side_config){ .instances = s->prefills,
                                                   .ranks = 1,
                                                   .pages = s->chunks_a + s->chunks_b,
                                                   .state_slots = 2,
                                                   .workers = 1,
                                                   .allocator = ALLOCATOR_LOWEST,
                                                   .slot_allocator = ALLOCATOR_LOWEST };
    in.sides[SIDE_DECODE] = (struct side_config){ .instances = 1,
                                                  .ranks = 1,
                                                  .pages = pages_a > pages_b ? pages_a : pages_b,
                                                  .state_slots = 1,
                                                  .aux_slots = 2,
                                                  .request_slots = 2,
                                                  .allocator = ALLOCATOR_LOWEST,
                                                  .slot_allocator = ALLOCATOR_LOWEST };
    c = config_new(&in);
    cr_assert_not_null(c);
    return c;
}

static struct config *world_of(const char *core, const struct scope *s, enum core_knob knob, uint32_t value)
{
    return world_with(core, "mooncake", s, knob, value);
}

static struct search_result search(struct config *c, bool reduce)
{
    struct search_input in = { .config = c,
                               .clients = clients,
                               .clients_len = sizeof clients / sizeof clients[0],
                               .states_max = 6000000,
                               .reduce = reduce,
                               .contract = reduce,
                               .stall = -1 };
    struct search_result r;

    cr_assert_eq(search_run(&in, &r), 0);
    cr_assert(r.complete, "more than %llu states", (unsigned long long)in.states_max);
    cr_assert_eq(r.idle_changes, 0, "an idle actor's step changes the state");
    cr_assert_eq(r.go_keeps, 0, "a step of a ready actor changes nothing");
    cr_assert_eq(r.cycles, 0, "%llu states lie on a cycle", (unsigned long long)r.cycles);
    cr_assert_eq(r.unbalanced, 0, "pages are lost or owned twice");
    cr_assert_gt(r.terminal, 0);
    config_free(c);
    return r;
}

static const struct scope two_chunks = { 2, CHUNKS_B, TOKENS_A, 2, 2 };

static bool passes(const struct search_result *r, enum point p, uint32_t request, uint32_t from, uint32_t *at)
{
    for (*at = from; *at < r->steps_len; ++*at)
        if (r->steps[*at].has_point && r->steps[*at].point == p && r->steps[*at].request == request)
            return true;
    return false;
}

Test(search, finds_the_corruption_of_the_unpatched_core_by_itself)
{
    struct search_result r = search(world_of("unpatched", &two_chunks, CORE_KNOB_COUNT, 0), true);
    uint32_t freed, given, landed, read;

    cr_assert(r.corrupts);
    /* The published story, found and not told: freed, given to B, A's write lands, B decodes. */
    cr_assert(passes(&r, POINT_PAGES_FREE, 0, 0, &freed));
    cr_assert(passes(&r, POINT_PAGES_ALLOC, 1, freed, &given));
    cr_assert(passes(&r, POINT_KV_LANDED, 0, given, &landed) || passes(&r, POINT_STATE_LANDED, 0, given, &landed));
    cr_assert(passes(&r, POINT_TOKEN, 1, landed, &read));
    cr_assert_eq(r.pinned, 0, "freed at once, nothing is ever pinned");
    search_result_free(&r);
}

Test(search, the_published_fix_still_corrupts_when_the_timer_may_fire)
{
    struct search_result r = search(world_of("deferred-35360", &two_chunks, CORE_KNOB_COUNT, 0), true);
    uint32_t expired;

    cr_assert(r.corrupts);
    cr_assert(passes(&r, POINT_HOLD_EXPIRE, 0, 0, &expired), "the timer opens the window again");
    search_result_free(&r);
}

Test(search, without_its_timer_the_published_fix_is_safe_and_pins)
{
    struct search_result r = search(world_of("deferred-35360", &two_chunks, CORE_HOLD_ENDS_BY_TIMER, 0), true);

    cr_assert_not(r.corrupts);
    cr_assert_gt(r.pinned, 0, "the ack's target is dropped when the room is cleared: some holds never end");
    search_result_free(&r);
}

Test(search, one_request_at_a_time_cannot_corrupt)
{
    /* B's only token comes from the prefill: decode never reads B's rows. */
    const struct scope no_read = { 2, 1, 1, 1, 2 };
    struct search_result r = search(world_of("unpatched", &no_read, CORE_KNOB_COUNT, 0), true);

    cr_assert_not(r.corrupts);
    search_result_free(&r);
}

Test(search, taking_local_steps_at_once_changes_no_verdict)
{
    static const struct {
        const char *core, *engine;
        struct scope scope;
    } cases[] = { { "deferred-35360", "mooncake", { 1, 1, 1, 1, 2 } },
                  { "deferred-40645", "nixl", { 1, 1, 1, 1, 1 } },
                  { "unpatched", "mooncake", { 1, 1, 1, 2, 2 } } };

    for (size_t i = 0; i < CROSS_CHECKS; i++) {
        struct search_result all =
            search(world_with(cases[i].core, cases[i].engine, &cases[i].scope, CORE_KNOB_COUNT, 0), false);
        struct search_result reduced =
            search(world_with(cases[i].core, cases[i].engine, &cases[i].scope, CORE_KNOB_COUNT, 0), true);

        cr_assert_lt(reduced.states, all.states);
        cr_assert_eq(reduced.corrupts, all.corrupts);
        cr_assert_eq(reduced.terminal, all.terminal);
        cr_assert_eq(reduced.terminal_digest, all.terminal_digest);
        cr_assert_eq(reduced.pinned, all.pinned);
        search_result_free(&all);
        search_result_free(&reduced);
    }
}

/* One chunk each, every core and engine that differs in what can happen: the step contract holds for all of them. */
Test(search, verdicts_of_cores_and_engines)
{
    static const struct {
        const char *core, *engine;
        uint32_t prefills; /* the asynchronous engine has many more orders: one prefill only */
        bool corrupts, pins;
    } cases[] = {
        { "strict", "mooncake", 2, false, false },
        { "fenced", "mooncake", 2, false, false },
        { "recheck", "mooncake", 2, true, false },
        { "deferred-40645", "mooncake", 2, true, false },
        { "fenced", "nixl", 1, false, false },
        /* A cleared room's chunk ends in an error, after which it stays counted: the ack never comes. */
        { "strict", "nixl", 1, false, true },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0] && i < VERDICTS; i++) {
        const struct scope small = { 1, 1, 1, 2, cases[i].prefills };
        struct search_result r = search(world_with(cases[i].core, cases[i].engine, &small, CORE_KNOB_COUNT, 0), true);

        cr_expect_eq(r.corrupts, cases[i].corrupts, "%s, %s: corrupts %d", cases[i].core, cases[i].engine, r.corrupts);
        cr_expect_eq(r.pinned > 0, cases[i].pins, "%s, %s: %llu of %llu pinned", cases[i].core, cases[i].engine,
                     (unsigned long long)r.pinned, (unsigned long long)r.terminal);
        search_result_free(&r);
    }
}

Test(search, a_world_of_two_requests_and_four_chunks_is_under_512_bytes)
{
    static const struct scope usual = { 4, 4, 2, 2, 2 };
    struct config *c = world_of("deferred-35360", &usual, CORE_KNOB_COUNT, 0);

    cr_assert_lt(c->world_size, 512u, "%u bytes", c->world_size);
    config_free(c);
}
