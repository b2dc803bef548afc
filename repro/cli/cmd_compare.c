#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "../model/model.h"
#include "../report/json.h"
#include "../report/matrix.h"
#include "../report/text.h"
#include "../sim/runner.h"
#include "cli.h"
#include "jobs.h"
#include "outfile.h"
#include "progress.h"

enum { JOBS_MAX = 1024, ENGINES_MAX = 16, WITH_MAX = 512 };

static void usage(void)
{
    printf("\
usage: kvrepro compare [OPTION]... FILE\n\
\n\
Plays each arm of a scenario with every transfer core and every engine, and shows as one table what became of the\n\
requests that were not aborted: corrupted, identical, not admitted, failed; and how the aborted request's memory was let\n\
go, pages that stay pinned, requests that failed as collateral. What the file expects is written for its own cores and\n\
does not count here. Arms that differ in nothing but core and engine share a table.\n\
\n\
options:\n\
      --arm NAME        only this arm\n\
      --core NAME       only this core; may be repeated\n\
      --engine NAME     only this engine; may be repeated\n\
      --set KEY=VALUE   as if the file said so, as in --set topology.decode.pages=66; may be repeated\n\
      --json FILE       also as JSON ('-': to the standard output, instead of the table); written whole or not at all\n\
      --jobs N          so many plays at a time, each in a process of its own; default: as there are processors\n\
  -h, --help            this text\n\
\n\
exit status: 0, whatever was found; 1 something is void: nothing can be said of it; 2 usage or scenario error\n\
'does not apply': a park or a fault of the scenario meets nothing under that core\n\
\n\
examples:\n\
  kvrepro compare scenarios/seed.yaml\n\
  kvrepro compare --arm 'without the fix' --engine mooncake scenarios/seed.yaml\n\
  kvrepro compare --core strict --core fenced --json cores.json scenarios/seed.yaml\n");
}

/* Arms with the same steps and faults: what is left to differ is the core and the engine. */
struct block {
    const struct arm *arm;                    /* the first of them */
    const struct arm *engine_of[ENGINES_MAX]; /* which of them says what that engine's knobs are, or NULL */
    char *name;
    bool several;
};

/* A row of a block's table: a core as the policy table has it, or as an arm of the file changes it. */
struct task {
    uint32_t block;
    unsigned core;
    const struct arm *own; /* the arm whose core it is, or NULL */
};

struct compare {
    struct cli_overrides overrides;
    const char *path, *arm, *json;
    uint32_t jobs;
    bool help;
    bool *cores; /* [core_rows_len] wanted; */
    bool engines[ENGINES_MAX];
    bool some_cores, some_engines;
    struct scenario *s;
    struct block *blocks;
    uint32_t blocks_len;
    uint32_t *block_of; /* [arms_len] */
    struct task *tasks;
    uint32_t tasks_len;
    struct progress progress;
};

static int no_memory(void)
{
    fprintf(stderr, "kvrepro compare: out of memory\n");
    return EXIT_USAGE;
}

/* --- before the first play --- */

static const char *core_at(const void *ctx, unsigned idx)
{
    return (void)ctx, core_rows[idx].name;
}

static const char *engine_at(const void *ctx, unsigned idx)
{
    return (void)ctx, engine_rows[idx].name;
}

static int want_core(struct compare *c, const char *name)
{
    struct choices choices = { "core", core_rows_len, core_at, NULL };
    int core = core_by_name(name);

    if (core < 0)
        return cli_no_such("compare", name, &choices);
    c->cores[core] = c->some_cores = true;
    return 0;
}

static int want_engine(struct compare *c, const char *name)
{
    struct choices choices = { "engine", engine_rows_len, engine_at, NULL };
    int engine = engine_by_name(name);

    if (engine < 0)
        return cli_no_such("compare", name, &choices);
    c->engines[engine] = c->some_engines = true;
    return 0;
}

static int parse(int argc, char **argv, struct compare *c)
{
    enum { OPT_ARM = 256, OPT_CORE, OPT_ENGINE, OPT_SET, OPT_JSON, OPT_JOBS };
    static const struct option longs[] = {
        { "arm", required_argument, NULL, OPT_ARM },
        { "core", required_argument, NULL, OPT_CORE },
        { "engine", required_argument, NULL, OPT_ENGINE },
        { "set", required_argument, NULL, OPT_SET },
        { "json", required_argument, NULL, OPT_JSON },
        { "jobs", required_argument, NULL, OPT_JOBS },
        { "help", no_argument, NULL, 'h' },
        { 0 },
    };
    int option, status = 0;

    while (status == 0 && (option = cli_option("compare", argc, argv, ":h", longs)) != -1) {
        switch (option) {
        case OPT_ARM:
            c->arm = optarg;
            break;
        case OPT_CORE:
            status = want_core(c, optarg);
            break;
        case OPT_ENGINE:
            status = want_engine(c, optarg);
            break;
        case OPT_SET:
            cli_override_set(&c->overrides, optarg);
            break;
        case OPT_JSON:
            c->json = optarg;
            break;
        case OPT_JOBS:
            status = cli_number("compare", "--jobs", optarg, 1, JOBS_MAX, &c->jobs) ? 0 : EXIT_USAGE;
            break;
        case 'h':
            c->help = true;
            return 0;
        default:
            return EXIT_USAGE;
        }
    }
    if (status)
        return status;
    if (optind == argc)
        return cli_usage_error("compare", "no scenario file named");
    if (argc - optind > 1)
        return cli_usage_error("compare", "one scenario at a time, not '%.60s' too", argv[optind + 1]);
    c->path = argv[optind];
    return 0;
}

static bool same_match(const struct point_match *a, const struct point_match *b)
{
    return a->point == b->point && a->request == b->request && a->side == b->side && a->instance == b->instance &&
           a->rank == b->rank && a->actor == b->actor && a->chunk == b->chunk && a->fragment == b->fragment &&
           a->n == b->n && a->status == b->status && a->occurrence == b->occurrence;
}

static bool same_step(const struct step *a, const struct step *b)
{
    if (a->kind != b->kind || a->park != b->park || a->request != b->request || a->at != b->at ||
        a->items_len != b->items_len || a->all != b->all || a->within_us != b->within_us || a->machine != b->machine ||
        a->wait_us != b->wait_us || a->wait_to_us != b->wait_to_us || a->phased != b->phased)
        return false;
    if (a->kind == STEP_PARK && !same_match(&a->match, &b->match))
        return false;
    for (uint32_t i = 0; i < a->items_len; i++)
        if (a->items[i].kind != b->items[i].kind ||
            (a->items[i].kind == AWAIT_PARK ? a->items[i].park != b->items[i].park
                                            : !same_match(&a->items[i].match, &b->items[i].match)))
            return false;
    return true;
}

static bool same_fault(const struct fault *a, const struct fault *b)
{
    return a->kind == b->kind && a->is_write == b->is_write && a->message == b->message && a->effect == b->effect &&
           a->request == b->request && a->chunk == b->chunk && a->fragment == b->fragment &&
           a->occurrence == b->occurrence && a->by_us == b->by_us;
}

/* The same but for core, engine and what is expected. */
static bool same_play(const struct arm *a, const struct arm *b)
{
    if (a->steps_len != b->steps_len || a->parks_len != b->parks_len || a->phases != b->phases ||
        a->faults_len != b->faults_len)
        return false;
    for (uint32_t i = 0; i < a->steps_len; i++)
        if (!same_step(&a->steps[i], &b->steps[i]))
            return false;
    for (uint32_t i = 0; i < a->parks_len; i++)
        if (a->end_parked[i] != b->end_parked[i])
            return false;
    for (uint32_t i = 0; i < a->faults_len; i++)
        if (!same_fault(&a->faults[i], &b->faults[i]))
            return false;
    return true;
}

/* Two arms that want other knobs of one engine can't share its column. */
static bool fits(const struct block *b, const struct arm *arm, int engine)
{
    const struct arm *says = b->engine_of[engine];

    return same_play(b->arm, arm) &&
           (!says || memcmp(says->policy.engine, arm->policy.engine, sizeof arm->policy.engine) == 0);
}

/* The arm's name without the core and the engine that the reader of the file has appended. Returns its length. */
static int own_name(const struct arm *arm)
{
    size_t len = strlen(arm->name), cut;
    char ends[3][2 * YAML_NAME_MAX + 8];

    snprintf(ends[0], sizeof ends[0], " (%.63s, %.63s)", arm->core_name, arm->engine_name);
    snprintf(ends[1], sizeof ends[1], " (%.63s)", arm->core_name);
    snprintf(ends[2], sizeof ends[2], " (%.63s)", arm->engine_name);
    for (int i = 0; i < 3; i++) {
        cut = strlen(ends[i]);
        if (len > cut && strcmp(arm->name + len - cut, ends[i]) == 0)
            return (int)(len - cut);
    }
    return (int)len;
}

/* All the names that its arms have, one after the other. */
static int name_block(struct compare *c, uint32_t b)
{
    struct text names = { .len = 0 };
    const struct scenario *s = c->s;

    for (uint32_t i = 0; i < s->arms_len; i++) {
        bool told = c->block_of[i] != b;
        for (uint32_t k = 0; !told && k < i; k++)
            told = c->block_of[k] == b && own_name(&s->arms[k]) == own_name(&s->arms[i]) &&
                   strncmp(s->arms[k].name, s->arms[i].name, (size_t)own_name(&s->arms[i])) == 0;
        if (!told)
            text_add(&names, "%s%.*s", names.len ? "; " : "", own_name(&s->arms[i]), s->arms[i].name);
    }
    c->blocks[b].name = strdup(names.s);
    return c->blocks[b].name ? 0 : no_memory();
}

static int find_blocks(struct compare *c)
{
    const struct scenario *s = c->s;
    int status = 0;

    c->blocks = calloc(s->arms_len, sizeof *c->blocks);
    c->block_of = calloc(s->arms_len, sizeof *c->block_of);
    if (!c->blocks || !c->block_of)
        return no_memory();
    for (uint32_t i = 0; i < s->arms_len; i++) {
        int engine = engine_by_name(s->arms[i].engine_name);
        uint32_t b = 0;
        engine = engine < 0 ? 0 : engine;
        while (b < c->blocks_len && !fits(&c->blocks[b], &s->arms[i], engine))
            b++;
        c->block_of[i] = b;
        if (b < c->blocks_len)
            c->blocks[b].several = true;
        else
            c->blocks[c->blocks_len++].arm = &s->arms[i];
        if (!c->blocks[b].engine_of[engine])
            c->blocks[b].engine_of[engine] = &s->arms[i];
    }
    for (uint32_t b = 0; status == 0 && b < c->blocks_len; b++)
        status = name_block(c, b);
    return status;
}

static const char *arm_at(const void *ctx, unsigned idx)
{
    return ((const struct scenario *)ctx)->arms[idx].name;
}

static bool wanted(const struct compare *c, uint32_t block)
{
    bool is = !c->arm || strcmp(c->blocks[block].name, c->arm) == 0;

    for (uint32_t i = 0; !is && i < c->s->arms_len; i++) {
        const char *name = c->s->arms[i].name;
        is = c->block_of[i] == block &&
             (strcmp(name, c->arm) == 0 ||
              (strlen(c->arm) == (size_t)own_name(&c->s->arms[i]) && strncmp(name, c->arm, strlen(c->arm)) == 0));
    }
    return is;
}

/* --arm: those that have an arm of that name in them. */
static int check_arm(const struct compare *c)
{
    struct choices names = { "arm", c->s->arms_len, arm_at, c->s };

    for (uint32_t b = 0; b < c->blocks_len; b++)
        if (wanted(c, b))
            return 0;
    return cli_no_such("compare", c->arm, &names);
}

static bool is_row(const struct arm *arm)
{
    int core = core_by_name(arm->core_name);

    for (int k = 0; core >= 0 && k < CORE_KNOB_COUNT; k++)
        if (arm->policy.core[k] != core_rows[core].values[k].value)
            return false;
    return true;
}

static int find_tasks(struct compare *c)
{
    c->tasks = calloc((size_t)c->blocks_len * core_rows_len + c->s->arms_len, sizeof *c->tasks);
    if (!c->tasks)
        return no_memory();
    for (uint32_t b = 0; b < c->blocks_len; b++) {
        uint32_t first = c->tasks_len;
        if (!wanted(c, b))
            continue;
        for (unsigned core = 0; core < core_rows_len; core++)
            if (!c->some_cores || c->cores[core])
                c->tasks[c->tasks_len++] = (struct task){ .block = b, .core = core };
        for (uint32_t i = 0; i < c->s->arms_len; i++) {
            const struct arm *arm = &c->s->arms[i];
            int core = core_by_name(arm->core_name);
            bool told = c->block_of[i] != b || is_row(arm) || core < 0 || (c->some_cores && !c->cores[core]);
            for (uint32_t k = first; !told && k < c->tasks_len; k++)
                told = c->tasks[k].own &&
                       memcmp(c->tasks[k].own->policy.core, arm->policy.core, sizeof arm->policy.core) == 0;
            if (!told)
                c->tasks[c->tasks_len++] = (struct task){ .block = b, .core = (unsigned)core, .own = arm };
        }
    }
    return 0;
}

/* --- a row, in a process of its own --- */

/* The engine as an arm of the block has it, if one does: the scenario may be about a changed time-out of the engine. */
static void set_engine(const struct block *b, unsigned engine, struct policy *policy)
{
    policy_set_engine(policy, engine);
    if (b->engine_of[engine])
        memcpy(policy->engine, b->engine_of[engine]->policy.engine, sizeof policy->engine);
}

static json_t *play(const struct compare *c, const struct task *task)
{
    const struct block *b = &c->blocks[task->block];
    struct runner_options options = { .repeat = 1 };
    struct scenario copy = *c->s;
    struct arm arms[ENGINES_MAX];
    struct run_result *r = NULL;
    json_t *cells = json_array();

    copy.arms = arms;
    copy.arms_len = 0;
    for (unsigned e = 0; e < engine_rows_len; e++) {
        struct arm *arm = &arms[copy.arms_len];
        if (c->some_engines && !c->engines[e])
            continue;
        *arm = *b->arm;
        arm->core_name = core_rows[task->core].name;
        arm->engine_name = engine_rows[e].name;
        arm->core_overridden = task->own != NULL;
        arm->expect = (struct expect){ .prevented_step = -1 };
        arm->published = (struct published){ .given = false };
        policy_set_core(&arm->policy, task->core);
        if (task->own)
            memcpy(arm->policy.core, task->own->policy.core, sizeof arm->policy.core);
        set_engine(b, e, &arm->policy);
        copy.arms_len++;
    }
    int rc = runner_run(&copy, &options, &r, stderr);
    for (uint32_t i = 0; i < copy.arms_len; i++) {
        const char *why = rc ? strerror(-rc) : r->preflight.why ? r->preflight.why : "not played";
        json_array_append_new(cells, rc == 0 && i < r->arms_len && r->arms[i].results_len
                                         ? matrix_cell(&r->arms[i], &copy)
                                         : matrix_void(why));
    }
    run_result_free(r);
    return cells;
}

static int work(void *ctx, uint32_t idx, FILE *out)
{
    const struct compare *c = ctx;
    json_t *cells = play(c, &c->tasks[idx]);
    int rc = json_dumpf(cells, out, JSON_COMPACT);

    json_decref(cells);
    return rc ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* --- all of them --- */

static void show_progress(void *ctx, uint32_t done, uint32_t len)
{
    struct compare *c = ctx;

    progress_show(&c->progress, "%s: %u of %u cores played", c->s->name, done, len);
}

static size_t engines_wanted(const struct compare *c)
{
    size_t len = 0;

    for (unsigned e = 0; e < engine_rows_len; e++)
        len += !c->some_engines || c->engines[e];
    return len;
}

static json_t *cells_of(const struct compare *c, const struct job *job)
{
    json_t *cells = job->why || !job->out ? NULL : json_loads(job->out, 0, NULL);
    struct text why = { .len = 0 };

    if (json_array_size(cells) == engines_wanted(c))
        return cells;
    json_decref(cells);
    cells = json_array();
    text_add(&why, "playing it %s: %s", job->why ? job->why : "gave nothing that can be read",
             job->said ? job->said : "");
    for (size_t i = 0; i < engines_wanted(c); i++)
        json_array_append_new(cells, matrix_void(why.s));
    return cells;
}

/* "hold_timeout=60s": what is not as the policy table has it. */
static void put_with(const struct knob_row *knobs, const struct core_value *values, const uint32_t *is, int len,
                     struct text *out)
{
    char value[TEXT_NUMBER_MAX];

    for (int k = 0; k < len; k++)
        if (is[k] != values[k].value)
            text_add(out, "%s%s=%s", out->len ? ", " : "", knobs[k].name,
                     knob_value_text(&knobs[k], is[k], value, sizeof value));
}

static json_t *engines_of(const struct compare *c, const struct block *b)
{
    json_t *engines = json_array();

    for (unsigned e = 0; e < engine_rows_len; e++) {
        struct text with = { .len = 0 };
        if (c->some_engines && !c->engines[e])
            continue;
        if (b->engine_of[e])
            put_with(engine_knobs, engine_rows[e].values, b->engine_of[e]->policy.engine, ENGINE_KNOB_COUNT, &with);
        json_array_append_new(engines, json_pack("{ss ss}", "engine", engine_rows[e].name, "with", with.s));
    }
    return engines;
}

static json_t *make_document(const struct compare *c, const struct job *jobs)
{
    json_t *arms = json_array();
    struct model *model = model_new(c->s->model_seed);
    uint32_t task = 0;

    while (task < c->tasks_len) {
        const struct block *b = &c->blocks[c->tasks[task].block];
        json_t *rows = json_array();
        for (; task < c->tasks_len && b == &c->blocks[c->tasks[task].block]; task++) {
            const struct task *t = &c->tasks[task];
            struct text with = { .len = 0 };
            if (t->own)
                put_with(core_knobs, core_rows[t->core].values, t->own->policy.core, CORE_KNOB_COUNT, &with);
            json_array_append_new(rows, json_pack("{ss ss so}", "core", core_rows[t->core].name, "with", with.s,
                                                  "cells", cells_of(c, &jobs[task])));
        }
        json_array_append_new(arms, json_pack("{ss ss so so}", "name", b->name, "run_arm", b->several ? "" : b->name,
                                              "engines", engines_of(c, b), "rows", rows));
    }
    json_t *document = json_pack("{ss ss ss so so}", "scenario", c->s->name, "about", c->s->about ? c->s->about : "",
                                 "path", c->s->path, "arms", arms, "provenance",
                                 model ? json_made_of(c->s, model_digest(model), &provenance) : NULL);
    model_free(model);
    return document;
}

static bool any_void(const json_t *document)
{
    size_t i, k, e;
    json_t *arm, *row, *cell;

    json_array_foreach(json_object_get(document, "arms"), i, arm)
        json_array_foreach(json_object_get(arm, "rows"), k, row)
            json_array_foreach(json_object_get(row, "cells"), e, cell) if (matrix_is_void(cell)) return true;
    return false;
}

static int cant_write(const char *path, int error)
{
    fprintf(stderr, "kvrepro compare: can't write '%s': %s\n", path, strerror(error));
    return EXIT_USAGE;
}

static int show(const struct compare *c, const json_t *document, struct outfile *json)
{
    struct matrix_options options = { .colour = text_colour(stdout), .program = cli_program };
    int rc;

    if (json->f) {
        if (json_dumpf(document, json->f, JSON_INDENT(2)) != 0 || fputc('\n', json->f) == EOF)
            return cant_write(c->json, errno ? errno : EIO);
        if ((rc = outfile_commit(json)) != 0)
            return cant_write(c->json, -rc);
    }
    if (!c->json || strcmp(c->json, "-") != 0)
        matrix_print(stdout, document, &options);
    return 0;
}

static int run(struct compare *c)
{
    struct outfile json = { .f = NULL };
    struct job *jobs = NULL;
    json_t *document = NULL;
    int status = scenario_load(c->path, &c->overrides.overrides, &c->s, stderr) ? EXIT_USAGE : 0, rc;

    if (status == 0 && c->s->arms_len == 0)
        status = cli_usage_error("compare", "%s has no arms to play: it is for the explorer", c->path);
    if (status == 0)
        status = find_blocks(c);
    if (status == 0)
        status = check_arm(c);
    if (status == 0)
        status = find_tasks(c);
    if (status == 0 && c->json && (rc = outfile_open(&json, c->json)) != 0)
        status = cant_write(c->json, -rc);
    if (status == 0 && !(jobs = calloc(c->tasks_len, sizeof *jobs)))
        status = no_memory();
    if (status == 0) {
        struct jobs set = { .len = c->tasks_len, .work = work, .progress = show_progress, .ctx = c };
        set.at_once = c->jobs ? c->jobs : jobs_processors();
        progress_init(&c->progress);
        show_progress(c, 0, c->tasks_len);
        rc = jobs_run(&set, jobs);
        progress_clear(&c->progress);
        document = rc == 0 ? make_document(c, jobs) : NULL;
        status = document ? show(c, document, &json) : no_memory();
    }
    if (status == 0)
        status = any_void(document) ? EXIT_DIFFERS : EXIT_AS_EXPECTED;
    outfile_discard(&json);
    jobs_free(jobs, jobs ? c->tasks_len : 0);
    free(jobs);
    json_decref(document);
    return status;
}

int cmd_compare(int argc, char **argv)
{
    struct compare c = { .cores = calloc(core_rows_len, sizeof *c.cores) };

    cli_overrides_init(&c.overrides, argc);
    int status = !c.cores || engine_rows_len > ENGINES_MAX ? no_memory() : parse(argc, argv, &c);
    if (status == 0 && c.help)
        usage();
    else if (status == 0)
        status = run(&c);
    for (uint32_t b = 0; b < c.blocks_len; b++)
        free(c.blocks[b].name);
    free(c.blocks);
    free(c.block_of);
    free(c.tasks);
    free(c.cores);
    free(c.overrides.sets);
    scenario_free(c.s);
    return cli_close_stdout(status);
}
