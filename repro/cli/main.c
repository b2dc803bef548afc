/* kvrepro: plays transfer races of prefill/decode serving in a chosen order. This file finds the command. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../model/model.h"
#include "../report/provenance.h"
#include "../report/text.h"
#include "cli.h"
#include "outfile.h"

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} commands[] = {
    { "run", cmd_run },       { "compare", cmd_compare }, { "gate", cmd_gate },
    { "verify", cmd_verify }, { "diff", cmd_diff },       { "check", cmd_check },
    { "list", cmd_list },     { "explain", cmd_explain }, { "explore", cmd_explore },
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

/* The commands, then the word that is none but may be meant. */
static const char *command_at(const void *ctx, unsigned idx)
{
    return (void)ctx, idx < COMMANDS ? commands[idx].name : "help";
}

static void usage(FILE *f)
{
    fprintf(f, "\
usage: kvrepro COMMAND [OPTION]... [ARGUMENT]...\n\
\n\
Reproduces memory races of KV cache transfers between prefill and decode engines: an aborted request's stalled\n\
write lands in memory that another request has been given. A scenario file says who waits where and who goes on\n\
when; kvrepro plays it with one transfer core (one variant of the protocol) an arm, and shows which core lets the\n\
corruption happen.\n\
\n\
commands:\n\
  run FILE...       play scenarios and show what happened\n\
  compare FILE      play one scenario with every core and every engine, as one table\n\
  gate [DIR]        play all scenarios of a folder: are they as expected and as recorded? (for CI)\n\
  verify RESULT     play a result's scenario again: is the result what it says it is?\n\
  diff A B          where two results differ, path by path\n\
  explore FILE      take a scenario without a script through every order, with each core and engine\n\
  check FILE...     read scenarios and report their errors, without playing\n\
  list WHAT         scenarios, cores, points, engines or knobs\n\
  explain CORE      what a transfer core models, knob by knob, with its source upstream\n\
\n\
options:\n\
  -h, --help        this text; 'kvrepro COMMAND --help' for a command's own\n\
  -V, --version     what this program was built from\n\
\n\
exit status: 0 every arm as its scenario expects; 1 some arm differs or is void; 2 usage or scenario error;\n\
77 skipped for a stated reason\n\
\n\
examples:\n\
  kvrepro run scenarios/seed.yaml        the seed experiment\n\
  kvrepro compare scenarios/seed.yaml    which core lets it happen\n\
  kvrepro list cores                     what can be compared\n\
  kvrepro explain unpatched              why it corrupts\n");
}

static int version(void)
{
    const struct provenance *p = &provenance;
    struct model *m = model_new(MODEL_SEED);
    struct text out = { .len = 0 };

    printf("kvrepro\n");
    text_add(&out, "%s%s", p->tree, p->clean < 0 ? "" : p->clean ? " (clean)" : " (with changes)");
    text_row(stdout, 2, 10, "tree", out.s);
    text_row(stdout, 2, 10, "compiler", p->compiler);
    text_row(stdout, 2, 10, "flags", p->cflags);
    if (m) {
        out.len = 0;
        text_add(&out, "%016" PRIx64 " (seed %d)", model_digest(m), (int)MODEL_SEED);
        text_row(stdout, 2, 10, "model", out.s);
    }
    model_free(m);
    return cli_close_stdout(EXIT_AS_EXPECTED);
}

static int dispatch(int argc, char **argv)
{
    struct choices choices = { "command", COMMANDS + 1, command_at, NULL };
    const char *name = argv[0];
    size_t len = strlen(name);

    if (strcmp(name, "help") == 0 && argc == 1) {
        usage(stdout);
        return cli_close_stdout(EXIT_AS_EXPECTED);
    }
    /* "help run" is "run --help". */
    char *help[] = { argc > 1 ? argv[1] : NULL, (char[]){ "--help" }, NULL };
    if (strcmp(name, "help") == 0) {
        name = help[0];
        argv = help;
        argc = 2;
    }
    for (unsigned i = 0; i < COMMANDS; i++)
        if (strcmp(name, commands[i].name) == 0) {
            optind = 0; /* GNU: begin anew */
            return commands[i].run(argc, argv);
        }
    if (len > 5 && strcmp(name + len - 5, ".yaml") == 0)
        return cli_usage_error(NULL, "no command '%.60s'; to play a scenario: %s run %s", name, cli_program, name);
    return cli_no_such(NULL, name, &choices);
}

int main(int argc, char **argv)
{
    static const struct option longs[] = {
        { "help", no_argument, NULL, 'h' },
        { "version", no_argument, NULL, 'V' },
        { 0 },
    };

    if (argc > 0)
        cli_program = argv[0];
    outfile_init();
    switch (cli_option(NULL, argc, argv, "+:hV", longs)) {
    case 'h':
        usage(stdout);
        return cli_close_stdout(EXIT_AS_EXPECTED);
    case 'V':
        return version();
    case '?':
        return EXIT_USAGE;
    }
    if (optind >= argc) {
        usage(stderr);
        return EXIT_USAGE;
    }
    return dispatch(argc - optind, argv + optind);
}
