#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "../report/compare_json.h"
#include "../report/json.h"
#include "../report/recorded.h"
#include "../report/text.h"
#include "../sim/runner.h"
#include "cli.h"
#include "progress.h"

enum { LABELS = 10, SHOWN = 10 };

static void usage(void)
{
    printf("\
usage: kvrepro verify [OPTION]... RESULT.json\n\
\n\
Whether a result is what it says it is: its content is as it was written; it was made by a program of the same git tree\n\
as this one, from the same scenario file and the same model; and playing that scenario again gives the same outputs,\n\
stale writes, holds and times, and the same order of all points. Says what is confirmed and what is not.\n\
\n\
A result that is kept in the tree itself names the tree as it was before it was added: for those --any-tree.\n\
\n\
options:\n\
      --scenario FILE   the scenario; default: scenarios/NAME.yaml, by the scenario's name in the result\n\
      --any-tree        do not insist on the same tree\n\
  -h, --help            this text\n\
\n\
exit status: 0 everything is confirmed; 1 something is not; 2 usage error, or a file can't be read\n\
\n\
examples:\n\
  kvrepro verify seed.json\n\
  kvrepro verify --any-tree results/seed.json\n\
  kvrepro verify --scenario my/seed.yaml seed.json\n");
}

struct verify {
    const char *path, *scenario_path;
    char *default_path;
    bool any_tree, help, confirmed;
    struct recorded recorded;
    struct scenario *s;
    struct progress progress;
};

static int parse(int argc, char **argv, struct verify *v)
{
    enum { OPT_SCENARIO = 256, OPT_ANY_TREE };
    static const struct option longs[] = {
        { "scenario", required_argument, NULL, OPT_SCENARIO },
        { "any-tree", no_argument, NULL, OPT_ANY_TREE },
        { "help", no_argument, NULL, 'h' },
        { 0 },
    };
    int option;

    while ((option = cli_option("verify", argc, argv, ":h", longs)) != -1) {
        switch (option) {
        case OPT_SCENARIO:
            v->scenario_path = optarg;
            break;
        case OPT_ANY_TREE:
            v->any_tree = true;
            break;
        case 'h':
            v->help = true;
            return 0;
        default:
            return EXIT_USAGE;
        }
    }
    if (optind == argc)
        return cli_usage_error("verify", "no result file named");
    if (argc - optind > 1)
        return cli_usage_error("verify", "one result at a time, not '%.60s' too", argv[optind + 1]);
    v->path = argv[optind];
    return 0;
}

/* The name comes from the file: only what a scenario can be called may become part of a path. */
static bool plain_name(const char *name)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
    size_t len = strlen(name);

    return len > 0 && len <= YAML_NAME_MAX && strspn(name, letters) == len;
}

static int load(struct verify *v)
{
    if (recorded_read(v->path, &v->recorded, stderr) != 0)
        return EXIT_USAGE;
    if (!plain_name(v->recorded.scenario))
        return cli_usage_error("verify", "%s: its scenario's name is none: letters, digits, _ and - make one", v->path);
    if (!v->scenario_path) {
        if (asprintf(&v->default_path, "scenarios/%s.yaml", v->recorded.scenario) < 0)
            v->default_path = NULL;
        v->scenario_path = v->default_path;
    }
    if (!v->scenario_path || scenario_load(v->scenario_path, NULL, &v->s, stderr) != 0) {
        if (v->default_path)
            fprintf(stderr, "kvrepro verify: if the scenario is another file, name it with --scenario\n");
        return EXIT_USAGE;
    }
    if (v->s->arms_len == 0)
        return cli_usage_error("verify", "%s has no arms to play: it is for the explorer", v->scenario_path);
    return 0;
}

/* --- what is confirmed, a row each --- */

static void say(struct verify *v, const char *label, bool confirmed, const struct text *words)
{
    v->confirmed = v->confirmed && confirmed;
    text_row(stdout, 2, LABELS, label, words->s);
}

static void check_content(struct verify *v)
{
    struct text out = { .len = 0 };
    bool same = v->recorded.result_digest == v->recorded.content_digest;

    if (same)
        text_add(&out, "as it was written: its result_digest %016" PRIx64 " fits", v->recorded.result_digest);
    else
        text_add(&out,
                 "CHANGED since it was written: its result_digest is %016" PRIx64 ", that of its content %016" PRIx64,
                 v->recorded.result_digest, v->recorded.content_digest);
    say(v, "content", same, &out);
}

static void check_tree(struct verify *v)
{
    const struct recorded *r = &v->recorded;
    bool known = strcmp(r->tree, "unknown") != 0 && strcmp(provenance.tree, "unknown") != 0;
    bool same = known && strcmp(r->tree, provenance.tree) == 0;
    struct text out = { .len = 0 };

    if (same)
        text_add(&out, "the tree that this program was built from: %s", r->tree);
    else if (known)
        text_add(&out, "built from ANOTHER tree: %.64s, this is %s", r->tree, provenance.tree);
    else
        text_add(&out, "UNKNOWN whether it is the same tree: the result says %.64s, this program %s", r->tree,
                 provenance.tree);
    if (r->clean != 1)
        text_add(&out, "\nthe result was made with %s", r->clean ? "nobody knows what changes" : "changes to its tree");
    if (provenance.clean != 1)
        text_add(&out, "\nthis program was built with %s",
                 provenance.clean ? "nobody knows what changes" : "changes to its tree");
    if (!same && v->any_tree)
        text_add(&out, "\nwhich does not count here (--any-tree)");
    say(v, "tree", same || v->any_tree, &out);
}

static void check_scenario(struct verify *v)
{
    struct text out = { .len = 0 };
    bool same_name = strcmp(v->s->name, v->recorded.scenario) == 0, same = v->s->digest == v->recorded.scenario_digest;

    text_add(&out, "%s ", v->scenario_path);
    if (!same_name)
        text_add(&out, "is ANOTHER scenario: it is named '%s', the result's '%s'", v->s->name, v->recorded.scenario);
    else if (!same)
        text_add(&out,
                 "is NOT the file that the result was made from: its digest is %016" PRIx64 ", recorded: %016" PRIx64
                 " (a result made with --core or --set can't be verified)",
                 v->s->digest, v->recorded.scenario_digest);
    else
        text_add(&out, "is the file that the result was made from: digest %016" PRIx64, v->s->digest);
    say(v, "scenario", same_name && same, &out);
}

static void check_model(struct verify *v, uint64_t digest)
{
    struct text out = { .len = 0 };
    bool same = digest == v->recorded.model_digest;

    if (same)
        text_add(&out, "the same weights: digest %016" PRIx64, digest);
    else
        text_add(&out, "OTHER weights: digest %016" PRIx64 ", recorded: %016" PRIx64, digest, v->recorded.model_digest);
    say(v, "model", same, &out);
}

static int check_play(struct verify *v, const struct run_result *r)
{
    char *report = json_report(r, &provenance);
    json_t *now = report ? json_loads(report, 0, NULL) : NULL;
    struct json_comparison found = { .list = NULL };
    struct text out = { .len = 0 };
    int rc = now ? compare_json(v->recorded.document, now, "", COMPARE_ALL, SHOWN, &found) : -ENOMEM;

    if (rc == 0 && found.total == 0) {
        text_add(&out,
                 "%u arm%s: every output, stale write, hold and time, and the order of all points, are as recorded",
                 v->recorded.arms_len, v->recorded.arms_len == 1 ? "" : "s");
    } else if (rc == 0) {
        text_add(&out, "%" PRIu64 " value%s DIFFER%s from the result:", found.total, found.total == 1 ? "" : "s",
                 found.total == 1 ? "S" : "");
        for (uint32_t i = 0; i < found.len; i++) {
            text_add(&out, "\n");
            difference_text(&found.list[i], "recorded", "now", &out);
        }
        if (found.len < found.total)
            text_add(&out, "\nand %" PRIu64 " more", found.total - found.len);
        if (v->recorded.arms_len != r->arms_len)
            text_add(&out, "\n(a result made with --arm can't be verified)");
    }
    if (rc == 0)
        say(v, "played", found.total == 0, &out);
    comparison_free(&found);
    json_decref(now);
    free(report);
    return rc;
}

static void show_progress(void *ctx, const char *what, uint32_t done, uint32_t planned)
{
    struct verify *v = ctx;

    progress_show(&v->progress, "%s: %u of %u played: %s", v->s->name, done, planned, what ? what : "");
}

static int verify(struct verify *v)
{
    struct runner_options options = { .repeat = 1, .progress = show_progress, .progress_ctx = v };
    struct run_result *r = NULL;

    v->confirmed = true;
    printf("%s: a result of the scenario '%s', %u arm%s\n", v->path, v->recorded.scenario, v->recorded.arms_len,
           v->recorded.arms_len == 1 ? "" : "s");
    check_content(v);
    check_tree(v);
    check_scenario(v);
    fflush(stdout);
    progress_init(&v->progress);
    int rc = runner_run(v->s, &options, &r, stderr);
    progress_clear(&v->progress);
    if (rc == 0) {
        check_model(v, r->model_digest);
        rc = check_play(v, r);
    }
    run_result_free(r);
    if (rc) {
        fprintf(stderr, "kvrepro verify: %s could not be played: %s\n", v->s->path, strerror(-rc));
        return EXIT_USAGE;
    }
    printf("\n%s\n", v->confirmed ? "CONFIRMED: playing the scenario gives this result"
                                  : "NOT CONFIRMED: what is in capitals above does not fit");
    return v->confirmed ? EXIT_AS_EXPECTED : EXIT_DIFFERS;
}

int cmd_verify(int argc, char **argv)
{
    struct verify v = { .path = NULL };
    int status = parse(argc, argv, &v);

    if (status == 0 && v.help) {
        usage();
    } else if (status == 0) {
        status = load(&v);
        if (status == 0)
            status = verify(&v);
        recorded_free(&v.recorded);
    }
    scenario_free(v.s);
    free(v.default_path);
    return cli_close_stdout(status);
}
