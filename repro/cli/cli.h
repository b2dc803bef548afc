/*
 * The command line: one function per command, given its own arguments (argv[0] is the command's name), returning the
 * exit status. Messages go to stderr, what was asked for to stdout.
 */
#ifndef KVREPRO_CLI_H
#define KVREPRO_CLI_H

#include <getopt.h>
#include <stdbool.h>

#include "../scenario/scenario.h"
#include "../scenario/yaml_fields.h"

enum {
    EXIT_AS_EXPECTED = 0,
    EXIT_DIFFERS = 1,
    EXIT_USAGE = 2,
    EXIT_SKIPPED = 77, /* automake's and meson's word for it */
};

/* How this program was called, for messages and the commands they suggest. */
extern const char *cli_program;

int cmd_run(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_list(int argc, char **argv);
int cmd_explain(int argc, char **argv);
int cmd_explore(int argc, char **argv);
int cmd_gate(int argc, char **argv);
int cmd_verify(int argc, char **argv);
int cmd_compare(int argc, char **argv);
int cmd_diff(int argc, char **argv);

/* "kvrepro COMMAND: MESSAGE" and how to get help; returns EXIT_USAGE. `command` NULL: the program itself. */
__attribute__((format(printf, 2, 3))) int cli_usage_error(const char *command, const char *format, ...);
/* Refuses a name that is none of the choices, with the nearest one; returns EXIT_USAGE. */
int cli_no_such(const char *command, const char *name, const struct choices *choices);

/*
 * getopt_long() with our messages: the option's value, -1 at the end of the options, or '?' after an error was written.
 * `shorts` begins with a colon (after a plus, if options end at the first other word); an empty row ends `longs`.
 */
int cli_option(const char *command, int argc, char **argv, const char *shorts, const struct option *longs);

/* An argument that is a whole number from min to max; false after an error was written. */
bool cli_number(const char *command, const char *option, const char *text, uint32_t min, uint32_t max, uint32_t *out);

/* Arguments of --set, with room for one for each of argc. */
struct cli_overrides {
    struct scenario_overrides overrides;
    const char **sets;
};
/* Aborts the program if memory is short; free() sets. */
void cli_overrides_init(struct cli_overrides *o, int argc);
/* Checks a core's name; EXIT_USAGE after an error, else 0. */
int cli_override_core(const char *command, struct cli_overrides *o, const char *core);
void cli_override_set(struct cli_overrides *o, const char *set);

/* Output that was cut short (a full disk) must not pass for whole: EXIT_USAGE with a message, else `status`. */
int cli_close_stdout(int status);

#endif
