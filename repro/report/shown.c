#include "shown.h"

bool result_diverged(const struct arm_result *r, const struct scenario *s)
{
    for (uint32_t i = 0; i < s->requests_len; i++)
        if (r->requests[i].submitted && r->requests[i].output == OUTPUT_DIVERGED)
            return true;
    return false;
}

bool result_stale(const struct arm_result *r)
{
    return r->numbers[EXPECT_STALE_PAGES] || r->numbers[EXPECT_STALE_SLOTS] || r->numbers[EXPECT_STALE_AUX] ||
           r->numbers[EXPECT_STALE_BYTES];
}

bool arm_aborts(const struct arm *a, uint32_t request)
{
    for (uint32_t i = 0; i < a->steps_len; i++)
        if (a->steps[i].kind == STEP_ABORT && a->steps[i].request == request)
            return true;
    return false;
}

uint32_t arm_shown(const struct arm_summary *a, const struct scenario *s)
{
    for (uint32_t i = 0; i < a->results_len; i++)
        if (!a->results[i].as_expected)
            return i;
    for (uint32_t i = 0; i < a->results_len; i++)
        if (result_diverged(&a->results[i], s))
            return i;
    return 0;
}
