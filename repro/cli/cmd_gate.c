#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../report/compare_json.h"
#include "../report/gate.h"
#include "../report/json.h"
#include "../report/recorded.h"
#include "../report/shown.h"
#include "../sim/runner.h"
#include "cli.h"
#include "jobs.h"
#include "outfile.h"
#include "progress.h"

enum { JOBS_MAX = 1024, REASON_MAX = 2000 };

static void usage(void)
{
    printf("\
usage: kvrepro gate [OPTION]... [DIR]\n\
\n\
Plays every scenario DIR/NAME.yaml (default: scenarios) and compares what came out with what the scenario expects, and\n\
with its recorded result NAME.json: every output, verdict and time, and the order of all points. A line a scenario,\n\
then how each differs, then the counts and what to do next. Records nothing: make bless does.\n\
\n\
A scenario without a recorded result differs, and so does a recorded result without a scenario. A scenario that can't\n\
be read, or whose play crashes, is an error; all others are played nevertheless.\n\
\n\
options:\n\
      --results DIR   where the recorded results are; default: the folder 'results' beside the scenarios\n\
      --junit FILE    also as JUnit XML: a test suite a scenario, a test case an arm ('-': to the standard output, instead\n\
                      of the lines); written whole or not at all\n\
      --jobs N        so many scenarios at a time, each in a process of its own; default: as there are processors\n\
  -h, --help          this text\n\
\n\
exit status: 0 everything is as expected and as recorded; 1 something differs, is void or crashed; 2 usage error, or\n\
some scenario can't be read\n\
\n\
examples:\n\
  kvrepro gate\n\
  kvrepro gate --junit gate.xml\n\
  kvrepro gate --results my/results --jobs 4 my/scenarios\n");
}

struct gate {
    const char *dir, *results_dir, *junit;
    char *default_results;
    uint32_t jobs;
    bool help;
    struct gate_scenario *scenarios;
    uint32_t len;
    struct progress progress;
};

static int no_memory(void)
{
    fprintf(stderr, "kvrepro gate: out of memory\n");
    return EXIT_USAGE;
}

/* --- before the first play --- */

static int parse(int argc, char **argv, struct gate *g)
{
    enum { OPT_RESULTS = 256, OPT_JUNIT, OPT_JOBS };
    static const struct option longs[] = {
        { "results", required_argument, NULL, OPT_RESULTS },
        { "junit", required_argument, NULL, OPT_JUNIT },
        { "jobs", required_argument, NULL, OPT_JOBS },
        { "help", no_argument, NULL, 'h' },
        { 0 },
    };
    int option;

    while ((option = cli_option("gate", argc, argv, ":h", longs)) != -1) {
        switch (option) {
        case OPT_RESULTS:
            g->results_dir = optarg;
            break;
        case OPT_JUNIT:
            g->junit = optarg;
            break;
        case OPT_JOBS:
            if (!cli_number("gate", "--jobs", optarg, 1, JOBS_MAX, &g->jobs))
                return EXIT_USAGE;
            break;
        case 'h':
            g->help = true;
            return 0;
        default:
            return EXIT_USAGE;
        }
    }
    if (argc - optind > 1)
        return cli_usage_error("gate", "one folder of scenarios at a time, not '%.60s' too", argv[optind + 1]);
    if (optind < argc)
        g->dir = argv[optind];
    return 0;
}

/* The folder `results` beside DIR. */
static char *beside(const char *dir)
{
    size_t len = strlen(dir);
    char *path;

    while (len > 1 && dir[len - 1] == '/')
        len--;
    const char *slash = memrchr(dir, '/', len);
    const char *last = slash ? slash + 1 : dir;
    size_t last_len = (size_t)(dir + len - last);
    int n;
    if (last_len == 0 || strncmp(last, ".", last_len) == 0 || strncmp(last, "..", last_len) == 0)
        n = asprintf(&path, "%.*s/../results", (int)len, dir);
    else
        n = asprintf(&path, "%.*sresults", (int)(last - dir), dir);
    return n < 0 ? NULL : path;
}

/* Length of the name before the ending, or 0. */
static size_t stem(const char *name, const char *ending)
{
    size_t len = strlen(name), ending_len = strlen(ending);

    return name[0] != '.' && len > ending_len && strcmp(name + len - ending_len, ending) == 0 ? len - ending_len : 0;
}

static struct gate_scenario *find(struct gate *g, const char *name, size_t len)
{
    for (uint32_t i = 0; i < g->len; i++)
        if (strlen(g->scenarios[i].name) == len && strncmp(g->scenarios[i].name, name, len) == 0)
            return &g->scenarios[i];
    return NULL;
}

static int add(struct gate *g, const char *name, size_t len, bool orphan)
{
    struct gate_scenario *more = realloc(g->scenarios, (g->len + 1) * sizeof *more), *new;

    if (!more)
        return no_memory();
    g->scenarios = more;
    new = &more[g->len++];
    *new = (struct gate_scenario){ .name = strndup(name, len), .orphan = orphan };
    if (asprintf(&new->path, "%s/%.*s.yaml", g->dir, (int)len, name) < 0)
        new->path = NULL;
    if (asprintf(&new->recorded_path, "%s/%.*s.json", g->results_dir, (int)len, name) < 0)
        new->recorded_path = NULL;
    return new->name &&new->path &&new->recorded_path ? 0 : no_memory();
}

static int by_name(const void *a, const void *b)
{
    return strverscmp(((const struct gate_scenario *)a)->name, ((const struct gate_scenario *)b)->name);
}

/* Files of `dir` with that ending, as scenarios, or as orphans if there is no scenario of the name. */
static int look(struct gate *g, const char *dir, const char *ending, bool recorded)
{
    DIR *d = opendir(dir);
    struct dirent *entry;
    int status = 0;

    if (!d && recorded && errno == ENOENT && dir == g->default_results)
        return 0;
    if (!d)
        return cli_usage_error("gate", "can't read the folder '%s': %s%s", dir, strerror(errno),
                               recorded ? "; name another with --results" : "");
    while (status == 0 && (entry = readdir(d)) != NULL) {
        size_t len = stem(entry->d_name, ending);
        if (len > 0 && !(recorded && find(g, entry->d_name, len)))
            status = add(g, entry->d_name, len, recorded);
    }
    closedir(d);
    return status;
}

static int collect(struct gate *g)
{
    g->default_results = beside(g->dir);
    if (!g->default_results)
        return no_memory();
    if (!g->results_dir)
        g->results_dir = g->default_results;
    int status = look(g, g->dir, ".yaml", false);
    if (status == 0 && g->len == 0)
        status = cli_usage_error("gate", "no *.yaml in '%s'", g->dir);
    if (status == 0)
        status = look(g, g->results_dir, ".json", true);
    if (g->len)
        qsort(g->scenarios, g->len, sizeof *g->scenarios, by_name);
    return status;
}

/* --- one scenario, in a process of its own; what fails here for want of memory fails as a crash does --- */

static void must(bool good)
{
    if (good)
        return;
    fprintf(stderr, "out of memory\n");
    _exit(EXIT_FAILURE);
}

/* A case that is no arm. */
static struct gate_case *whole_case(struct gate_scenario *g, enum gate_state state, const char *why)
{
    struct gate_case *c = gate_add_case(g, state == GATE_ERROR ? "scenario" : "recorded result", state);

    must(c && gate_add_text(&c->reasons, why));
    return c;
}

__attribute__((format(printf, 2, 3))) static void add_reason(struct gate_case *c, const char *format, ...)
{
    char reason[REASON_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    must(gate_add_text(&c->reasons, reason));
}

static void judge_arm(struct gate_scenario *g, const struct arm_summary *a, const struct run_result *r)
{
    struct gate_case *c = gate_add_case(g, a->arm->name, GATE_OK);
    const struct preflight_result *p = &r->preflight;

    must(c);
    if (!p->identical || !p->transfer_exact || a->results_len == 0) {
        gate_raise(g, c, GATE_VOID);
        add_reason(c, "not played, for the pre-flight failed: %s", p->why ? p->why : "not identical");
        return;
    }
    for (uint32_t i = 0; i < a->results_len; i++)
        if (a->results[i].ended == ARM_VOID) {
            gate_raise(g, c, GATE_VOID);
            add_reason(c, "void: %s", a->results[i].why ? a->results[i].why : "");
            return;
        }
    if (a->as_expected && a->repeats_identical)
        return;
    const struct arm_result *shown = &a->results[arm_shown(a, r->scenario)];
    uint32_t not = 0;
    gate_raise(g, c, GATE_DIFFERS);
    for (uint32_t i = 0; i < a->results_len; i++)
        not += !a->results[i].as_expected;
    for (uint32_t i = 0; i < shown->differences_len; i++)
        add_reason(c, "%s", shown->differences[i]);
    if (a->results_len > 1)
        add_reason(c, "%u of its %u plays are not as expected; this is play %u", not, a->results_len,
                   arm_shown(a, r->scenario) + 1);
    else if (c->reasons.len == 0)
        add_reason(c, "not as expected");
}

static void add_paths(struct gate_case *c, const struct json_comparison *found)
{
    c->paths_total += found->total;
    for (uint32_t i = 0; i < found->len; i++) {
        struct text line = { .len = 0 };
        difference_text(&found->list[i], "recorded", "now", &line);
        must(gate_add_text(&c->paths, line.s));
    }
}

/* Arm by arm, then what is left: nothing is named twice, nor what only follows from an arm. */
static void compare(struct gate_scenario *g, const json_t *recorded, const json_t *now)
{
    const json_t *arms[2] = { json_object_get(recorded, "arms"), json_object_get(now, "arms") };
    json_t *rest[2] = { json_copy((json_t *)(uintptr_t)recorded), json_copy((json_t *)(uintptr_t)now) };
    struct json_comparison found;
    bool differs = false;

    for (uint32_t i = 0; i < g->arms_len && i < json_array_size(arms[0]); i++) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, ".arms[%u]", i);
        /* Where it is not as expected, that has been said. */
        enum compare_what what = g->cases[i].state == GATE_OK ? COMPARE_ALL : COMPARE_WITHOUT_EXPECTATIONS;
        must(compare_json(json_array_get(arms[0], i), json_array_get(arms[1], i), prefix, what, GATE_PATHS_MAX,
                          &found) == 0);
        if (found.total)
            gate_raise(g, &g->cases[i], GATE_DIFFERS);
        differs = differs || g->cases[i].state != GATE_OK;
        add_paths(&g->cases[i], &found);
        comparison_free(&found);
    }
    for (int i = 0; i < 2; i++) {
        must(rest[i] && json_object_set_new(rest[i], "arms", json_sprintf("%zu arms", json_array_size(arms[i]))) == 0);
        if (differs) {
            json_object_del(rest[i], "as_expected");
            json_object_del(rest[i], "result_digest");
        }
    }
    must(compare_json(rest[0], rest[1], "", COMPARE_ALL, GATE_PATHS_MAX, &found) == 0);
    if (found.total) {
        struct gate_case *c = gate_add_case(g, "recorded result", GATE_DIFFERS);
        must(c);
        add_paths(c, &found);
    }
    comparison_free(&found);
    json_decref(rest[0]);
    json_decref(rest[1]);
}

static void compare_with_record(struct gate_scenario *g, const struct run_result *r)
{
    char *errors = NULL, *report = json_report(r, &provenance);
    size_t errors_len;
    FILE *f = open_memstream(&errors, &errors_len);
    json_t *now = report ? json_loads(report, 0, NULL) : NULL;
    struct recorded recorded;
    struct text why = { .len = 0 };

    must(f && now);
    int rc = recorded_read(g->recorded_path, &recorded, f);
    fclose(f);
    if (rc == 0) {
        compare(g, recorded.document, now);
        recorded_free(&recorded);
    } else if (rc == -ENOENT) {
        text_add(&why, "no recorded result %s; make bless", g->recorded_path);
        whole_case(g, GATE_DIFFERS, why.s);
    } else {
        whole_case(g, GATE_DIFFERS, errors);
    }
    json_decref(now);
    free(errors);
    free(report);
}

static void play(struct gate_scenario *g)
{
    struct runner_options options = { .repeat = 1 };
    struct scenario *s = NULL;
    struct run_result *r = NULL;
    char *errors = NULL;
    size_t errors_len;
    FILE *f = open_memstream(&errors, &errors_len);

    must(f);
    if (scenario_load(g->path, NULL, &s, f) != 0) {
        fclose(f);
        g->unreadable = true;
        whole_case(g, GATE_ERROR, errors);
        free(errors);
        return;
    }
    if (s->arms_len == 0) {
        struct gate_case *c = gate_add_case(g, "scenario", GATE_OK);
        must(c && gate_add_text(&c->reasons, "not played: it has no arms, it is for the explorer"));
        fclose(f);
        free(errors);
        scenario_free(s);
        return;
    }
    int rc = runner_run(s, &options, &r, f);
    fclose(f);
    must(rc != -ENOMEM);
    if (rc) {
        whole_case(g, GATE_ERROR, *errors ? errors : strerror(-rc));
    } else {
        for (uint32_t i = 0; i < r->arms_len; i++)
            judge_arm(g, &r->arms[i], r);
        /* A failed pre-flight leaves no arms in the result; the scenario has them all the same. */
        for (uint32_t i = r->arms_len; i < s->arms_len; i++)
            judge_arm(g, &(struct arm_summary){ .arm = &s->arms[i] }, r);
        g->arms_len = g->cases_len;
        compare_with_record(g, r);
    }
    free(errors);
    run_result_free(r);
    scenario_free(s);
}

static int work(void *ctx, uint32_t idx, FILE *out)
{
    struct gate *gate = ctx;
    struct gate_scenario *g = &gate->scenarios[idx];
    struct text why = { .len = 0 };

    if (g->orphan) {
        text_add(&why, "%s has no scenario %s; remove it, or bring the scenario back", g->recorded_path, g->path);
        whole_case(g, GATE_DIFFERS, why.s);
    } else {
        play(g);
    }
    char *found = gate_write(g);
    must(found != NULL);
    fputs(found, out);
    free(found);
    gate_fini(g);
    return 0;
}

/* --- all of them --- */

static void show_progress(void *ctx, uint32_t done, uint32_t len)
{
    progress_show(&((struct gate *)ctx)->progress, "%u of %u scenarios played", done, len);
}

/* What a process that crashed has said last is the best there is. */
static int take_crash(struct gate_scenario *g, const struct job *job)
{
    struct text why = { .len = 0 };
    const char *said = job->said ? job->said : "";
    size_t len = strlen(said);

    text_add(&why, "playing it %s\n%s", job->why ? job->why : "gave nothing that can be read",
             len > REASON_MAX ? said + len - REASON_MAX : said);
    struct gate_case *c = gate_add_case(g, "scenario", GATE_ERROR);
    return c && gate_add_text(&c->reasons, why.s) ? 0 : no_memory();
}

static int play_all(struct gate *g)
{
    struct job *jobs = calloc(g->len, sizeof *jobs);
    struct jobs set = {
        .len = g->len,
        .at_once = g->jobs ? g->jobs : jobs_processors(),
        .work = work,
        .progress = show_progress,
        .ctx = g,
    };
    int status = jobs ? 0 : no_memory();

    progress_init(&g->progress);
    show_progress(g, 0, g->len);
    int rc = status ? 0 : jobs_run(&set, jobs);
    progress_clear(&g->progress);
    if (rc) {
        fprintf(stderr, "kvrepro gate: can't wait for its processes: %s\n", strerror(-rc));
        status = EXIT_USAGE;
    }
    for (uint32_t i = 0; status == 0 && i < g->len; i++)
        if (jobs[i].why || !jobs[i].out || gate_read(&g->scenarios[i], jobs[i].out) != 0)
            status = take_crash(&g->scenarios[i], &jobs[i]);
    jobs_free(jobs, jobs ? g->len : 0);
    free(jobs);
    return status;
}

static int verdict(const struct gate *g)
{
    int status = EXIT_AS_EXPECTED;

    for (uint32_t i = 0; i < g->len; i++) {
        if (g->scenarios[i].unreadable)
            return EXIT_USAGE;
        if (g->scenarios[i].state != GATE_OK)
            status = EXIT_DIFFERS;
    }
    return status;
}

static int run(struct gate *g, int argc, char **argv)
{
    struct outfile junit = { .f = NULL };
    struct text again = { .len = 0 };
    struct gate_options options = { .colour = text_colour(stdout), .program = cli_program };
    int status = collect(g), rc = 0;

    if (status == 0 && g->junit && (rc = outfile_open(&junit, g->junit)) != 0)
        status = EXIT_USAGE;
    if (status == 0)
        status = play_all(g);
    if (status == 0 && junit.f) {
        gate_junit(junit.f, g->scenarios, g->len);
        rc = outfile_commit(&junit);
        status = rc ? EXIT_USAGE : 0;
    }
    if (rc)
        fprintf(stderr, "kvrepro gate: can't write '%s': %s\n", g->junit, strerror(-rc));
    outfile_discard(&junit);
    if (status)
        return status;
    text_shell(&again, cli_program);
    text_add(&again, " gate");
    for (int i = 1; i < argc; i++) {
        text_add(&again, " ");
        text_shell(&again, argv[i]);
    }
    options.again = again.s;
    if (!g->junit || strcmp(g->junit, "-") != 0)
        gate_print(stdout, g->scenarios, g->len, &options);
    return verdict(g);
}

int cmd_gate(int argc, char **argv)
{
    struct gate g = { .dir = "scenarios" };
    int status = parse(argc, argv, &g);

    if (status == 0 && g.help)
        usage();
    else if (status == 0)
        status = run(&g, argc, argv);
    for (uint32_t i = 0; i < g.len; i++)
        gate_fini(&g.scenarios[i]);
    free(g.scenarios);
    free(g.default_results);
    return cli_close_stdout(status);
}
