#include "expect.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "../mutant.h"
#include "../protocol/names.h"

struct comparison {
    const struct scenario *s;
    struct arm_result *r;
    int rc;
};

__attribute__((format(printf, 2, 3))) static void differs(struct comparison *c, const char *format, ...)
{
    char **list = realloc(c->r->differences, (c->r->differences_len + 1u) * sizeof *list), text[512];
    va_list ap;

    if (!list) {
        c->rc = -ENOMEM;
        return;
    }
    c->r->differences = list;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    list[c->r->differences_len] = strdup(text);
    if (list[c->r->differences_len])
        c->r->differences_len++;
    else
        c->rc = -ENOMEM;
}

static const char *range_text(const struct range *want, char *buf, size_t buf_max)
{
    if (want->min == want->max)
        snprintf(buf, buf_max, "%" PRIu64, want->min);
    else if (want->max == UINT64_MAX)
        snprintf(buf, buf_max, "at least %" PRIu64, want->min);
    else
        snprintf(buf, buf_max, "%" PRIu64 " to %" PRIu64, want->min, want->max);
    return buf;
}

static bool outside(const struct range *want, uint64_t got)
{
    return want->given && (got < want->min || got > want->max);
}

static void number(struct comparison *c, const char *of, const char *what, const struct range *want, uint64_t got)
{
    char text[64];

    if (outside(want, got) && !(MUTANT(32) && got > want->max))
        differs(c, "%s%s%s: expected %s, got %" PRIu64, of, *of ? ": " : "", what, range_text(want, text, sizeof text),
                got);
}

static void compare_rows(struct comparison *c, const struct expect_request *e, const struct request_result *got)
{
    const char *name = c->s->requests[e->request].name;
    char what[192];

    for (uint32_t i = 0; i < e->rows_len; i++) {
        uint64_t rows = 0;

        for (uint32_t k = 0; k < got->foreign_len; k++)
            if (got->foreign[k].writer == e->rows[i].writer)
                rows = got->foreign[k].rows;
        snprintf(what, sizeof what, "request %.63s: rows read that were written by %.63s", name,
                 c->s->requests[e->rows[i].writer].name);
        number(c, "", what, &e->rows[i].rows, rows);
    }
    if (e->state_from >= 0 && e->state_from != got->foreign_state)
        differs(c, "request %s: state written by: expected %s, got %s", name, c->s->requests[e->state_from].name,
                got->foreign_state < 0 ? "itself" : c->s->requests[got->foreign_state].name);
}

static void compare_request(struct comparison *c, const struct expect_request *e)
{
    const struct request_result *got = &c->r->requests[e->request];
    const char *name = c->s->requests[e->request].name;
    char what[64];

    snprintf(what, sizeof what, "request %s", name);
    if (e->output >= 0 && e->output != got->output)
        differs(c, "%s: output: expected %s, got %s", what, output_kind_name(e->output),
                got->output < 0 ? "none" : output_kind_name(got->output));
    if (e->first.given && got->output != OUTPUT_DIVERGED)
        differs(c, "%s: first differing token: expected one, but the output did not diverge", what);
    else
        number(c, what, "first differing token", &e->first, got->first);
    number(c, what, "differing tokens", &e->differing, got->differing);
    number(c, what, "tokens", &e->tokens, got->tokens);
    if (e->status >= 0 && (uint32_t)e->status != got->status)
        differs(c, "%s: HTTP status: expected %d, got %u", what, e->status, got->status);
    if (e->finish_reason >= 0 && e->finish_reason != got->finish_reason)
        differs(c, "%s: finish_reason: expected %s, got %s", what, finish_reason_name(e->finish_reason),
                finish_reason_name(got->finish_reason));
    compare_rows(c, e, got);
    if (e->silent >= 0 && e->silent != (int)got->silent)
        differs(c, "%s: silent: expected %s, got %s", what, e->silent ? "true" : "false",
                got->silent ? "true" : "false");
}

static void compare_hold(struct comparison *c, const struct expect_hold *e)
{
    const char *name = c->s->requests[e->request].name;
    const struct hold_result *got = NULL;
    char what[64];

    for (uint32_t i = 0; i < c->r->holds_len; i++)
        if (c->r->holds[i].request == e->request)
            got = &c->r->holds[i];
    if (!got) {
        differs(c, "hold of %s: expected one, there was none", name);
        return;
    }
    snprintf(what, sizeof what, "hold of %s", name);
    if (e->ended_by >= 0 && e->ended_by != got->ended_by)
        differs(c, "%s: expected to be ended by %s, got %s", what, hold_end_name(e->ended_by),
                hold_end_name(got->ended_by));
    number(c, what, "held, in us", &e->held_us, got->held_us);
}

static void compare_order(struct comparison *c, const struct expect *e, const uint64_t *at)
{
    for (uint32_t i = 0; i < e->order_len; i++) {
        if (at[i] == 0)
            differs(c, "order: %s (line %u) was never passed", point_name(e->order[i].point), e->order[i].place.line);
        else if (i > 0 && at[i - 1] > at[i] && !MUTANT(31))
            differs(c, "order: %s came before %s", point_name(e->order[i].point), point_name(e->order[i - 1].point));
    }
}

/* A request that is never answered hangs; unless the scenario says that it expects that, it is a difference. */
static void compare_answered(struct comparison *c, const struct expect *e, uint32_t request)
{
    const struct request_result *got = &c->r->requests[request];

    for (uint32_t i = 0; i < e->requests_len; i++)
        if (e->requests[i].request == request && e->requests[i].output >= 0)
            return;
    if (got->submitted && got->status == 0)
        differs(c, "request %s: decode never answered its client (expect `liveness: {unanswered: N}` if that is meant)",
                c->s->requests[request].name);
}

int expect_compare(const struct scenario *s, struct played *p)
{
    static const char *const names[EXPECT_NUMBER_COUNT] = {
#define X(id, group, name) name,
        EXPECT_NUMBER_TABLE(X)
#undef X
    };
    const struct expect *e = &p->result.arm->expect;
    struct comparison c = { s, &p->result, 0 };
    bool prevented = p->result.ended == ARM_PREVENTED;

    if (prevented && e->prevented_step < 0)
        differs(&c, "was prevented at step %u, which the scenario does not expect", p->result.ended_step);
    else if (prevented && (uint32_t)e->prevented_step != p->result.ended_step)
        differs(&c, "expected to be prevented at step %d, was at step %u", e->prevented_step, p->result.ended_step);
    else if (!prevented && e->prevented_step >= 0)
        differs(&c, "expected to be prevented at step %d, was not", e->prevented_step);
    for (uint32_t i = 0; i < e->requests_len; i++)
        compare_request(&c, &e->requests[i]);
    if (p->result.ended == ARM_QUIESCENT && !e->numbers[EXPECT_UNANSWERED].given)
        for (uint32_t r = 0; r < s->requests_len; r++)
            compare_answered(&c, e, r);
    for (int i = 0; i < EXPECT_NUMBER_COUNT; i++)
        number(&c, "", names[i], &e->numbers[i], p->result.numbers[i]);
    for (uint32_t i = 0; i < e->holds_len; i++)
        compare_hold(&c, &e->holds[i]);
    compare_order(&c, e, p->order_at);
    p->result.as_expected = p->result.differences_len == 0 && p->result.ended != ARM_VOID;
    return c.rc;
}
