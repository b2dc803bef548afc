#include "../report/compare_json.h"
#include "../report/recorded.h"
#include "cli.h"

enum { SHOWN = 20, SHOWN_MAX = 100000 };

static void usage(void)
{
    printf("\
usage: kvrepro diff [OPTION]... RECORDED.json NOW.json\n\
\n\
Where two results differ, as 'kvrepro run --json' writes them: the path of each value that differs, as jq takes it, with\n\
both values. The provenance is left out: it says what a result was made from, not what came out.\n\
\n\
options:\n\
      --max N   so many paths at most (default: 20); digests come last\n\
  -h, --help    this text\n\
\n\
exit status: 0 no value differs; 1 some do; 2 usage error, or a file that is no result\n\
\n\
examples:\n\
  kvrepro run --json now.json scenarios/seed.yaml && kvrepro diff results/seed.json now.json\n\
  kvrepro diff --max 1000 here.json there.json\n");
}

static int diff(const struct recorded *recorded, const struct recorded *now, uint32_t max)
{
    struct json_comparison found;
    int status = EXIT_AS_EXPECTED;

    if (compare_json(recorded->document, now->document, "", COMPARE_ALL, max, &found) != 0) {
        fprintf(stderr, "kvrepro diff: out of memory\n");
        status = EXIT_USAGE;
    } else if (found.total == 0) {
        printf("no value differs\n");
    } else {
        for (uint32_t i = 0; i < found.len; i++) {
            struct text line = { .len = 0 };
            difference_text(&found.list[i], "was", "now", &line);
            printf("%s\n", line.s);
        }
        if (found.len < found.total)
            printf("and %llu more\n", (unsigned long long)(found.total - found.len));
        status = EXIT_DIFFERS;
    }
    comparison_free(&found);
    return status;
}

int cmd_diff(int argc, char **argv)
{
    enum { OPT_MAX = 256 };
    static const struct option longs[] = {
        { "max", required_argument, NULL, OPT_MAX },
        { "help", no_argument, NULL, 'h' },
        { 0 },
    };
    struct recorded recorded, now;
    uint32_t max = SHOWN;
    int option, status = EXIT_USAGE;

    while ((option = cli_option("diff", argc, argv, ":h", longs)) != -1) {
        if (option == 'h') {
            usage();
            return cli_close_stdout(EXIT_AS_EXPECTED);
        }
        if (option != OPT_MAX || !cli_number("diff", "--max", optarg, 1, SHOWN_MAX, &max))
            return EXIT_USAGE;
    }
    if (argc - optind != 2)
        return cli_usage_error("diff", "two results are compared, not %d", argc - optind);
    if (recorded_read(argv[optind], &recorded, stderr) != 0)
        return EXIT_USAGE;
    if (recorded_read(argv[optind + 1], &now, stderr) == 0) {
        status = diff(&recorded, &now, max);
        recorded_free(&now);
    }
    recorded_free(&recorded);
    return cli_close_stdout(status);
}
