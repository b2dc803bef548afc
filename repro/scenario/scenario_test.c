#include "scenario.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../protocol/machine.h"
#include "yaml_fields.h"

/* Line numbers in the tests below are of this text. */
static const char base[] = "scenario: test\n"                                                  /*  1 */
                           "topology:\n"                                                       /*  2 */
                           "  prefill: {instances: 2, pages: 64, page_tokens: 16}\n"           /*  3 */
                           "  decode: {pages: 64}\n"                                           /*  4 */
                           "requests:\n"                                                       /*  5 */
                           "  A: {prompt: {seed: 1, tokens: 64}, max_tokens: 8}\n"             /*  6 */
                           "  B: {prompt: {seed: 2, tokens: 64}, max_tokens: 8, prefill: 1}\n" /*  7 */
                           "steps:\n"                                                          /*  8 */
                           "  - park: {point: send.begin, request: A, as: writer}\n"           /*  9 */
                           "  - submit: A\n"                                                   /* 10 */
                           "  - await: writer\n"                                               /* 11 */
                           "  - release: writer\n"                                             /* 12 */
                           "arms:\n"                                                           /* 13 */
                           "  - name: one\n"                                                   /* 14 */
                           "    core: unpatched\n"                                             /* 15 */
                           "    expect:\n"                                                     /* 16 */
                           "      A: {output: identical}\n";                                   /* 17 */

#define LAST_STEP "  - release: writer\n"
#define CORE      "    core: unpatched\n"
#define EXPECT    "      A: {output: identical}\n"

struct parsed {
    int rc;
    struct scenario *scenario;
    char *messages;
};

static struct parsed parse_bytes(const char *text, size_t text_len, const struct scenario_overrides *overrides)
{
    struct parsed p = { 0 };
    size_t messages_len = 0;
    FILE *errors = open_memstream(&p.messages, &messages_len);
    cr_assert_not_null(errors);
    p.rc = scenario_parse("test.yaml", text, text_len, overrides, &p.scenario, errors);
    fclose(errors);
    return p;
}

static struct parsed parse_set(const char *text, const char *core, const char *set)
{
    struct scenario_overrides overrides = { .core = core, .sets = &set, .sets_len = set ? 1 : 0 };
    return parse_bytes(text, strlen(text), &overrides);
}

static void parsed_free(struct parsed *p)
{
    scenario_free(p->scenario);
    free(p->messages);
}

/* The base with one piece replaced by another. */
static char *edit(const char *find, const char *with)
{
    const char *at = strstr(base, find);
    cr_assert_not_null(at, "'%s' is not in the base", find);
    cr_assert_null(strstr(at + 1, find), "'%s' is there twice", find);
    char *text = NULL;
    cr_assert(asprintf(&text, "%.*s%s%s", (int)(at - base), base, with, at + strlen(find)) >= 0);
    return text;
}

static unsigned count(const char *text, const char *word)
{
    unsigned n = 0;
    for (const char *at = text; (at = strstr(at, word)); at += strlen(word))
        n++;
    return n;
}

static void refuses_text(const char *text, size_t text_len, const char *prefix, const char *what)
{
    struct parsed p = parse_bytes(text, text_len, NULL);
    cr_assert_eq(p.rc, -EINVAL, "accepted; expected: %s", what);
    cr_assert_null(p.scenario);
    const char *line = strstr(p.messages, prefix);
    cr_assert_not_null(line, "expected %s, got:\n%s", prefix, p.messages);
    const char *words = strstr(line, what), *end = strchr(line, '\n');
    cr_assert(words && words < end, "expected '%s', got:\n%s", what, p.messages);
    cr_assert_eq(count(p.messages, ": error: "), 1, "one fault, several messages:\n%s", p.messages);
    parsed_free(&p);
}

/* One fault in the base gives one message, at `where` (LINE:COLUMN). */
static void refuses(const char *find, const char *with, const char *where, const char *what)
{
    char prefix[80];
    char *text = edit(find, with);
    snprintf(prefix, sizeof prefix, "test.yaml:%s: error: ", where);
    refuses_text(text, strlen(text), prefix, what);
    free(text);
}

static struct scenario *accepts(const char *find, const char *with)
{
    char *text = edit(find, with);
    struct parsed p = parse_bytes(text, strlen(text), NULL);
    cr_assert_eq(p.rc, 0, "refused:\n%s", p.messages);
    cr_assert_str_empty(p.messages);
    free(text);
    free(p.messages);
    return p.scenario;
}

static void refuses_set(const char *set, const char *message)
{
    struct parsed p = parse_set(base, NULL, set);
    cr_assert_eq(p.rc, -EINVAL, "accepted --set %s", set);
    cr_assert_not_null(strstr(p.messages, message), "expected '%s', got:\n%s", message, p.messages);
    parsed_free(&p);
}

static struct scenario *accepts_set(const char *set)
{
    struct parsed p = parse_set(base, NULL, set);
    cr_assert_eq(p.rc, 0, "refused:\n%s", p.messages);
    free(p.messages);
    return p.scenario;
}

/* ---- the seed ---- */

static struct scenario *load_seed(void)
{
    struct scenario *s = NULL;
    cr_assert_eq(scenario_load("scenarios/seed.yaml", NULL, &s, stderr), 0);
    return s;
}

Test(seed, topology_requests_and_watch)
{
    struct scenario *s = load_seed();
    cr_assert_str_eq(s->path, "scenarios/seed.yaml");
    cr_assert_str_eq(s->name, "seed");
    cr_assert_not_null(strstr(s->about, "the write lands while B decodes"));
    cr_assert_not_null(strstr(s->origin, "36610"));
    cr_assert_eq(s->model_seed, 1);
    cr_assert_neq(s->digest, 0);

    cr_assert_eq(s->prefill.instances, 2);
    cr_assert_eq(s->prefill.ranks, 1);
    cr_assert_eq(s->prefill.pages, 64);
    cr_assert_eq(s->prefill.page_tokens, 16);
    cr_assert_eq(s->prefill.state_slots, 2);
    cr_assert_eq(s->prefill.workers, 4);
    cr_assert_eq(s->prefill.chunk_tokens, 0);
    cr_assert_eq(s->decode.instances, 1);
    cr_assert_eq(s->decode.pages, 64);
    cr_assert_eq(s->decode.page_tokens, 16);
    cr_assert_eq(s->decode.state_slots, 1);
    cr_assert_eq(s->decode.aux_slots, 2);
    cr_assert_eq(s->decode.request_slots, 2);
    cr_assert_eq(s->decode.reserve, 0);
    cr_assert_eq(s->decode.allocator, ALLOCATOR_SORTED);
    cr_assert_eq(s->decode.slot_allocator, ALLOCATOR_FIFO);

    cr_assert_eq(s->times.step_us, 10000);
    cr_assert_eq(s->times.prefill_token_us, 20);
    cr_assert_eq(s->times.fragment_us, 50);
    cr_assert_eq(s->times.message_us, 200);
    cr_assert_eq(s->times.fence_us, 1000);
    cr_assert_not(s->wire_reverse);

    cr_assert_eq(s->requests_len, 2);
    cr_assert_str_eq(s->requests[0].name, "A");
    cr_assert_eq(s->requests[0].prompt_seed, 1);
    cr_assert_eq(s->requests[0].prompt_tokens, 512);
    cr_assert_eq(s->requests[0].max_tokens, 512);
    cr_assert_eq(s->requests[0].prefill, 0);
    cr_assert_eq(s->requests[0].decode, 0);
    cr_assert_str_eq(s->requests[1].name, "B");
    cr_assert_eq(s->requests[1].prompt_seed, 2);
    cr_assert_eq(s->requests[1].prefill, 1);
    cr_assert_eq(s->requests[1].room, 1);
    cr_assert_eq(s->watch.request, 1);
    cr_assert_eq(s->watch.tokens, 64);
    scenario_free(s);
}

Test(seed, steps_of_each_arm)
{
    struct scenario *s = load_seed();
    cr_assert_eq(s->arms_len, 3);

    const struct arm *arm = &s->arms[0];
    cr_assert_str_eq(arm->name, "without the fix");
    cr_assert_str_eq(arm->core_name, "unpatched");
    cr_assert_str_eq(arm->engine_name, "mooncake");
    cr_assert_not(arm->core_overridden);
    cr_assert_eq(arm->phases, 1);
    cr_assert_eq(arm->faults_len, 0);
    cr_assert_eq(arm->parks_len, 2);
    cr_assert_str_eq(arm->parks[0].name, "writer");
    cr_assert_str_eq(arm->parks[1].name, "victim");
    cr_assert_not(arm->end_parked[0] || arm->end_parked[1]);

    static const enum step_kind kinds[] = { STEP_PARK,   STEP_SUBMIT, STEP_AWAIT,   STEP_ABORT, STEP_PARK,
                                            STEP_SUBMIT, STEP_AWAIT,  STEP_RELEASE, STEP_AWAIT, STEP_RELEASE };
    cr_assert_eq(arm->steps_len, 10);
    for (int i = 0; i < 10; i++)
        cr_assert_eq(arm->steps[i].kind, kinds[i], "step %d", i + 1);
    const struct step *steps = arm->steps;
    cr_assert_eq(steps[0].match.point, POINT_SEND_BEGIN);
    cr_assert_eq(steps[0].match.request, 0);
    cr_assert_eq(steps[0].match.side, -1);
    cr_assert_eq(steps[0].match.n, -1);
    cr_assert_eq(steps[0].match.occurrence, 1);
    cr_assert_eq(steps[0].park, 0);
    cr_assert_eq(steps[1].request, 0);
    cr_assert_eq(steps[2].items_len, 1);
    cr_assert_eq(steps[2].items[0].kind, AWAIT_PARK);
    cr_assert_eq(steps[2].items[0].park, 0);
    cr_assert_eq(steps[2].within_us, 120000000);
    cr_assert_eq(steps[3].request, 0);
    cr_assert_eq(steps[3].at, ABORT_AT_DECODE);
    cr_assert_eq(steps[4].match.point, POINT_TOKEN);
    cr_assert_eq(steps[4].match.request, 1);
    cr_assert_eq(steps[4].match.n, 268);
    cr_assert_eq(steps[4].park, 1);
    cr_assert_eq(steps[7].park, 0);
    cr_assert_eq(steps[8].items[0].kind, AWAIT_POINT);
    cr_assert_eq(steps[8].items[0].match.point, POINT_CHUNK_DONE);
    cr_assert_eq(steps[8].items[0].match.request, 0);
    cr_assert_eq(steps[9].park, 1);

    cr_assert_eq(s->arms[1].steps_len, 8);
    cr_assert_eq(s->arms[1].parks_len, 1);
    cr_assert_eq(s->arms[1].steps[6].kind, STEP_WAIT);
    cr_assert_eq(s->arms[1].steps[6].wait_us, 5000000);
    cr_assert_not(s->arms[1].steps[6].phased);
    cr_assert_eq(s->arms[2].steps[6].within_us, 60000000);
    cr_assert_eq(s->arms[2].steps[4].match.n, 313);
    scenario_free(s);
}

Test(seed, policies)
{
    struct scenario *s = load_seed();
    struct policy expected = { 0 };
    policy_set_core(&expected, (unsigned)core_by_name("unpatched"));
    policy_set_engine(&expected, (unsigned)engine_by_name("mooncake"));
    cr_assert_arr_eq(&s->arms[0].policy, &expected, sizeof expected);
    policy_set_core(&expected, (unsigned)core_by_name("deferred-35360"));
    cr_assert_arr_eq(&s->arms[1].policy, &expected, sizeof expected);
    cr_assert_arr_eq(&s->arms[2].policy, &expected, sizeof expected);
    scenario_free(s);
}

Test(seed, expectations)
{
    struct scenario *s = load_seed();
    const struct expect *e = &s->arms[0].expect;
    cr_assert_eq(e->requests_len, 1);
    cr_assert_eq(e->requests[0].request, 1);
    cr_assert_eq(e->requests[0].output, OUTPUT_DIVERGED);
    cr_assert(e->requests[0].first.given && e->requests[0].first.min == 269 && e->requests[0].first.max == 269);
    cr_assert(e->requests[0].differing.given && e->requests[0].differing.min == 235);
    cr_assert_eq(e->requests[0].differing.max, UINT64_MAX);
    cr_assert_not(e->requests[0].tokens.given);
    cr_assert_eq(e->requests[0].status, 200);
    cr_assert_eq(e->requests[0].finish_reason, FINISH_LENGTH);
    cr_assert_eq(e->requests[0].silent, 1);
    cr_assert_eq(e->requests[0].state_from, -1);
    cr_assert_eq(e->requests[0].rows_len, 0);
    cr_assert(e->numbers[EXPECT_STALE_PAGES].given && e->numbers[EXPECT_STALE_PAGES].min == 32);
    cr_assert(e->numbers[EXPECT_STALE_SLOTS].given && e->numbers[EXPECT_STALE_SLOTS].max == 1);
    cr_assert(e->numbers[EXPECT_WATCHED_TOKENS_CHANGED].given && e->numbers[EXPECT_WATCHED_TOKENS_CHANGED].min == 64);
    cr_assert_not(e->numbers[EXPECT_STALE_AUX].given);
    cr_assert_gt(e->number_places[EXPECT_STALE_PAGES].line, 0);
    cr_assert_eq(e->order_len, 2);
    cr_assert_eq(e->order[0].point, POINT_CLIENT_ANSWER);
    cr_assert_eq(e->order[0].side, SIDE_PREFILL);
    cr_assert_eq(e->order[1].point, POINT_KV_LANDED);
    cr_assert_eq(e->prevented_step, -1);

    e = &s->arms[1].expect;
    cr_assert_eq(e->requests[0].output, OUTPUT_IDENTICAL);
    cr_assert_eq(e->requests[0].status, -1);
    cr_assert_eq(e->requests[0].silent, -1);
    cr_assert(e->numbers[EXPECT_STALE_PAGES].given && e->numbers[EXPECT_STALE_PAGES].max == 0);
    cr_assert_eq(e->holds_len, 1);
    cr_assert_eq(e->holds[0].request, 0);
    cr_assert_eq(e->holds[0].ended_by, HOLD_END_TIMER);
    cr_assert(e->holds[0].held_us.given && e->holds[0].held_us.min == 30000000 && e->holds[0].held_us.max == 30000000);

    cr_assert_eq(s->arms[2].expect.requests[0].first.min, 314);
    scenario_free(s);
}

/* ---- what the language allows ---- */

Test(language, every_kind_of_await)
{
    struct scenario *s = accepts(LAST_STEP, "  - await: [writer, {point: kv.landed, request: A}]\n"
                                            "  - await: {all: [writer, {park: writer}], within: 60s}\n"
                                            "  - await: {first: [writer], within: 2.5ms}\n"
                                            "  - await: {point: chunk.done, within: 3us}\n" LAST_STEP);
    const struct step *steps = &s->arms[0].steps[3];
    cr_assert_eq(steps[0].items_len, 2);
    cr_assert_not(steps[0].all);
    cr_assert_eq(steps[0].items[1].kind, AWAIT_POINT);
    cr_assert(steps[1].all);
    cr_assert_eq(steps[1].items_len, 2);
    cr_assert_eq(steps[1].within_us, 60000000);
    cr_assert_not(steps[2].all);
    cr_assert_eq(steps[2].within_us, 2500);
    cr_assert_eq(steps[3].items_len, 1);
    cr_assert_eq(steps[3].within_us, 3);
    scenario_free(s);
}

Test(language, aborts_at_each_side)
{
    struct scenario *s = accepts(LAST_STEP, LAST_STEP "  - abort: {request: A, at: prefill}\n"
                                                      "  - abort: {request: A, at: both}\n"
                                                      "  - abort: {request: A, at: both, first: prefill}\n");
    cr_assert_eq(s->arms[0].steps[4].at, ABORT_AT_PREFILL);
    cr_assert_eq(s->arms[0].steps[5].at, ABORT_AT_DECODE_PREFILL);
    cr_assert_eq(s->arms[0].steps[6].at, ABORT_AT_PREFILL_DECODE);
    scenario_free(s);
}

Test(language, a_wait_in_phases)
{
    struct scenario *s = accepts(LAST_STEP, LAST_STEP "  - wait: {from: 1s, to: 2s, phases: 100}\n");
    cr_assert_eq(s->arms[0].phases, 100);
    cr_assert(s->arms[0].steps[4].phased);
    cr_assert_eq(s->arms[0].steps[4].wait_us, 1000000);
    cr_assert_eq(s->arms[0].steps[4].wait_to_us, 2000000);
    scenario_free(s);
}

Test(language, a_core_with_knobs)
{
    struct scenario *s =
        accepts("core: unpatched", "core: {base: deferred-35360, hold_timeout: 60s, arm: before_send}\n"
                                   "    engine: {base: mooncake, timeout: 0s, blacklist: false}");
    const struct arm *arm = &s->arms[0];
    cr_assert(arm->core_overridden);
    cr_assert_str_eq(arm->core_name, "deferred-35360");
    cr_assert_eq(arm->policy.core[CORE_HOLD_TIMEOUT], 60000000);
    cr_assert_eq(arm->policy.core[CORE_ARM], ARM_BEFORE_SEND);
    cr_assert_eq(arm->policy.core[CORE_FREE], FREE_HOLD);
    cr_assert_eq(arm->policy.engine[ENGINE_TIMEOUT], 0);
    cr_assert_eq(arm->policy.engine[ENGINE_BLACKLIST], false);
    scenario_free(s);
}

Test(language, an_engine_with_knobs)
{
    struct scenario *s = accepts("core: unpatched", "core: unpatched\n"
                                                    "    engine: {base: mooncake, blacklist: false, retries: 3}");
    const struct arm *arm = &s->arms[0];
    struct policy expected = { 0 };
    policy_set_core(&expected, (unsigned)core_by_name("unpatched"));
    policy_set_engine(&expected, (unsigned)engine_by_name("mooncake"));
    expected.engine[ENGINE_BLACKLIST] = false;
    expected.engine[ENGINE_RETRIES] = 3;
    cr_assert_arr_eq(&arm->policy, &expected, sizeof expected);
    cr_assert_str_eq(arm->engine_name, "mooncake");
    cr_assert_not(arm->core_overridden);
    scenario_free(s);
}

Test(language, the_wire_and_the_time_of_a_fence)
{
    struct scenario *s = accepts("steps:\n", "times: {fence: 3ms}\nwire: {order: reverse}\nsteps:\n");
    cr_assert(s->wire_reverse);
    cr_assert_eq(s->times.fence_us, 3000);
    cr_assert_eq(s->times.step_us, 10000);
    scenario_free(s);
    s = accepts("steps:\n", "wire: {order: forward}\nsteps:\n");
    cr_assert_not(s->wire_reverse);
    scenario_free(s);
}

Test(language, machines_that_stop)
{
    char *text = edit("  decode: {pages: 64}", "  decode: {pages: 64, instances: 2, ranks: 3}");
    static const char own[] = "arms.0.steps=[stop: {side: prefill, instance: 1}, stop: {side: decode}, "
                              "resume: {side: decode, instance: 1, rank: 2}]";
    const char *const sets[] = { "steps.0=stop: {side: decode, instance: 1, rank: 2}", "steps.1=stop: {side: decode}",
                                 "steps.2=submit: A", "steps.3=resume: {side: decode, rank: 0}", own };
    struct scenario_overrides overrides = { .sets = sets, .sets_len = 5 };
    struct parsed p = parse_bytes(text, strlen(text), &overrides);
    cr_assert_eq(p.rc, 0, "%s", p.messages);
    static const struct {
        enum step_kind kind;
        uint32_t machine;
    } expected[] = { { STEP_STOP, 7 }, { STEP_STOP, 2 }, { STEP_SUBMIT, 0 }, { STEP_RESUME, 2 },
                     { STEP_STOP, 1 }, { STEP_STOP, 2 }, { STEP_RESUME, 7 } };
    const struct arm *arm = &p.scenario->arms[0];
    cr_assert_eq(arm->steps_len, 7);
    for (int i = 0; i < 7; i++) {
        cr_assert_eq(arm->steps[i].kind, expected[i].kind, "step %d", i + 1);
        cr_assert_eq(arm->steps[i].machine, expected[i].machine, "step %d", i + 1);
    }
    parsed_free(&p);
    free(text);
}

Test(language, faults_of_messages)
{
    struct scenario *s = accepts("steps:\n", "faults:\n"
                                             "  - {message: ack, request: A, do: lose}\n"
                                             "  - {message: metadata, request: B, do: double, occurrence: 2}\n"
                                             "  - {message: abort, request: A, do: delay, by: 5s}\n"
                                             "  - {message: status, request: A, do: double}\n"
                                             "  - {message: notify, request: A, do: lose}\nsteps:\n");
    static const struct {
        enum message_type message;
        enum fault_kind kind;
        int request;
        uint32_t occurrence;
        uint64_t by_us;
    } expected[] = { { MESSAGE_ACK, FAULT_LOSE, 0, 1, 0 },
                     { MESSAGE_METADATA, FAULT_DOUBLE, 1, 2, 0 },
                     { MESSAGE_ABORT, FAULT_DELAY, 0, 1, 5000000 },
                     { MESSAGE_STATUS, FAULT_DOUBLE, 0, 1, 0 },
                     { MESSAGE_NOTIFY, FAULT_LOSE, 0, 1, 0 } };
    cr_assert_eq(s->arms[0].faults_len, 5);
    for (int i = 0; i < 5; i++) {
        const struct fault *f = &s->arms[0].faults[i];
        cr_assert_not(f->is_write);
        cr_assert_eq(f->message, (int)expected[i].message);
        cr_assert_eq(f->kind, expected[i].kind);
        cr_assert_eq(f->request, expected[i].request);
        cr_assert_eq(f->occurrence, expected[i].occurrence);
        cr_assert_eq(f->by_us, expected[i].by_us);
        cr_assert_eq(f->chunk, -1);
        cr_assert_eq(f->fragment, -1);
        cr_assert_eq(f->place.line, (uint32_t)(9 + i));
    }
    scenario_free(s);
}

Test(language, faults_of_writes_follow_those_of_the_scenario)
{
    char *text = edit(CORE, CORE "    faults:\n"
                                 "      - {write: kv, request: A, chunk: 3, fragment: 1, do: delay, by: 40s}\n"
                                 "      - {write: state, request: A, fragment: 0, do: lose}\n"
                                 "      - {write: aux, request: A, do: error}\n"
                                 "      - {write: kv, request: A, do: error, by: 1s}\n");
    const char *const sets[] = { "topology.prefill.chunk_tokens=16", "faults=[{message: ack, request: B, do: lose}]" };
    struct scenario_overrides overrides = { .sets = sets, .sets_len = 2 };
    struct parsed p = parse_bytes(text, strlen(text), &overrides);
    cr_assert_eq(p.rc, 0, "%s", p.messages);
    static const struct {
        int effect;
        enum fault_kind kind;
        int chunk, fragment;
        uint64_t by_us;
    } expected[] = { { EFFECT_KV, FAULT_DELAY, 3, 1, 40000000 },
                     { EFFECT_STATE, FAULT_LOSE, -1, 0, 0 },
                     { EFFECT_AUX, FAULT_ERROR, -1, -1, 0 },
                     { EFFECT_KV, FAULT_ERROR, -1, -1, 1000000 } };
    const struct arm *arm = &p.scenario->arms[0];
    cr_assert_eq(arm->faults_len, 5);
    cr_assert_eq(arm->faults[0].message, MESSAGE_ACK);
    cr_assert_eq(arm->faults[0].request, 1);
    for (int i = 0; i < 4; i++) {
        const struct fault *f = &arm->faults[1 + i];
        cr_assert(f->is_write);
        cr_assert_eq(f->effect, expected[i].effect);
        cr_assert_eq(f->kind, expected[i].kind);
        cr_assert_eq(f->chunk, expected[i].chunk);
        cr_assert_eq(f->fragment, expected[i].fragment);
        cr_assert_eq(f->by_us, expected[i].by_us);
    }
    parsed_free(&p);
    free(text);
}

Test(language, whose_rows_and_state_are_read)
{
    struct scenario *s = accepts(EXPECT, "      A: {rows_from: {B: {min: 1, max: 32}}, state_from: B}\n"
                                         "      B: {rows_from: {A: 0}}\n"
                                         "      liveness: {collateral_failed: 2}\n"
                                         "    steps: [submit: B]\n");
    const struct expect *e = &s->arms[0].expect;
    cr_assert_eq(e->requests[0].state_from, 1);
    cr_assert_eq(e->requests[0].rows_len, 1);
    cr_assert_eq(e->requests[0].rows[0].writer, 1);
    cr_assert(e->requests[0].rows[0].rows.min == 1 && e->requests[0].rows[0].rows.max == 32);
    cr_assert_eq(e->requests[1].state_from, -1);
    cr_assert_eq(e->requests[1].rows[0].writer, 0);
    cr_assert(e->requests[1].rows[0].rows.given && e->requests[1].rows[0].rows.max == 0);
    cr_assert_eq(e->numbers[EXPECT_COLLATERAL_FAILED].min, 2);
    scenario_free(s);
}

Test(language, an_arm_for_each_core_and_engine)
{
    struct scenario *s = accepts(CORE, "    cores: [deferred-35360, unpatched]\n");
    cr_assert_eq(s->arms_len, 2);
    cr_assert_str_eq(s->arms[0].name, "one (deferred-35360)");
    cr_assert_str_eq(s->arms[1].name, "one (unpatched)");
    cr_assert_str_eq(s->arms[0].core_name, "deferred-35360");
    for (int i = 0; i < 2; i++) {
        struct policy expected = { 0 };
        policy_set_core(&expected, (unsigned)core_by_name(s->arms[i].core_name));
        policy_set_engine(&expected, (unsigned)engine_by_name("mooncake"));
        cr_assert_arr_eq(&s->arms[i].policy, &expected, sizeof expected);
        cr_assert_not(s->arms[i].core_overridden);
        cr_assert_eq(s->arms[i].place.line, 14);
        cr_assert_eq(s->arms[i].steps_len, 4);
        cr_assert_eq(s->arms[i].expect.requests_len, 1);
    }
    scenario_free(s);

    s = accepts(CORE, CORE "    engines: [mooncake]\n");
    cr_assert_eq(s->arms_len, 1);
    cr_assert_str_eq(s->arms[0].name, "one (mooncake)");
    scenario_free(s);
    s = accepts(CORE, "    cores: [unpatched]\n    engines: [mooncake]\n");
    cr_assert_str_eq(s->arms[0].name, "one (unpatched, mooncake)");
    scenario_free(s);
    s = accepts(CORE, "    cores: [unpatched, deferred-35360]\n    engine: {base: mooncake, blacklist: false}\n");
    cr_assert_str_eq(s->arms[1].name, "one (deferred-35360)");
    cr_assert_eq(s->arms[1].policy.engine[ENGINE_BLACKLIST], false);
    scenario_free(s);
}

Test(language, every_core_crossed_with_every_engine)
{
    char cores[2000] = "", engines[2000] = "", lists[4100];
    for (unsigned i = 0; i < core_rows_len; i++)
        sprintf(cores + strlen(cores), "%s%s", i ? ", " : "", core_rows[i].name);
    for (unsigned i = 0; i < engine_rows_len; i++)
        sprintf(engines + strlen(engines), "%s%s", i ? ", " : "", engine_rows[i].name);
    snprintf(lists, sizeof lists, "    cores: [%s]\n    engines: [%s]\n", cores, engines);
    struct scenario *s = accepts(CORE, lists);
    cr_assert_eq(s->arms_len, core_rows_len * engine_rows_len);
    for (unsigned i = 0; i < s->arms_len; i++) {
        cr_assert_str_eq(s->arms[i].core_name, core_rows[i / engine_rows_len].name);
        cr_assert_str_eq(s->arms[i].engine_name, engine_rows[i % engine_rows_len].name);
    }
    scenario_free(s);
}

Test(language, places_and_sides)
{
    struct scenario *s =
        accepts("  prefill: {instances: 2, pages: 64, page_tokens: 16}\n  decode: {pages: 64}",
                "  prefill: {instances: 2, ranks: 4, workers: 3, chunk_tokens: 32, allocator: lifo}\n"
                "  decode: {ranks: 2, page_tokens: 32, slots: lowest, aux_slots: 7, reserve_pages: 3}");
    cr_assert_eq(s->requests[1].prefill, 4);
    cr_assert_eq(s->prefill.page_tokens, 32);
    cr_assert_eq(s->prefill.workers, 3);
    cr_assert_eq(s->prefill.chunk_tokens, 32);
    cr_assert_eq(s->prefill.allocator, ALLOCATOR_LIFO);
    cr_assert_eq(s->decode.slot_allocator, ALLOCATOR_LOWEST);
    cr_assert_eq(s->decode.aux_slots, 7);
    cr_assert_eq(s->decode.reserve, 3);
    scenario_free(s);

    s = accepts("instances: 2, pages: 64, page_tokens: 16}\n  decode: {pages: 64}\nrequests:\n  A: {",
                "instances: 2, ranks: 4}\n  decode: {ranks: 2}\nrequests:\n"
                "  A: {prefill: {instance: 1, rank: 3}, decode: {instance: 0, rank: 1}, ");
    cr_assert_eq(s->requests[0].prefill, 7);
    cr_assert_eq(s->requests[0].decode, 1);
    cr_assert_eq(s->prefill.page_tokens, 16);
    scenario_free(s);
}

Test(language, a_reused_room_an_end_and_ranges)
{
    struct scenario *s = accepts("prefill: 1}", "room: A}");
    cr_assert_eq(s->requests[1].room, 0);
    scenario_free(s);

    s = accepts(CORE, CORE "    steps:\n      - park: {point: token, request: B, n: 7, as: victim}\n      - submit: B\n"
                           "    end: {parked: [victim]}\n");
    cr_assert_not(s->arms[0].end_parked[0]);
    cr_assert(s->arms[0].end_parked[1]);
    scenario_free(s);

    s = accepts("{output: identical}",
                "{tokens: {min: 2, max: 3}}\n      prevented: {step: 4}\n"
                "      holds: {A: {held: {max: 1.5s}}}\n      liveness: {pinned_pages: {min: 1}}");
    cr_assert(s->arms[0].expect.requests[0].tokens.min == 2 && s->arms[0].expect.requests[0].tokens.max == 3);
    cr_assert_eq(s->arms[0].expect.prevented_step, 4);
    cr_assert(s->arms[0].expect.holds[0].held_us.min == 0 && s->arms[0].expect.holds[0].held_us.max == 1500000);
    cr_assert_eq(s->arms[0].expect.numbers[EXPECT_PINNED_PAGES].max, UINT64_MAX);
    scenario_free(s);
}

Test(language, actors_of_a_match)
{
    struct scenario *s = accepts("request: A, as: writer", "actor: worker 3, as: writer");
    cr_assert_eq(s->arms[0].steps[0].match.actor, ACTOR_WORKER + 3);
    scenario_free(s);
    s = accepts(LAST_STEP, LAST_STEP "  - await: {point: ack.send, actor: receiver}\n");
    cr_assert_eq(s->arms[0].steps[4].items[0].match.actor, ACTOR_RECEIVER);
    scenario_free(s);
}

Test(language, a_byte_order_mark_and_windows_line_ends)
{
    const char text[] =
        "\xef\xbb\xbfscenario: test\r\ntopology: {prefill: {}, decode: {}}\r\nrequests:\r\n"
        "  A: {prompt: {seed: 1, tokens: 4}, max_tokens: 8}\r\narms: [{name: x, core: unpatched, steps: [submit: A]}]\r\n";
    struct parsed p = parse_bytes(text, sizeof text - 1, NULL);
    cr_assert_eq(p.rc, 0, "%s", p.messages);
    parsed_free(&p);
}

Test(language, quoted_texts)
{
    struct scenario *s = accepts("name: one", "name: 'A''s \"arm\"'\n    about: \"tab \\t, line \\n, \\u00e9\"");
    cr_assert_str_eq(s->arms[0].name, "A's \"arm\"");
    cr_assert_str_eq(s->arms[0].about, "tab \t, line \n, \xc3\xa9");
    scenario_free(s);
}

/* ---- durations ---- */

Test(durations, are_exact)
{
    static const struct {
        const char *text;
        uint64_t us;
    } rows[] = { { "0us", 0 },
                 { "1us", 1 },
                 { "5s", 5000000 },
                 { "0.3s", 300000 },
                 { "2.5ms", 2500 },
                 { "0.000001s", 1 },
                 { "1.0us", 1 },
                 { "1.100000000s", 1100000 },
                 { "24s", 24000000 },
                 { "86400s", DURATION_MAX_US },
                 { "86400000000us", DURATION_MAX_US },
                 { "86399.999999s", DURATION_MAX_US - 1 } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t us = 77;
        const char *why = duration_parse(rows[i].text, &us);
        cr_assert_null(why, "%s: %s", rows[i].text, why);
        cr_assert_eq(us, rows[i].us, "%s: %llu", rows[i].text, (unsigned long long)us);
    }
}

Test(durations, that_are_none)
{
    static const char *const texts[] = { "",
                                         "s",
                                         "5",
                                         "5 s",
                                         "5m",
                                         "5h",
                                         "-5s",
                                         "+5s",
                                         ".5s",
                                         "5.s",
                                         "1e3s",
                                         "0x5s",
                                         "05s",
                                         "5S",
                                         "5.5us",
                                         "0.0001ms",
                                         "0.0000001s",
                                         "86400.000001s",
                                         "86400000000.1us",
                                         "86400000001us",
                                         "99999999999999999999999999s",
                                         "5s ",
                                         "5ss",
                                         "five" };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        uint64_t us;
        cr_assert_not_null(duration_parse(texts[i], &us), "'%s'", texts[i]);
    }
}

Test(durations, faults_are_named)
{
    refuses(LAST_STEP, LAST_STEP "  - wait: 5\n", "13:11", "it has no unit");
    refuses(LAST_STEP, LAST_STEP "  - wait: -5s\n", "13:11", "time does not run backwards");
    refuses(LAST_STEP, LAST_STEP "  - wait: 5.5us\n", "13:11", "no whole number of microseconds");
    refuses(LAST_STEP, LAST_STEP "  - wait: 25000s\n  - wait: 86401s\n", "14:11", "more than 24 hours");
    refuses("steps:\n", "times: {step: 0us}\nsteps:\n", "8:15", "from 1us to 3600s");
}

/* ---- names that are nearly right ---- */

Test(nearest, name_by_edit_distance)
{
    static const char *const names[] = { "send.begin", "status.send", "kv.post", "token", "chunk.done" };
    struct choices choices = { "point", 5, choice_word, names };
    cr_assert_eq(nearest_name("send.begn", &choices), 0);
    cr_assert_eq(nearest_name("sned.begin", &choices), 0);
    cr_assert_eq(nearest_name("Token", &choices), 3);
    cr_assert_eq(nearest_name("tokens", &choices), 3);
    cr_assert_eq(nearest_name("kv.psot", &choices), 2);
    cr_assert_eq(nearest_name("kvpost", &choices), 2);
    cr_assert_eq(nearest_name("banana", &choices), -1);
    cr_assert_eq(nearest_name("", &choices), -1);
    cr_assert_eq(nearest_name("tokentokentokentokentokentokentokentokentokentokentokentokentokentoken", &choices), -1);
}

Test(nearest, is_named_for_every_kind_of_name)
{
    refuses("scenario: test\n", "scenario: test\nabuot: x\n", "2:1", "no key 'abuot'; did you mean 'about'?");
    refuses("send.begin", "send.begn", "9:19", "did you mean 'send.begin'?");
    refuses("core: unpatched", "core: unpatchd", "15:11", "did you mean 'unpatched'?");
    refuses(CORE, CORE "    engine: mooncak\n", "16:13", "did you mean 'mooncake'?");
    refuses("core: unpatched", "core: {base: unpatched, hold_timout: 1s}", "15:29", "did you mean 'hold_timeout'?");
    refuses("decode: {", "decode: {allocator: lif, ", "4:23", "did you mean 'lifo'?");
    refuses("release: writer", "release: writr", "12:14", "did you mean 'writer'?");
    refuses(LAST_STEP, LAST_STEP "  - submti: B\n", "13:5", "did you mean 'submit'?");
    refuses("submit: A", "submit: C", "10:13", "known: A, B");
    refuses(EXPECT, EXPECT "      memroy: {}\n", "18:7", "did you mean 'memory'?");
}

/* ---- the document ---- */

Test(document, refuses_bytes_before_the_library_sees_them)
{
    refuses_text("%\x8d", 2, "test.yaml:1:1: error: ", "directives are not part of the language");
    refuses_text("a: 1\n%YAML 1.2\n", 15, "test.yaml:2:1: error: ", "directives");
    refuses_text("a: \xff", 4, "test.yaml:1:4: error: ", "byte 0xff is no UTF-8");
    refuses_text("a: \xc0\xaf", 5, "test.yaml:1:4: error: ", "byte 0xc0 is no UTF-8");
    refuses_text("a: \xed\xa0\x80", 6, "test.yaml:1:4: error: ", "byte 0xed is no UTF-8");
    refuses_text("a: \xf4\x90\x80\x80", 7, "test.yaml:1:4: error: ", "byte 0xf4 is no UTF-8");
    refuses_text("a: \xe2\x82", 5, "test.yaml:1:4: error: ", "byte 0xe2 is no UTF-8");
    refuses_text("a: b\0c", 6, "test.yaml:1:5: error: ", "character U+0000");
    refuses_text("\xc3\xa9\x1b", 3, "test.yaml:1:2: error: ", "character U+001B");
    refuses_text("a\n\xc2\x85", 4, "test.yaml:2:1: error: ", "character U+0085");
    refuses_text("a\r\n\xe2\x80\xa8", 6, "test.yaml:2:1: error: ", "character U+2028");
    refuses_text("", 0, "test.yaml:1:1: error: ", "the file is empty");
    refuses_text("# only\n", 7, "test.yaml:1:1: error: ", "the file is empty");
}

Test(document, refuses_what_is_too_long)
{
    size_t text_len = (size_t)SCENARIO_FILE_MAX + 1;
    char *text = malloc(text_len);
    memset(text, '\n', text_len);
    refuses_text(text, text_len, "test.yaml: error: ", "longer than 1048576 bytes");
    refuses_text(text, text_len - 1, "test.yaml:1:1: error: ", "the file is empty");
    memset(text, '#', 4097);
    refuses_text(text, text_len - 1, "test.yaml:1:4097: error: ", "a line of more than 4096 bytes");
    free(text);
}

Test(document, refuses_what_yaml_has_and_the_language_has_not)
{
    refuses("decode: {pages: 64}", "decode: &d {pages: 64}", "4:11", "anchors are not part");
    refuses("decode: {pages: 64}", "decode: *d", "4:11", "aliases are not part");
    refuses("scenario: test", "scenario: !!str test", "1:11", "tags are not part");
    refuses("arms:", "---\narms:", "13:1", "a second document");
    refuses("scenario: test", "scenario: test\n? [a]\n: b", "2:3", "a key must be a word");
    refuses("{pages: 64}", "{pages: 64, <<: 1}", "4:23", "no key '<<'");
}

Test(document, refuses_depth_and_width)
{
    char deep[300] = "scenario: test\nabout: ", wide[4000];
    memset(deep + strlen(deep), '[', 100);
    memset(deep + strlen(deep), ']', 100);
    refuses("scenario: test", deep, "2:31", "nested more than 24 deep");
    strcpy(wide, "scenario: test\nabout: {");
    for (int i = 0; i < 257; i++)
        snprintf(wide + strlen(wide), 16, "k%d: 1,", i);
    refuses("scenario: test", strcat(wide, "}"), "2:1947", "more than 256 keys");
}

Test(document, refuses_texts_the_library_would_spoil)
{
    refuses("name: one", "name: 'a''''b'", "14:11", "quotes side by side");
    refuses("name: one", "name: \"\\e[31m\"", "14:11", "spells a control character");
    refuses("name: one", "name: \"a\\0b\"", "14:11", "spells a control character");
}

Test(document, syntax_errors_have_a_place)
{
    refuses("decode: {pages: 64}", "decode: {pages: 64", "5:9", "not YAML: ");
    refuses("  decode: {pages: 64}", "\tdecode: {pages: 64}", "4:1", "not YAML: tab");
}

Test(document, shows_the_line_and_a_caret)
{
    char *text = edit("decode: {pages: 64}", "decode: {page: 64}");
    struct parsed p = parse_bytes(text, strlen(text), NULL);
    cr_assert_str_eq(p.messages, "test.yaml:4:12: error: a decode side has no key 'page'; did you mean 'pages'?\n"
                                 "     4 |   decode: {page: 64}\n"
                                 "       |            ^\n");
    parsed_free(&p);
    free(text);
}

Test(document, reports_many_errors_but_not_all)
{
    char steps[4000] = "";
    for (int i = 0; i < 30; i++)
        strcat(steps, "  - wait: no\n");
    char *text = edit(LAST_STEP, steps);
    struct parsed p = parse_bytes(text, strlen(text), NULL);
    cr_assert_eq(p.rc, -EINVAL);
    cr_assert_eq(count(p.messages, ": error: "), 20);
    cr_assert_eq(count(p.messages, "more than 20 errors"), 1);
    parsed_free(&p);
    free(text);
}

Test(document, a_file_that_can_not_be_read)
{
    struct scenario *s = NULL;
    char *messages = NULL;
    size_t messages_len = 0;
    FILE *errors = open_memstream(&messages, &messages_len);
    cr_assert_eq(scenario_load("scenarios/none.yaml", NULL, &s, errors), -ENOENT);
    cr_assert_null(s);
    fclose(errors);
    cr_assert_str_eq(messages, "scenarios/none.yaml: error: No such file or directory\n");
    free(messages);
    scenario_free(NULL);
}

/* ---- fields ---- */

Test(fields, keys_unknown_duplicate_and_missing)
{
    refuses("{pages: 64}", "{pages: 64, banana: 1}", "4:23", "known: instances, ranks, pages");
    refuses("{pages: 64}", "{pages: 64, pages: 64}", "4:23", "key 'pages' is given twice");
    refuses("prompt: {seed: 2, tokens: 64}, ", "", "7:6", "a request needs the key 'prompt'");
    refuses(CORE, "", "14:5", "an arm needs the key 'core'");
    refuses("decode: {pages: 64}", "decode: {pages: }", "4:12", "must be a number, not nothing");
}

Test(fields, types)
{
    refuses("decode: {pages: 64}", "decode: 64", "4:11", "a decode side is a mapping, not a single value");
    refuses("{pages: 64}", "{pages: [64]}", "4:19", "must be a number, not a list");
    refuses("{pages: 64}", "{pages: '64'}", "4:19", "a whole number in plain digits");
    refuses("{pages: 64}", "{pages: 6.4}", "4:19", "a whole number in plain digits");
    refuses("{pages: 64}", "{pages: 1_000}", "4:19", "a whole number in plain digits");
    refuses("{pages: 64}", "{pages: 0100}", "4:19", "a whole number in plain digits");
    refuses("{output: identical}", "{silent: True}", "17:19", "must be true or false");
    refuses("name: one", "name: [one]", "14:11", "'name' must be a text, not a list");
    refuses("scenario: test", "scenario: a/b", "1:11", "a name has 1 to 63 letters");
    refuses("name: one", "name: \"a\\nb\"", "14:11", "in one line");
    refuses("  - submit: A\n", "  - submit\n  - submit: A\n", "10:5", "a step is a mapping");
    refuses("  - submit: A\n", "  - {}\n  - submit: A\n", "10:5", "a step is one of park");
}

Test(fields, limits)
{
    refuses("{pages: 64}", "{pages: 4097}", "4:19", "from 1 to 4096");
    refuses("{pages: 64}", "{pages: 0}", "4:19", "from 1 to 4096");
    refuses("{pages: 64}", "{pages: 18446744073709551680}", "4:19", "from 1 to 4096");
    refuses("seed: 1", "seed: 18446744073709551616", "6:22", "from 0 to 18446744073709551615");
    refuses("max_tokens: 8}", "max_tokens: 16321}", "6:50", "16384");
    refuses("max_tokens: 8}", "max_tokens: 0}", "6:50", "from 1 to 16384");
    refuses("core: unpatched", "core: {base: unpatched, hold_timeout: 3601s}", "15:43", "from 0us to 3600s");
    refuses(LAST_STEP, LAST_STEP "  - wait: {from: 1s, to: 2s, phases: 1001}\n", "13:38", "from 2 to 1000");
}

Test(fields, limits_of_lists)
{
    char text[20000] = "";
    for (int i = 0; i < 253; i++)
        strcat(text, "  - wait: 1s\n");
    refuses(LAST_STEP, strcat(text, LAST_STEP), "9:3", "257 steps in one arm, more than 256");
    strcpy(text, "arms:\n");
    for (int i = 0; i < 64; i++)
        sprintf(text + strlen(text), "  - {name: a%d, core: unpatched}\n", i);
    refuses("arms:\n", text, "14:3", "65 arms; a scenario has 1 to 64");
    strcpy(text, "requests:\n");
    for (int i = 0; i < 63; i++)
        sprintf(text + strlen(text), "  r%d: {prompt: {seed: 1, tokens: 64}, max_tokens: 8}\n", i);
    char *with = edit("requests:\n", text);
    struct parsed p = parse_bytes(with, strlen(with), NULL);
    cr_assert_not_null(strstr(p.messages, "65 requests, more than 64"));
    parsed_free(&p);
    free(with);
}

/* ---- topology and requests ---- */

Test(topology, that_can_not_be_built)
{
    refuses("{pages: 64}", "{instances: 64, ranks: 2}", "4:34", "128 ranks on one side");
    refuses("{pages: 64}", "{page_tokens: 32}", "4:25", "both must agree");
    refuses("page_tokens: 16", "page_tokens: 16, chunk_tokens: 40", "3:69", "no whole number of pages");
    refuses("{pages: 64}", "{slots: sorted}", "4:19", "slots can be fifo, lifo, lowest or any");
    refuses("{pages: 64}", "{reserve_pages: 64}", "4:27", "nothing can ever be admitted");
    refuses("{pages: 64}", "{workers: 1}", "4:12", "belongs to the prefill side");
    refuses("page_tokens: 16", "request_slots: 1", "3:38", "belongs to the decode side");
}

Test(requests, that_can_never_fit)
{
    refuses("seed: 1, tokens: 64}", "seed: 1, tokens: 1025}", "6:33", "needs 65 pages, a prefill rank has 64");
    refuses("decode: {pages: 64}\nrequests:\n  A: {prompt: {seed: 1, tokens: 64}",
            "decode: {pages: 8, reserve_pages: 3}\nrequests:\n  A: {prompt: {seed: 1, tokens: 96}", "6:33",
            "needs 6 pages, a decode rank has 8 and keeps 3 free: it can never be admitted");
    refuses("max_tokens: 8}", "max_tokens: 962}", "6:50", "need 65 pages, a decode rank has 64: it can never finish");
}

Test(requests, places_rooms_and_names)
{
    refuses("prefill: 1}", "prefill: 2}", "7:62", "'prefill' must be from 0 to 1, not 2");
    refuses("prefill: 1}", "decode: 1}", "7:61", "'decode' must be from 0 to 0, not 1");
    refuses("prefill: 1}", "prefill: {instance: 1, rank: 1}}", "7:82", "'rank' must be from 0 to 0, not 1");
    refuses("prefill: 1}", "room: B}", "7:59", "no request 'B'");
    refuses("  B: {", "  memory: {", "7:3", "a key of 'expect'");
    refuses("  B: {", "  b b: {", "7:3", "a name has 1 to 63 letters");
    refuses("requests:\n", "watch: {request: A, tokens: 65}\nrequests:\n", "5:29",
            "the prompt of A has only 64 tokens");
    refuses("requests:\n", "watch: {request: C, tokens: 5}\nrequests:\n", "5:18", "no request 'C'");
}

/* ---- steps ---- */

Test(steps, a_park_comes_before_its_request)
{
    refuses(LAST_STEP, LAST_STEP "  - park: {point: chunk.done, request: A, as: late}\n", "13:11",
            "A is submitted before this park");
    refuses(LAST_STEP, LAST_STEP "  - park: {point: chunk.done, as: late}\n", "13:11",
            "A is submitted before this park");
    struct scenario *s =
        accepts(LAST_STEP, LAST_STEP "  - park: {point: chunk.done, request: B, as: late}\n  - submit: B\n");
    scenario_free(s);
    s = accepts(LAST_STEP, LAST_STEP "  - park: {point: chunk.done, instance: 1, as: late}\n  - submit: B\n");
    scenario_free(s);
}

Test(steps, parks_have_one_name_each_and_are_armed_first)
{
    refuses("  - submit: A\n", "  - park: {point: chunk.done, request: A, as: writer}\n  - submit: A\n", "10:47",
            "armed already, in line 9");
    refuses("await: writer", "await: victim", "11:12", "no park 'victim' is armed before this");
    refuses(LAST_STEP, "  - release: victim\n", "12:14", "no park 'victim' is armed before this");
    refuses(LAST_STEP, LAST_STEP LAST_STEP, "13:14", "released already");
    refuses(", as: writer", "", "9:11", "a park needs the key 'as'");
}

Test(steps, submit_and_abort)
{
    refuses(LAST_STEP, LAST_STEP "  - submit: A\n", "13:13", "A is submitted already");
    refuses(LAST_STEP, LAST_STEP "  - abort: {request: B, at: decode}\n", "13:22", "B is not submitted before this");
    refuses(LAST_STEP, LAST_STEP "  - abort: {request: A}\n", "13:12", "an abort needs the key 'at'");
    refuses(LAST_STEP, LAST_STEP "  - abort: {request: A, at: prefil}\n", "13:29", "did you mean 'prefill'?");
    refuses(LAST_STEP, LAST_STEP "  - abort: {request: A, at: prefill, first: decode}\n", "13:45",
            "orders an abort at both sides");
}

Test(steps, waits_that_can_not_end)
{
    refuses(LAST_STEP, LAST_STEP "  - await: {point: kv.landed, request: B}\n", "13:12", "no step before it submits B");
    refuses("  - submit: A\n  - await: writer\n", "  - await: writer\n  - submit: A\n", "10:12",
            "no step before it submits A");
    refuses("  - submit: A\n", "  - await: {point: token}\n  - submit: A\n", "10:12",
            "no step before it submits a request");
    refuses(LAST_STEP, LAST_STEP "  - await: {all: [writer, {point: token, request: B}]}\n", "13:12", "submits B");
    refuses(LAST_STEP, LAST_STEP "  - await: []\n", "13:12", "0 things to await");
    scenario_free(accepts(LAST_STEP, LAST_STEP "  - await: [writer, {point: token, request: B}]\n"));
}

Test(steps, waits_in_phases)
{
    refuses(LAST_STEP, LAST_STEP "  - wait: {from: 2s, to: 2s, phases: 2}\n", "13:26",
            "'to' must be later than 'from'");
    refuses(LAST_STEP, LAST_STEP "  - wait: {from: 1s, to: 2s, phases: 2}\n  - wait: {from: 1s, to: 2s, phases: 2}\n",
            "14:11", "a second wait in phases, the first is in line 13");
    refuses(LAST_STEP, LAST_STEP "  - wait: {from: 1s, to: 2s}\n", "13:11", "needs the key 'phases'");
}

Test(steps, machines_stop_and_resume_by_turns)
{
    refuses(LAST_STEP, LAST_STEP "  - resume: {side: decode}\n", "13:13",
            "decode instance 0 rank 0 is not stopped before this");
    refuses(LAST_STEP, LAST_STEP "  - stop: {side: prefill}\n  - stop: {side: prefill, rank: 0}\n", "14:11",
            "prefill instance 0 rank 0 is stopped already");
    refuses(LAST_STEP, LAST_STEP "  - stop: {side: prefill}\n  - resume: {side: prefill, instance: 1}\n", "14:13",
            "prefill instance 1 rank 0 is not stopped before this");
    refuses(LAST_STEP, LAST_STEP "  - stop: {side: decode, instance: 1}\n", "13:36",
            "'instance' must be from 0 to 0, not 1");
    refuses(LAST_STEP, LAST_STEP "  - stop: {side: prefill, instance: 1, rank: 1}\n", "13:46",
            "'rank' must be from 0 to 0, not 1");
    refuses(LAST_STEP, LAST_STEP "  - stop: {instance: 0}\n", "13:11", "a stop needs the key 'side'");
    refuses(LAST_STEP, LAST_STEP "  - stop: {side: decod}\n", "13:18", "did you mean 'decode'?");
    refuses(LAST_STEP, LAST_STEP "  - stop: decode\n", "13:11", "a stop is a mapping");
    refuses(LAST_STEP, LAST_STEP "  - resume: {side: decode, actor: receiver}\n", "13:28",
            "a resume has no key 'actor'");
    /* After a step that can't be read, nothing is said about what may follow from it. */
    refuses(LAST_STEP, LAST_STEP "  - stop: {side: decod}\n  - resume: {side: decode}\n", "13:18",
            "did you mean 'decode'?");
}

/* ---- faults ---- */

#define FAULT(fault) "steps:\n", "faults:\n  - {" fault "}\nsteps:\n"

Test(faults, hit_one_message_or_write_of_a_request)
{
    refuses(FAULT("request: A, do: lose"), "9:5", "a fault needs the key 'message' or 'write'");
    refuses(FAULT("message: ack, write: kv, request: A, do: lose"), "9:20", "exclude each other");
    refuses(FAULT("mesage: ack, request: A, do: lose"), "9:6", "did you mean 'message'?");
    refuses(FAULT("message: ack, do: lose"), "9:5", "a fault needs the key 'request'");
    refuses(FAULT("message: ack, request: A"), "9:5", "a fault needs the key 'do'");
    refuses(FAULT("message: ack, request: C, do: lose"), "9:29", "no request 'C'");
    refuses(FAULT("message: akc, request: A, do: lose"), "9:15", "did you mean 'ack'?");
    refuses(FAULT("message: submit, request: A, do: lose"), "9:15",
            "no message 'submit'; known: metadata, abort, status, ack, notify");
    refuses(FAULT("write: stat, request: A, do: lose"), "9:13", "did you mean 'state'?");
    refuses(FAULT("message: ack, request: A, do: los"), "9:36", "did you mean 'lose'?");
    refuses(FAULT("message: ack, request: A, do: lose, when: 1s"), "9:42", "a fault has no key 'when'");
    refuses(FAULT("message: ack, request: A, do: lose, occurrence: 0"), "9:54", "from 1 to");
    refuses("steps:\n", "faults: {message: ack, request: A, do: lose}\nsteps:\n", "8:9", "'faults' is a list");
    refuses("steps:\n", "faults: [lose]\nsteps:\n", "8:10", "a fault is a mapping");
}

Test(faults, do_what_can_be_done_to_it)
{
    refuses(FAULT("message: ack, request: A, do: error"), "9:36", "a message has no error");
    refuses(FAULT("write: kv, request: A, do: double"), "9:33", "a write can be lost, delayed or end in an error");
    refuses(FAULT("message: ack, request: A, do: delay"), "9:5", "a delay needs a time");
    refuses(FAULT("write: kv, request: A, do: delay"), "9:5", "a delay needs a time");
    refuses(FAULT("write: kv, request: A, do: delay, by: 0us"), "9:44", "a delay needs a time");
    refuses(FAULT("write: kv, request: A, do: delay, by: 86401s"), "9:44", "more than 24 hours");
    refuses(FAULT("write: kv, request: A, do: lose, by: 1s"), "9:39", "'by' tells when a delay or an error comes");
    refuses(FAULT("message: ack, request: A, do: double, by: 1s"), "9:44", "'by' tells when");
}

Test(faults, chunks_and_fragments_are_of_writes)
{
    refuses(FAULT("message: status, request: A, do: lose, chunk: 0"), "9:45", "only a KV write has chunks");
    refuses(FAULT("write: state, request: A, do: lose, chunk: 0"), "9:42", "only a KV write has chunks");
    refuses(FAULT("write: kv, request: A, do: lose, chunk: 1"), "9:46", "A has 1 chunk, counted from 0");
    refuses(FAULT("message: ack, request: A, do: lose, fragment: 0"), "9:42", "only a write that is lost or delayed");
    refuses(FAULT("write: kv, request: A, do: error, fragment: 0"), "9:40", "only a write that is lost or delayed");
    refuses(FAULT("write: aux, request: A, do: lose, fragment: 1"), "9:50", "one fragment, number 0");
    scenario_free(accepts(FAULT("write: kv, request: A, do: delay, by: 1us, chunk: 0, fragment: 99")));
    scenario_free(accepts("steps:\n", "faults: []\nsteps:\n"));
}

Test(faults, of_an_arm_hit_what_it_submits)
{
    refuses(CORE, CORE "    faults: [{message: ack, request: B, do: lose}]\n", "16:38",
            "B is never submitted in this arm");
    char text[4000] = "faults:\n";
    for (int i = 0; i < 64; i++)
        strcat(text, "  - {message: ack, request: A, do: lose}\n");
    scenario_free(accepts("steps:\n", strcat(text, "steps:\n")));
    char *with = edit("steps:\n", text);
    struct parsed p = parse_set(with, NULL, "arms.0.faults=[{message: ack, request: A, do: lose}]");
    cr_assert_eq(p.rc, -EINVAL);
    cr_assert_not_null(strstr(p.messages, "65 faults in one arm, more than 64"), "%s", p.messages);
    parsed_free(&p);
    free(with);
}

/* ---- point matches ---- */

#define AWAIT(match) LAST_STEP "  - await: {" match "}\n"

Test(matches, that_no_transfer_can_satisfy)
{
    refuses(LAST_STEP, AWAIT("point: send.begin, side: decode"), "13:38", "passed on the prefill side only");
    refuses(LAST_STEP, AWAIT("point: kv.landed, side: decode"), "13:37", "on the wire, not on a side");
    refuses(LAST_STEP, AWAIT("point: kv.landed, instance: 0"), "13:41", "on the wire, not on a side");
    refuses(LAST_STEP, AWAIT("point: send.begin, actor: receiver"), "13:39", "passed by the worker");
    refuses(LAST_STEP, AWAIT("point: kv.landed, actor: worker 0"), "13:38", "passed by the transfer");
    refuses(LAST_STEP, AWAIT("point: send.begin, actor: worker 4"), "13:39", "no worker 4");
    refuses(LAST_STEP, AWAIT("point: send.begin, actor: worker"), "13:39", "no actor 'worker'");
    refuses(LAST_STEP, AWAIT("point: send.begin, chunk: 1"), "13:39", "no request of this scenario");
    refuses(LAST_STEP, AWAIT("point: send.begin, request: A, chunk: 1"), "13:51", "A has 1 chunk, counted from 0");
    refuses(LAST_STEP, AWAIT("point: pages.free, chunk: 0"), "13:39", "not passed by a chunk");
    refuses(LAST_STEP, AWAIT("point: token, request: A, n: 8"), "13:42", "A has 8 tokens");
    refuses(LAST_STEP, AWAIT("point: token, n: 8"), "13:30", "no request of this scenario");
    refuses(LAST_STEP, AWAIT("point: pages.free, n: 0"), "13:35", "only the point token has an n");
    refuses(LAST_STEP, AWAIT("point: pages.free, fragment: 0"), "13:42", "only the point kv.fragment");
    refuses(LAST_STEP, AWAIT("point: status.receive, status: abort"), "13:44", "is success or failed or dropped");
    refuses(LAST_STEP, AWAIT("point: send.begin, status: ok"), "13:40", "the status of send.begin is none");
    refuses(LAST_STEP, AWAIT("point: send.begin, status: fine"), "13:40", "no status 'fine'");
    refuses(LAST_STEP, AWAIT("point: fence, status: ok"), "13:35", "the status of fence is none");
    refuses(LAST_STEP, AWAIT("point: fence, side: prefill"), "13:33", "passed on the decode side only");
    refuses(LAST_STEP, AWAIT("point: fence, request: A, chunk: 0"), "13:46", "fence is not passed by a chunk");
    refuses(LAST_STEP, AWAIT("point: send.begin, request: A, instance: 1"), "13:54", "A lives on prefill instance 0");
    refuses(LAST_STEP, AWAIT("point: send.begin, instance: 2"), "13:42", "no instance 2; there are 2");
    refuses(LAST_STEP, AWAIT("point: send.begin, rank: 1"), "13:38", "no rank 1");
    refuses(LAST_STEP, AWAIT("point: token, request: A, n: 1, occurrence: 2"), "13:57", "once");
    refuses(LAST_STEP, AWAIT("point: token, occurrence: 0"), "13:39", "from 1 to");
    refuses(LAST_STEP, AWAIT("request: A"), "13:12", "needs the key 'point'");
}

Test(matches, statuses_that_the_machines_give)
{
    static const char *const words[] = { "point: fence",
                                         "point: chunk.check, status: ok",
                                         "point: chunk.check, status: skip",
                                         "point: chunk.check, status: error",
                                         "point: kv.recheck, status: skip",
                                         "point: kv.complete, status: ok",
                                         "point: kv.complete, status: error",
                                         "point: kv.complete, status: refused",
                                         "point: status.send, status: success",
                                         "point: status.send, status: failed",
                                         "point: chunk.done, status: skip",
                                         "point: chunk.done, status: error",
                                         "point: ack.send, status: received",
                                         "point: ack.send, status: drained",
                                         "point: ack.receive, status: counted",
                                         "point: ack.receive, status: dropped",
                                         "point: status.receive, status: dropped",
                                         "point: aux.consume, status: own",
                                         "point: aux.consume, status: foreign",
                                         "point: request.finish, status: abort",
                                         "point: client.answer, status: error" };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        char with[200];
        snprintf(with, sizeof with, LAST_STEP "  - await: {%s}\n", words[i]);
        scenario_free(accepts(LAST_STEP, with));
    }
}

Test(matches, chunks_are_counted_from_the_topology)
{
    scenario_free(accepts("page_tokens: 16", "page_tokens: 16, chunk_tokens: 16"));
    char *text = edit("page_tokens: 16", "page_tokens: 16, chunk_tokens: 16");
    const char *const sets[] = { "steps.2.await={point: chunk.done, request: A, chunk: 3}",
                                 "steps.2.await={point: aux.post, request: A, chunk: 3}",
                                 "steps.2.await={point: chunk.done, request: A, chunk: 4}",
                                 "steps.2.await={point: aux.post, request: A, chunk: 2}" };
    for (int i = 0; i < 4; i++) {
        struct parsed p = parse_set(text, NULL, sets[i]);
        cr_assert_eq(p.rc, i < 2 ? 0 : -EINVAL, "%s\n%s", sets[i], p.messages);
        parsed_free(&p);
    }
    free(text);
}

/* ---- arms and expectations ---- */

Test(arms, empty_ones_and_names)
{
    refuses("arms:\n  - name: one\n    core: unpatched\n    expect:\n      A: {output: identical}\n", "arms: []\n",
            "13:7", "0 arms");
    refuses(EXPECT, EXPECT "  - {name: one, core: unpatched}\n", "18:12", "an arm named 'one' is in line 14 already");
    refuses(
        "steps:\n  - park: {point: send.begin, request: A, as: writer}\n  - submit: A\n  - await: writer\n  - release: writer\narms:\n"
        "  - name: one\n    core: unpatched\n    expect:\n      A: {output: identical}\n",
        "arms:\n  - name: one\n    core: unpatched\n", "9:5", "this arm has no steps");
    refuses(
        "steps:\n  - park: {point: send.begin, request: A, as: writer}\n  - submit: A\n  - await: writer\n  - release: writer\narms:\n"
        "  - name: one\n    core: unpatched\n    expect:\n      A: {output: identical}\n",
        "arms:\n  - name: one\n    core: unpatched\n    steps: [wait: 1s]\n", "9:5", "this arm submits no request");
}

Test(arms, cores_engines_and_knobs)
{
    refuses("core: unpatched", "core: {hold_timeout: 1s}", "15:11", "a core needs the key 'base'");
    refuses("core: unpatched", "core: [unpatched]", "15:11", "must be the name of a core, not a list");
    refuses("core: unpatched", "core: {base: unpatched, timeout: 1s}", "15:29", "is a knob of the engine");
    refuses("core: unpatched", "core: {base: unpatched, abort_notice: yes}", "15:43", "must be true or false");
    refuses("core: unpatched", "core: {base: unpatched, free: hol}", "15:35", "did you mean 'hold'?");
    refuses("core: unpatched", "core: {base: unpatched, hold_timeout: 30}", "15:43", "it has no unit");
}

Test(arms, numbers_of_a_knob)
{
    refuses(CORE, CORE "    engine: {base: mooncake, retries: 4}\n", "16:39", "'retries' must be from 0 to 3, not 4");
    refuses(CORE, CORE "    engine: {base: mooncake, retries: 1s}\n", "16:39", "a whole number in plain digits");
    refuses(CORE, CORE "    engine: {base: mooncake, retires: 1}\n", "16:30", "did you mean 'retries'?");
    refuses(CORE, CORE "    engine: {base: mooncake, hold_timeout: 1s}\n", "16:30", "is a knob of the core");
}

Test(arms, lists_of_cores_and_engines)
{
    refuses(CORE, CORE "    cores: [unpatched]\n", "16:5", "'core' and 'cores' exclude each other");
    refuses(CORE, CORE "    engine: mooncake\n    engines: [mooncake]\n", "17:5",
            "'engine' and 'engines' exclude each other");
    refuses(CORE, "    cores: [unpatched, deferred-3536]\n", "15:24", "did you mean 'deferred-35360'?");
    refuses(CORE, "    cores: [unpatched, unpatched]\n", "15:24", "core 'unpatched' is in this list already");
    refuses(CORE, "    cores: [unpatched, {base: unpatched}]\n", "15:24", "must be the name of a core, not a mapping");
    refuses(CORE, "    cores: []\n", "15:12", "no names in 'cores'");
    refuses(CORE, "    cores: unpatched\n", "15:12", "'cores' is a list, not a single value");
    refuses(CORE, CORE "    engines: [mooncake, mooncak]\n", "16:25", "did you mean 'mooncake'?");
    refuses(CORE, CORE "    engines: []\n", "16:14", "no names in 'engines'");
    refuses(CORE,
            "    cores: [unpatched]\n  - {name: one (unpatched), core: unpatched}\n  - name: x\n    core: unpatched\n",
            "16:12", "an arm named 'one (unpatched)' is in line 14 already");
    refuses(EXPECT, EXPECT "  - {name: one, cores: [deferred-35360]}\n", "18:12",
            "an arm named 'one' is in line 14 already");
}

Test(arms, are_counted_with_what_they_stand_for)
{
    char text[4000] = "arms:\n";
    for (int i = 0; i < 62; i++)
        sprintf(text + strlen(text), "  - {name: a%d, core: unpatched}\n", i);
    char *with = edit("arms:\n", text);
    struct parsed p = parse_set(with, NULL, "arms.0={name: b, cores: [unpatched, deferred-35360]}");
    cr_assert_eq(p.rc, 0, "%s", p.messages);
    cr_assert_eq(p.scenario->arms_len, 64);
    parsed_free(&p);
    free(with);
    strcat(text, "  - {name: b, cores: [unpatched, deferred-35360]}\n");
    refuses("arms:\n", text, "77:5", "65 arms with this one, which stands for 1; a scenario has 1 to 64");
}

Test(arms, parks_at_the_end)
{
    refuses(CORE, CORE "    end: {parked: [writer]}\n", "16:20", "is released in this arm");
    refuses(CORE, CORE "    end: {parked: [victim]}\n", "16:20", "no park 'victim'");
    refuses(CORE, CORE "    end: {}\n", "16:10", "needs the key 'parked'");
}

Test(expectations, that_can_not_hold)
{
    refuses(EXPECT, EXPECT "      B: {output: identical}\n", "18:7", "B is never submitted in this arm");
    refuses(EXPECT, EXPECT "      holds: {B: {held: 1s}}\n", "18:15", "B is never submitted in this arm");
    refuses("{output: identical}", "{output: identical, first: 1}", "17:30", "an output that diverged");
    refuses("{output: identical}", "{first: 8}", "17:18", "A has 8 tokens, counted from 0");
    refuses("{output: identical}", "{first: 6, differing: 3}", "17:32", "only 2 tokens that could differ");
    refuses("{output: identical}", "{differing: 9}", "17:22", "A has only 8 tokens");
    refuses("{output: identical}", "{tokens: 9}", "17:19", "never has more than 8 tokens");
    refuses("{output: identical}", "{tokens: {min: 3, max: 2}}", "17:25", "'min' is more than 'max'");
    refuses("{output: identical}", "{tokens: {}}", "17:19", "needs a number, 'min', 'max' or both");
    refuses("{output: identical}", "{status: 99}", "17:19", "from 100 to 599");
    refuses("{output: identical}", "{finish_reason: stop}", "17:26", "no finish reason 'stop'");
    refuses(EXPECT, EXPECT "      memory: {watched_tokens_changed: 1}\n", "18:16", "nothing is watched");
    refuses(EXPECT, EXPECT "      memory: {pinned_pages: 1}\n", "18:16", "'memory' has no key 'pinned_pages'");
    refuses(EXPECT, EXPECT "      prevented: {step: 5}\n", "18:25", "this arm has 4 steps");
    refuses(EXPECT, EXPECT "      prevented: {step: 0}\n", "18:25", "from 1 to 256");
    refuses(EXPECT, EXPECT "      order: [{point: token}]\n", "18:14", "1 points in 'order'");
    refuses(EXPECT, EXPECT "      order: [{point: token}, {point: tokn}]\n", "18:39", "did you mean 'token'?");
}

Test(expectations, of_what_others_wrote)
{
    refuses("{output: identical}", "{rows_from: {A: 1}}", "17:23", "what A wrote itself is its own");
    refuses("{output: identical}", "{state_from: A}", "17:23", "what A wrote itself is its own");
    refuses("{output: identical}", "{rows_from: {B: 1}}", "17:23", "B is never submitted in this arm");
    refuses("{output: identical}", "{state_from: B}", "17:23", "B is never submitted in this arm");
    refuses("{output: identical}", "{rows_from: {C: 1}}", "17:23", "no request 'C'");
    refuses("{output: identical}", "{state_from: C}", "17:23", "no request 'C'");
    refuses("{output: identical}", "{rows_from: 512}", "17:22", "'rows_from' is a mapping");
    refuses(EXPECT, "      A: {rows_from: {B: many}}\n    steps: [submit: B]\n", "17:26", "a whole number");
    refuses(EXPECT, EXPECT "      memory: {collateral_failed: 1}\n", "18:16",
            "'memory' has no key 'collateral_failed'");
    refuses(EXPECT, EXPECT "      liveness: {collateral_fialed: 1}\n", "18:18", "did you mean 'collateral_failed'?");
}

/* ---- overrides ---- */

Test(overrides, replace_and_add_values)
{
    struct scenario *s = accepts_set("topology.decode.pages=66");
    cr_assert_eq(s->decode.pages, 66);
    scenario_free(s);
    s = accepts_set("times.step=5ms");
    cr_assert_eq(s->times.step_us, 5000);
    scenario_free(s);
    s = accepts_set("arms.0.core={base: deferred-35360, hold_timeout: 1s}");
    cr_assert_eq(s->arms[0].policy.core[CORE_HOLD_TIMEOUT], 1000000);
    scenario_free(s);
    s = accepts_set("steps.3.release=writer");
    cr_assert_eq(s->arms[0].steps[3].place.line, 12);
    scenario_free(s);
    s = accepts_set("arms.0.name=a=b");
    cr_assert_str_eq(s->arms[0].name, "a=b");
    scenario_free(s);
}

Test(overrides, later_ones_win_and_change_the_digest)
{
    const char *const sets[] = { "topology.decode.pages=66", "topology.decode.pages=67" };
    struct scenario_overrides overrides = { .sets = sets, .sets_len = 2 };
    struct parsed two = parse_bytes(base, strlen(base), &overrides), none = parse_bytes(base, strlen(base), NULL);
    overrides.sets_len = 1;
    struct parsed one = parse_bytes(base, strlen(base), &overrides),
                  again = parse_bytes(base, strlen(base), &overrides);
    struct parsed core = parse_set(base, "unpatched", NULL);
    cr_assert_eq(two.scenario->decode.pages, 67);
    cr_assert_eq(one.scenario->digest, again.scenario->digest);
    cr_assert_neq(one.scenario->digest, two.scenario->digest);
    cr_assert_neq(one.scenario->digest, none.scenario->digest);
    cr_assert_neq(core.scenario->digest, none.scenario->digest);
    parsed_free(&two), parsed_free(&none), parsed_free(&one), parsed_free(&again), parsed_free(&core);
}

Test(overrides, faults_name_the_argument)
{
    refuses_set("topology.decode.pages=many",
                "--set topology.decode.pages=many: error: 'pages' must be a whole number");
    refuses_set("topology.decode.page=66",
                "--set topology.decode.page=66: error: a decode side has no key 'page'; did you mean 'pages'?");
    refuses_set("topologie.decode.pages=66",
                "--set topologie.decode.pages=66: error: a scenario has no key 'topologie'; did you mean 'topology'?");
    refuses_set("arms.1.core=unpatched",
                "--set arms.1.core=unpatched: error: '1' is no item of this list; it has 1, counted from 0");
    refuses_set("arms.one.core=unpatched", "'one' is no item of this list");
    refuses_set("arms.0.core.base.x=1", "nothing below 'base' can be set: it stands below a single value");
    refuses_set("pages", "no path and value");
    refuses_set("=5", "no path and value");
    refuses_set("a..b=5", "an empty word in the path");
    refuses_set("arms.0.core=", "no value after '='");
    refuses_set("arms.0.core=[", "not YAML: ");
    refuses_set("arms.0.core=&x unpatched", "anchors are not part of the language");
    refuses_set("arms.0.core=\xff", "byte 0xff is no UTF-8");
    refuses_set("arms.0.core=a\nb", "a line break");
    refuses_set("arms.0.name=\x1b[31m", "U+001B");
}

Test(overrides, a_core_for_every_arm)
{
    char *text = edit(EXPECT, EXPECT "  - {name: two, core: {base: deferred-35360, hold_timeout: 1s}}\n");
    struct parsed p = parse_set(text, "deferred-35360", NULL);
    cr_assert_eq(p.rc, 0, "%s", p.messages);
    for (int i = 0; i < 2; i++) {
        cr_assert_str_eq(p.scenario->arms[i].core_name, "deferred-35360");
        cr_assert_not(p.scenario->arms[i].core_overridden);
        cr_assert_eq(p.scenario->arms[i].policy.core[CORE_HOLD_TIMEOUT], 30000000);
    }
    parsed_free(&p);
    p = parse_set(text, "deferred-3536", NULL);
    cr_assert_eq(p.rc, -EINVAL);
    cr_assert_not_null(strstr(p.messages, "--core: no core 'deferred-3536'; did you mean 'deferred-35360'?"));
    parsed_free(&p);
    free(text);
}

Test(overrides, a_core_instead_of_several)
{
    char *text = edit(CORE, "    cores: [unpatched, deferred-35360]\n    engines: [mooncake]\n");
    struct parsed p = parse_set(text, "unpatched", NULL);
    cr_assert_eq(p.rc, 0, "%s", p.messages);
    cr_assert_eq(p.scenario->arms_len, 1);
    cr_assert_str_eq(p.scenario->arms[0].name, "one (unpatched, mooncake)");
    parsed_free(&p);
    p = parse_set(text, "deferred-35360", NULL);
    cr_assert_eq(p.rc, 0, "%s", p.messages);
    cr_assert_eq(p.scenario->arms_len, 1);
    cr_assert_str_eq(p.scenario->arms[0].name, "one (deferred-35360, mooncake)");
    cr_assert_eq(p.scenario->arms[0].policy.core[CORE_FREE], FREE_HOLD);
    parsed_free(&p);
    free(text);
}

Test(names, of_enumerators)
{
    cr_assert_str_eq(allocator_name(ALLOCATOR_SORTED), "sorted");
    cr_assert_str_eq(allocator_name(ALLOCATOR_ANY), "any");
    cr_assert_str_eq(output_kind_name(OUTPUT_NOT_ADMITTED), "not-admitted");
    cr_assert_str_eq(finish_reason_name(FINISH_LENGTH), "length");
    cr_assert_str_eq(hold_end_name(HOLD_END_NEVER), "never");
    cr_assert_str_eq(hold_end_name(-1), "?");
}

/* ---- explore ---- */

static const char explored[] = "scenario: test\n"
                               "topology:\n"
                               "  prefill: {instances: 2, pages: 8, page_tokens: 1, chunk_tokens: 1, workers: 1}\n"
                               "  decode: {pages: 5, state_slots: 1}\n"
                               "requests:\n"
                               "  A: {prompt: {seed: 1, tokens: 4}, max_tokens: 1}\n"
                               "  B: {prompt: {seed: 2, tokens: 4}, max_tokens: 2, prefill: 1}\n";

static struct scenario *accepts_explore(const char *explore, const char *core)
{
    struct scenario_overrides overrides = { .core = core };
    char *text = NULL;
    cr_assert(asprintf(&text, "%s%s", explored, explore) >= 0);
    struct parsed p = parse_bytes(text, strlen(text), &overrides);
    cr_assert_eq(p.rc, 0, "refused:\n%s", p.messages);
    cr_assert_str_empty(p.messages);
    free(text);
    free(p.messages);
    return p.scenario;
}

/* Every message of one faulty `explore:`, which begins in line 8. */
static void refuses_explore(const char *explore, const char *prefix, const char *what)
{
    char *text = NULL;
    cr_assert(asprintf(&text, "%s%s", explored, explore) >= 0);
    refuses_text(text, strlen(text), prefix, what);
    free(text);
}

Test(explore, everything_given)
{
    struct scenario *s = accepts_explore("explore:\n"
                                         "  events: [{submit: B}, {abort: {request: A, at: prefill}}, {submit: A},\n"
                                         "           {abort: {request: A, at: decode}}]\n"
                                         "  faults: {stall: B, engine_timeout: true}\n"
                                         "  cores: [strict, unpatched]\n"
                                         "  engines: [nixl]\n",
                                         NULL);
    const struct explore_spec *x = &s->explore;

    cr_assert(x->given);
    cr_assert_eq(x->place.line, 8);
    cr_assert_eq(s->arms_len, 0);
    cr_assert_eq(s->watch.request, -1);
    cr_assert_eq(x->events_len, 4);
    cr_assert_eq(x->events[0].kind, STEP_SUBMIT);
    cr_assert_eq(x->events[0].request, 1);
    cr_assert_eq(x->events[0].place.line, 9);
    cr_assert_eq(x->events[1].kind, STEP_ABORT);
    cr_assert_eq(x->events[1].request, 0);
    cr_assert_eq(x->events[1].at, ABORT_AT_PREFILL);
    cr_assert_eq(x->events[3].at, ABORT_AT_DECODE);
    cr_assert_eq(x->stall, 1);
    cr_assert(x->engine_timeout);
    cr_assert_eq(x->cores_len, 2);
    cr_assert_eq(x->cores[0], (unsigned)core_by_name("strict"));
    cr_assert_eq(x->cores[1], (unsigned)core_by_name("unpatched"));
    cr_assert_eq(x->engines_len, 1);
    cr_assert_eq(x->engines[0], (unsigned)engine_by_name("nixl"));
    scenario_free(s);
}

Test(explore, defaults_are_all_cores_and_no_fault)
{
    static const char *const same[] = { "explore: {events: [{submit: A}]}\n",
                                        "explore: {events: [{submit: A}], cores: all, engines: all, faults: {}}\n" };

    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        struct scenario *s = accepts_explore(same[i], NULL);
        cr_assert_eq(s->explore.stall, -1);
        cr_assert_not(s->explore.engine_timeout);
        cr_assert_eq(s->explore.cores_len, core_rows_len);
        cr_assert_eq(s->explore.engines_len, engine_rows_len);
        for (unsigned c = 0; c < core_rows_len; c++)
            cr_assert_eq(s->explore.cores[c], c);
        scenario_free(s);
    }
}

Test(explore, a_core_that_is_asked_for_stands_alone)
{
    struct scenario *s = accepts_explore("explore: {events: [{submit: A}], cores: [strict, unpatched]}\n", "fenced");

    cr_assert_eq(s->explore.cores_len, 1);
    cr_assert_eq(s->explore.cores[0], (unsigned)core_by_name("fenced"));
    scenario_free(s);
}

Test(explore, events_up_to_their_limit)
{
    char text[4096] = "requests:\n", events[4096] = "explore:\n  events:\n", *all = NULL;

    for (int i = 0; i < SCENARIO_EVENTS_MAX; i++) {
        sprintf(text + strlen(text), "  R%d: {prompt: {seed: 1, tokens: 4}, max_tokens: 1}\n", i);
        sprintf(events + strlen(events), "    - submit: R%d\n", i);
    }
    cr_assert(asprintf(&all, "scenario: x\ntopology: {prefill: {pages: 8}, decode: {pages: 8}}\n%s%s", text, events) >=
              0);
    struct parsed p = parse_bytes(all, strlen(all), NULL);
    cr_assert_eq(p.rc, 0, "refused:\n%s", p.messages);
    cr_assert_eq(p.scenario->explore.events_len, 32);
    parsed_free(&p);
    free(all);
}

Test(explore, a_scenario_without_it_has_none)
{
    struct scenario *s = accepts(CORE, CORE);

    cr_assert_not(s->explore.given);
    cr_assert_eq(s->explore.stall, -1);
    scenario_free(s);
}

Test(explore, the_shipped_one)
{
    struct scenario *s = NULL;

    cr_assert_eq(scenario_load("scenarios/explore.yaml", NULL, &s, stderr), 0);
    cr_assert(s->explore.given);
    cr_assert_eq(s->explore.events_len, 3);
    cr_assert_eq(s->explore.stall, 0);
    /* Whoever comes second finds no room before the first one has gone. */
    cr_assert_lt(s->decode.pages, s->requests[0].prompt_tokens + s->requests[1].prompt_tokens);
    cr_assert_eq(s->decode.state_slots, 1);
    scenario_free(s);
}

Test(explore, one_fault_one_message)
{
    refuses_explore("explore: {events: [{submit: A}], engine: nixl}\n", "test.yaml:8:34: error: ", "is 'engines' here");
    refuses_explore("explore: {events: [{submit: A}, {abort: {request: A, at: decod}}]}\n",
                    "test.yaml:8:58: error: ", "did you mean 'decode'");
    refuses_explore("explore: {events: [submit]}\n", "test.yaml:8:20: error: ", "an event is a mapping");
    refuses_explore("explore: {events: {submit: A}}\n", "test.yaml:8:19: error: ", "'events' is a list");
    refuses_explore("explore: {events: [{submit: A}], faults: [stall]}\n",
                    "test.yaml:8:42: error: ", "what may go wrong is a mapping");
    refuses_explore("explore: {events: [{submit: A}], engines: [nixl, nixl]}\n",
                    "test.yaml:8:50: error: ", "engine 'nixl' is in this list already");
    refuses_explore("explore: {events: [{submit: A}]}\nsteps: [submit: A]\n",
                    "test.yaml:9:1: error: ", "steps tell an order");
    refuses_explore("explore: all\n", "test.yaml:8:10: error: ", "'explore' is a mapping");
}

Test(explore, played_and_explored_exclude_each_other)
{
    refuses(LAST_STEP "arms:\n", LAST_STEP "explore: {events: [{submit: A}]}\narms:\n", "13:1",
            "'explore' and 'arms' exclude each other");
}
