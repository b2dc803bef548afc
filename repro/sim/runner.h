/*
 * Plays a scenario: pre-flight, baselines, every arm (every phase and repetition of it) in the simulator, and compares
 * what came out with what the scenario expects. One thread; the only clock is scenario time.
 */
#ifndef KVREPRO_RUNNER_H
#define KVREPRO_RUNNER_H

#include <stdio.h>

#include "play.h"

struct runner_options {
    const char *arm; /* play only the arm of this name, or NULL */
    uint32_t repeat; /* each arm so many times; at least 1 */
    FILE *trace;     /* every point passed, a line each, or NULL */
    /* Called before each play with the number of plays done and planned; NULL: nobody wants to know. */
    void (*progress)(void *ctx, const char *what, uint32_t done, uint32_t planned); /* what NULL: over */
    void *progress_ctx;
    sim_decode_fn
        *decode; /* in place of the model's decode step; NULL: the model's. Tests plant a nondeterministic one. */
};

/* -EINVAL with a message on `errors`: no such arm. -ENOMEM. A finding is not an error: 0, and result->as_expected says. */
int runner_run(const struct scenario *s, const struct runner_options *options, struct run_result **out, FILE *errors);

/*
 * For whoever plays arms of their own making: arms of the scenario that were copied and changed. No pre-flight, and the
 * outputs are compared with their baselines, but nothing with what the arm expects. runner_close() after 0; -ENOMEM.
 */
struct runner;
int runner_open(const struct scenario *s, struct runner **out);
/* The first phase of a phased arm. arm_result_free() after 0; it points at `arm`. -ENOMEM. */
int runner_play(struct runner *n, const struct arm *arm, struct arm_result *out);
void runner_close(struct runner *n);

#endif
