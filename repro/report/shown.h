/* What the reports have in common: which play stands for an arm, and what the arm says about its core. */
#ifndef KVREPRO_SHOWN_H
#define KVREPRO_SHOWN_H

#include "../sim/result.h"

/* Index of the result that stands for the arm: the first that is not as expected, else the first in which a request
 * diverged, else the first. The arm must have been played. */
uint32_t arm_shown(const struct arm_summary *a, const struct scenario *s);

bool result_diverged(const struct arm_result *r, const struct scenario *s);
/* Something landed in memory that another request owned by then. */
bool result_stale(const struct arm_result *r);
/* One of the arm's steps aborts this request. */
bool arm_aborts(const struct arm *a, uint32_t request);
/* It came to rest, and no park is closed: what has not happened by then never will. */
bool result_final(const struct arm_result *r);
/* Pages that stay held for ever; 0 too where something might still have freed them after the arm's end. */
uint64_t result_pinned(const struct arm_result *r);
/* Its client was answered with an error or an abort; never answered at all is something else. */
bool request_failed(const struct request_result *q);
/* Its output says something about the core: submitted, and an abort did not cut it off. */
bool request_counts(const struct arm_result *r, const struct arm *a, uint32_t request);
/* What an arm says about its core, the worst of its plays first. */
enum finding {
    FOUND_NOTHING,
    FOUND_HARMLESS,
    FOUND_PINNED, /* no output harmed, but memory held for ever */
    FOUND_STALE,
    FOUND_DIVERGED,
    FOUND_FAILED,
    FOUND_NOT_ADMITTED,
    FOUND_UNANSWERED,
    FOUND_PREVENTED,
    FOUND_VOID
};
enum finding arm_finding(const struct arm_summary *a, const struct scenario *s);

/* The request that fared worst among those that count, or -1. */
int arm_worst_request(const struct arm_summary *a, const struct scenario *s);
/* The first hold of a request that the arm aborts, or of any other; NULL: none. */
const struct hold_result *result_hold(const struct arm_result *r, const struct arm *arm);
/* By phases, by repetition, or both. */
static inline bool arm_played_often(const struct arm_summary *a)
{
    return a->results_len > 1;
}
/* When an event happened: the sentinels of result.h left out. */
static inline bool us_known(uint64_t us)
{
    return us != 0 && us != UINT64_MAX;
}

#endif
