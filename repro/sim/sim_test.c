/*
 * Whole plays: the published experiment and its negative controls, what prevents and what voids an arm, and that every
 * check of the runner fires when there is something to find.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "runner.h"

#define HEAD                                                             \
    "scenario: t\n"                                                      \
    "topology:\n"                                                        \
    "  prefill: {instances: 2, pages: 64}\n"                             \
    "  decode: {pages: 13, page_tokens: 16, state_slots: 1}\n"           \
    "requests:\n"                                                        \
    "  A: {prompt: {seed: 1, tokens: 96}, max_tokens: 64, prefill: 0}\n" \
    "  B: {prompt: {seed: 2, tokens: 96}, max_tokens: 64, prefill: 1}\n" \
    "watch: {request: B, tokens: 32}\n"

#define FAULT                                                 \
    "steps:\n"                                                \
    "  - park: {point: send.begin, request: A, as: writer}\n" \
    "  - submit: A\n"                                         \
    "  - await: writer\n"                                     \
    "  - abort: {request: A, at: decode}\n"

struct played_text {
    struct scenario *s;
    struct run_result *r;
};

static struct played_text play_with(const char *text, sim_decode_fn *decode, uint32_t repeat, FILE *trace)
{
    struct played_text p = { 0 };
    struct runner_options o = { .repeat = repeat, .decode = decode, .trace = trace };
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

static struct played_text play_text(const char *text)
{
    return play_with(text, NULL, 1, NULL);
}

static void done(struct played_text *p)
{
    run_result_free(p->r);
    scenario_free(p->s);
}

static const struct arm_result *arm(const struct played_text *p, uint32_t i)
{
    return &p->r->arms[i].results[0];
}

enum { A, B };

/* --- the experiment --- */

Test(play, the_published_experiment_as_shipped)
{
    struct scenario *s;
    struct run_result *r;
    struct runner_options o = { .repeat = 1 };
    const struct arm_result *a;

    cr_assert_eq(scenario_load("scenarios/seed.yaml", NULL, &s, stderr), 0);
    cr_assert_eq(runner_run(s, &o, &r, stderr), 0);
    cr_assert(r->as_expected);
    cr_assert_eq(r->arms_len, 3);
    a = &r->arms[0].results[0];
    cr_assert_eq(a->requests[B].output, OUTPUT_DIVERGED);
    cr_assert_eq(a->requests[B].first, 269);
    cr_assert_geq(a->requests[B].differing, 235);
    cr_assert(a->requests[B].silent);
    cr_assert_eq(a->requests[B].status, 200);
    cr_assert_eq(a->requests[B].shared_pages, 32);
    cr_assert(a->requests[B].shared_slot);
    cr_assert_eq(a->numbers[EXPECT_STALE_PAGES], 32);
    cr_assert_eq(a->numbers[EXPECT_STALE_SLOTS], 1);
    cr_assert_eq(a->numbers[EXPECT_WATCHED_TOKENS_CHANGED], 64);
    cr_assert_lt(a->requests[A].answered_us[SIDE_PREFILL], a->write_end_us, "A's prefill answers first");
    a = &r->arms[1].results[0];
    cr_assert_eq(a->requests[B].output, OUTPUT_IDENTICAL);
    cr_assert_eq(a->holds_len, 1);
    cr_assert_eq(a->holds[0].ended_by, HOLD_END_TIMER);
    cr_assert_eq(a->holds[0].held_us, 30000000);
    cr_assert_geq(a->requests[B].admitted_us, a->holds[0].began_us + 30000000, "B is not admitted meanwhile");
    a = &r->arms[2].results[0];
    cr_assert_eq(a->requests[B].first, 314);
    run_result_free(r);
    scenario_free(s);
}

/* --- negative controls --- */

Test(control, late_effects_before_the_victims_own_write_do_no_harm)
{
    struct played_text p =
        play_text(HEAD FAULT "arms:\n"
                             "  - name: a\n"
                             "    core: unpatched\n"
                             "    steps:\n"
                             "      - park: {point: send.begin, request: B, as: own}\n"
                             "      - submit: B\n"
                             "      - await: own\n"
                             "      - release: writer\n"
                             "      - await: {point: chunk.done, request: A}\n"
                             "      - release: own\n"
                             "    expect: {B: {output: identical}, memory: {stale_pages: 6, stale_slots: 1}}\n");

    cr_assert(p.r->as_expected, "%s", arm(&p, 0)->differences_len ? arm(&p, 0)->differences[0] : "");
    cr_assert_eq(arm(&p, 0)->numbers[EXPECT_WATCHED_TOKENS_CHANGED], 0, "the watch begins at the commit");
    done(&p);
}

Test(control, memory_that_is_never_shared_does_no_harm)
{
    struct played_text p =
        play_text("scenario: t\n"
                  "topology:\n"
                  "  prefill: {instances: 2, pages: 64}\n"
                  "  decode: {pages: 64, state_slots: 2}\n"
                  "requests:\n"
                  "  A: {prompt: {seed: 1, tokens: 96}, max_tokens: 64, prefill: 0}\n"
                  "  B: {prompt: {seed: 2, tokens: 96}, max_tokens: 64, prefill: 1}\n" FAULT "arms:\n"
                  "  - name: a\n"
                  "    core: unpatched\n"
                  "    steps:\n"
                  "      - park: {point: token, request: B, n: 20, as: victim}\n"
                  "      - submit: B\n"
                  "      - await: victim\n"
                  "      - release: writer\n"
                  "      - await: {point: chunk.done, request: A}\n"
                  "      - release: victim\n"
                  "    expect: {B: {output: identical}, memory: {stale_pages: 0, shared_pages: 0}}\n");

    cr_assert(p.r->as_expected, "%s", arm(&p, 0)->differences_len ? arm(&p, 0)->differences[0] : "");
    cr_assert_gt(arm(&p, 0)->numbers[EXPECT_STALE_FREE_BYTES], 0, "the write lands, in memory that nobody owns");
    done(&p);
}

Test(control, the_same_prefill_queues_the_victim_behind_the_parked_chunk)
{
    struct played_text p = play_text("scenario: t\n"
                                     "topology:\n"
                                     "  prefill: {instances: 1, pages: 64}\n"
                                     "  decode: {pages: 13, state_slots: 1}\n"
                                     "requests:\n"
                                     "  A: {prompt: {seed: 1, tokens: 96}, max_tokens: 64}\n"
                                     "  B: {prompt: {seed: 2, tokens: 96}, max_tokens: 64}\n" FAULT "arms:\n"
                                     "  - name: a\n"
                                     "    core: unpatched\n"
                                     "    steps:\n"
                                     "      - submit: B\n"
                                     "      - wait: 60s\n"
                                     "      - release: writer\n"
                                     "    expect: {B: {output: identical, status: 200}}\n");

    cr_assert(p.r->as_expected, "%s", arm(&p, 0)->differences_len ? arm(&p, 0)->differences[0] : "");
    cr_assert_gt(arm(&p, 0)->requests[B].answered_us[SIDE_DECODE], 60000000u, "B waits for A's chunk");
    done(&p);
}

/* --- ends --- */

Test(end, a_step_that_can_never_complete_prevents_the_arm_and_says_who_waits)
{
    struct played_text p = play_text(HEAD FAULT "arms:\n"
                                                "  - name: a\n"
                                                "    core: {base: deferred-35360, hold_ends_by_timer: false}\n"
                                                "    steps:\n"
                                                "      - submit: B\n"
                                                "      - await: {point: pages.alloc, request: B}\n"
                                                "      - release: writer\n"
                                                "    expect: {prevented: {step: 6}, B: {output: not-admitted}}\n");
    const struct arm_result *a = arm(&p, 0);

    cr_assert_eq(a->ended, ARM_PREVENTED);
    cr_assert_eq(a->ended_step, 6);
    cr_assert(p.r->as_expected, "%s", a->differences_len ? a->differences[0] : "");
    cr_assert_not_null(strstr(a->why, "everything is idle or parked"), "%s", a->why);
    cr_assert_not_null(strstr(a->why, "request A: aborted, its memory is held, 6 pages"), "%s", a->why);
    cr_assert_not_null(strstr(a->why, "request B: waits for memory on decode"), "%s", a->why);
    cr_assert_not_null(strstr(a->why, "park writer at send.begin: holds"), "%s", a->why);
    done(&p);
}

Test(end, a_prevented_arm_that_nobody_expects_is_a_difference)
{
    struct played_text p = play_text(HEAD "arms:\n"
                                          "  - name: a\n"
                                          "    core: unpatched\n"
                                          "    steps:\n"
                                          "      - submit: B\n"
                                          "      - await: {point: hold.begin, request: B}\n");

    cr_assert_eq(arm(&p, 0)->ended, ARM_PREVENTED);
    cr_assert_not(p.r->as_expected);
    done(&p);
}

Test(end, within_is_scenario_time)
{
    struct played_text p = play_text(HEAD "arms:\n"
                                          "  - name: a\n"
                                          "    core: unpatched\n"
                                          "    steps:\n"
                                          "      - submit: B\n"
                                          "      - await: {point: token, request: B, n: 60, within: 100ms}\n");

    cr_assert_eq(arm(&p, 0)->ended, ARM_PREVENTED);
    cr_assert_eq(arm(&p, 0)->ended_us, 100000);
    cr_assert_not_null(strstr(arm(&p, 0)->why, "`within`"));
    done(&p);
}

Test(end, a_park_that_is_never_released_is_void_unless_declared)
{
    static const char *const ends[] = { "", "    end: {parked: [writer]}\n" };

    for (int i = 0; i < 2; i++) {
        char text[2048];
        struct played_text p;

        snprintf(text, sizeof text, "%s%s", HEAD FAULT "arms:\n  - name: a\n    core: unpatched\n", ends[i]);
        p = play_text(text);
        cr_assert_eq(arm(&p, 0)->ended, i == 0 ? ARM_VOID : ARM_QUIESCENT);
        cr_assert_eq(p.r->as_expected, i == 1);
        done(&p);
    }
}

Test(end, an_early_release_is_remembered)
{
    struct played_text p = play_text(HEAD "arms:\n"
                                          "  - name: a\n"
                                          "    core: unpatched\n"
                                          "    steps:\n"
                                          "      - park: {point: token, request: B, n: 10, as: victim}\n"
                                          "      - submit: B\n"
                                          "      - release: victim\n"
                                          "    expect: {B: {output: identical}}\n");

    cr_assert(p.r->as_expected);
    done(&p);
}

/* --- what the machines keep of the real system --- */

Test(machine, the_drain_ack_is_lost_with_the_cleared_room_and_the_timer_decides)
{
    /* The write ends at once after the release, well inside the hold, and still nobody acks: the target is gone. */
    struct played_text p =
        play_text(HEAD FAULT "arms:\n"
                             "  - name: a\n"
                             "    core: deferred-35360\n"
                             "    steps: [{await: {point: room.clear, request: A}}, {release: writer}]\n"
                             "    expect: {holds: {A: {ended_by: timer, held: 30s}}}\n"
                             "  - name: the target kept\n"
                             "    core: {base: deferred-35360, clear_keeps_target: while_outstanding}\n"
                             "    steps: [{await: {point: room.clear, request: A}}, {release: writer}]\n"
                             "    expect: {holds: {A: {ended_by: ack, held: {max: 100ms}}}}\n");

    cr_assert(p.r->as_expected, "%s",
              arm(&p, 0)->differences_len   ? arm(&p, 0)->differences[0]
              : arm(&p, 1)->differences_len ? arm(&p, 1)->differences[0]
                                            : "");
    done(&p);
}

Test(machine, a_write_parked_on_the_wire_times_out_and_lands_all_the_same)
{
    struct played_text p = play_text(HEAD "steps:\n"
                                          "  - park: {point: kv.fragment, request: A, as: wire}\n"
                                          "  - submit: A\n"
                                          "arms:\n"
                                          "  - name: a\n"
                                          "    core: unpatched\n"
                                          "    steps:\n"
                                          "      - park: {point: token, request: B, n: 20, as: victim}\n"
                                          "      - await: {point: kv.complete, request: A, status: error}\n"
                                          "      - submit: B\n"
                                          "      - await: {park: victim, within: 60s}\n"
                                          "      - release: wire\n"
                                          "      - await: {point: kv.landed, request: A}\n"
                                          "      - release: victim\n"
                                          "    expect:\n"
                                          "      A: {status: 500, finish_reason: error}\n"
                                          "      B: {output: diverged, silent: true}\n"
                                          "      memory: {stale_pages: 6, stale_slots: 0}\n");

    cr_assert(p.r->as_expected, "%s", arm(&p, 0)->differences_len ? arm(&p, 0)->differences[0] : "");
    done(&p);
}

/* One channel is first in, first out, unless a fault lets a message overtake. */
Test(machine, an_abort_waits_behind_late_metadata_unless_it_overtakes)
{
    struct played_text p = play_text(HEAD "faults: [{message: metadata, request: A, do: delay, by: 1s}]\n"
                                          "steps:\n"
                                          "  - submit: A\n"
                                          "  - await: {point: metadata.send, request: A}\n"
                                          "  - abort: {request: A, at: decode}\n"
                                          "  - await: {point: abort.receive, request: A, within: 100ms}\n"
                                          "arms:\n"
                                          "  - {name: in order, core: unpatched, expect: {prevented: {step: 4}}}\n"
                                          "  - name: overtaken\n"
                                          "    core: unpatched\n"
                                          "    faults: [{message: abort, request: A, do: overtake}]\n"
                                          "    expect: {A: {finish_reason: abort}}\n");

    cr_assert(p.r->as_expected, "%s",
              arm(&p, 0)->differences_len   ? arm(&p, 0)->differences[0]
              : arm(&p, 1)->differences_len ? arm(&p, 1)->differences[0]
                                            : arm(&p, 1)->why);
    done(&p);
}

Test(machine, chunks_that_were_not_dequeued_are_skipped_after_an_abort)
{
    struct played_text p = play_text("scenario: t\n"
                                     "topology:\n"
                                     "  prefill: {instances: 2, pages: 64, chunk_tokens: 32}\n"
                                     "  decode: {pages: 13, state_slots: 1}\n"
                                     "requests:\n"
                                     "  A: {prompt: {seed: 1, tokens: 96}, max_tokens: 64, prefill: 0}\n"
                                     "  B: {prompt: {seed: 2, tokens: 96}, max_tokens: 64, prefill: 1}\n"
                                     "steps:\n"
                                     "  - park: {point: send.begin, request: A, chunk: 1, as: writer}\n"
                                     "  - submit: A\n"
                                     "  - await: writer\n"
                                     "  - abort: {request: A, at: decode}\n"
                                     "arms:\n"
                                     "  - name: a\n"
                                     "    core: unpatched\n"
                                     "    steps:\n"
                                     "      - park: {point: token, request: B, n: 20, as: victim}\n"
                                     "      - submit: B\n"
                                     "      - await: victim\n"
                                     "      - release: writer\n"
                                     "      - await: {point: chunk.done, request: A, chunk: 2, status: skip}\n"
                                     "      - release: victim\n"
                                     "    expect: {memory: {stale_pages: 2, stale_slots: 0}, B: {output: diverged}}\n");

    cr_assert(p.r->as_expected, "%s%s", arm(&p, 0)->why ? arm(&p, 0)->why : "",
              arm(&p, 0)->differences_len ? arm(&p, 0)->differences[0] : "");
    done(&p);
}

Test(machine, cutting_a_prompt_into_chunks_changes_no_token)
{
    static const char *const chunks[] = { "16", "48", "96" };
    uint64_t digest = 0;

    for (int i = 0; i < 3; i++) {
        char text[1024];
        struct played_text p;

        snprintf(text, sizeof text,
                 "scenario: t\n"
                 "topology:\n"
                 "  prefill: {pages: 64, chunk_tokens: %s}\n"
                 "  decode: {pages: 32}\n"
                 "requests: {A: {prompt: {seed: 1, tokens: 90}, max_tokens: 64}}\n"
                 "arms:\n"
                 "  - {name: a, core: unpatched, steps: [{submit: A}], expect: {A: {output: identical}}}\n",
                 chunks[i]);
        p = play_text(text);
        cr_assert(p.r->as_expected);
        cr_assert(i == 0 || digest == arm(&p, 0)->requests[A].output_digest);
        digest = arm(&p, 0)->requests[A].output_digest;
        done(&p);
    }
}

/* --- the runner's own checks --- */

static uint32_t calls;

static uint32_t forgetful_decode(const struct model *m, struct model_work *w, const struct model_seq *s, uint32_t pos,
                                 uint32_t token, float *logits)
{
    uint32_t next = model_decode(m, w, s, pos, token, logits);

    return ++calls == 100 ? next ^ 1u : next;
}

Test(preflight, stops_the_run_when_the_engine_is_not_deterministic)
{
    struct played_text p = play_with(HEAD FAULT "arms: [{name: a, core: unpatched, end: {parked: [writer]}}]\n",
                                     forgetful_decode, 1, NULL);

    cr_assert_not(p.r->preflight.identical);
    cr_assert_eq(p.r->arms_len, 0, "no arm is played");
    cr_assert_not(p.r->as_expected);
    cr_assert_not_null(strstr(p.r->preflight.why, "not deterministic"));
    done(&p);
}

static uint32_t scribbling_decode(const struct model *m, struct model_work *w, const struct model_seq *s, uint32_t pos,
                                  uint32_t token, float *logits)
{
    /* Some defect of decode itself writes into a prompt row. */
    s->kv.layer[1][((uint64_t)s->pages[1] * s->kv.page_tokens + 3) * MODEL_ROW_FLOATS] += 1.0f;
    return model_decode(m, w, s, pos, token, logits);
}

Test(watch, sees_a_change_that_did_not_come_over_the_wire)
{
    struct played_text p =
        play_with(HEAD "arms: [{name: a, core: unpatched, steps: [{submit: B}], expect: {B: {output: identical}}}]\n",
                  scribbling_decode, 1, NULL);

    cr_assert_eq(arm(&p, 0)->numbers[EXPECT_WATCHED_TOKENS_CHANGED], 1, "token 19, and only that");
    cr_assert_eq(arm(&p, 0)->numbers[EXPECT_STALE_BYTES], 0);
    done(&p);
}

Test(runner, repetitions_are_compared)
{
    struct played_text p =
        play_with(HEAD "arms: [{name: a, core: unpatched, steps: [{submit: B}], expect: {B: {output: identical}}}]\n",
                  NULL, 5, NULL);

    cr_assert_eq(p.r->arms[0].results_len, 5);
    cr_assert(p.r->arms[0].repeats_identical);
    done(&p);
    calls = 0; /* pre-flight: 3 x 63 decode steps; the 100th call of each process is wrong, so shift it into an arm */
    calls = UINT32_MAX - 3 * 63 + 1;
    p = play_with(HEAD "arms: [{name: a, core: unpatched, steps: [{submit: B}]}]\n", forgetful_decode, 5, NULL);
    cr_assert(p.r->preflight.identical);
    cr_assert_not(p.r->arms[0].repeats_identical);
    cr_assert_not(p.r->as_expected);
    done(&p);
}

Test(expect, every_kind_of_difference_is_told)
{
    struct played_text p =
        play_text(HEAD FAULT "arms:\n"
                             "  - name: a\n"
                             "    core: deferred-35360\n"
                             "    steps: [{submit: B}, {await: {point: hold.begin, request: A}}, {release: writer}]\n"
                             "    expect:\n"
                             "      B: {output: failed, tokens: 3, status: 500, finish_reason: abort, silent: true}\n"
                             "      memory: {stale_pages: 1, stale_slots: 1, stale_free_bytes: {min: 5}}\n"
                             "      liveness: {pinned_pages: 4}\n"
                             "      holds: {A: {ended_by: ack, held: {max: 1s}}}\n"
                             "      order: [{point: pages.alloc, request: B}, {point: pages.free, request: A}]\n");
    static const char *const told[] = { "request B: output: expected failed, got identical",
                                        "request B: tokens: expected 3, got 64",
                                        "request B: HTTP status: expected 500, got 200",
                                        "request B: finish_reason: expected abort, got length",
                                        "request B: silent: expected true, got false",
                                        "stale_pages: expected 1, got 0",
                                        "stale_slots: expected 1, got 0",
                                        "stale_free_bytes: expected at least 5, got 0",
                                        "pinned_pages: expected 4, got 0",
                                        "hold of A: expected to be ended by ack, got timer",
                                        "hold of A: held, in us: expected 0 to 1000000, got 30000000",
                                        "order: pages.free came before pages.alloc" };
    const struct arm_result *a = arm(&p, 0);

    cr_assert_eq(a->differences_len, sizeof told / sizeof told[0]);
    for (uint32_t i = 0; i < a->differences_len; i++)
        cr_assert_str_eq(a->differences[i], told[i]);
    cr_assert_not(a->as_expected);
    done(&p);
}

Test(trace, is_a_timeline_that_can_be_read)
{
    char *text = NULL;
    size_t len;
    FILE *f = open_memstream(&text, &len);
    struct played_text p =
        play_with(HEAD FAULT "arms: [{name: a, core: unpatched, end: {parked: [writer]}}]\n", NULL, 1, f);
    static const char *const lines[] = {
        "# t: a (unpatched), play 1 of 1\n",
        "     0.000200  decode 0.0   scheduler  pages.alloc      A\n",
        "  prefill 0.0  worker 0   send.begin       A chunk 0  [parked]\n",
        "  prefill 0.0  receiver   ack.send         A received\n",
        "  prefill 0.0  scheduler  client.answer    A abort\n",
    };
    const char *at;

    fclose(f);
    at = text;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        const char *found = strstr(at, lines[i]);

        cr_assert_not_null(found, "line %zu, '%s', does not follow in\n%s", i, lines[i], text);
        at = found + 1;
    }
    free(text);
    done(&p);
}
