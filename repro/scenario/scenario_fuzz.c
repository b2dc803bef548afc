/*
 * libFuzzer target of the scenario reader. An input is a file; after a zero byte, which no file may contain, follow --set
 * arguments, separated by zero bytes.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "scenario.h"

enum { SETS_MAX = 4, ERRORS_MAX = 64 * 1024 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_match(const struct scenario *s, const struct point_match *m)
{
    assert((unsigned)m->point < POINT_COUNT && m->occurrence >= 1);
    assert(m->request >= -1 && m->request < (int)s->requests_len);
    assert(m->side >= -1 && m->side < SIDE_COUNT && m->status >= -1 && m->status < POINT_STATUS_COUNT);
}

static void check_step(const struct scenario *s, const struct arm *arm, const struct step *step)
{
    switch (step->kind) {
    case STEP_PARK:
        check_match(s, &step->match);
        assert(step->park < arm->parks_len);
        break;
    case STEP_SUBMIT:
    case STEP_ABORT:
        assert(step->request < s->requests_len);
        break;
    case STEP_AWAIT:
        assert(step->items_len >= 1);
        for (uint32_t i = 0; i < step->items_len; i++) {
            if (step->items[i].kind == AWAIT_PARK)
                assert(step->items[i].park < arm->parks_len);
            else
                check_match(s, &step->items[i].match);
        }
        break;
    case STEP_RELEASE:
        assert(step->park < arm->parks_len);
        break;
    case STEP_WAIT:
        assert(step->phased == (step->wait_to_us > step->wait_us) && (!step->phased || arm->phases > 1));
        break;
    }
}

/* What whoever plays a scenario relies on. */
static void check_scenario(const struct scenario *s)
{
    assert(s->name && s->requests_len >= 1 && s->arms_len >= 1);
    assert(s->prefill.page_tokens == s->decode.page_tokens && s->prefill.page_tokens > 0);
    assert(s->prefill.chunk_tokens % s->prefill.page_tokens == 0 && s->prefill.workers >= 1);
    assert(s->decode.state_slots >= 1 && s->decode.aux_slots >= 1 && s->decode.request_slots >= 1);
    assert(s->times.step_us >= 1 && s->watch.request < (int)s->requests_len);
    for (uint32_t i = 0; i < s->requests_len; i++) {
        const struct request_spec *q = &s->requests[i];
        assert(q->name && q->prompt_tokens >= 1 && q->max_tokens >= 1 && q->room <= i);
        assert(q->prompt_tokens + q->max_tokens <= SCENARIO_TOKENS_MAX);
        assert(q->prefill < s->prefill.instances * s->prefill.ranks &&
               q->decode < s->decode.instances * s->decode.ranks);
    }
    for (uint32_t a = 0; a < s->arms_len; a++) {
        const struct arm *arm = &s->arms[a];
        assert(arm->name && core_by_name(arm->core_name) >= 0 && engine_by_name(arm->engine_name) >= 0);
        assert(arm->steps_len >= 1 && arm->steps_len <= SCENARIO_STEPS_MAX && arm->phases >= 1);
        for (uint32_t i = 0; i < arm->steps_len; i++)
            check_step(s, arm, &arm->steps[i]);
        for (uint32_t i = 0; i < arm->expect.requests_len; i++)
            assert(arm->expect.requests[i].request < s->requests_len);
        for (uint32_t i = 0; i < arm->expect.holds_len; i++)
            assert(arm->expect.holds[i].request < s->requests_len);
        for (uint32_t i = 0; i < arm->expect.order_len; i++)
            check_match(s, &arm->expect.order[i]);
        assert(arm->expect.prevented_step == -1 ||
               (arm->expect.prevented_step >= 1 && (uint32_t)arm->expect.prevented_step <= arm->steps_len));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char messages[ERRORS_MAX];
    static FILE *errors;
    const char *sets[SETS_MAX];
    struct scenario_overrides overrides = { .sets = sets };
    struct scenario *s = NULL;

    if (!errors) {
        errors = fmemopen(messages, sizeof messages, "w");
        assert(errors);
    }
    rewind(errors);
    char *copy = malloc(size + 1);
    assert(copy);
    if (size)
        memcpy(copy, data, size);
    copy[size] = '\0';
    size_t text_len = strnlen(copy, size);
    for (size_t at = text_len + 1; at < size && overrides.sets_len < SETS_MAX; at += strlen(copy + at) + 1)
        sets[overrides.sets_len++] = copy + at;

    /* Exactly its own bytes, so that reading past them is seen. */
    char *text = malloc(text_len ? text_len : 1);
    assert(text);
    memcpy(text, copy, text_len);
    int rc = scenario_parse("fuzz", text, text_len, &overrides, &s, errors);
    free(text);
    fflush(errors);
    long messages_len = ftell(errors);
    if (rc == 0) {
        assert(s && messages_len == 0);
        check_scenario(s);
    } else {
        assert(rc == -EINVAL && !s && messages_len > 0);
        for (long i = 0; i < messages_len && i < ERRORS_MAX; i++)
            assert(messages[i] == '\n' || (unsigned char)messages[i] >= 0x20);
    }
    scenario_free(s);
    free(copy);
    return 0;
}
