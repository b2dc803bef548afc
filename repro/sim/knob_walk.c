/*
 * Walks over all knobs of the policy table: each is changed alone, in copies of the arms of the scenarios, until a verdict
 * changes. A knob whose change no verdict notices is not tested by these scenarios, or decides nothing.
 *
 * What counts as the verdict: how the arm ended, what each request's client got, the arm's numbers, how holds ended; not
 * the trace. Knobs are walked in processes of their own, so that one which brings down its play is told as that.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner.h"

enum { KNOBS = (int)CORE_KNOB_COUNT + (int)ENGINE_KNOB_COUNT, VALUES_MAX = 8, TEXT_MAX = 768 };

struct walked_arm {
    const struct scenario *s;
    struct runner *runner;
    const struct arm *arm;
    struct arm_result as_shipped;
    uint64_t cost;
    uint32_t nr; /* as given on the command line: no two are alike */
};

/* Shared with the process that walks the knob: its line, or what it was at when it ended early. */
struct outcome {
    char line[TEXT_MAX], at[TEXT_MAX];
};

struct walk {
    struct scenario **scenarios;
    struct runner **runners;
    uint32_t scenarios_len;
    struct walked_arm *arms;
    uint32_t arms_len;
    struct outcome *outcomes; /* [KNOBS] */
};

static const struct knob_row *knob_of(uint32_t k)
{
    return k < CORE_KNOB_COUNT ? &core_knobs[k] : &engine_knobs[k - CORE_KNOB_COUNT];
}

static uint32_t *value_of(struct policy *p, uint32_t k)
{
    return k < CORE_KNOB_COUNT ? &p->core[k] : &p->engine[k - CORE_KNOB_COUNT];
}

/* --- the values that a knob could have besides its own --- */

static void add_value(uint32_t *values, uint32_t *len, uint32_t value, uint32_t own)
{
    if (value == own)
        return;
    for (uint32_t i = 0; i < *len; i++)
        if (values[i] == value)
            return;
    values[(*len)++] = value;
}

static uint32_t other_values(const struct knob_row *knob, uint32_t own, uint32_t values[VALUES_MAX])
{
    uint32_t len = 0, choices = 1;

    switch (knob->kind) {
    case KNOB_BOOL:
        add_value(values, &len, !own, own);
        break;
    case KNOB_CHOICE:
        for (const char *c = knob->values; *c; c++)
            choices += *c == ' ';
        for (uint32_t v = 0; v < choices && v < VALUES_MAX; v++)
            add_value(values, &len, v, own);
        break;
    case KNOB_DURATION:
        add_value(values, &len, own * 2, own);
        add_value(values, &len, own / 2, own);
        add_value(values, &len, 0, own);
        add_value(values, &len, 1, own);
        break;
    case KNOB_NUMBER:
        if (own < RETRIES_MAX)
            add_value(values, &len, own + 1, own);
        break;
    }
    return len;
}

/* --- verdicts --- */

static const char *output_text(const struct request_result *r, char *buf, size_t buf_max)
{
    if (r->output == OUTPUT_DIVERGED)
        snprintf(buf, buf_max, "diverged at %u%s", r->first, r->silent ? "" : ", not silently");
    else if (r->output >= 0)
        snprintf(buf, buf_max, "%s", output_kind_name(r->output));
    else
        snprintf(buf, buf_max, "no output");
    return buf;
}

static const char *ended_text(const struct arm_result *r, char *buf, size_t buf_max)
{
    if (r->ended == ARM_PREVENTED)
        snprintf(buf, buf_max, "prevented at step %u", r->ended_step);
    else
        snprintf(buf, buf_max, "completed");
    return buf;
}

static const char *ended_by(const struct arm_result *r, uint32_t request)
{
    for (uint32_t i = 0; i < r->holds_len; i++)
        if (r->holds[i].request == request)
            return hold_end_name(r->holds[i].ended_by);
    return "none";
}

static bool outputs_differ(const struct request_result *a, const struct request_result *b)
{
    return a->output != b->output || (a->output == OUTPUT_DIVERGED && a->first != b->first) || a->silent != b->silent;
}

/* What changed, in one clause and from the gravest on; empty if nothing did. */
static void verdict_change(const struct scenario *s, const struct arm_result *a, const struct arm_result *b, char *text)
{
    static const char *const numbers[EXPECT_NUMBER_COUNT] = {
#define X(id, group, name) name,
        EXPECT_NUMBER_TABLE(X)
#undef X
    };
    char from[64], to[64];

    text[0] = '\0';
    for (uint32_t r = 0; r < s->requests_len; r++)
        if (outputs_differ(&a->requests[r], &b->requests[r])) {
            snprintf(text, TEXT_MAX, "%.63s: %s -> %s", s->requests[r].name,
                     output_text(&a->requests[r], from, sizeof from), output_text(&b->requests[r], to, sizeof to));
            return;
        }
    for (uint32_t r = 0; r < s->requests_len; r++)
        if (a->requests[r].status != b->requests[r].status ||
            a->requests[r].finish_reason != b->requests[r].finish_reason) {
            snprintf(text, TEXT_MAX, "%.63s's client: HTTP %u, %s -> HTTP %u, %s", s->requests[r].name,
                     a->requests[r].status, finish_reason_name(a->requests[r].finish_reason), b->requests[r].status,
                     finish_reason_name(b->requests[r].finish_reason));
            return;
        }
    for (uint32_t r = 0; r < s->requests_len; r++)
        if (a->requests[r].prefill_status != b->requests[r].prefill_status) {
            snprintf(text, TEXT_MAX, "%.63s's client on the prefill side: HTTP %u -> HTTP %u", s->requests[r].name,
                     a->requests[r].prefill_status, b->requests[r].prefill_status);
            return;
        }
    for (uint32_t r = 0; r < s->requests_len; r++)
        if (strcmp(ended_by(a, r), ended_by(b, r)) != 0) {
            snprintf(text, TEXT_MAX, "hold of %.63s ended by: %s -> %s", s->requests[r].name, ended_by(a, r),
                     ended_by(b, r));
            return;
        }
    if (a->ended != b->ended || a->ended_step != b->ended_step) {
        snprintf(text, TEXT_MAX, "%s -> %s", ended_text(a, from, sizeof from), ended_text(b, to, sizeof to));
        return;
    }
    for (uint32_t i = 0; i < EXPECT_NUMBER_COUNT; i++)
        if (a->numbers[i] != b->numbers[i]) {
            snprintf(text, TEXT_MAX, "%s: %" PRIu64 " -> %" PRIu64, numbers[i], a->numbers[i], b->numbers[i]);
            return;
        }
}

/* --- one knob --- */

/* 1: its change changed this arm's verdict; 0: it didn't; or -errno. */
static int try_arm(const struct walked_arm *w, uint32_t k, struct outcome *out)
{
    const struct knob_row *knob = knob_of(k);
    struct arm changed = *w->arm;
    uint32_t own = *value_of(&changed.policy, k), values[VALUES_MAX], len = other_values(knob, own, values);
    char from[32], to[32], change[TEXT_MAX];

    knob_value_text(knob, own, from, sizeof from);
    for (uint32_t i = 0; i < len; i++) {
        struct arm_result r;
        bool gone;
        int rc;

        knob_value_text(knob, values[i], to, sizeof to);
        snprintf(out->at, sizeof out->at, "%s -> %s in %s, arm '%s'", from, to, w->s->name, w->arm->name);
        *value_of(&changed.policy, k) = values[i];
        rc = runner_play(w->runner, &changed, &r);
        if (rc)
            return rc;
        verdict_change(w->s, &w->as_shipped, &r, change);
        gone = r.ended == ARM_VOID; /* the order that the arm asks for no longer happens: that is no verdict */
        arm_result_free(&r);
        if (change[0] && !gone) {
            snprintf(out->line, sizeof out->line, "ok knob %s: %.200s: %.300s\n", knob->name, out->at, change);
            return 1;
        }
    }
    return 0;
}

static int walk_knob(const struct walk *w, uint32_t k)
{
    struct outcome *out = &w->outcomes[k];

    for (uint32_t i = 0; i < w->arms_len; i++) {
        int rc = try_arm(&w->arms[i], k, out);

        if (rc)
            return rc < 0 ? rc : 0;
    }
    snprintf(out->line, sizeof out->line, "skip knob %s: untested, no shipped scenario's verdict depends on it\n",
             knob_of(k)->name);
    return 0;
}

/* --- all of them --- */

static void wait_one(struct walk *w, pid_t *pids)
{
    int status;
    pid_t pid = wait(&status);

    for (uint32_t k = 0; k < KNOBS; k++) {
        struct outcome *o = &w->outcomes[k];

        if (pids[k] != pid)
            continue;
        pids[k] = 0;
        if (WIFSIGNALED(status))
            snprintf(o->line, sizeof o->line, "not ok knob %s: %.500s: the play ended by signal %d\n", knob_of(k)->name,
                     o->at, WTERMSIG(status));
        else if (WEXITSTATUS(status) != 0)
            snprintf(o->line, sizeof o->line, "not ok knob %s: %.500s: %s\n", knob_of(k)->name, o->at,
                     strerror(WEXITSTATUS(status)));
    }
}

static int walk_all(struct walk *w)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN), running = 0;
    pid_t pids[KNOBS] = { 0 };
    int failed = 0;

    fflush(stdout);
    for (uint32_t k = 0; k < KNOBS; k++) {
        if (running >= (processors > 0 ? processors : 1)) {
            wait_one(w, pids);
            running--;
        }
        pids[k] = fork();
        if (pids[k] == 0)
            _exit(-walk_knob(w, k));
        if (pids[k] < 0) {
            snprintf(w->outcomes[k].line, TEXT_MAX, "not ok knob %s: fork: %s\n", knob_of(k)->name, strerror(errno));
            pids[k] = 0;
            continue;
        }
        running++;
    }
    for (; running > 0; running--)
        wait_one(w, pids);
    for (uint32_t k = 0; k < KNOBS; k++) {
        fputs(w->outcomes[k].line, stdout);
        failed |= strncmp(w->outcomes[k].line, "not", 3) == 0;
    }
    return failed;
}

/* --- what is walked over --- */

static int by_cost(const void *a, const void *b)
{
    const struct walked_arm *x = a, *y = b;

    if (x->cost != y->cost)
        return x->cost > y->cost ? 1 : -1;
    return (x->nr > y->nr) - (x->nr < y->nr);
}

static uint64_t cost_of(const struct scenario *s)
{
    uint64_t tokens = 0;

    for (uint32_t r = 0; r < s->requests_len; r++)
        tokens += s->requests[r].prompt_tokens + s->requests[r].max_tokens;
    return tokens;
}

static int add_scenario(struct walk *w, struct scenario *s)
{
    struct walked_arm *arms = realloc(w->arms, (w->arms_len + s->arms_len) * sizeof *arms);
    struct runner *runner;
    int rc;

    if (!arms)
        return -ENOMEM;
    w->arms = arms;
    rc = runner_open(s, &runner);
    if (rc)
        return rc;
    w->runners[w->scenarios_len - 1] = runner;
    for (uint32_t i = 0; !rc && i < s->arms_len; i++) {
        if (s->arms[i].phases > 1)
            continue; /* the same, many times */
        w->arms[w->arms_len] =
            (struct walked_arm){ .s = s, .runner = runner, .arm = &s->arms[i], .cost = cost_of(s), .nr = w->arms_len };
        rc = runner_play(runner, &s->arms[i], &w->arms[w->arms_len].as_shipped);
        if (!rc && w->arms[w->arms_len].as_shipped.ended == ARM_VOID)
            arm_result_free(&w->arms[w->arms_len].as_shipped);
        else
            w->arms_len += !rc;
    }
    return rc;
}

static int open_walk(struct walk *w, char **paths, uint32_t len)
{
    void *shared = mmap(NULL, KNOBS * sizeof *w->outcomes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    w->outcomes = shared == MAP_FAILED ? NULL : shared;
    w->scenarios = calloc(len, sizeof(struct scenario *));
    w->runners = calloc(len, sizeof(struct runner *));
    if (!w->outcomes || !w->scenarios || !w->runners)
        return -ENOMEM;
    for (uint32_t i = 0; i < len; i++) {
        int rc = scenario_load(paths[i], NULL, &w->scenarios[i], stderr);

        if (rc)
            return rc;
        w->scenarios_len++;
        rc = add_scenario(w, w->scenarios[i]);
        if (rc)
            return rc;
    }
    /* The cheap ones first: most knobs need no others. */
    qsort(w->arms, w->arms_len, sizeof *w->arms, by_cost);
    return 0;
}

static void close_walk(struct walk *w)
{
    for (uint32_t i = 0; i < w->arms_len; i++)
        arm_result_free(&w->arms[i].as_shipped);
    for (uint32_t i = 0; i < w->scenarios_len; i++) {
        runner_close(w->runners[i]);
        scenario_free(w->scenarios[i]);
    }
    free(w->arms);
    free(w->scenarios);
    free(w->runners);
    if (w->outcomes)
        munmap(w->outcomes, KNOBS * sizeof *w->outcomes);
}

int main(int argc, char **argv)
{
    struct walk w = { 0 };
    int rc;

    if (argc < 2 || argv[1][0] == '-') {
        fprintf(argc < 2 ? stderr : stdout,
                "usage: knob-walk SCENARIO.yaml...\n\n"
                "Changes each knob of the policy table alone, in every arm of the scenarios, until a verdict changes.\n"
                "Prints 'ok knob NAME: what was changed where: what became of it', or 'skip knob NAME: ...' for one\n"
                "that no verdict depends on. Exit status 1: a play failed; 2: a scenario could not be read.\n\n"
                "example:\n  knob-walk scenarios/*.yaml\n");
        return argc < 2 || (strcmp(argv[1], "--help") != 0 && strcmp(argv[1], "-h") != 0) ? 2 : 0;
    }
    rc = open_walk(&w, argv + 1, (uint32_t)argc - 1);
    if (rc)
        fprintf(stderr, "knob-walk: %s\n", strerror(-rc));
    else if (w.arms_len == 0)
        printf("not ok knob_walk: no arm to play\n");
    else
        rc = walk_all(&w);
    if (!rc && w.arms_len == 0)
        rc = 1;
    close_walk(&w);
    return rc < 0 ? 2 : rc;
}
