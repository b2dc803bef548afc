/*
 * libFuzzer target of the scenario reader. An input is a file; after a zero byte, which no file may contain, follow --set
 * arguments, separated by zero bytes.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../protocol/machine.h"
#include "scenario.h"

enum { SETS_MAX = 4, ERRORS_MAX = 64 * 1024 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_match(const struct scenario *s, const struct point_match *m)
{
    assert((unsigned)m->point < POINT_COUNT && m->occurrence >= 1);
    assert(m->request >= -1 && m->request < (int)s->requests_len);
    assert(m->side >= -1 && m->side < SIDE_COUNT && m->status >= -1 && m->status < POINT_STATUS_COUNT);
}

static uint32_t machines_len(const struct scenario *s)
{
    return s->prefill.instances * s->prefill.ranks + s->decode.instances * s->decode.ranks;
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
    case STEP_STOP:
    case STEP_RESUME:
        assert(step->machine < machines_len(s));
        break;
    case STEP_WAIT:
        assert(step->phased == (step->wait_to_us > step->wait_us) && (!step->phased || arm->phases > 1));
        break;
    }
}

/* Machines are stopped and resumed by turns. */
static void check_stops(const struct scenario *s, const struct arm *arm)
{
    bool stopped[SIDE_COUNT * SCENARIO_RANKS_MAX] = { false };

    assert(machines_len(s) <= sizeof stopped);
    for (uint32_t i = 0; i < arm->steps_len; i++) {
        const struct step *step = &arm->steps[i];
        if (step->kind != STEP_STOP && step->kind != STEP_RESUME)
            continue;
        assert(stopped[step->machine] == (step->kind == STEP_RESUME));
        stopped[step->machine] = step->kind == STEP_STOP;
    }
}

static void check_fault(const struct scenario *s, const struct fault *f)
{
    assert(f->request >= 0 && (uint32_t)f->request < s->requests_len && f->occurrence >= 1);
    assert(f->chunk >= -1 && f->fragment >= -1);
    if (f->is_write) {
        const struct request_spec *q = &s->requests[f->request];
        uint32_t tokens = s->prefill.chunk_tokens ? s->prefill.chunk_tokens : q->prompt_tokens;
        assert(f->effect == EFFECT_KV || ((f->effect == EFFECT_STATE || f->effect == EFFECT_AUX) && f->chunk == -1));
        assert(f->chunk == -1 || (uint32_t)f->chunk < (q->prompt_tokens + tokens - 1) / tokens);
        assert(f->kind == FAULT_LOSE || f->kind == FAULT_DELAY || (f->kind == FAULT_ERROR && f->fragment == -1));
    } else {
        assert(f->message >= MESSAGE_METADATA && f->message < MESSAGE_TYPE_COUNT);
        assert(f->chunk == -1 && f->fragment == -1);
        assert(f->kind == FAULT_LOSE || f->kind == FAULT_DELAY || f->kind == FAULT_DOUBLE || f->kind == FAULT_OVERTAKE);
    }
    assert(f->kind == FAULT_DELAY ? f->by_us > 0 : f->kind == FAULT_ERROR || f->by_us == 0);
}

static void check_expect(const struct scenario *s, const struct arm *arm)
{
    const struct expect *x = &arm->expect;

    for (uint32_t i = 0; i < x->requests_len; i++) {
        const struct expect_request *e = &x->requests[i];
        assert(e->request < s->requests_len && e->state_from >= -1 && e->state_from < (int)s->requests_len);
        assert(e->state_from != (int)e->request);
        for (uint32_t k = 0; k < e->rows_len; k++)
            assert(e->rows[k].writer < s->requests_len && e->rows[k].writer != e->request && e->rows[k].rows.given);
    }
    for (uint32_t i = 0; i < x->holds_len; i++)
        assert(x->holds[i].request < s->requests_len);
    for (uint32_t i = 0; i < x->order_len; i++)
        check_match(s, &x->order[i]);
    assert(x->prevented_step == -1 || (x->prevented_step >= 1 && (uint32_t)x->prevented_step <= arm->steps_len));
}

/* What the explorer relies on. */
static void check_explore(const struct scenario *s)
{
    const struct explore_spec *x = &s->explore;

    assert(s->arms_len == 0 && s->watch.request == -1);
    assert(x->events_len >= 1 && x->events_len <= SCENARIO_EVENTS_MAX);
    assert(x->stall >= -1 && x->stall < (int)s->requests_len);
    bool stall_submitted = x->stall < 0;
    for (uint32_t i = 0; i < x->events_len; i++) {
        const struct explore_event *e = &x->events[i];
        bool submitted = false;
        assert(e->request < s->requests_len);
        assert(e->kind == STEP_SUBMIT || e->kind == STEP_ABORT);
        assert(e->at == ABORT_AT_DECODE || (e->at == ABORT_AT_PREFILL && e->kind == STEP_ABORT));
        for (uint32_t k = 0; k < x->events_len; k++) {
            const struct explore_event *other = &x->events[k];
            submitted = submitted || (other->kind == STEP_SUBMIT && other->request == e->request);
            assert(k == i || other->kind != e->kind || other->request != e->request || other->at != e->at);
        }
        assert(submitted);
        stall_submitted = stall_submitted || e->request == (uint32_t)x->stall;
    }
    assert(stall_submitted);
    assert(x->cores_len >= 1 && x->cores_len <= core_rows_len);
    assert(x->engines_len >= 1 && x->engines_len <= engine_rows_len);
    for (uint32_t i = 0; i < x->cores_len; i++)
        assert(x->cores[i] < core_rows_len && (i == 0 || x->cores[i] != x->cores[i - 1]));
    for (uint32_t i = 0; i < x->engines_len; i++)
        assert(x->engines[i] < engine_rows_len && (i == 0 || x->engines[i] != x->engines[i - 1]));
}

/* What whoever plays a scenario relies on. */
static void check_scenario(const struct scenario *s)
{
    assert(s->name && s->requests_len >= 1 && s->arms_len <= SCENARIO_ARMS_MAX);
    assert(s->explore.given == (s->arms_len == 0));
    if (s->explore.given)
        check_explore(s);
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
        check_stops(s, arm);
        assert(arm->policy.engine[ENGINE_RETRIES] <= RETRIES_MAX);
        assert(arm->faults_len <= SCENARIO_ITEMS_MAX);
        for (uint32_t i = 0; i < arm->faults_len; i++)
            check_fault(s, &arm->faults[i]);
        check_expect(s, arm);
        for (uint32_t b = 0; b < a; b++)
            assert(strcmp(s->arms[b].name, arm->name) != 0);
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
