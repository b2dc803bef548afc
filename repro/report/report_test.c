/* The table and the JSON from results made by hand: every kind of end, and what must hold for all of them. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
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
                .shared_pages = 32,
                .shared_slot = true,
                .shared_with = A,
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
    has(s, "64 of B's first 64 prompt tokens CHANGED; first seen 1.55 ms before the write's end");
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
    requests[0][0][B] = (struct request_result){ .submitted = true, .output = OUTPUT_NOT_ADMITTED, .shared_with = -1 };
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
    has(s, "PINNED 32 pages are still held");
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
                                         "ended by a fence, after",
                                         "the hold NEVER ended (30 s until the end of the arm)" };
    for (int end = HOLD_END_ACK; end <= HOLD_END_NEVER; end++) {
        hold.ended_by = end;
        char *s = table();
        has(s, words[end]);
        free(s);
    }
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
    keys_are(json_object_get(arm, "liveness"), "pinned_pages");
    keys_are(json_object_get(o, "provenance"), "tree clean compiler cflags scenario_digest model_digest");
    cr_assert_str_eq(json_string_value(json_object_get(b, "output")), "diverged");
    cr_assert_eq(json_integer_value(json_object_get(b, "first")), 269);
    cr_assert(json_is_true(json_object_get(b, "silent")));
    cr_assert_str_eq(json_string_value(json_object_get(b, "output_digest")), "0000000000abcdef");
    cr_assert_eq(json_integer_value(json_object_get(json_object_get(arm, "memory"), "first_change_seen_us")), -1550);
    json_decref(o);
    free(json);
}

Test(report, json_absent_values_are_null)
{
    requests[0][0][B] = (struct request_result){
        .submitted = true, .output = OUTPUT_NOT_ADMITTED, .shared_with = -1, .answered_us = { UINT64_MAX, UINT64_MAX }
    };
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
