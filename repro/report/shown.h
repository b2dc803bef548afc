/* What both the table and the JSON say of an arm that was played several times. */
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
