/*
 * One play: fresh engines, one arm's steps, until nothing is enabled any more. Steps run in one sequence and take no
 * time: when an await is satisfied the next step runs before any further event.
 */
#ifndef KVREPRO_PLAY_H
#define KVREPRO_PLAY_H

#include "oracle.h"

/* What all plays of a scenario have in common. */
struct stage {
    const struct scenario *scenario;
    const struct model *model;
    struct model_work *work;
    uint32_t **prompts;    /* [requests][prompt_tokens] */
    sim_decode_fn *decode; /* NULL: the model's */
    uint64_t *model_ns;    /* or NULL */
    FILE *trace;           /* or NULL */
};

struct played {
    struct arm_result result; /* without differences; the outputs of its requests not yet compared */
    uint32_t **tokens;        /* [requests][tokens_len[r]] */
    uint32_t *tokens_len;
    uint32_t requests_len;
    uint64_t *order_at; /* [arm.expect.order_len] which passing was the first that matches; 0: none */
};

/* -ENOMEM; out is valid (and to be freed) after 0 only. */
int play_arm(const struct stage *stage, const struct arm *arm, uint32_t phase, struct played *out);

/* A request alone on fresh engines, through the prefill machine `prefill`, with the first arm's core. exact: every byte
 * of its KV rows, state and aux record was on decode as the prefill had it, when decode committed. */
struct solo {
    uint32_t *tokens, tokens_len;
    bool exact, answered;
    char why[160]; /* what was not exact */
};
int play_solo(const struct stage *stage, uint32_t request, uint32_t prefill, struct solo *out);

void played_free(struct played *p);
void solo_free(struct solo *s);
void arm_result_free(struct arm_result *r);

#endif
