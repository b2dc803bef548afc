#include <string.h>

#include "../report/text.h"
#include "cli.h"

static void usage(void)
{
    printf("\
usage: kvrepro explain CORE\n\
\n\
What a transfer core (or an engine) models, its known hole, and each of its knobs: the value, what it decides, and\n\
where that stands upstream.\n\
\n\
options:\n\
  -h, --help   this text\n\
\n\
exit status: 0; 2 usage error\n\
\n\
examples:\n\
  kvrepro explain unpatched\n\
  kvrepro explain mooncake\n\
  kvrepro list cores         the cores there are\n");
}

/* Cores first, then engines. */
static const char *name_at(const void *ctx, unsigned idx)
{
    return (void)ctx, idx < core_rows_len ? core_rows[idx].name : engine_rows[idx - core_rows_len].name;
}

static void put_knobs(const struct knob_row *knobs, const struct core_value *values, unsigned len)
{
    char value[TEXT_NUMBER_MAX];
    unsigned names = 0;

    for (unsigned i = 0; i < len; i++)
        names = text_columns(knobs[i].name) > names ? text_columns(knobs[i].name) : names;
    for (unsigned i = 0; i < len; i++) {
        struct text out = { .len = 0 };
        text_add(&out, "%s", knob_value_text(&knobs[i], values[i].value, value, sizeof value));
        if (knobs[i].kind == KNOB_CHOICE)
            text_add(&out, "  (of: %s)", knobs[i].values);
        text_row(stdout, 2, names + 2, knobs[i].name, out.s);
        text_row(stdout, 2, names + 2, "", knobs[i].what);
        out.len = 0;
        text_add(&out, "[%s]", values[i].source ? values[i].source : "no source given");
        text_row(stdout, 2, names + 2, "", out.s);
    }
}

static void explain_core(const struct core_row *core)
{
    printf("%s (transfer core)\n", core->name);
    text_row(stdout, 2, 12, "models", core->models);
    text_row(stdout, 2, 12, "known hole", core->hole);
    printf("\nits knobs: value, what it decides, [where that stands upstream]\n");
    put_knobs(core_knobs, core->values, CORE_KNOB_COUNT);
    printf("\nnext:\n"
           "  in a scenario, an arm that changes one of them\n"
           "      core: {base: %s, recheck_kv: %s}\n"
           "  play a scenario's arms with this core\n"
           "      %s run --core %s scenarios/seed.yaml\n",
           core->name, core->values[CORE_RECHECK_KV].value ? "false" : "true", cli_program, core->name);
}

static void explain_engine(const struct engine_row *engine)
{
    printf("%s (transfer engine)\n", engine->name);
    text_row(stdout, 2, 12, "models", engine->models);
    printf("\nits knobs: value, what it decides, [where that stands upstream]\n");
    put_knobs(engine_knobs, engine->values, ENGINE_KNOB_COUNT);
}

int cmd_explain(int argc, char **argv)
{
    static const struct option longs[] = {
        { "help", no_argument, NULL, 'h' },
        { 0 },
    };
    struct choices choices = { "core", core_rows_len + engine_rows_len, name_at, NULL };
    int option;

    while ((option = cli_option("explain", argc, argv, ":h", longs)) != -1) {
        if (option != 'h')
            return EXIT_USAGE;
        usage();
        return cli_close_stdout(EXIT_AS_EXPECTED);
    }
    if (optind == argc)
        return cli_usage_error("explain", "explain which core? see '%s list cores'", cli_program);
    if (argc - optind > 1)
        return cli_usage_error("explain", "one core at a time, not '%.60s' too", argv[optind + 1]);
    const char *name = argv[optind];
    int core = core_by_name(name), engine = engine_by_name(name);
    if (core >= 0)
        explain_core(&core_rows[core]);
    else if (engine >= 0)
        explain_engine(&engine_rows[engine]);
    else
        return cli_no_such("explain", name, &choices);
    return cli_close_stdout(EXIT_AS_EXPECTED);
}
