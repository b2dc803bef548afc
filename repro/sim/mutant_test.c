/*
 * What the other tests let through: each of these was written for a planted fault (repro/mutants.txt) that nothing else
 * caught, and states the rule that the fault breaks.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "runner.h"

#define HEAD                                                                 \
    "scenario: t\n"                                                          \
    "topology:\n"                                                            \
    "  prefill: {instances: 2, pages: 64}\n"                                 \
    "  decode: {pages: 13, page_tokens: 16, state_slots: 1, aux_slots: 1}\n" \
    "requests:\n"                                                            \
    "  A: {prompt: {seed: 1, tokens: 96}, max_tokens: 64, prefill: 0}\n"     \
    "  B: {prompt: {seed: 2, tokens: 96}, max_tokens: 64, prefill: 1}\n"     \
    "watch: {request: B, tokens: 32}\n"

struct text_play {
    struct scenario *s;
    struct run_result *r;
};

static struct text_play play_with(const char *text, sim_decode_fn *decode)
{
    struct text_play p = { 0 };
    struct runner_options o = { .repeat = 1, .decode = decode };
    char *messages = NULL;
    size_t len;
    FILE *errors = open_memstream(&messages, &len);
    int rc = scenario_parse("t.yaml", text, strlen(text), NULL, &p.s, errors);

    fclose(errors);
    cr_assert_eq(rc, 0, "%s", messages);
    free(messages);
    cr_assert_eq(runner_run(p.s, &o, &p.r, stderr), 0);
    return p;
}

static void done(struct text_play *p)
{
    run_result_free(p->r);
    scenario_free(p->s);
}

static const struct arm_result *arm(const struct text_play *p, uint32_t i)
{
    return &p->r->arms[i].results[0];
}

/* Plays, and every arm is as the text says. */
static struct text_play as_expected(const char *text)
{
    struct text_play p = play_with(text, NULL);

    cr_assert(p.r->preflight.transfer_exact && p.r->preflight.identical, "%s", p.r->preflight.why);
    for (uint32_t i = 0; i < p.r->arms_len; i++)
        cr_assert(arm(&p, i)->as_expected, "arm %u: %s%s", i, arm(&p, i)->why ? arm(&p, i)->why : "",
                  arm(&p, i)->differences_len ? arm(&p, i)->differences[0] : "");
    return p;
}

static void holds(const char *text)
{
    struct text_play p = as_expected(text);

    done(&p);
}

enum { A, B, C };

/* --- the machines --- */

Test(rule, a_prefill_whose_transfer_succeeded_waits_for_the_count)
{
    holds(HEAD "arms:\n"
               "  - name: a\n"
               "    core: deferred-35360\n"
               "    steps:\n"
               "      - park: {point: status.send, request: A, status: success, as: worker}\n"
               "      - submit: A\n"
               "      - await: worker\n"
               "      - wait: 1s\n"
               "      - release: worker\n"
               "    expect:\n"
               "      A: {output: identical}\n"
               "      order: [{point: chunk.done, request: A}, {point: room.clear, request: A}]\n");
}

#define WRITE_FAILS                                                \
    "steps:\n"                                                     \
    "  - park: {point: kv.fragment, request: A, as: wire}\n"       \
    "  - submit: A\n"                                              \
    "  - await: wire\n"                                            \
    "  - abort: {request: A, at: decode}\n"                        \
    "  - await: {point: kv.complete, request: A, status: error}\n" \
    "  - release: wire\n"                                          \
    "faults: [{write: kv, request: A, do: error, by: 1s}]\n"

Test(rule, only_an_engine_that_keeps_no_count_acks_after_an_error)
{
    holds(HEAD WRITE_FAILS "arms:\n"
                           "  - name: asynchronous\n"
                           "    core: deferred-40645\n"
                           "    engine: nixl\n"
                           "    expect: {holds: {A: {ended_by: timer, held: 30s}}}\n"
                           "  - name: blocking\n"
                           "    core: deferred-40645\n"
                           "    expect: {holds: {A: {ended_by: ack, held: {max: 2s}}}}\n");
}

#define STALLS                                                \
    "steps:\n"                                                \
    "  - park: {point: send.begin, request: A, as: writer}\n" \
    "  - submit: A\n"                                         \
    "  - await: writer\n"

Test(rule, a_write_that_is_looked_at_again_is_dropped)
{
    holds(HEAD STALLS
          "  - abort: {request: A, at: decode}\n"
          "arms:\n"
          "  - name: a\n"
          "    core: recheck\n"
          "    steps:\n"
          "      - park: {point: token, request: B, n: 20, as: victim}\n"
          "      - submit: B\n"
          "      - await: victim\n"
          "      - release: writer\n"
          "      - await: {point: chunk.done, request: A, status: skip}\n"
          "      - release: victim\n"
          "    expect: {B: {output: identical}, memory: {stale_pages: 0, stale_slots: 0, shared_pages: 6}}\n");
}

Test(rule, an_abort_for_a_cleared_room_is_acked_only_with_nothing_outstanding)
{
    holds(HEAD STALLS "  - abort: {request: A, at: prefill}\n"
                      "  - await: {point: room.clear, request: A}\n"
                      "  - abort: {request: A, at: decode}\n"
                      "  - await: {point: hold.begin, request: A}\n"
                      "  - wait: 1s\n"
                      "  - release: writer\n"
                      "arms:\n"
                      "  - name: drained\n"
                      "    core: deferred-35360\n"
                      "    expect: {holds: {A: {ended_by: timer, held: 30s}}}\n"
                      "  - name: at once\n"
                      "    core: deferred-35049\n"
                      "    expect: {holds: {A: {ended_by: ack, held: {max: 10ms}}}}\n");
}

Test(rule, a_failed_write_puts_its_session_on_the_blacklist)
{
    holds("scenario: t\n"
          "topology:\n"
          "  prefill: {pages: 64}\n"
          "  decode: {pages: 64}\n"
          "requests:\n"
          "  A: {prompt: {seed: 1, tokens: 96}, max_tokens: 64}\n"
          "  B: {prompt: {seed: 2, tokens: 96}, max_tokens: 64}\n"
          "faults: [{write: kv, request: A, do: error}]\n"
          "steps:\n"
          "  - submit: A\n"
          "  - await: {point: client.answer, request: A, side: decode}\n"
          "  - submit: B\n"
          "arms:\n"
          "  - name: a\n"
          "    core: unpatched\n"
          "    expect: {B: {output: failed, status: 500, finish_reason: error}}\n"
          "  - name: no blacklist\n"
          "    core: unpatched\n"
          "    engine: {base: mooncake, blacklist: false}\n"
          "    expect: {B: {output: identical}}\n");
}

Test(rule, freed_memory_is_handed_out_one_iteration_later)
{
    struct text_play p =
        as_expected("scenario: t\n"
                    "topology:\n"
                    "  prefill: {instances: 2, pages: 64}\n"
                    "  decode: {pages: 64, state_slots: 2}\n"
                    "requests:\n"
                    "  A: {prompt: {seed: 1, tokens: 96}, max_tokens: 64, prefill: 0}\n"
                    "  B: {prompt: {seed: 2, tokens: 96}, max_tokens: 8, prefill: 1}\n"
                    "  C: {prompt: {seed: 3, tokens: 96}, max_tokens: 64, prefill: 1}\n" STALLS "  - submit: C\n"
                    "  - await: {point: token, request: C, n: 2}\n"
                    "  - submit: B\n"
                    "  - wait: 20ms\n"
                    "  - abort: {request: A, at: decode}\n"
                    "  - await: {point: pages.alloc, request: B}\n"
                    "  - release: writer\n"
                    "arms: [{name: a, core: unpatched, expect: {B: {status: 200}, C: {output: identical}}}]\n");
    const struct request_result *r = arm(&p, 0)->requests;

    cr_assert_eq(r[B].admitted_us, r[A].answered_us[SIDE_DECODE] + p.s->times.step_us, "one step of C is in between");
    done(&p);
}

Test(rule, an_ack_that_comes_before_the_tracker_is_armed_is_dropped)
{
    holds(HEAD "steps:\n"
               "  - park: {point: send.begin, request: A, as: writer}\n"
               "  - park: {point: ack.send, request: A, as: ack}\n"
               "  - park: {point: abort.send, request: A, as: decode}\n"
               "  - submit: A\n"
               "  - await: writer\n"
               "  - abort: {request: A, at: decode}\n"
               "  - await: decode\n"
               "  - release: writer\n"
               "  - await: ack\n"
               "  - release: ack\n"
               "  - await: {point: ack.receive, request: A}\n"
               "  - release: decode\n"
               "arms:\n"
               "  - name: a\n"
               "    core: deferred-40645\n"
               "    expect:\n"
               "      holds: {A: {ended_by: timer, held: 30s}}\n"
               "      order: [{point: ack.receive, request: A, status: dropped}, {point: hold.arm, request: A}]\n");
}

Test(rule, a_foreign_aux_record_is_an_error_and_no_silence)
{
    /* A's record lands after B's and before decode has read it. */
    holds(HEAD STALLS "  - abort: {request: A, at: decode}\n"
                      "  - park: {point: status.send, request: B, as: status}\n"
                      "  - park: {point: status.receive, request: B, as: reader}\n"
                      "  - submit: B\n"
                      "  - await: status\n"
                      "  - release: writer\n"
                      "  - await: {point: aux.landed, request: A}\n"
                      "  - release: status\n"
                      "  - release: reader\n"
                      "arms:\n"
                      "  - name: guarded\n"
                      "    core: unpatched\n"
                      "    expect: {B: {output: failed, status: 500, finish_reason: error}, memory: {stale_aux: 1}}\n"
                      "  - name: not guarded\n"
                      "    core: {base: unpatched, aux_guard: false}\n"
                      "    expect: {B: {output: diverged, first: 0, silent: true}, memory: {stale_aux: 1}}\n");
}

Test(rule, a_notified_transfer_is_over_when_all_its_parts_have_landed)
{
    holds(HEAD "arms:\n"
               "  - name: a\n"
               "    core: unpatched\n"
               "    engine: nixl\n"
               "    steps:\n"
               "      - park: {point: kv.fragment, request: B, as: wire}\n"
               "      - submit: B\n"
               "      - await: {point: aux.landed, request: B}\n"
               "      - wait: 1s\n"
               "      - release: wire\n"
               "    expect:\n"
               "      B: {output: identical}\n"
               "      order: [{point: kv.landed, request: B}, {point: status.receive, request: B}]\n");
}

/* The same tokens without machines, pools and wire: the model on memory of its own. */
Test(rule, a_request_alone_gives_the_tokens_of_the_model_itself)
{
    enum { PROMPT = 90, TOKENS = 128, PAGE_TOKENS = 16, PAGES = (PROMPT + TOKENS + PAGE_TOKENS - 1) / PAGE_TOKENS };
    struct text_play p =
        as_expected("scenario: t\n"
                    "topology:\n"
                    "  prefill: {pages: 64}\n"
                    "  decode: {pages: 32}\n"
                    "requests: {A: {prompt: {seed: 1, tokens: 90}, max_tokens: 128}}\n"
                    "arms: [{name: a, core: unpatched, steps: [{submit: A}], expect: {A: {output: identical}}}]\n");
    struct model *model = model_new(MODEL_SEED);
    struct model_work *work = model_work_new();
    struct model_seq seq = { .kv = { .page_tokens = PAGE_TOKENS } };
    uint32_t prompt[PROMPT], tokens[TOKENS];
    uint16_t pages[PAGES];
    float *state = calloc(MODEL_STATE_FLOATS, sizeof *state);
    struct stage stage = { .scenario = p.s, .model = model, .work = work, .prompts = &(uint32_t *){ prompt } };
    struct solo solo;

    cr_assert(model && work && state);
    for (int layer = 0; layer < MODEL_ATTN_LAYERS; layer++)
        seq.kv.layer[layer] = calloc((size_t)PAGES * PAGE_TOKENS * MODEL_ROW_FLOATS, sizeof(float));
    for (uint16_t i = 0; i < PAGES; i++)
        pages[i] = i;
    seq.pages = pages;
    seq.state = state;
    model_prompt(1, PROMPT, prompt);
    tokens[0] = model_prefill(model, work, &seq, 0, prompt, PROMPT);
    for (uint32_t i = 1; i < TOKENS; i++)
        tokens[i] = model_decode(model, work, &seq, PROMPT + i - 1, tokens[i - 1], NULL);
    cr_assert_eq(play_solo(&stage, A, 0, &solo), 0);
    cr_assert_eq(solo.tokens_len, TOKENS);
    for (uint32_t i = 0; i < TOKENS; i++)
        cr_assert_eq(solo.tokens[i], tokens[i], "token %u", i);
    solo_free(&solo);
    for (int layer = 0; layer < MODEL_ATTN_LAYERS; layer++)
        free(seq.kv.layer[layer]);
    free(state);
    model_work_free(work);
    model_free(model);
    done(&p);
}

/* --- channels and the wire --- */

Test(rule, an_abort_right_behind_its_submit_does_not_overtake_it)
{
    holds(HEAD "arms:\n"
               "  - name: a\n"
               "    core: unpatched\n"
               "    steps: [{submit: A}, {abort: {request: A, at: decode}}]\n"
               "    expect: {A: {status: 500, finish_reason: abort, tokens: 0}}\n");
}

#define FLIES                                                \
    "steps:\n"                                               \
    "  - park: {point: kv.fragment, request: A, as: wire}\n" \
    "  - submit: A\n"                                        \
    "  - await: wire\n"                                      \
    "  - abort: {request: A, at: decode}\n"

Test(rule, a_fence_stops_a_write_in_flight)
{
    holds(HEAD FLIES "arms:\n"
                     "  - name: a\n"
                     "    core: fenced\n"
                     "    steps:\n"
                     "      - park: {point: token, request: B, n: 20, as: victim}\n"
                     "      - submit: B\n"
                     "      - await: victim\n"
                     "      - release: wire\n"
                     "      - await: {point: chunk.done, request: A}\n"
                     "      - release: victim\n"
                     "    expect:\n"
                     "      B: {output: identical}\n"
                     "      memory: {stale_pages: 0, stale_bytes: 0, stale_free_bytes: 0}\n"
                     "      holds: {A: {ended_by: fence}}\n");
}

Test(rule, the_completion_of_a_write_sent_again_is_not_that_of_the_first_attempt)
{
    holds(HEAD "faults: [{write: kv, request: A, fragment: 0, do: delay, by: 5s}]\n"
               "arms:\n"
               "  - name: a\n"
               "    core: unpatched\n"
               "    engine: {base: mooncake, timeout: 1s, retries: 1}\n"
               "    steps: [{submit: A}]\n"
               "    expect:\n"
               "      A: {output: identical}\n"
               "      order: [{point: kv.landed, request: A}, {point: kv.complete, request: A}]\n");
}

Test(rule, a_fragment_carries_what_its_source_held_when_it_left)
{
    /* C computes its prompt into A's source pages while A's first fragment is in the air; the second leaves after that. */
    holds("scenario: t\n"
          "topology:\n"
          "  prefill: {instances: 2, pages: 7, state_slots: 1}\n"
          "  decode: {instances: 2, pages: 13, state_slots: 1}\n"
          "requests:\n"
          "  A: {prompt: {seed: 1, tokens: 96}, max_tokens: 64, prefill: 0, decode: 0}\n"
          "  B: {prompt: {seed: 2, tokens: 96}, max_tokens: 96, prefill: 1, decode: 0}\n"
          "  C: {prompt: {seed: 3, tokens: 96}, max_tokens: 8, prefill: 0, decode: 1}\n"
          "faults: [{write: kv, request: A, fragment: 0, do: delay, by: 300ms}]\n"
          "steps:\n"
          "  - submit: A\n"
          "  - await: {point: kv.post, request: A}\n"
          "  - abort: {request: A, at: decode}\n"
          "  - submit: B\n"
          "  - submit: C\n"
          "arms:\n"
          "  - name: a\n"
          "    core: unpatched\n"
          "    expect: {B: {output: diverged, rows_from: {A: 96, C: 96}}, C: {output: identical}}\n");
}

static void run_to_rest(const struct config *c, uint8_t *world, struct transition *enabled, uint32_t request)
{
    while (world_enabled(c, world, enabled) > 0) {
        struct actions actions = { 0 };

        world_apply(c, world, &enabled[0], &actions);
        cr_assert_not(world_reads_stale(c, world, request));
    }
}

Test(rule, a_writer_tag_ends_with_the_owner_of_the_memory)
{
    /* B's growth page was A's, and nobody writes it over the wire. */
    const struct request_input requests[] = { { 2, 1, 0, 0, 0 }, { 1, 2, 0, 0, 1 } };
    struct config_input in = {
        .page_tokens = 1, .chunk_tokens = 1, .layers = 1, .requests = requests, .requests_len = 2
    };
    struct transition *enabled;
    struct config *c;
    uint8_t *world;

    policy_set_core(&in.policy, (unsigned)core_by_name("unpatched"));
    policy_set_engine(&in.policy, (unsigned)engine_by_name("mooncake"));
    in.policy.engine[ENGINE_TIMEOUT] = 0;
    for (int side = 0; side < SIDE_COUNT; side++)
        in.sides[side] = (struct side_config){ .instances = 1,
                                               .ranks = 1,
                                               .pages = 2,
                                               .state_slots = 1,
                                               .aux_slots = 1,
                                               .request_slots = 1,
                                               .workers = side == SIDE_PREFILL,
                                               .allocator = ALLOCATOR_LOWEST,
                                               .slot_allocator = ALLOCATOR_LOWEST };
    c = config_new(&in);
    cr_assert_not_null(c);
    world = malloc(c->world_size);
    enabled = malloc(world_enabled_max(c) * sizeof *enabled);
    cr_assert(world && enabled);
    world_init(c, world);
    for (uint32_t r = 0; r < 2; r++) {
        world_submit(c, world, r, SIDE_PREFILL);
        world_submit(c, world, r, SIDE_DECODE);
        run_to_rest(c, world, enabled, r);
        cr_assert_eq(world_stage(c, world, r), DECODE_DONE);
    }
    free(enabled);
    free(world);
    config_free(c);
}

/* --- plays and their comparison --- */

static uint32_t position_calls;

/* Forgets what it was given: a token that differs changes no later one. */
static uint32_t positional_decode(const struct model *m, struct model_work *w, const struct model_seq *s, uint32_t pos,
                                  uint32_t token, float *logits)
{
    (void)m, (void)w, (void)s, (void)token, (void)logits;
    return (pos * 7 + (++position_calls == 3 * 63 + 20 || position_calls == 3 * 63 + 30)) % MODEL_VOCAB;
}

Test(rule, tokens_that_differ_are_counted_one_by_one)
{
    struct text_play p =
        play_with(HEAD "arms: [{name: a, core: unpatched, steps: [{submit: B}]}]\n", positional_decode);

    cr_assert(p.r->preflight.identical);
    cr_assert_eq(arm(&p, 0)->requests[B].output, OUTPUT_DIVERGED);
    cr_assert_eq(arm(&p, 0)->requests[B].first, 20);
    cr_assert_eq(arm(&p, 0)->requests[B].differing, 2);
    done(&p);
}

Test(rule, a_park_that_nobody_comes_to_is_void)
{
    struct text_play p = play_with(HEAD "arms:\n"
                                        "  - name: a\n"
                                        "    core: unpatched\n"
                                        "    steps:\n"
                                        "      - park: {point: hold.begin, request: B, as: nobody}\n"
                                        "      - submit: B\n"
                                        "      - release: nobody\n",
                                   NULL);

    cr_assert_eq(arm(&p, 0)->ended, ARM_VOID);
    cr_assert_not(p.r->as_expected);
    done(&p);
}

Test(rule, an_await_of_a_park_stays_satisfied_after_its_release)
{
    holds(HEAD "arms:\n"
               "  - name: a\n"
               "    core: unpatched\n"
               "    steps:\n"
               "      - park: {point: token, request: B, n: 5, as: victim}\n"
               "      - submit: B\n"
               "      - await: victim\n"
               "      - release: victim\n"
               "      - await: {point: token, request: B, n: 9}\n"
               "      - await: victim\n"
               "    expect: {B: {output: identical}}\n");
}
