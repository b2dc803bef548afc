/* The table and the JSON from results made by hand: every kind of end, and what must hold for all of them. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../protocol/machine.h"
#include "compare_json.h"
#include "gate.h"
#include "json.h"
#include "matrix.h"
#include "recorded.h"
#include "shown.h"
#include "table.h"
#include "text.h"

static const char scenario_text[] = "scenario: stall\n"
                                    "about: A's write stalls, A is aborted, B gets A's memory.\n"
                                    "topology:\n"
                                    "  prefill: {instances: 2}\n"
                                    "  decode: {state_slots: 1}\n"
                                    "requests:\n"
                                    "  A: {prompt: {seed: 1, tokens: 512}, max_tokens: 512, prefill: 0}\n"
                                    "  B: {prompt: {seed: 2, tokens: 512}, max_tokens: 512, prefill: 1}\n"
                                    "watch: {request: B, tokens: 64}\n"
                                    "steps:\n"
                                    "  - park: {point: send.begin, request: A, as: writer}\n"
                                    "  - submit: A\n"
                                    "  - await: writer\n"
                                    "  - abort: {request: A, at: decode}\n"
                                    "arms:\n"
                                    "  - name: freed at once\n"
                                    "    core: unpatched\n"
                                    "    steps:\n"
                                    "      - park: {point: token, request: B, n: 268, as: victim}\n"
                                    "      - submit: B\n"
                                    "      - await: victim\n"
                                    "      - release: writer\n"
                                    "      - await: {point: chunk.done, request: A}\n"
                                    "      - release: victim\n"
                                    "    expect:\n"
                                    "      B: {output: diverged}\n"
                                    "  - name: held\n"
                                    "    core: deferred-35360\n"
                                    "    steps:\n"
                                    "      - submit: B\n"
                                    "      - await: {point: hold.begin, request: A}\n"
                                    "      - wait: 5s\n"
                                    "      - release: writer\n"
                                    "    expect:\n"
                                    "      B: {output: identical}\n";

enum { A, B, REQUESTS, PLAYS_MAX = 100 };

static struct scenario *scenario;
static struct request_result requests[2][PLAYS_MAX][REQUESTS];
static struct arm_result results[2][PLAYS_MAX];
static struct hold_result hold;
static struct arm_summary arms[2];
static struct run_result run;
static const struct provenance built = { "0123abcd", 1, "cc 1.0", "-O2" };

/* Arm 0 diverges silently, arm 1 is harmless: as the seed's first two. */
static void make(void)
{
    cr_assert_eq(scenario_parse("stall.yaml", scenario_text, strlen(scenario_text), NULL, &scenario, stderr), 0);
    hold = (struct hold_result){ .request = A, .ended_by = HOLD_END_TIMER, .began_us = 30000, .held_us = 30000000 };
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < PLAYS_MAX; k++) {
            requests[i][k][A] = (struct request_result){
                .submitted = true,
                .admitted = true,
                .output = -1,
                .status = 200,
                .finish_reason = FINISH_ABORT,
                .answered_us = { 31000, 30500 },
                .prefill_status = 500,
                .admitted_us = 10000,
                .shared_with = -1,
                .foreign_state = -1,
                .committed_us = UINT64_MAX,
                .freed_us = i == 0 ? 30600 : 30030000,
                .write_end_us = i == 0 ? 2731000 : 5031000,
            };
            requests[i][k][B] = (struct request_result){
                .submitted = true,
                .admitted = true,
                .output = i == 0 ? OUTPUT_DIVERGED : OUTPUT_IDENTICAL,
                .first = 269,
                .differing = i == 0 ? 243 : 0,
                .tokens = 512,
                .status = 200,
                .finish_reason = FINISH_LENGTH,
                .silent = i == 0,
                .output_digest = 0xabcdef,
                .admitted_us = 40000,
                .answered_us = { UINT64_MAX, 5200000 },
                .waited_us = 10000,
                .committed_us = 60000,
                .freed_us = 5190000,
                .shared_pages = 32,
                .shared_slot = true,
                .shared_with = A,
                .foreign_state = -1,
                .write_end_us = 50000,
            };
            results[i][k] = (struct arm_result){
                .arm = &scenario->arms[i],
                .requests = requests[i][k],
                .as_expected = true,
                .trace_digest = 7,
                .first_change_seen_us = INT64_MIN,
                .write_end_us = UINT64_MAX,
            };
        }
        arms[i] = (struct arm_summary){ .arm = &scenario->arms[i],
                                        .results = results[i],
                                        .results_len = 1,
                                        .as_expected = true,
                                        .repeats_identical = true };
    }
    arms[0].diverged = 1;
    results[0][0].numbers[EXPECT_STALE_PAGES] = 32;
    results[0][0].numbers[EXPECT_STALE_SLOTS] = 1;
    results[0][0].numbers[EXPECT_STALE_BYTES] = 286720;
    results[0][0].numbers[EXPECT_WATCHED_TOKENS_CHANGED] = 64;
    results[0][0].first_change_seen_us = -1550;
    results[0][0].write_end_us = 2731000;
    results[1][0].holds = &hold;
    results[1][0].holds_len = 1;
    run = (struct run_result){
        .scenario = scenario,
        .preflight = { .request = A, .runs = 3, .prefills = 2, .identical = true, .transfer_exact = true },
        .arms = arms,
        .arms_len = 2,
        .model_digest = 0x12,
        .as_expected = true,
    };
}

static void drop(void)
{
    scenario_free(scenario);
}

TestSuite(report, .init = make, .fini = drop);

static void check_lines(const char *s)
{
    for (const char *line = s; *line;) {
        size_t len = strcspn(line, "\n");
        /* A command is there to be copied and is not broken. */
        if (strncmp(line, "      ", 6) != 0 || line[6] == ' ')
            cr_assert_leq(len, TEXT_COLUMNS, "%zu columns: %.*s", len, (int)len, line);
        cr_assert(len == 0 || line[len - 1] != ' ', "blank at the end: %.*s", (int)len, line);
        for (size_t i = 0; i < len; i++)
            cr_assert(line[i] >= 0x20 && line[i] < 0x7f, "byte %d in: %.*s", line[i], (int)len, line);
        line += len + (line[len] == '\n');
    }
}

/* The table; `words` has its blanks and line breaks squeezed, so that tests don't depend on where a line breaks. */
static char *table_with(const struct table_options *options, char **words)
{
    char *s = NULL;
    size_t len = 0, to = 0;
    FILE *f = open_memstream(&s, &len);

    table_print(f, &run, options);
    fclose(f);
    if (words) {
        *words = malloc(len + 1);
        for (size_t i = 0; i < len; i++) {
            char c = s[i] == '\n' ? ' ' : s[i];
            if (c != ' ' || to == 0 || (*words)[to - 1] != ' ')
                (*words)[to++] = c;
        }
        (*words)[to] = '\0';
    }
    return s;
}

static char *table(void)
{
    static const struct table_options plain = { .program = "kvrepro" };
    char *words, *s = table_with(&plain, &words);

    check_lines(s);
    free(s);
    return words;
}

#define has(s, piece)   cr_assert_not_null(strstr((s), (piece)), "no '%s' in: %s", (piece), (s))
#define hasnt(s, piece) cr_assert_null(strstr((s), (piece)), "'%s' in: %s", (piece), (s))

Test(report, table_tells_the_whole_story)
{
    char *s = table();

    has(s, "stall: A's write stalls, A is aborted, B gets A's memory.");
    has(s, "3 runs over 2 prefills: identical; an ordinary transfer arrived byte for byte");
    has(s, "[1] freed at once B SILENTLY CORRUPTED");
    has(s, "freed at the abort");
    has(s, "given at 40 ms, after 10 ms of waiting: 32 pages and the state slot that A had before");
    has(s, "parked at send.begin, released after token 268 of B (park victim at token n=268): the scenario's choice");
    has(s, "its KV write ended at 2.731 s; it HIT MEMORY THAT B OWNED by then: 32 pages, 1 state slot; 286,720 bytes");
    has(s,
        "the rows of all 64 watched tokens (the head of B's prompt) CHANGED; first seen 1.55 ms before the write's end");
    has(s, "decode answered abort at 30.5 ms (HTTP 200)");
    has(s, "prefill answered at 31 ms (HTTP 500), 2.7 s BEFORE its write ended");
    has(s, "HTTP 200, finish_reason=length; output DIVERGED at token 269: 243 of 512 tokens differ");
    has(s, "SILENT corruption");
    has(s, "[2] held no harm");
    has(s, "held instead of freed at 30 ms; the hold ended by its timer, after 30 s");
    has(s, "released after A passed hold.begin and 5 s more: the scenario's choice");
    has(s, "its KV write ended at 5.031 s, inside the hold: nothing landed in memory that was no longer A's");
    has(s, "output identical to its baseline, all 512 tokens");
    has(s, "[1] unpatched freed at abort B: DIVERGED at 269, 243/512, silent yes");
    has(s, "[2] deferred-35360 held 30 s, by timer B: identical yes");
    has(s, "unpatched LETS THE CORRUPTION HAPPEN in arm 1. Known hole: a chunk that its worker has already taken");
    has(s, "deferred-35360 does no harm in arm 2");
    has(s, "every arm is as its scenario expects");
    has(s, "kvrepro explain unpatched");
    has(s, "kvrepro run --trace - --arm 'freed at once' stall.yaml");
    free(s);
}

Test(report, published_figures_stand_beside_ours)
{
    struct arm *arm = (struct arm *)arms[0].arm;

    arm->published = (struct published){ true, 269, 241, 512, false, "measured once" };
    char *s = table();
    has(s, "diverged at token 269, 241 of 512 tokens differed (here: 269, 243 of 512) measured once");
    free(s);
    arm->published = (struct published){ .given = true, .identical = true };
    s = table();
    has(s, "published output identical (here: 269, 243 of 512)");
    free(s);
}

Test(report, a_stale_write_without_divergence_is_not_called_harmless)
{
    requests[0][0][B].output = OUTPUT_IDENTICAL;
    arms[0].diverged = 0;
    char *s = table();
    has(s, "[1] freed at once STALE WRITE, but no output changed");
    has(s, "B: identical, but a stale write");
    has(s, "lets a stale write land that changed no output in arm 1");
    free(s);
}

Test(report, a_late_write_into_free_memory_is_told_apart)
{
    memset(results[0][0].numbers, 0, sizeof results[0][0].numbers);
    results[0][0].numbers[EXPECT_STALE_FREE_BYTES] = 4096;
    requests[0][0][B].output = OUTPUT_IDENTICAL;
    arms[0].diverged = 0;
    char *s = table();
    has(s, "4,096 bytes landed in memory that nobody owned");
    hasnt(s, "HIT MEMORY");
    has(s, "[1] freed at once no harm");
    free(s);
}

Test(report, divergence_with_an_error_is_not_silent)
{
    requests[0][0][B].silent = false;
    requests[0][0][B].status = 500;
    requests[0][0][B].finish_reason = FINISH_ERROR;
    char *s = table();
    has(s, "[1] freed at once B CORRUPTED");
    has(s, "not silent");
    hasnt(s, "SILENT");
    free(s);
}

Test(report, prevented_and_void_say_why)
{
    results[0][0].ended = ARM_PREVENTED;
    results[0][0].ended_step = 7;
    results[0][0].why = "step 7 awaits park victim\nA's writer is parked at send.begin";
    requests[0][0][B] = (struct request_result){
        .submitted = true, .output = OUTPUT_NOT_ADMITTED, .shared_with = -1, .foreign_state = -1
    };
    memset(results[0][0].numbers, 0, sizeof results[0][0].numbers);
    results[0][0].numbers[EXPECT_PINNED_PAGES] = 32;
    arms[0].diverged = 0;
    results[1][0].ended = ARM_VOID;
    results[1][0].why = "park writer was still closed at the end";
    results[1][0].as_expected = arms[1].as_expected = run.as_expected = false;
    char *s = table();
    has(s, "[1] freed at once PREVENTED at step 7");
    has(s, "prevented step 7 awaits park victim A's writer is parked at send.begin");
    has(s, "NONE: decode never admitted it");
    has(s, "no answer; NOT ADMITTED: it got no memory");
    has(s, "still held decode still holds 32 pages when the arm ends");
    hasnt(s, "PINNED");
    has(s, "does not let the scenario's order happen in arm 1");
    has(s, "[2] held VOID");
    has(s, "void, because park writer was still closed at the end");
    has(s, "never counts as passed");
    has(s, "1 of 2 arms is NOT as the scenario expects: [2]");
    free(s);
}

Test(report, every_difference_has_a_line)
{
    static char first[] = "B: output: expected identical, got diverged";
    static char second[] = "memory: stale_pages: expected 0, got 32";
    char *both[] = { first, second };
    char *s, *quiet = NULL;
    size_t quiet_len;

    results[0][0].differences = both;
    results[0][0].differences_len = 2;
    results[0][0].as_expected = arms[0].as_expected = run.as_expected = false;
    s = table();
    has(s, "as expected NO - B: output: expected identical, got diverged - memory: stale_pages: expected 0, got 32");
    has(s, "1 of 2 arms is NOT as the scenario expects: [1]");
    has(s, "change the arm's `expect:` stall.yaml:16");
    free(s);
    FILE *f = open_memstream(&quiet, &quiet_len);
    table_print_differences(f, &run);
    fclose(f);
    cr_assert_str_eq(quiet, "stall: freed at once: B: output: expected identical, got diverged\n"
                            "stall: freed at once: memory: stale_pages: expected 0, got 32\n");
    free(quiet);
}

Test(report, failed_preflight_without_arms)
{
    run.preflight.identical = false;
    run.preflight.why = "run 2 differs from run 1 at token 3";
    run.as_expected = false;
    for (int i = 0; i < 2; i++) {
        arms[i].results_len = 0;
        arms[i].diverged = 0;
        arms[i].as_expected = false;
    }
    char *s = table();
    has(s, "NOT IDENTICAL");
    has(s, "run 2 differs from run 1 at token 3");
    has(s, "[1] freed at once NOT PLAYED");
    has(s, "NOT as the scenario expects");
    free(s);
    run.arms_len = 0;
    s = table();
    has(s, "not as expected: the pre-flight failed");
    free(s);
    run.arms_len = 2;
    char *json = json_report(&run, &built);
    json_t *o = json_loads(json, 0, NULL);
    cr_assert_not_null(o);
    cr_assert(json_is_null(json_object_get(json_array_get(json_object_get(o, "arms"), 0), "ended")));
    json_decref(o);
    free(json);
}

Test(report, phases_show_the_distribution)
{
    ((struct arm *)arms[0].arm)->phases = PLAYS_MAX;
    arms[0].results_len = PLAYS_MAX;
    arms[0].diverged = 97;
    for (uint32_t k = 0; k < PLAYS_MAX; k++) {
        results[0][k].phase = k;
        requests[0][k][B].output = k < 3 ? OUTPUT_IDENTICAL : OUTPUT_DIVERGED;
    }
    arms[0].lag_counts[0] = 95;
    arms[0].lag_counts[1] = 2;
    arms[0].first = (struct spread){ 1, 250, 511 };
    arms[0].differing = (struct spread){ 1, 243, 500 };
    arms[0].watched = (struct spread){ 0, 64, 64 };
    char *s = table();
    has(s, "B SILENTLY CORRUPTED in 97 of 100 plays");
    has(s, "plays 100: 100 phases of the release diverged in 97 of 100");
    has(s, "at token 1 / 250 / 511 (least / median / most)");
    has(s, "tokens wrong 1 / 243 / 500");
    has(s, "rows changed 0 / 64 / 64");
    has(s, "0 tokens later 95 ########################################");
    has(s, "1 token later 2 #");
    has(s, "about 1 of 50 seeds");
    has(s, "[1] unpatched freed at abort DIVERGED in 97 of 100 plays yes");
    has(s, "shown play 4, phase 4 of 100, the first that diverged");
    free(s);
}

Test(report, repetitions_tell_whether_they_are_alike)
{
    arms[1].results_len = 3;
    char *s = table();
    has(s, "plays 3: the same arm 3 times, every repetition with the same trace and output diverged in 0 of 3");
    free(s);
    arms[1].repeats_identical = arms[1].as_expected = run.as_expected = false;
    s = table();
    has(s, "the repetitions are NOT ALL ALIKE");
    has(s, "as expected NO each play alone is, but the repetitions are not all alike");
    free(s);
}

Test(report, a_hold_says_how_it_ended)
{
    static const char *const words[] = { "ended by the drain ack, after", "ended by its timer, after",
                                         "ended by a fence, after 30 s: no write that was posted before can land",
                                         "the hold NEVER ended (30 s until the end of the arm)" };
    for (int end = HOLD_END_ACK; end <= HOLD_END_NEVER; end++) {
        hold.ended_by = end;
        char *s = table();
        has(s, words[end]);
        free(s);
    }
}

/* Whether the arm's `end:` names its first park. */
static void park_at_the_end(const struct arm_summary *a, bool closed)
{
    cr_assert_gt(a->arm->parks_len, 0);
    a->arm->end_parked[0] = closed;
}

/* Arm 0 without harm: nothing stale, B identical. */
static void make_harmless(void)
{
    memset(results[0][0].numbers, 0, sizeof results[0][0].numbers);
    requests[0][0][B].output = OUTPUT_IDENTICAL;
    requests[0][0][B].silent = false;
    arms[0].diverged = 0;
}

Test(report, memory_is_freed_at_the_abort_only_if_the_abort_freed_it)
{
    struct request_result *a = &requests[0][0][A];
    char *s = table();

    has(s, "A's memory freed at the abort, whatever");
    free(s);
    /* Aborted after it had finished. */
    make_harmless();
    *a = requests[0][0][B];
    a->shared_with = B;
    s = table();
    hasnt(s, "freed at the abort");
    hasnt(s, "freed at once [");
    has(s, "A's memory given at 40 ms, after 10 ms of waiting: 32 pages and the state slot that B had before not freed "
           "by the abort: the request finished, and it was freed at 5.19 s");
    has(s, "[1] unpatched freed when finished");
    free(s);
    /* Aborted while it ran. */
    a->finish_reason = FINISH_ABORT;
    a->status = 500;
    a->output = OUTPUT_FAILED;
    s = table();
    hasnt(s, "freed at the abort");
    has(s, "A's memory its transfer was committed at 60 ms; the abort stopped it while it ran, and it was freed at "
           "5.19 s");
    has(s, "[1] unpatched freed when stopped");
    free(s);
    /* Decode told of a failure and not of the abort. */
    a->finish_reason = FINISH_ERROR;
    a->committed_us = UINT64_MAX;
    s = table();
    has(s, "A's memory not held: the request ended in an error, and it was freed at 5.19 s");
    has(s, "[1] unpatched freed on an error");
    free(s);
    /* Freed, and the answer parked. */
    a->finish_reason = FINISH_NONE;
    a->status = 0;
    s = table();
    has(s, "A's memory freed at 5.19 s");
    free(s);
    /* Aborted at the prefill only, and decode goes on waiting. */
    a->freed_us = UINT64_MAX;
    a->answered_us[SIDE_DECODE] = UINT64_MAX;
    results[0][0].numbers[EXPECT_PINNED_PAGES] = 32;
    s = table();
    has(s, "[1] freed at once PINS 32 pages for ever");
    has(s, "A's memory NEVER freed");
    has(s, "A's client decode never answered");
    has(s, "[1] unpatched not freed B: identical");
    has(s, "unpatched pins 32 pages for ever in arm 1");
    free(s);
    park_at_the_end(&arms[0], true);
    s = table();
    has(s, "A's memory not freed when the arm ended");
    has(s, "A's client decode had not answered when the arm ended");
    has(s, "[1] unpatched not freed at the end B: identical");
    hasnt(s, "pins 32");
    hasnt(s, "NEVER");
    free(s);
}

Test(report, an_aborted_request_counts_unless_the_abort_cut_it_off)
{
    struct request_result *a = &requests[0][0][A];

    make_harmless();
    arms[0].diverged = 1;
    *a = requests[0][0][B];
    a->output = OUTPUT_DIVERGED;
    a->silent = true;
    ((struct arm *)arms[0].arm)->published = (struct published){ true, 269, 241, 512, false, NULL };
    char *s = table();
    has(s, "A SILENTLY CORRUPTED");
    has(s, "A's client decode answered length at 5.2 s (HTTP 200) prefill gave no answer output DIVERGED at token 269: "
           "243 of 512 tokens differ SILENT corruption");
    has(s, "[1] unpatched freed when finished A: DIVERGED at 269, 243/512, silent yes");
    has(s, "(here: 269, 243 of 512)");
    free(s);
    /* Of two that fared alike, the one that nobody aborted. */
    a->output = OUTPUT_IDENTICAL;
    arms[0].diverged = 0;
    s = table();
    has(s, "[1] unpatched freed when finished B: identical yes");
    free(s);
    requests[0][0][B].submitted = false;
    s = table();
    has(s, "[1] unpatched freed when finished A: identical yes");
    free(s);
    for (int output = OUTPUT_FAILED; output <= OUTPUT_NOT_ADMITTED; output++) {
        a->output = output;
        s = table();
        has(s, "[1] unpatched freed when finished - yes");
        free(s);
    }
}

Test(report, unanswered_is_not_failed)
{
    struct request_result *b = &requests[0][0][B];

    make_harmless();
    b->output = OUTPUT_FAILED;
    b->finish_reason = FINISH_ERROR;
    b->status = 500;
    b->tokens = 6;
    char *s = table();
    has(s, "[1] freed at once B FAILED, not silently");
    has(s, "HTTP 500, finish_reason=error; the request FAILED after 6 tokens");
    has(s, "B: failed, HTTP 500");
    has(s, "unpatched makes a request fail, which is not silent, in arm 1");
    free(s);
    b->finish_reason = FINISH_NONE;
    b->status = 0;
    b->answered_us[SIDE_DECODE] = UINT64_MAX;
    s = table();
    hasnt(s, "FAILED");
    has(s, "[1] freed at once B NEVER ANSWERED");
    has(s, "B's client NEVER ANSWERED, after 6 tokens");
    has(s, "B: never answered");
    has(s, "unpatched never answers a request in arm 1");
    free(s);
    park_at_the_end(&arms[0], true);
    s = table();
    hasnt(s, "NEVER");
    has(s, "[1] freed at once B NOT ANSWERED when the arm ended");
    has(s, "B's client not answered when the arm ended, after 6 tokens");
    has(s, "B: not answered at the end");
    has(s, "unpatched has a request still unanswered at the end in arm 1");
    free(s);
    park_at_the_end(&arms[0], false);
    results[0][0].ended = ARM_VOID;
    s = table();
    has(s, "B's client not answered when the arm ended, after 6 tokens");
    hasnt(s, "NEVER");
    free(s);
}

Test(report, a_request_that_never_got_in_did_not_fail)
{
    make_harmless();
    requests[0][0][B] = (struct request_result){
        .submitted = true, .output = OUTPUT_NOT_ADMITTED, .shared_with = -1, .foreign_state = -1
    };
    char *s = table();
    has(s, "[1] freed at once B NOT ADMITTED");
    has(s, "unpatched never lets a request in, in arm 1");
    hasnt(s, "makes a request fail");
    free(s);
    park_at_the_end(&arms[0], true);
    s = table();
    has(s, "unpatched has a request still waiting for memory at the end in arm 1");
    free(s);
}

Test(report, pinned_only_where_nothing_is_left_to_free_it)
{
    hold.ended_by = HOLD_END_NEVER;
    results[1][0].numbers[EXPECT_PINNED_PAGES] = 3;
    char *s = table();
    has(s, "[2] held PINS 3 pages for ever");
    has(s, "the hold NEVER ended (30 s until the end of the arm)");
    has(s, "PINNED 3 pages are still held with nothing left to free them");
    has(s, "[2] deferred-35360 held for ever B: identical");
    has(s, "deferred-35360 pins 3 pages for ever in arm 2");
    hasnt(s, "does no harm");
    free(s);
    for (int ended = ARM_QUIESCENT; ended <= ARM_VOID; ended++) {
        results[1][0].ended = (enum arm_end)ended;
        park_at_the_end(&arms[1], ended == ARM_QUIESCENT);
        s = table();
        hasnt(s, "PIN");
        hasnt(s, "pins");
        hasnt(s, "NEVER");
        hasnt(s, "for ever");
        has(s, "the arm ended 30 s later, within the hold");
        has(s, "still held decode still holds 3 pages when the arm ends");
        has(s, "[2] deferred-35360 still held at the end");
        free(s);
    }
}

Test(report, pinned_pages_are_told_by_their_number)
{
    arms[0].arm = arms[1].arm;
    make_harmless();
    results[0][0].numbers[EXPECT_PINNED_PAGES] = 1;
    results[1][0].numbers[EXPECT_PINNED_PAGES] = 3;
    char *s = table();
    has(s, "pins 1 page for ever in arm 1; pins 3 pages for ever in arm 2");
    has(s, "PINNED 1 page is still held with nothing left to free it");
    free(s);
    results[0][0].numbers[EXPECT_PINNED_PAGES] = 3;
    s = table();
    has(s, "pins 3 pages for ever in arms 1, 2");
    free(s);
}

Test(report, whose_rows_decode_read)
{
    struct foreign_rows rows[] = { { A, 512, 0, 511 }, { B, 3, 10, 20 } };

    requests[0][0][B].foreign = rows;
    requests[0][0][B].foreign_len = 1;
    requests[0][0][B].foreign_state = A;
    char *s = table();
    has(s, "whose rows rows 0-511 of B, as decode read them, were written by A (and so was its state)");
    free(s);
    rows[0] = (struct foreign_rows){ A, 1, 7, 7 };
    requests[0][0][B].foreign_len = 2;
    requests[0][0][B].foreign_state = B;
    s = table();
    has(s, "row 7 of B, as decode read it, was written by A 3 rows of B between 10 and 20, as decode read them, "
           "were written by B (and so was its state)");
    free(s);
    requests[0][0][B].foreign_len = 0;
    requests[0][0][B].foreign_state = A;
    s = table();
    has(s, "the state of B, as decode read it, was written by A");
    free(s);
    requests[0][0][B].foreign_state = -1;
    s = table();
    hasnt(s, "whose rows");
    free(s);
}

Test(report, some_watched_tokens_are_counted)
{
    results[0][0].numbers[EXPECT_WATCHED_TOKENS_CHANGED] = 48;
    char *s = table();
    has(s, "the rows of 48 of B's first 64 prompt tokens CHANGED");
    free(s);
}

Test(report, faults_and_stopped_peers_in_plain_words)
{
    static struct fault faults[] = {
        { .kind = FAULT_LOSE, .message = MESSAGE_ACK, .request = A, .chunk = -1, .fragment = -1, .occurrence = 2 },
        { .kind = FAULT_DOUBLE,
          .message = MESSAGE_STATUS,
          .request = -1,
          .chunk = -1,
          .fragment = -1,
          .occurrence = 1 },
        { .kind = FAULT_OVERTAKE, .message = MESSAGE_NOTIFY, .request = A, .chunk = -1, .fragment = -1 },
        { .kind = FAULT_DELAY,
          .is_write = true,
          .effect = EFFECT_KV,
          .request = A,
          .chunk = 0,
          .fragment = 1,
          .occurrence = 1,
          .by_us = 40000000 },
        { .kind = FAULT_LOSE, .is_write = true, .effect = EFFECT_STATE, .request = A, .chunk = -1, .fragment = -1 },
        { .kind = FAULT_ERROR,
          .is_write = true,
          .effect = EFFECT_KV,
          .request = A,
          .chunk = -1,
          .fragment = -1,
          .by_us = 1000000 },
    };
    struct step steps[] = { { .kind = STEP_STOP, .machine = 2 },
                            { .kind = STEP_STOP, .machine = 1 },
                            { .kind = STEP_ABORT, .request = A },
                            { .kind = STEP_RESUME, .machine = 2 } };
    struct arm *arm = (struct arm *)arms[0].arm;

    arm->faults = faults;
    arm->faults_len = sizeof faults / sizeof faults[0];
    arm->steps = steps;
    arm->steps_len = sizeof steps / sizeof steps[0];
    char *s = table();
    has(s, "fault A's ack (number 2 of its kind) is lost fault");
    has(s, "fault the status message arrives twice");
    has(s, "fault A's notification overtakes all others of its channel");
    has(s, "fault A's KV write of chunk 0, fragment 1, comes 40 s late");
    has(s, "fault A's state write is lost: its bytes never land and it never completes");
    has(s, "fault A's KV write ends in an error 1 s after it was posted, as the engine says; its bytes fly on");
    has(s, "stopped peer decode 0.0 stops at step 1 and goes on at step 4; writes into its memory land all the same");
    has(s, "stopped peer prefill 1.0 stops at step 2 and never goes on; what it has posted flies on");
    free(s);
}

Test(report, collateral_is_named)
{
    requests[0][0][B].output = OUTPUT_FAILED;
    requests[0][0][B].status = 500;
    arms[0].diverged = 0;
    memset(results[0][0].numbers, 0, sizeof results[0][0].numbers);
    char *s = table();
    hasnt(s, "collateral");
    free(s);
    results[0][0].numbers[EXPECT_COLLATERAL_FAILED] = 1;
    s = table();
    has(s, "collateral 1 request that nobody aborted failed: B");
    free(s);
}

Test(report, another_engine_is_named)
{
    struct arm *arm = (struct arm *)arms[1].arm;
    char *s = table();

    hasnt(s, "mooncake");
    free(s);
    arm->engine_name = "nixl";
    policy_set_engine(&arm->policy, (unsigned)engine_by_name("nixl"));
    s = table();
    has(s, "engine nixl: ");
    has(s, "[2] deferred-35360/nixl held 30 s");
    has(s, "deferred-35360/nixl does no harm in arm 2");
    free(s);
}

Test(report, overridden_knobs_are_named)
{
    struct arm *arm = (struct arm *)arms[1].arm;

    arm->policy.core[CORE_HOLD_TIMEOUT] = 60000000;
    arm->core_overridden = true;
    char *s = table();
    has(s, "but with hold_timeout=60s");
    has(s, "[2] deferred-35360+");
    free(s);
}

Test(report, colour_only_when_asked)
{
    struct table_options options = { .program = "kvrepro", .colour = true };
    char *words, *s = table_with(&options, &words);
    has(s, "\033[1;31mB SILENTLY CORRUPTED\033[0m");
    free(s);
    free(words);
    options.colour = false;
    s = table_with(&options, NULL);
    hasnt(s, "\033");
    free(s);
}

Test(report, no_color_and_pipes)
{
    setenv("TERM", "xterm", 1);
    FILE *f = tmpfile();
    cr_assert_not(text_colour(f));
    fclose(f);
}

static void keys_are(const json_t *o, const char *expected)
{
    char got[1024] = "";
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)o, key, value)
    {
        strcat(got, got[0] ? " " : "");
        strcat(got, key);
    }
    cr_assert_eq(strncmp(got, expected, strlen(expected)), 0, "keys: %s", got);
}

Test(report, json_keys_in_their_order)
{
    char *json = json_report(&run, &built);
    json_t *o = json_loads(json, JSON_REJECT_DUPLICATES, NULL);

    cr_assert_not_null(o);
    keys_are(o, "scenario preflight arms");
    keys_are(json_object_get(o, "preflight"), "runs identical");
    json_t *arm = json_array_get(json_object_get(o, "arms"), 0);
    keys_are(arm, "name core driver as_expected ended requests memory holds liveness trace_digest");
    json_t *b = json_object_get(json_object_get(arm, "requests"), "B");
    keys_are(b, "output first differing tokens status finish_reason silent output_digest");
    keys_are(json_object_get(arm, "memory"),
             "stale_pages stale_slots stale_bytes stale_free_bytes watched_tokens_changed first_change_seen_us");
    keys_are(json_array_get(json_object_get(json_array_get(json_object_get(o, "arms"), 1), "holds"), 0),
             "request ended_by held_us");
    keys_are(json_object_get(arm, "liveness"), "pinned_pages collateral_failed unanswered");
    keys_are(json_object_get(o, "provenance"), "tree clean compiler cflags scenario_digest model_digest");
    cr_assert_str_eq(json_string_value(json_object_get(b, "output")), "diverged");
    cr_assert_eq(json_integer_value(json_object_get(b, "first")), 269);
    cr_assert(json_is_true(json_object_get(b, "silent")));
    cr_assert_str_eq(json_string_value(json_object_get(b, "output_digest")), "0000000000abcdef");
    cr_assert_eq(json_integer_value(json_object_get(json_object_get(arm, "memory"), "first_change_seen_us")), -1550);
    json_decref(o);
    free(json);
}

Test(report, json_says_whose_rows_were_read)
{
    struct foreign_rows rows = { A, 512, 0, 511 };

    requests[0][0][B].foreign = &rows;
    requests[0][0][B].foreign_len = 1;
    requests[0][0][B].foreign_state = A;
    char *json = json_report(&run, &built);
    json_t *o = json_loads(json, 0, NULL), *arm = json_array_get(json_object_get(o, "arms"), 0);
    json_t *b = json_object_get(json_object_get(arm, "requests"), "B");
    char *got = json_dumps(json_object_get(b, "foreign_rows"), JSON_COMPACT);
    cr_assert_str_eq(got, "[{\"writer\":\"A\",\"rows\":512,\"first\":0,\"last\":511}]");
    cr_assert_str_eq(json_string_value(json_object_get(b, "foreign_state")), "A");
    json_t *a = json_object_get(json_object_get(arm, "requests"), "A");
    cr_assert_eq(json_array_size(json_object_get(a, "foreign_rows")), 0);
    cr_assert(json_is_null(json_object_get(a, "foreign_state")));
    free(got);
    json_decref(o);
    free(json);
}

Test(report, json_absent_values_are_null)
{
    requests[0][0][B] = (struct request_result){ .submitted = true,
                                                 .output = OUTPUT_NOT_ADMITTED,
                                                 .shared_with = -1,
                                                 .foreign_state = -1,
                                                 .answered_us = { UINT64_MAX, UINT64_MAX } };
    results[0][0].first_change_seen_us = INT64_MIN;
    char *json = json_report(&run, &built);
    json_t *o = json_loads(json, 0, NULL), *arm = json_array_get(json_object_get(o, "arms"), 0);
    json_t *b = json_object_get(json_object_get(arm, "requests"), "B");
    static const char *const nulls[] = { "first",         "differing",          "status",      "finish_reason",
                                         "output_digest", "decode_answered_us", "admitted_us", "shared_with" };

    cr_assert_str_eq(json_string_value(json_object_get(b, "output")), "not-admitted");
    for (size_t i = 0; i < sizeof nulls / sizeof nulls[0]; i++)
        cr_assert(json_is_null(json_object_get(b, nulls[i])), "%s", nulls[i]);
    cr_assert(json_is_null(json_object_get(json_object_get(arm, "memory"), "first_change_seen_us")));
    json_decref(o);
    free(json);
}

static char *result_digest(const struct provenance *p)
{
    char *json = json_report(&run, p);
    json_t *o = json_loads(json, 0, NULL);
    char *digest = strdup(json_string_value(json_object_get(o, "result_digest")));

    cr_assert_eq(strlen(digest), 16);
    json_decref(o);
    free(json);
    return digest;
}

Test(report, result_digest_leaves_out_provenance_and_nothing_else)
{
    const struct provenance other = { "unknown", -1, "another compiler", "-O0" };
    char *first = result_digest(&built), *second = result_digest(&other);

    cr_assert_str_eq(first, second);
    free(second);
    results[0][0].trace_digest++;
    second = result_digest(&built);
    cr_assert_str_neq(first, second);
    free(first);
    free(second);
}

Test(report, json_survives_a_message_cut_within_a_character)
{
    results[0][0].why = "caf\xc3";
    char *json = json_report(&run, &built);
    cr_assert_not_null(json);
    has(json, "\"caf?\"");
    free(json);
}

Test(text, numbers_as_people_write_them)
{
    char buf[TEXT_NUMBER_MAX];

    cr_assert_str_eq(text_duration(0, buf), "0 us");
    cr_assert_str_eq(text_duration(999, buf), "999 us");
    cr_assert_str_eq(text_duration(1000, buf), "1 ms");
    cr_assert_str_eq(text_duration(1550, buf), "1.55 ms");
    cr_assert_str_eq(text_duration(2705000, buf), "2.705 s");
    cr_assert_str_eq(text_duration(30000000, buf), "30 s");
    cr_assert_str_eq(text_duration(UINT64_C(86400000000), buf), "86400 s");
    cr_assert_str_eq(text_count(0, buf), "0");
    cr_assert_str_eq(text_count(999, buf), "999");
    cr_assert_str_eq(text_count(1234567, buf), "1,234,567");
}

static char *rowed(unsigned labels, const char *label, const char *words)
{
    char *s = NULL;
    size_t len;
    FILE *f = open_memstream(&s, &len);

    text_row(f, 2, labels, label, words);
    fclose(f);
    return s;
}

Test(text, rows_wrap_under_their_first_word)
{
    char long_words[400] = "";
    for (int i = 0; i < 60; i++)
        strcat(long_words, "words ");
    static const char *const cases[][3] = {
        { "label", "two words", "  label   two words\n" },
        { "label", "two\nlines", "  label   two\n          lines\n" },
        { "label", "", "  label\n" },
        { "a longer label", "word", "  a longer label\n          word\n" },
        { "", "word", "          word\n" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *s = rowed(8, cases[i][0], cases[i][1]);
        cr_assert_str_eq(s, cases[i][2], "case %zu: [%s]", i, s);
        free(s);
    }
    char *s = rowed(8, "label", long_words);
    check_lines(s);
    free(s);
}

/* --- results read back and compared --- */

static struct recorded read_back(void)
{
    struct recorded r;
    char *json = json_report(&run, &built);

    cr_assert_eq(recorded_parse("r.json", json, strlen(json), &r, stderr), 0);
    free(json);
    return r;
}

Test(report, a_result_is_read_back)
{
    struct recorded r = read_back();

    cr_assert_str_eq(r.scenario, "stall");
    cr_assert_str_eq(r.tree, "0123abcd");
    cr_assert_eq(r.clean, 1);
    cr_assert_eq(r.arms_len, 2);
    cr_assert_eq(r.model_digest, 0x12);
    cr_assert_eq(r.scenario_digest, scenario->digest);
    cr_assert_eq(r.result_digest, r.content_digest);
    recorded_free(&r);
}

/* Parses the report with its first `from` replaced; what was said, NULL if nothing. */
static char *parse_changed(const char *from, const char *to, struct recorded *r)
{
    char *json = json_report(&run, &built), *at = strstr(json, from), *changed, *said;
    size_t said_len;
    FILE *f = open_memstream(&said, &said_len);

    cr_assert_not_null(at, "%s", from);
    cr_assert_geq(asprintf(&changed, "%.*s%s%s", (int)(at - json), json, to, at + strlen(from)), 0);
    int rc = recorded_parse("r.json", changed, strlen(changed), r, f);
    fclose(f);
    cr_assert_eq(rc == 0, *said == '\0');
    free(json);
    free(changed);
    return said;
}

Test(report, an_edited_result_shows)
{
    struct recorded r;
    char *said = parse_changed("\"first\": 269", "\"first\": 270", &r);

    cr_assert_str_eq(said, "");
    cr_assert_neq(r.result_digest, r.content_digest);
    recorded_free(&r);
    free(said);
    /* Provenance and layout are no content. */
    said = parse_changed("\"cc 1.0\"", "\"cc 2.0\"  ", &r);
    cr_assert_str_eq(said, "");
    cr_assert_eq(r.result_digest, r.content_digest);
    recorded_free(&r);
    free(said);
}

Test(report, what_is_no_result_is_refused)
{
    static const char *const changes[][3] = {
        { "{", "{,", "no JSON" },
        { "\"scenario\": \"stall\"", "\"scenario\": 1", "'scenario'" },
        { "\"scenario\": \"stall\"", "\"scenario\": \"a\", \"scenario\": \"b\"", "no JSON" },
        { "\"arms\"", "\"legs\"", "'arms'" },
        { "\"result_digest\": \"", "\"result_digest\": \"x", "'result_digest'" },
        { "\"tree\": \"0123abcd\"", "\"tree\": \"\\u001b[31m\"", "'provenance.tree'" },
        { "\"model_digest\"", "\"model\"", "'provenance.model_digest'" },
        { "\"scenario_digest\"", "\"digest\"", "'provenance.scenario_digest'" },
    };
    struct recorded r;

    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        char *said = parse_changed(changes[i][0], changes[i][1], &r);
        has(said, changes[i][2]);
        cr_assert_eq(strncmp(said, "r.json:", 7), 0);
        free(said);
    }
    FILE *null = fopen("/dev/null", "w");
    cr_assert_lt(recorded_read("/nonexistent/r.json", &r, null), 0);
    cr_assert_lt(recorded_read("/", &r, null), 0);
    cr_assert_lt(recorded_read("/dev/zero", &r, null), 0);
    fclose(null);
}

/* The differences of two JSON texts, a line each, then the total. */
static void differ(const char *recorded, const char *now, uint32_t max, const char *expected)
{
    json_t *was = json_loads(recorded, 0, NULL), *is = json_loads(now, 0, NULL);
    struct json_comparison found;
    struct text out = { .len = 0 };

    cr_assert(was && is);
    cr_assert_eq(compare_json(was, is, "", COMPARE_ALL, max, &found), 0);
    for (uint32_t i = 0; i < found.len; i++) {
        difference_text(&found.list[i], "was", "now", &out);
        text_add(&out, "\n");
    }
    text_add(&out, "%u", (unsigned)found.total);
    cr_assert_str_eq(out.s, expected, "%s against %s: %s", recorded, now, out.s);
    comparison_free(&found);
    json_decref(was);
    json_decref(is);
}

Test(compare, paths_with_both_values)
{
    differ("{\"a\": 1}", "{\"a\": 1}", 5, "0");
    differ("{\"a\": 1}", "{\"a\": 2}", 5, ".a: was 1, now 2\n1");
    differ("{\"a\": [1, {\"b\": null}]}", "{\"a\": [1, {\"b\": \"x\"}]}", 5, ".a[1].b: was null, now \"x\"\n1");
    differ("{\"a\": {\"b\": 1}}", "{\"a\": null}", 5, ".a: was {\"b\":1}, now null\n1");
    differ("{\"a\": null}", "{\"a\": {\"b\": 1}}", 5, ".a: was null, now {\"b\":1}\n1");
    differ("{\"a\": 1, \"b\": 2}", "{\"b\": 2, \"c d\": 3}", 5,
           ".a: was 1, now nothing\n.\"c d\": was nothing, now 3\n2");
    differ("{\"a\": [1, 2]}", "{\"a\": [1]}", 5, ".a: was 2 elements, now 1 element\n1");
    differ("{\"a\": [\"x\", \"y\"]}", "{\"a\": [\"x\", \"z\"]}", 5, ".a[1]: was \"y\", now \"z\"\n1");
    differ("[1]", "[2]", 5, "[0]: was 1, now 2\n1");
    differ("{\"a\": \"\\u001b[31m\"}", "{\"a\": 1}", 5, ".a: was \"\\u001B[31m\", now 1\n1");
    differ("{\"a\": \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}", "{\"a\": 1}", 5,
           ".a: was \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa..., now 1\n1");
}

Test(compare, digests_come_last_and_what_follows_is_left_out)
{
    differ("{\"t_digest\": \"1\", \"a\": 1, \"b\": [{\"t_digest\": \"3\"}]}",
           "{\"t_digest\": \"2\", \"a\": 2, \"b\": [{\"t_digest\": \"4\"}]}", 2,
           ".a: was 1, now 2\n.t_digest: was \"1\", now \"2\"\n3");
    differ("{\"a\": 1, \"result_digest\": \"1\"}", "{\"a\": 2, \"result_digest\": \"2\"}", 5, ".a: was 1, now 2\n1");
    differ("{\"a\": 1, \"result_digest\": \"1\"}", "{\"a\": 1, \"result_digest\": \"2\"}", 5,
           ".result_digest: was \"1\", now \"2\"\n1");
    differ("{\"a\": 1, \"provenance\": {\"tree\": \"1\"}}", "{\"a\": 1, \"provenance\": {\"tree\": \"2\"}}", 5, "0");
    differ("{\"a\": {\"provenance\": 1}}", "{\"a\": {\"provenance\": 2}}", 5, ".a.provenance: was 1, now 2\n1");
}

Test(compare, expectations_can_be_left_out)
{
    json_t *was = json_loads("{\"a\": 1, \"as_expected\": true, \"b\": [{\"differences\": []}]}", 0, NULL);
    json_t *is = json_loads("{\"a\": 2, \"as_expected\": false, \"b\": [{\"differences\": [\"x\"]}]}", 0, NULL);
    struct json_comparison found;

    cr_assert_eq(compare_json(was, is, ".arms[3]", COMPARE_WITHOUT_EXPECTATIONS, 5, &found), 0);
    cr_assert_eq(found.total, 1);
    cr_assert_str_eq(found.list[0].path, ".arms[3].a");
    comparison_free(&found);
    cr_assert_eq(compare_json(was, is, ".arms[3]", COMPARE_ALL, 5, &found), 0);
    cr_assert_eq(found.total, 3);
    comparison_free(&found);
    json_decref(was);
    json_decref(is);
}

Test(report, every_value_of_a_result_is_compared)
{
    struct recorded was = read_back();
    uint64_t *const numbers[] = { &results[0][0].trace_digest,      &results[0][0].numbers[EXPECT_STALE_PAGES],
                                  &requests[0][0][B].output_digest, &hold.held_us,
                                  &requests[0][0][A].write_end_us,  &results[1][0].numbers[EXPECT_COLLATERAL_FAILED],
                                  &requests[1][0][B].admitted_us };

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct json_comparison found;
        ++*numbers[i];
        struct recorded is = read_back();
        cr_assert_eq(compare_json(was.document, is.document, "", COMPARE_ALL, 5, &found), 0);
        cr_assert_eq(found.total, 1, "number %zu: %u", i, (unsigned)found.total);
        cr_assert_neq(was.result_digest, is.result_digest);
        comparison_free(&found);
        recorded_free(&is);
        --*numbers[i];
    }
    recorded_free(&was);
}

/* --- the gate --- */

/*
 * Whether a text is well-formed XML of the kind that has elements, attributes, character data and the five entities or
 * numbers only; gives the offset of what is wrong, or -1.
 */
static long xml_wrong_at(const char *xml)
{
    char open[16][32];
    int depth = 0, roots = 0;
    const char *s = xml;
    static const char declaration[] = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";

    if (strncmp(s, declaration, strlen(declaration)) != 0)
        return 0;
    for (s += strlen(declaration); *s;) {
        unsigned char c = (unsigned char)*s;
        if (c == '&') {
            size_t len = strcspn(s, ";");
            static const char *const entities[] = { "&amp", "&lt", "&gt", "&quot", "&apos", "&#10", "&#9" };
            bool known = false;
            for (size_t i = 0; i < sizeof entities / sizeof entities[0]; i++)
                known = known || (strlen(entities[i]) == len && strncmp(s, entities[i], len) == 0);
            if (!known || depth == 0)
                return s - xml;
            s += len + 1;
        } else if (c == '<' && s[1] == '/') {
            size_t len = strcspn(s + 2, ">");
            if (depth == 0 || strlen(open[depth - 1]) != len || strncmp(open[depth - 1], s + 2, len) != 0)
                return s - xml;
            depth--;
            s += len + 3;
        } else if (c == '<') {
            size_t len = strspn(s + 1, "abcdefghijklmnopqrstuvwxyz");
            if (len == 0 || len > 31 || depth == 16 || (depth == 0 && roots++))
                return s - xml;
            snprintf(open[depth++], 32, "%.*s", (int)len, s + 1);
            for (s += 1 + len; *s == ' ';) {
                size_t name = strspn(s + 1, "abcdefghijklmnopqrstuvwxyz");
                if (name == 0 || strncmp(s + 1 + name, "=\"", 2) != 0)
                    return s - xml;
                for (s += name + 3; *s != '"'; s++)
                    if ((unsigned char)*s < 0x20 || *s == '<' || (*s == '&' && !strchr(s, ';')))
                        return s - xml;
                s++;
            }
            if (strncmp(s, "/>", 2) == 0) {
                depth--;
                s += 2;
            } else if (*s++ != '>') {
                return s - xml;
            }
        } else if (c == '>' || (c < 0x20 && c != '\n') || c == 0x7f || (depth == 0 && c != '\n')) {
            return s - xml;
        } else {
            s++;
        }
    }
    return depth == 0 && roots == 1 ? -1 : s - xml;
}

static char *gate_text(void (*put)(FILE *, const struct gate_scenario *, uint32_t), const struct gate_scenario *g,
                       uint32_t len)
{
    static const struct gate_options options = { .program = "kvrepro", .again = "kvrepro gate" };
    char *s = NULL;
    size_t s_len;
    FILE *f = open_memstream(&s, &s_len);

    if (put)
        put(f, g, len);
    else
        gate_print(f, g, len, &options);
    fclose(f);
    return s;
}

static struct gate_scenario gate_one(const char *name)
{
    struct gate_scenario g = { .name = strdup(name) };

    cr_assert_geq(asprintf(&g.path, "scenarios/%s.yaml", name), 0);
    cr_assert_geq(asprintf(&g.recorded_path, "results/%s.json", name), 0);
    return g;
}

Test(gate, lines_details_and_counts)
{
    struct gate_scenario g[5] = { gate_one("good"), gate_one("other"), gate_one("empty"), gate_one("bad"),
                                  gate_one("orphan") };
    struct gate_case *c;

    gate_add_case(&g[0], "first", GATE_OK);
    gate_add_case(&g[0], "second", GATE_OK);
    g[0].arms_len = 2;
    gate_add_case(&g[1], "first", GATE_OK);
    c = gate_add_case(&g[1], "second", GATE_DIFFERS);
    gate_add_text(&c->reasons, "request B: output: expected identical, got diverged");
    gate_add_text(&c->paths, ".arms[1].requests.B.first: recorded 269, now 270");
    c->paths_total = 3;
    g[1].arms_len = 2;
    c = gate_add_case(&g[2], "first", GATE_VOID);
    gate_add_text(&c->reasons, "void: a park is still closed\nat the end");
    g[2].arms_len = 1;
    c = gate_add_case(&g[3], "scenario", GATE_ERROR);
    gate_add_text(&c->reasons, "scenarios/bad.yaml:2:1: error: unknown key 'stepz'\n   2 | stepz: []\n");
    g[3].unreadable = true;
    c = gate_add_case(&g[4], "recorded result", GATE_DIFFERS);
    gate_add_text(&c->reasons, "results/orphan.json has no scenario");
    g[4].orphan = true;
    char *s = gate_text(NULL, g, 5);
    check_lines(s);
    has(s, "ok       good      2 arms\n");
    has(s, "DIFFERS  other     2 arms   second: request B: output: expected identical, got diverged\n");
    has(s, "VOID     empty     1 arm    first: void: a park is still closed...\n");
    has(s, "ERROR    bad       -        scenarios/bad.yaml:2:1: error: unknown key 'stepz'...\n");
    has(s, "\nother: DIFFERS\n  second\n    - request B: output: expected identical, got diverged\n"
           "  differs from results/other.json in 3 values:\n"
           "    .arms[1].requests.B.first: recorded 269, now 270\n    and 2 more\n"
           "  see: kvrepro run scenarios/other.yaml\n");
    has(s, "  see: kvrepro check scenarios/bad.yaml\n");
    hasnt(s, "kvrepro run scenarios/orphan.yaml");
    has(s, "\n5 scenarios, 5 arms: 1 as expected and as recorded, 2 differ, 1 void, 1 could not be played\nnext:\n");
    has(s, "make bless");
    has(s, "then once more: kvrepro gate\n");
    free(s);
    s = gate_text(gate_junit, g, 5);
    cr_assert_eq(xml_wrong_at(s), -1, "at %ld of %s", xml_wrong_at(s), s);
    has(s, "<testsuites name=\"kvrepro gate\" tests=\"7\" failures=\"2\" errors=\"2\" skipped=\"0\">");
    has(s, "<testsuite name=\"good\" tests=\"2\" failures=\"0\" errors=\"0\" skipped=\"0\">\n"
           "    <testcase classname=\"good\" name=\"first\"/>\n");
    has(s, "<failure type=\"differs\" message=\"request B: output: expected identical, got diverged\">");
    has(s, "<error type=\"void\" message=\"void: a park is still closed&#10;at the end\">");
    has(s, "<error type=\"error\" message=\"scenarios/bad.yaml:2:1: error: unknown key &apos;stepz&apos;");
    free(s);
    c = gate_add_case(&g[0], "scenario", GATE_OK);
    gate_add_text(&c->reasons, "not played: it has no arms");
    s = gate_text(NULL, g, 1);
    cr_assert_str_eq(s, "skip     good      2 arms   not played: it has no arms\n\n"
                        "1 scenario, 2 arms: 0 as expected and as recorded, 1 not played\n");
    free(s);
    s = gate_text(gate_junit, g, 1);
    cr_assert_eq(xml_wrong_at(s), -1, "at %ld of %s", xml_wrong_at(s), s);
    has(s, "<testsuite name=\"good\" tests=\"3\" failures=\"0\" errors=\"0\" skipped=\"1\">");
    has(s, "<skipped message=\"not played: it has no arms\"/>");
    free(s);
    g[0].cases_len--;
    free(c->name);
    free(c->reasons.s[0]);
    free(c->reasons.s);
    s = gate_text(NULL, g, 1);
    cr_assert_str_eq(s, "ok       good      2 arms\n\n1 scenario, 2 arms: 1 as expected and as recorded\n");
    free(s);
    for (int i = 0; i < 5; i++)
        gate_fini(&g[i]);
}

Test(gate, xml_holds_whatever_a_name_or_a_message_is)
{
    static const char nasty[] =
        "<&>\"' ]]> \x01\x1b[31m \t caf\xc3\xa9 cut \xc3 \xed\xa0\x80 \xef\xbf\xbe \xff \xc0\x80 "
        "\xf0\x9f\x98\x80 \xf4\x90\x80\x80 \x7f \xc2\x85\n";
    struct gate_scenario g = gate_one("na<\"me&");
    struct gate_case *c = gate_add_case(&g, nasty, GATE_DIFFERS);

    gate_add_text(&c->reasons, nasty);
    gate_add_text(&c->paths, nasty);
    c->paths_total = 1;
    g.arms_len = 1;
    char *s = gate_text(gate_junit, &g, 1);
    cr_assert_eq(xml_wrong_at(s), -1, "at %ld of %s", xml_wrong_at(s), s);
    has(s, "name=\"na&lt;&quot;me&amp;\"");
    has(s,
        "&lt;&amp;&gt;&quot;&apos; ]]&gt; ??[31m &#9; caf\xc3\xa9 cut ? ??? ??? ? ?? \xf0\x9f\x98\x80 ???? ? ??&#10;");
    free(s);
    /* And a terminal is told nothing that it might obey. */
    s = gate_text(NULL, &g, 1);
    for (const char *at = s; *at; at++)
        cr_assert((unsigned char)*at >= 0x20 ? *at != 0x7f : *at == '\n', "byte %d in %s", *at, s);
    free(s);
    gate_fini(&g);
}

Test(gate, the_check_of_xml_finds_what_is_wrong)
{
#define XML "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
    static const char *const wrong[] = {
        "<a/>",         XML "<a>",        XML "<a></b>",     XML "<a/><a/>",
        XML "<a>&</a>", XML "<a>&x;</a>", XML "<a>\x01</a>", XML "<a b=\"<\"/>",
        XML "<a b=c/>", XML "text",       XML "<a>></a>",    XML "<a b=\"\n\"/>",
        XML "",
    };

    cr_assert_eq(xml_wrong_at(XML "<a b=\"&amp;\">x&lt;\n<c/></a>\n"), -1);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        cr_assert_geq(xml_wrong_at(wrong[i]), 0, "%s", wrong[i]);
}

Test(gate, cases_cross_a_process_border_unchanged)
{
    struct gate_scenario g = gate_one("one"), back = gate_one("one");
    struct gate_case *c = gate_add_case(&g, "arm", GATE_VOID);

    gate_add_text(&c->reasons, "why\nso \xff");
    gate_add_text(&c->paths, ".a: recorded 1, now 2");
    c->paths_total = 7;
    gate_add_case(&g, "other", GATE_OK);
    g.arms_len = 2;
    g.unreadable = true;
    char *text = gate_write(&g);
    cr_assert_eq(gate_read(&back, text), 0);
    cr_assert_eq(back.state, GATE_VOID);
    cr_assert_eq(back.cases_len, 2);
    cr_assert_eq(back.arms_len, 2);
    cr_assert(back.unreadable);
    cr_assert_str_eq(back.cases[0].name, "arm");
    cr_assert_str_eq(back.cases[0].reasons.s[0], "why\nso ?");
    cr_assert_str_eq(back.cases[0].paths.s[0], ".a: recorded 1, now 2");
    cr_assert_eq(back.cases[0].paths_total, 7);
    /* Whatever a crash leaves of it is refused. */
    for (size_t len = strlen(text); len-- > 0;) {
        text[len] = '\0';
        cr_assert_lt(gate_read(&back, text), 0);
        cr_assert_eq(back.cases_len, 0);
    }
    free(text);
    gate_fini(&g);
    gate_fini(&back);
}

/* --- one scenario under every core --- */

static void cell_is(const struct arm_summary *a, const char *finding, const char *words)
{
    json_t *cell = matrix_cell(a, scenario);

    cr_assert_not_null(cell);
    cr_assert_str_eq(json_string_value(json_object_get(cell, "finding")), finding);
    cr_assert_str_eq(json_string_value(json_object_get(cell, "text")), words);
    cr_assert_eq(matrix_is_void(cell), strcmp(finding, "void") == 0);
    json_decref(cell);
}

Test(report, a_cell_says_what_became_of_the_request)
{
    struct request_result *b = &requests[0][0][B];

    cell_is(&arms[0], "corrupts", "corrupts 269 243/512 silent");
    cell_is(&arms[1], "identical", "identical");
    b->silent = false;
    cell_is(&arms[0], "corrupts", "corrupts 269 243/512");
    arms[0].results_len = 10;
    arms[0].diverged = 9;
    b->silent = true;
    cell_is(&arms[0], "corrupts", "corrupts in 9/10 plays silent");
    for (int k = 1; k < 10; k++)
        requests[0][k][B].output = OUTPUT_IDENTICAL;
    arms[0].results_len = 1;
    arms[0].diverged = 0;
    b->output = OUTPUT_IDENTICAL;
    cell_is(&arms[0], "stale", "identical, stale write");
    memset(results[0][0].numbers, 0, sizeof results[0][0].numbers);
    b->output = OUTPUT_FAILED;
    b->status = 500;
    cell_is(&arms[0], "failed", "failed 500");
    b->status = 0;
    cell_is(&arms[0], "failed", "never answered");
    park_at_the_end(&arms[0], true);
    cell_is(&arms[0], "failed", "not answered at the end");
    park_at_the_end(&arms[0], false);
    b->output = OUTPUT_NOT_ADMITTED;
    cell_is(&arms[0], "not-admitted", "not admitted");
    results[0][0].ended = ARM_PREVENTED;
    results[0][0].ended_step = 7;
    cell_is(&arms[0], "not-admitted", "not admitted (prevented at step 7)");
    b->output = OUTPUT_FAILED;
    cell_is(&arms[0], "prevented", "prevented at step 7");
    results[0][0].ended = ARM_VOID;
    results[0][0].why = "a park is closed";
    cell_is(&arms[0], "void", "void");
    arms[0].results_len = 0;
    cell_is(&arms[0], "void", "void");
}

Test(report, cores_in_rows_and_engines_in_columns)
{
    static const struct matrix_options options = { .program = "kvrepro" };
    json_t *good = matrix_cell(&arms[1], scenario), *bad = matrix_cell(&arms[0], scenario);
    json_t *document =
        json_pack("{ss ss ss s[{ss ss s[{ss ss} {ss ss}] s[{ss ss s[OO]} {ss ss s[OO]} {ss ss s[Oo]}]}]}", "scenario",
                  "stall", "about", "why", "path", "stall.yaml", "arms", "name", "freed at once", "run_arm",
                  "freed at once", "engines", "engine", "mooncake", "with", "", "engine", "nixl", "with", "timeout=5s",
                  "rows", "core", "unpatched", "with", "", "cells", bad, bad, "core", "strict", "with", "", "cells",
                  good, good, "core", "strict", "with", "hold_timeout=60s", "cells", good, matrix_void("it crashed"));
    char *s = NULL;
    size_t len;
    FILE *f = open_memstream(&s, &len);

    cr_assert_not_null(document);
    matrix_print(f, document, &options);
    fclose(f);
    has(s, "arm: freed at once\n"
           "  core       mooncake                     nixl+                        hold ended      pinned  failed\n"
           "  unpatched  corrupts 269 243/512 silent  corrupts 269 243/512 silent  -               0       0\n"
           "  strict     identical                    identical                    timer 30 s      0       0\n"
           "  strict+    identical                    void                         timer 30 s / -  0       0\n");
    has(s, "nixl+ is the file's own: timeout=5s\n");
    has(s, "strict+ is the file's own: hold_timeout=60s\n");
    has(s, "strict+ void: it crashed\n");
    has(s,
        "  corrupts                          unpatched\n  void: nothing can be said         strict (hold_timeout=60s)\n"
        "  no harm                           strict\n");
    has(s, "kvrepro run --core unpatched --arm 'freed at once' stall.yaml\n");
    check_lines(strstr(s, "\nIN SHORT"));
    free(s);
    json_decref(good);
    json_decref(bad);
    json_decref(document);
}

/* The matrix of one core in one cell. */
static char *matrix_of(const struct arm_summary *a)
{
    static const struct matrix_options options = { .program = "kvrepro" };
    json_t *document =
        json_pack("{ss ss ss s[{ss ss s[{ss ss}] s[{ss ss s[o]}]}]}", "scenario", "stall", "about", "why", "path",
                  "stall.yaml", "arms", "name", "held", "run_arm", "held", "engines", "engine", "mooncake", "with", "",
                  "rows", "core", "strict", "with", "", "cells", matrix_cell(a, scenario));
    char *s = NULL;
    size_t len;
    FILE *f = open_memstream(&s, &len);

    cr_assert_not_null(document);
    matrix_print(f, document, &options);
    fclose(f);
    json_decref(document);
    return s;
}

Test(report, the_matrix_tells_pinned_from_still_held)
{
    hold.ended_by = HOLD_END_NEVER;
    results[1][0].numbers[EXPECT_PINNED_PAGES] = 3;
    char *s = matrix_of(&arms[1]);
    has(s, "  strict  identical  never       3       0\n");
    has(s, "  pins memory for ever              strict\n");
    free(s);
    park_at_the_end(&arms[1], true);
    s = matrix_of(&arms[1]);
    has(s, "  strict  identical  never       -       0\n");
    has(s, "  no harm                           strict\n");
    free(s);
    park_at_the_end(&arms[1], false);
    results[1][0].ended = ARM_PREVENTED;
    results[1][0].ended_step = 4;
    s = matrix_of(&arms[1]);
    has(s, "prevented at step 4  never       -       0\n");
    free(s);
    results[1][0].ended = ARM_QUIESCENT;
    results[1][0].numbers[EXPECT_PINNED_PAGES] = 0;
    requests[1][0][B].output = OUTPUT_FAILED;
    requests[1][0][B].status = 0;
    s = matrix_of(&arms[1]);
    has(s, "  a request got no answer           strict\n");
    hasnt(s, "makes a request fail");
    free(s);
}
