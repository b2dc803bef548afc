#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../protocol/names.h"
#include "../report/text.h"
#include "cli.h"

static void usage(void)
{
    printf("\
usage: kvrepro list [OPTION]... scenarios|cores|points|engines|knobs\n\
\n\
One line each:\n\
  scenarios   name and purpose of the scenario files (*.yaml) in ./scenarios\n\
  cores       transfer cores: the protocol variants that an arm can play\n\
  points      instants of a transfer at which a scenario can park or await somebody\n\
  engines     transfer engines and what is theirs to decide\n\
  knobs       what a core or an engine consists of; a scenario can change each\n\
\n\
options:\n\
      --dir DIR   look for scenarios in DIR\n\
  -h, --help      this text\n\
\n\
exit status: 0; 2 usage error, or a scenario file has errors\n\
\n\
examples:\n\
  kvrepro list cores\n\
  kvrepro list points\n\
  kvrepro list --dir my/scenarios scenarios\n");
}

static bool is_scenario_file(const char *name)
{
    size_t len = strlen(name);
    return len > 5 && name[0] != '.' && strcmp(name + len - 5, ".yaml") == 0;
}

static int list_file(const char *dir, const char *name)
{
    struct scenario *s;
    char *path;

    if (asprintf(&path, "%s/%s", dir, name) < 0)
        return EXIT_USAGE;
    fflush(stdout);
    int rc = scenario_load(path, NULL, &s, stderr);
    free(path);
    if (rc)
        return EXIT_USAGE;
    printf("%-24s  ", s->name);
    for (const char *c = s->about ? s->about : ""; *c; c++)
        if (*c != '\n' || c[1])
            putchar(*c == '\n' ? ' ' : *c);
    putchar('\n');
    scenario_free(s);
    return EXIT_AS_EXPECTED;
}

static int list_scenarios(const char *dir)
{
    struct dirent **names;
    int status = EXIT_AS_EXPECTED, listed = 0;
    int len = scandir(dir, &names, NULL, versionsort);

    if (len < 0)
        return cli_usage_error("list", "can't read the folder '%s': %s; name another with --dir", dir, strerror(errno));
    for (int i = 0; i < len; i++) {
        if (is_scenario_file(names[i]->d_name)) {
            listed++;
            if (list_file(dir, names[i]->d_name) != EXIT_AS_EXPECTED)
                status = EXIT_USAGE;
        }
        free(names[i]);
    }
    free(names);
    if (listed == 0)
        return cli_usage_error("list", "no *.yaml in '%s'; name another folder with --dir", dir);
    return status;
}

static int list_cores(const char *dir)
{
    (void)dir;
    for (unsigned i = 0; i < core_rows_len; i++)
        printf("%-20s  %s\n", core_rows[i].name, core_rows[i].models);
    return EXIT_AS_EXPECTED;
}

static int list_points(const char *dir)
{
    static const char *const wheres[] = { "prefill", "decode", "both", "wire" };

    (void)dir;
    for (unsigned i = 0; i < POINT_COUNT; i++)
        printf("%-15s  %-7s  %-18s  %s\n", point_rows[i].name, wheres[point_rows[i].where], who_name(point_rows[i].who),
               point_rows[i].what);
    return EXIT_AS_EXPECTED;
}

static int list_engines(const char *dir)
{
    (void)dir;
    for (unsigned i = 0; i < engine_rows_len; i++)
        printf("%-12s  %s\n", engine_rows[i].name, engine_rows[i].models);
    return EXIT_AS_EXPECTED;
}

static void list_knob(const char *of, const struct knob_row *knob)
{
    const char *values = knob->kind == KNOB_BOOL       ? "true false"
                         : knob->kind == KNOB_DURATION ? "a duration"
                         : knob->kind == KNOB_NUMBER   ? "0 to 3"
                                                       : knob->values;

    printf("%-6s  %-22s  %-30s  %s\n", of, knob->name, values, knob->what);
}

static int list_knobs(const char *dir)
{
    (void)dir;
    for (unsigned i = 0; i < CORE_KNOB_COUNT; i++)
        list_knob("core", &core_knobs[i]);
    for (unsigned i = 0; i < ENGINE_KNOB_COUNT; i++)
        list_knob("engine", &engine_knobs[i]);
    return EXIT_AS_EXPECTED;
}

static const struct {
    const char *name;
    int (*list)(const char *dir);
} kinds[] = {
    { "scenarios", list_scenarios }, { "cores", list_cores }, { "points", list_points },
    { "engines", list_engines },     { "knobs", list_knobs },
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static const char *kind_at(const void *ctx, unsigned idx)
{
    return (void)ctx, kinds[idx].name;
}

int cmd_list(int argc, char **argv)
{
    enum { OPT_DIR = 256 };
    static const struct option longs[] = {
        { "dir", required_argument, NULL, OPT_DIR },
        { "help", no_argument, NULL, 'h' },
        { 0 },
    };
    struct choices choices = { "list", KINDS, kind_at, NULL };
    const char *dir = NULL;
    int option;

    while ((option = cli_option("list", argc, argv, ":h", longs)) != -1) {
        switch (option) {
        case OPT_DIR:
            dir = optarg;
            break;
        case 'h':
            usage();
            return cli_close_stdout(EXIT_AS_EXPECTED);
        default:
            return EXIT_USAGE;
        }
    }
    if (optind == argc)
        return cli_usage_error("list", "list what? scenarios, cores, points, engines or knobs");
    if (argc - optind > 1)
        return cli_usage_error("list", "one list at a time, not '%.60s' too", argv[optind + 1]);
    for (unsigned i = 0; i < KINDS; i++) {
        if (strcmp(argv[optind], kinds[i].name) != 0)
            continue;
        if (dir && kinds[i].list != list_scenarios)
            return cli_usage_error("list", "--dir is only for scenarios");
        return cli_close_stdout(kinds[i].list(dir ? dir : "scenarios"));
    }
    return cli_no_such("list", argv[optind], &choices);
}
