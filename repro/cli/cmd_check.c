#include <stdlib.h>

#include "cli.h"

static void usage(void)
{
    printf("\
usage: kvrepro check [OPTION]... FILE...\n\
\n\
Reads scenario files and checks everything that can be known without playing them. A file without errors gives a\n\
line 'FILE: ok, N arms', or 'FILE: ok, to explore'; an error names its file, line and column, shows the line, and\n\
says what would be right.\n\
\n\
options:\n\
      --core NAME       as if every arm named this core\n\
      --set KEY=VALUE   as if the file said so, as in --set topology.decode.pages=66; may be repeated\n\
  -h, --help            this text\n\
\n\
exit status: 0 all files are good; 2 some file is not, or usage error\n\
\n\
examples:\n\
  kvrepro check scenarios/seed.yaml\n\
  kvrepro check scenarios/*.yaml\n");
}

static int check_file(const char *path, const struct scenario_overrides *overrides)
{
    struct scenario *s;

    /* Both may go to one terminal. */
    fflush(stdout);
    if (scenario_load(path, overrides, &s, stderr) != 0)
        return EXIT_USAGE;
    if (s->explore.given)
        printf("%s: ok, to explore\n", path);
    else
        printf("%s: ok, %u arm%s\n", path, s->arms_len, s->arms_len == 1 ? "" : "s");
    scenario_free(s);
    return EXIT_AS_EXPECTED;
}

int cmd_check(int argc, char **argv)
{
    enum { OPT_CORE = 256, OPT_SET };
    static const struct option longs[] = {
        { "core", required_argument, NULL, OPT_CORE },
        { "set", required_argument, NULL, OPT_SET },
        { "help", no_argument, NULL, 'h' },
        { 0 },
    };
    struct cli_overrides o;
    int status = EXIT_AS_EXPECTED, option;

    cli_overrides_init(&o, argc);
    while (status == EXIT_AS_EXPECTED && (option = cli_option("check", argc, argv, ":h", longs)) != -1) {
        switch (option) {
        case OPT_CORE:
            status = cli_override_core("check", &o, optarg);
            break;
        case OPT_SET:
            cli_override_set(&o, optarg);
            break;
        case 'h':
            usage();
            free(o.sets);
            return cli_close_stdout(EXIT_AS_EXPECTED);
        default:
            status = EXIT_USAGE;
        }
    }
    if (status == EXIT_AS_EXPECTED && optind == argc)
        status = cli_usage_error("check", "no scenario file named");
    if (status == EXIT_AS_EXPECTED) {
        for (int i = optind; i < argc; i++)
            if (check_file(argv[i], &o.overrides) != EXIT_AS_EXPECTED)
                status = EXIT_USAGE;
    }
    free(o.sets);
    return cli_close_stdout(status);
}
