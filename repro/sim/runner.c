#include "runner.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../mutant.h"
#include "expect.h"

enum { PREFLIGHT_RUNS = 3 };

struct runner {
    struct stage stage;
    const struct runner_options *options;
    struct run_result *out;
    struct solo *baselines; /* [requests]; tokens NULL: not computed yet */
    uint64_t model_ns;
    uint32_t done, planned;
};

static void tell(struct runner *n, const char *what)
{
    if (n->options->progress)
        n->options->progress(n->options->progress_ctx, what, n->done, n->planned);
}

static uint64_t now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

static bool same_tokens(const struct solo *a, const struct solo *b)
{
    return a->tokens_len == b->tokens_len &&
           (memcmp(a->tokens, b->tokens, a->tokens_len * sizeof *a->tokens) == 0 || MUTANT(30));
}

/* --- pre-flight --- */

__attribute__((format(printf, 2, 3))) static int preflight_fails(struct preflight_result *p, const char *format, ...)
{
    va_list ap;
    int n;

    free(p->why);
    va_start(ap, format);
    n = vasprintf(&p->why, format, ap);
    va_end(ap);
    if (n < 0)
        p->why = NULL;
    return n < 0 ? -ENOMEM : 0;
}

/* One request alone, three times, over two prefill ranks if there are two: the same tokens, and every byte arrives. */
static int preflight(struct runner *n)
{
    const struct scenario *s = n->stage.scenario;
    struct preflight_result *p = &n->out->preflight;
    uint32_t prefills = s->prefill.instances * s->prefill.ranks, own, other;
    int rc = 0;

    p->request = s->watch.request >= 0 ? (uint32_t)s->watch.request : s->requests_len - 1;
    own = s->requests[p->request].prefill;
    /* The other one is the same rank of the next instance, or the next rank where there is one instance only. */
    other = (own + (s->prefill.instances > 1 ? s->prefill.ranks : 1)) % prefills;
    p->runs = PREFLIGHT_RUNS;
    p->prefills = other == own ? 1 : 2;
    p->identical = p->transfer_exact = true;
    for (uint32_t i = 0; !rc && p->identical && p->transfer_exact && i < PREFLIGHT_RUNS; i++) {
        struct solo run = { 0 };

        tell(n, "pre-flight");
        rc = play_solo(&n->stage, p->request, i == 1 ? other : own, &run);
        n->done++;
        if (rc)
            break;
        if (!run.answered || !run.exact) {
            p->transfer_exact = false;
            rc = preflight_fails(p, "run %u, request %s: %s", i + 1, s->requests[p->request].name, run.why);
        } else if (i > 0 && !same_tokens(&run, &n->baselines[p->request])) {
            p->identical = false;
            rc =
                preflight_fails(p, "run %u of request %s gave other tokens than run 1: the engine is not deterministic",
                                i + 1, s->requests[p->request].name);
        }
        if (i == 0)
            n->baselines[p->request] = run;
        else
            solo_free(&run);
    }
    return rc;
}

static int baseline(struct runner *n, uint32_t request)
{
    if (n->baselines[request].tokens)
        return 0;
    return play_solo(&n->stage, request, n->stage.scenario->requests[request].prefill, &n->baselines[request]);
}

/* --- outputs --- */

static int compare_output(struct runner *n, struct played *p, uint32_t request)
{
    struct request_result *r = &p->result.requests[request];
    const struct solo *base = &n->baselines[request];
    const uint32_t *tokens = p->tokens[request];
    uint32_t max = n->stage.scenario->requests[request].max_tokens;
    int rc;

    if (!r->submitted)
        return 0;
    if (!r->admitted || r->status != 200) {
        r->output = r->admitted ? OUTPUT_FAILED : OUTPUT_NOT_ADMITTED;
        return 0;
    }
    rc = baseline(n, request);
    if (rc)
        return rc;
    for (uint32_t i = max; i > 0; i--) {
        bool same = i <= p->tokens_len[request] && i <= base->tokens_len && tokens[i - 1] == base->tokens[i - 1];

        r->differing += !same;
        if (!same)
            r->first = i - 1;
    }
    if (MUTANT(29) && r->differing)
        r->differing = max - r->first;
    r->output = r->differing ? OUTPUT_DIVERGED : OUTPUT_IDENTICAL;
    r->silent = r->differing && r->status == 200 && r->finish_reason == FINISH_LENGTH;
    return 0;
}

static int play_and_compare(struct runner *n, const struct arm *arm, uint32_t phase, struct played *p)
{
    int rc = play_arm(&n->stage, arm, phase, p);

    for (uint32_t r = 0; !rc && r < n->stage.scenario->requests_len; r++) {
        rc = compare_output(n, p, r);
        if (rc)
            played_free(p);
    }
    return rc;
}

/* --- arms --- */

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static struct spread spread_of(uint64_t *values, uint32_t len)
{
    if (len == 0)
        return (struct spread){ 0 };
    qsort(values, len, sizeof *values, by_value);
    return (struct spread){ values[0], values[len / 2], values[len - 1] };
}

/* The request whose output the summary is about: the watched one if it diverged, else the first that did; -1: none. */
static int diverged_request(const struct scenario *s, const struct arm_result *r)
{
    if (s->watch.request >= 0 && r->requests[s->watch.request].output == OUTPUT_DIVERGED)
        return s->watch.request;
    for (uint32_t i = 0; i < s->requests_len; i++)
        if (r->requests[i].output == OUTPUT_DIVERGED)
            return (int)i;
    return -1;
}

static int summarize(const struct scenario *s, struct arm_summary *a)
{
    uint64_t *values[3];
    uint32_t n = 0;

    for (int i = 0; i < 3; i++)
        values[i] = calloc(a->results_len, sizeof **values);
    if (!values[0] || !values[1] || !values[2]) {
        for (int i = 0; i < 3; i++)
            free(values[i]);
        return -ENOMEM;
    }
    a->as_expected = true;
    for (uint32_t i = 0; i < a->results_len; i++) {
        const struct arm_result *r = &a->results[i];
        int request = diverged_request(s, r);

        a->as_expected = a->as_expected && r->as_expected;
        if (request < 0)
            continue;
        values[0][n] = r->requests[request].first;
        values[1][n] = r->requests[request].differing;
        values[2][n++] = r->numbers[EXPECT_WATCHED_TOKENS_CHANGED];
        if (request == s->watch.request && r->first_stale_token <= r->requests[request].first) {
            uint32_t lag = r->requests[request].first - r->first_stale_token;

            a->lag_counts[lag < 3 ? lag : 3]++;
        }
    }
    a->diverged = n;
    a->first = spread_of(values[0], n);
    a->differing = spread_of(values[1], n);
    a->watched = spread_of(values[2], n);
    for (int i = 0; i < 3; i++)
        free(values[i]);
    return 0;
}

static bool same_result(const struct scenario *s, const struct arm_result *a, const struct arm_result *b)
{
    for (uint32_t r = 0; r < s->requests_len; r++)
        if (a->requests[r].output_digest != b->requests[r].output_digest)
            return false;
    return a->ended == b->ended && a->trace_digest == b->trace_digest &&
           memcmp(a->numbers, b->numbers, sizeof a->numbers) == 0;
}

static int run_arm(struct runner *n, const struct arm *arm, struct arm_summary *a)
{
    const struct scenario *s = n->stage.scenario;
    uint32_t plays = arm->phases * n->options->repeat;
    int rc = 0;

    *a = (struct arm_summary){ .arm = arm, .repeats_identical = true };
    a->results = calloc(plays, sizeof *a->results);
    if (!a->results)
        return -ENOMEM;
    for (uint32_t i = 0; !rc && i < plays; i++) {
        struct played p;

        tell(n, arm->name);
        if (n->stage.trace)
            fprintf(n->stage.trace, "# %s: %s (%s), play %u of %u\n", s->name, arm->name, arm->core_name, i + 1, plays);
        rc = play_and_compare(n, arm, i % arm->phases, &p);
        n->done++;
        if (rc)
            break;
        rc = expect_compare(s, &p);
        a->results[i] = p.result;
        a->results_len++;
        p.result = (struct arm_result){ 0 };
        played_free(&p);
        if (i >= arm->phases && !same_result(s, &a->results[i], &a->results[i % arm->phases]))
            a->repeats_identical = false;
    }
    return rc ? rc : summarize(s, a);
}

static bool chosen(const struct runner_options *o, const struct arm *arm)
{
    return !o->arm || strcmp(o->arm, arm->name) == 0;
}

static int run_arms(struct runner *n)
{
    const struct scenario *s = n->stage.scenario;
    int rc = 0;

    n->out->as_expected = n->out->preflight.identical && n->out->preflight.transfer_exact;
    if (!n->out->as_expected)
        return 0;
    for (uint32_t i = 0; !rc && i < s->arms_len; i++) {
        struct arm_summary *a = &n->out->arms[n->out->arms_len];

        if (!chosen(n->options, &s->arms[i]))
            continue;
        rc = run_arm(n, &s->arms[i], a);
        n->out->arms_len++;
        n->out->as_expected = n->out->as_expected && a->as_expected && a->repeats_identical;
    }
    return rc;
}

/* --- in and out --- */

static int prepare(struct runner *n)
{
    const struct scenario *s = n->stage.scenario;
    struct model *model = model_new(s->model_seed);

    n->stage.model = model;
    n->stage.work = model_work_new();
    n->stage.prompts = calloc(s->requests_len, sizeof *n->stage.prompts);
    n->baselines = calloc(s->requests_len, sizeof *n->baselines);
    n->out = calloc(1, sizeof *n->out);
    if (!model || !n->stage.work || !n->stage.prompts || !n->baselines || !n->out)
        return -ENOMEM;
    n->out->scenario = s;
    n->out->model_digest = model_digest(model);
    n->out->arms = calloc(s->arms_len, sizeof *n->out->arms);
    if (!n->out->arms)
        return -ENOMEM;
    for (uint32_t r = 0; r < s->requests_len; r++) {
        n->stage.prompts[r] = calloc(s->requests[r].prompt_tokens, sizeof **n->stage.prompts);
        if (!n->stage.prompts[r])
            return -ENOMEM;
        model_prompt(s->requests[r].prompt_seed, s->requests[r].prompt_tokens, n->stage.prompts[r]);
    }
    return 0;
}

static void put_away(struct runner *n)
{
    const struct scenario *s = n->stage.scenario;

    for (uint32_t r = 0; n->baselines && r < s->requests_len; r++)
        solo_free(&n->baselines[r]);
    for (uint32_t r = 0; n->stage.prompts && r < s->requests_len; r++)
        free(n->stage.prompts[r]);
    free(n->baselines);
    free(n->stage.prompts);
    model_work_free(n->stage.work);
    model_free((struct model *)(uintptr_t)n->stage.model);
}

int runner_run(const struct scenario *s, const struct runner_options *options, struct run_result **out, FILE *errors)
{
    struct runner n = { .stage = { .scenario = s, .trace = options->trace, .decode = options->decode },
                        .options = options };
    uint64_t began = now_us();
    uint32_t found = 0;
    int rc;

    *out = NULL;
    for (uint32_t i = 0; i < s->arms_len; i++)
        if (chosen(options, &s->arms[i])) {
            found++;
            n.planned += s->arms[i].phases * options->repeat;
        }
    if (!found) {
        fprintf(errors, "%s: no arm is called '%s'; its arms are:\n", s->path, options->arm);
        for (uint32_t i = 0; i < s->arms_len; i++)
            fprintf(errors, "  %s\n", s->arms[i].name);
        return -EINVAL;
    }
    n.planned += PREFLIGHT_RUNS;
    n.stage.model_ns = &n.model_ns;
    rc = prepare(&n);
    if (!rc)
        rc = preflight(&n);
    if (!rc)
        rc = run_arms(&n);
    tell(&n, NULL);
    if (!rc) {
        n.out->model_us = n.model_ns / 1000u;
        n.out->wall_us = now_us() - began;
        *out = n.out;
    } else {
        run_result_free(n.out);
    }
    put_away(&n);
    return rc;
}

int runner_open(const struct scenario *s, struct runner **out)
{
    struct runner *n = calloc(1, sizeof *n);
    int rc;

    *out = n;
    if (!n)
        return -ENOMEM;
    n->stage.scenario = s;
    rc = prepare(n);
    if (rc) {
        runner_close(n);
        *out = NULL;
    }
    return rc;
}

int runner_play(struct runner *n, const struct arm *arm, struct arm_result *out)
{
    struct played p;
    int rc = play_and_compare(n, arm, 0, &p);

    if (rc)
        return rc;
    *out = p.result;
    p.result = (struct arm_result){ 0 };
    played_free(&p);
    return 0;
}

void runner_close(struct runner *n)
{
    if (!n)
        return;
    put_away(n);
    run_result_free(n->out);
    free(n);
}

void run_result_free(struct run_result *r)
{
    if (!r)
        return;
    for (uint32_t i = 0; r->arms && i < r->arms_len; i++) {
        for (uint32_t k = 0; k < r->arms[i].results_len; k++)
            arm_result_free(&r->arms[i].results[k]);
        free(r->arms[i].results);
    }
    free(r->arms);
    free(r->preflight.why);
    free(r);
}
