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

bool result_final(const struct arm_result *r)
{
    const struct arm *a = r->arm;

    if (r->ended != ARM_QUIESCENT)
        return false;
    /* A park that `end:` names is one that no step releases. */
    for (uint32_t k = 0; a->end_parked && k < a->parks_len; k++)
        if (a->end_parked[k])
            return false;
    return true;
}

uint64_t result_pinned(const struct arm_result *r)
{
    return result_final(r) ? r->numbers[EXPECT_PINNED_PAGES] : 0;
}

bool request_failed(const struct request_result *q)
{
    return q->output == OUTPUT_FAILED && q->status;
}

bool request_counts(const struct arm_result *r, const struct arm *a, uint32_t request)
{
    const struct request_result *q = &r->requests[request];
    bool whole = q->output == OUTPUT_IDENTICAL || q->output == OUTPUT_DIVERGED;

    return q->submitted && (whole || !arm_aborts(a, request));
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

enum finding arm_finding(const struct arm_summary *a, const struct scenario *s)
{
    if (a->results_len == 0)
        return FOUND_NOTHING;
    const struct arm_result *r = &a->results[arm_shown(a, s)];
    for (uint32_t i = 0; i < a->results_len; i++)
        if (a->results[i].ended == ARM_VOID)
            return FOUND_VOID;
    if (a->diverged || result_diverged(r, s))
        return FOUND_DIVERGED;
    for (uint32_t i = 0; i < a->results_len; i++)
        if (result_stale(&a->results[i]))
            return FOUND_STALE;
    if (r->ended == ARM_PREVENTED)
        return FOUND_PREVENTED;
    int worst = arm_worst_request(a, s);
    if (worst >= 0 && r->requests[worst].output == OUTPUT_NOT_ADMITTED)
        return FOUND_NOT_ADMITTED;
    if (worst >= 0 && r->requests[worst].output == OUTPUT_FAILED)
        return request_failed(&r->requests[worst]) ? FOUND_FAILED : FOUND_UNANSWERED;
    return result_pinned(r) ? FOUND_PINNED : FOUND_HARMLESS;
}

static int badness(const struct request_result *q)
{
    switch (q->output) {
    case OUTPUT_IDENTICAL:
        return 0;
    case OUTPUT_FAILED:
        return q->status ? 4 : 2;
    case OUTPUT_NOT_ADMITTED:
        return 3;
    case OUTPUT_DIVERGED:
        return 5;
    default:
        return 1;
    }
}

int arm_worst_request(const struct arm_summary *a, const struct scenario *s)
{
    const struct arm_result *r = &a->results[arm_shown(a, s)];
    int worst = -1;

    /* Of two that fared alike, one that nobody aborted. */
    for (int aborted = 0; aborted < 2; aborted++)
        for (uint32_t i = 0; i < s->requests_len; i++)
            if (request_counts(r, a->arm, i) && arm_aborts(a->arm, i) == (aborted == 1) &&
                (worst < 0 || badness(&r->requests[i]) > badness(&r->requests[worst])))
                worst = (int)i;
    return worst;
}

const struct hold_result *result_hold(const struct arm_result *r, const struct arm *arm)
{
    for (uint32_t i = 0; i < r->holds_len; i++)
        if (arm_aborts(arm, r->holds[i].request))
            return &r->holds[i];
    return r->holds_len ? &r->holds[0] : NULL;
}
