/*
 * What came out of playing a scenario: per arm the output, memory, service, liveness and process verdicts,
 * and whether they are as the scenario expects. Filled by runner.c, read by the table and the JSON writer.
 */
#ifndef KVREPRO_RESULT_H
#define KVREPRO_RESULT_H

#include "../scenario/scenario.h"

enum arm_end { ARM_QUIESCENT, ARM_PREVENTED, ARM_VOID };

/* Rows of a request that decode read although another request had computed them; the most at one time. */
struct foreign_rows {
    uint32_t writer, rows, first, last; /* token positions; rows may have gaps between first and last */
};

struct request_result {
    bool submitted, admitted;
    int output; /* enum output_kind; -1: the request was not submitted or its client got no output to compare */
    uint32_t first, differing, tokens; /* first: meaningful if diverged; tokens: how many decode produced */
    uint32_t status;                   /* HTTP status that decode's client saw; 0: no answer */
    int finish_reason;                 /* enum finish_reason, of decode's answer */
    bool silent;                       /* diverged, with a clean answer */
    uint64_t output_digest;            /* XXH3-64 of the tokens, each as 4 bytes little endian */
    uint64_t write_end_us;             /* end of its last KV write, stale or not; UINT64_MAX: none ended */
    uint64_t answered_us[SIDE_COUNT];  /* when each side answered its client; UINT64_MAX: never */
    uint32_t prefill_status;           /* HTTP status that the prefill's client saw; 0: no answer */
    uint64_t admitted_us;              /* first pages.alloc; UINT64_MAX: never */
    uint64_t waited_us;                /* from its arrival at decode to pages.alloc */
    uint64_t committed_us, freed_us;   /* transfer.commit, pages.free; UINT64_MAX: never */
    /* Pages (prompt and growth) and state slot that this request was given after another request had owned them. */
    uint32_t shared_pages, shared_prompt_pages; /* the second: of those that it was given when it was admitted */
    bool shared_slot;
    int shared_with;              /* that request (the one with most pages), or -1 */
    struct foreign_rows *foreign; /* [foreign_len] by writer */
    uint32_t foreign_len;
    int foreign_state; /* whose state slot bytes decode read, or -1 */
};

struct hold_result {
    uint32_t request;
    int ended_by; /* enum hold_end */
    uint64_t began_us;
    uint64_t held_us; /* until the end of the arm if it never ended */
};

struct arm_result {
    const struct arm *arm;
    uint32_t phase; /* which phase of a phased arm this is; 0 */
    enum arm_end ended;
    uint32_t ended_step; /* PREVENTED: 1-based number of the step that could not complete; 0 */
    char *why;           /* PREVENTED, VOID: one or more lines; else NULL */
    bool unmet;          /* VOID because a park or fault of the scenario met nothing: it does not apply to this core */
    struct request_result *requests; /* [requests_len] as many as the scenario has */
    uint32_t requests_len;
    uint64_t numbers[EXPECT_NUMBER_COUNT];
    int64_t
        first_change_seen_us; /* first watched change as observed, relative to the stale write's end; INT64_MIN: none */
    uint64_t write_end_us;    /* end of the last stale KV write; UINT64_MAX: none */
    uint32_t
        first_stale_token; /* tokens that the watched request had by the first stale byte; UINT32_MAX: none landed */
    struct hold_result *holds;
    uint32_t holds_len;
    uint64_t trace_digest;
    uint64_t ended_us;  /* scenario time at the end */
    char **differences; /* one sentence each: expected this, got that */
    uint32_t differences_len;
    bool as_expected; /* no difference and not void */
};

/* A phased arm over its phases, or an arm that was repeated: the spread of what was observed. */
struct spread {
    uint64_t min, median, max;
};

struct arm_summary {
    const struct arm *arm;
    struct arm_result *results; /* [results_len] one per phase and repetition */
    uint32_t results_len;
    uint32_t diverged; /* results in which a request diverged */
    uint32_t lag_counts
        [4]; /* diverged results whose first differing token is 0, 1, 2, 3 or more after the first one that the
                              stale write could change */
    struct spread first, differing, watched;
    bool repeats_identical; /* --repeat: all repetitions of each phase have the same digests */
    bool as_expected;
};

struct preflight_result {
    uint32_t request, runs;
    uint32_t prefills;   /* how many prefill ranks the runs were spread over */
    bool identical;      /* outputs of all runs, byte for byte */
    bool transfer_exact; /* every byte of an ordinary transfer arrived */
    char *why;           /* what differed, or NULL */
};

struct run_result {
    const struct scenario *scenario;
    struct preflight_result preflight;
    struct arm_summary *arms; /* [arms_len] */
    uint32_t arms_len;
    uint64_t model_digest;
    uint64_t model_us; /* wall time spent in the model, and in all; for benchmarks, never part of a result file */
    uint64_t wall_us;
    bool as_expected;
};

void run_result_free(struct run_result *r);

#endif
