#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../report/json.h"
#include "../report/table.h"
#include "../report/text.h"
#include "../sim/runner.h"
#include "cli.h"
#include "outfile.h"
#include "progress.h"

static void usage(void)
{
    printf("\
usage: kvrepro run [OPTION]... FILE...\n\
\n\
Plays scenario files: for each, first the pre-flight (is the engine deterministic, does an ordinary transfer arrive\n\
whole), then every arm, on fresh engines and in scenario time. Shows what happened in each arm, which core lets the\n\
corruption happen, and whether all that is what the scenario expects. Several files: a last line sums up.\n\
\n\
options:\n\
      --arm NAME        only the arm of this name\n\
      --core NAME       play every arm with this core ('kvrepro list cores')\n\
      --set KEY=VALUE   as if the file said so, as in --set topology.decode.pages=66; may be repeated\n\
      --repeat N        every arm N times; tells whether they were all alike, else the spread\n\
      --json FILE       the result as JSON ('-': to the standard output, instead of the table)\n\
      --trace FILE      every instant passed, a line each ('-': likewise)\n\
      --out DIR         DIR/NAME.json and DIR/NAME.trace for each scenario; DIR is made if need be\n\
  -q, --quiet           only what is not as expected\n\
  -h, --help            this text\n\
\n\
Files are written whole or not at all. Colours need a terminal; NO_COLOR=1 turns them off.\n\
\n\
exit status: 0 every arm as its scenario expects; 1 some arm differs or is void; 2 usage or scenario error, or a file\n\
could not be written; 77 skipped for a stated reason\n\
\n\
examples:\n\
  kvrepro run scenarios/seed.yaml\n\
  kvrepro run --core deferred-35360 scenarios/seed.yaml\n\
  kvrepro run --arm 'without the fix' --trace - scenarios/seed.yaml\n\
  kvrepro run --repeat 10 --json seed.json scenarios/seed.yaml\n\
  kvrepro run --quiet --out results scenarios/*.yaml\n");
}

struct run_options {
    struct cli_overrides overrides;
    const char *arm, *json, *trace, *out;
    uint32_t repeat;
    bool quiet, help;
};

/* A scenario to be played and where its results go. */
struct play {
    struct scenario *s;
    char *json_path, *trace_path; /* NULL: not asked for */
    struct outfile json, trace;
};

struct batch {
    struct run_options options;
    struct play *plays;
    uint32_t plays_len;
    uint32_t differing;
};

struct play_progress {
    struct progress line;
    const char *scenario;
};

static void show_progress(void *ctx, const char *what, uint32_t done, uint32_t planned)
{
    struct play_progress *p = ctx;

    progress_show(&p->line, "%s: %u of %u played: %s", p->scenario, done, planned, what ? what : "");
}

/* --- before the first play --- */

static int parse(int argc, char **argv, struct run_options *o)
{
    enum { OPT_ARM = 256, OPT_CORE, OPT_SET, OPT_REPEAT, OPT_JSON, OPT_TRACE, OPT_OUT };
    static const struct option longs[] = {
        { "arm", required_argument, NULL, OPT_ARM },
        { "core", required_argument, NULL, OPT_CORE },
        { "set", required_argument, NULL, OPT_SET },
        { "repeat", required_argument, NULL, OPT_REPEAT },
        { "json", required_argument, NULL, OPT_JSON },
        { "trace", required_argument, NULL, OPT_TRACE },
        { "out", required_argument, NULL, OPT_OUT },
        { "quiet", no_argument, NULL, 'q' },
        { "help", no_argument, NULL, 'h' },
        { 0 },
    };
    int option;

    while ((option = cli_option("run", argc, argv, ":qh", longs)) != -1) {
        switch (option) {
        case OPT_ARM:
            o->arm = optarg;
            break;
        case OPT_CORE:
            if (cli_override_core("run", &o->overrides, optarg) != 0)
                return EXIT_USAGE;
            break;
        case OPT_SET:
            cli_override_set(&o->overrides, optarg);
            break;
        case OPT_REPEAT:
            if (!cli_number("run", "--repeat", optarg, 1, 100000, &o->repeat))
                return EXIT_USAGE;
            break;
        case OPT_JSON:
            o->json = optarg;
            break;
        case OPT_TRACE:
            o->trace = optarg;
            break;
        case OPT_OUT:
            o->out = optarg;
            break;
        case 'q':
            o->quiet = true;
            break;
        case 'h':
            o->help = true;
            return 0;
        default:
            return EXIT_USAGE;
        }
    }
    if (optind == argc)
        return cli_usage_error("run", "no scenario file named");
    if (argc - optind > 1 && (o->json || o->trace))
        return cli_usage_error("run", "--json and --trace are for one scenario; for several use --out DIR");
    if (o->out && (o->json || o->trace))
        return cli_usage_error("run", "--out DIR writes both JSON and trace: leave out --json and --trace");
    if (o->json && o->trace && strcmp(o->json, o->trace) == 0)
        return cli_usage_error("run", "--json and --trace can't both go to '%s'", o->json);
    return 0;
}

static const char *arm_at(const void *ctx, unsigned idx)
{
    return ((const struct scenario *)ctx)->arms[idx].name;
}

static int check_arm(const struct scenario *s, const char *name)
{
    struct choices arms = { "arm", s->arms_len, arm_at, s };

    for (uint32_t i = 0; !name || i < s->arms_len; i++)
        if (!name || strcmp(s->arms[i].name, name) == 0)
            return 0;
    int near = nearest_name(name, &arms);
    if (near >= 0)
        return cli_usage_error("run", "%s has no arm '%.60s'; did you mean '%s'?", s->path, name, s->arms[near].name);
    fprintf(stderr, "kvrepro run: %s has no arm '%.60s'; it has:\n", s->path, name);
    for (uint32_t i = 0; i < s->arms_len; i++)
        fprintf(stderr, "  '%s'\n", s->arms[i].name);
    return EXIT_USAGE;
}

static int nothing_to_play(const struct scenario *s)
{
    fprintf(stderr, "%s: nothing to play: it is for '%s explore'\n", s->path, cli_program);
    return EXIT_USAGE;
}

/* All files, so that all errors are told at once. One among several that is to be explored is left out. */
static int load(struct batch *b, char **paths)
{
    uint32_t given = b->plays_len, kept = 0;
    int status = 0;

    for (uint32_t i = 0; i < given; i++) {
        struct scenario **s = &b->plays[kept].s;

        if (scenario_load(paths[i], &b->options.overrides.overrides, s, stderr) != 0) {
            status = EXIT_USAGE;
        } else if ((*s)->explore.given && given == 1) {
            status = nothing_to_play(*s);
        } else if ((*s)->explore.given) {
            if (!b->options.quiet)
                fprintf(stderr, "%s: left out: it is for '%s explore'\n", (*s)->path, cli_program);
            scenario_free(*s);
            *s = NULL;
            continue;
        } else if (check_arm(*s, b->options.arm) != 0) {
            status = EXIT_USAGE;
        }
        kept++;
    }
    b->plays_len = kept;
    return status;
}

static int cant_write(const char *path, int error)
{
    fprintf(stderr, "kvrepro run: can't write '%s': %s\n", path, strerror(error));
    return EXIT_USAGE;
}

/* mkdir -p */
static int make_folder(const char *path)
{
    char *part = strdup(path);
    int rc = !part ? -ENOMEM : *part ? 0 : -ENOENT;
    struct stat st;

    for (char *slash = part; rc == 0 && slash;) {
        slash = strchr(slash + 1, '/');
        if (slash)
            *slash = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            rc = -errno;
        if (slash)
            *slash = '/';
    }
    if (rc == 0 && stat(path, &st) != 0)
        rc = -errno;
    else if (rc == 0 && !S_ISDIR(st.st_mode))
        rc = -ENOTDIR;
    free(part);
    return rc;
}

static int probe(const char *path)
{
    struct outfile file;
    int rc = outfile_open(&file, path);

    if (rc)
        return cant_write(path, -rc);
    outfile_discard(&file);
    return 0;
}

static int name_results(struct batch *b)
{
    for (uint32_t i = 0; i < b->plays_len; i++)
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(b->plays[i].s->name, b->plays[k].s->name) == 0)
                return cli_usage_error("run", "%s and %s are both named '%s': --out would write one over the other",
                                       b->plays[k].s->path, b->plays[i].s->path, b->plays[i].s->name);
    int rc = make_folder(b->options.out);
    if (rc)
        return cant_write(b->options.out, -rc);
    for (uint32_t i = 0; i < b->plays_len; i++) {
        struct play *p = &b->plays[i];
        if (asprintf(&p->json_path, "%s/%s.json", b->options.out, p->s->name) < 0)
            p->json_path = NULL;
        if (asprintf(&p->trace_path, "%s/%s.trace", b->options.out, p->s->name) < 0)
            p->trace_path = NULL;
        if (!p->json_path || !p->trace_path)
            return cant_write(b->options.out, ENOMEM);
        if (probe(p->json_path) != 0 || probe(p->trace_path) != 0)
            return EXIT_USAGE;
    }
    return 0;
}

static int open_results(struct play *p)
{
    int rc;

    if (p->json_path && (rc = outfile_open(&p->json, p->json_path)) != 0)
        return cant_write(p->json_path, -rc);
    if (p->trace_path && (rc = outfile_open(&p->trace, p->trace_path)) != 0)
        return cant_write(p->trace_path, -rc);
    return 0;
}

/* --- a play --- */

static int write_results(struct play *p, const struct run_result *r)
{
    int rc;

    if (p->json_path) {
        char *json = json_report(r, &provenance);
        if (!json)
            return cant_write(p->json_path, ENOMEM);
        fputs(json, p->json.f);
        free(json);
    }
    /* The trace first: whoever finds a result finds its trace. */
    if (p->trace_path && (rc = outfile_commit(&p->trace)) != 0)
        return cant_write(p->trace_path, -rc);
    if (p->json_path && (rc = outfile_commit(&p->json)) != 0)
        return cant_write(p->json_path, -rc);
    return 0;
}

static bool takes_stdout(const char *path)
{
    return path && strcmp(path, "-") == 0;
}

static void show(const struct batch *b, const struct play *p, const struct run_result *r)
{
    struct table_options options = {
        .colour = text_colour(stdout),
        .program = cli_program,
        .core_replaced = b->options.overrides.overrides.core != NULL,
    };

    if (takes_stdout(p->json_path) || takes_stdout(p->trace_path))
        return;
    if (b->options.quiet) {
        table_print_differences(stdout, r);
        return;
    }
    if (p > b->plays)
        printf("\n\n");
    table_print(stdout, r, &options);
}

static int play(struct batch *b, struct play *p)
{
    struct play_progress progress = { .scenario = p->s->name };
    struct runner_options options = {
        .arm = b->options.arm,
        .repeat = b->options.repeat,
        .trace = p->trace.f,
        .progress = show_progress,
        .progress_ctx = &progress,
    };
    struct run_result *r = NULL;

    progress_init(&progress.line);
    int rc = runner_run(p->s, &options, &r, stderr);
    progress_clear(&progress.line);
    if (rc) {
        fprintf(stderr, "kvrepro run: %s could not be played: %s\n", p->s->path, strerror(-rc));
        return EXIT_USAGE;
    }
    b->differing += !r->as_expected;
    int status = write_results(p, r);
    if (status == 0)
        show(b, p, r);
    run_result_free(r);
    return status;
}

static void sum_up(const struct batch *b)
{
    if (b->plays_len < 2 || b->options.quiet)
        return;
    printf("\n%u scenarios: %u as expected, %u not\n", b->plays_len, b->plays_len - b->differing, b->differing);
}

static int run(struct batch *b, char **paths)
{
    int status = load(b, paths);

    if (status == 0 && b->options.out)
        status = name_results(b);
    if (status == 0 && b->options.json && !(b->plays[0].json_path = strdup(b->options.json)))
        status = cant_write(b->options.json, ENOMEM);
    if (status == 0 && b->options.trace && !(b->plays[0].trace_path = strdup(b->options.trace)))
        status = cant_write(b->options.trace, ENOMEM);
    for (uint32_t i = 0; status == 0 && i < b->plays_len; i++) {
        status = open_results(&b->plays[i]);
        if (status == 0)
            status = play(b, &b->plays[i]);
    }
    if (status)
        return status;
    sum_up(b);
    return b->differing ? EXIT_DIFFERS : EXIT_AS_EXPECTED;
}

int cmd_run(int argc, char **argv)
{
    struct batch b = { .options = { .repeat = 1 } };

    cli_overrides_init(&b.options.overrides, argc);
    int status = parse(argc, argv, &b.options);
    if (status == 0 && b.options.help) {
        usage();
    } else if (status == 0) {
        b.plays_len = (uint32_t)(argc - optind);
        b.plays = calloc(b.plays_len, sizeof *b.plays);
        status = b.plays ? run(&b, argv + optind) : cant_write("results", ENOMEM);
    }
    for (uint32_t i = 0; b.plays && i < b.plays_len; i++) {
        outfile_discard(&b.plays[i].json);
        outfile_discard(&b.plays[i].trace);
        free(b.plays[i].json_path);
        free(b.plays[i].trace_path);
        scenario_free(b.plays[i].s);
    }
    free(b.plays);
    free(b.options.overrides.sets);
    return cli_close_stdout(status);
}
