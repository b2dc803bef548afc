#include "cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const char *cli_program = "kvrepro";

int cli_usage_error(const char *command, const char *format, ...)
{
    va_list args;

    fprintf(stderr, "kvrepro%s%s: ", command ? " " : "", command ? command : "");
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\nhelp: %s%s%s --help\n", cli_program, command ? " " : "", command ? command : "");
    return EXIT_USAGE;
}

int cli_no_such(const char *command, const char *name, const struct choices *choices)
{
    char remedy[YAML_REMEDY_MAX];

    return cli_usage_error(command, "no %s '%.60s'%s", choices->what, name, name_remedy(name, choices, remedy));
}

static const char *option_at(const void *ctx, unsigned idx)
{
    return ((const struct option *)ctx)[idx].name;
}

static const char *option_named(const struct option *longs, int value)
{
    for (; longs->name; longs++)
        if (longs->val == value)
            return longs->name;
    return "?";
}

int cli_option(const char *command, int argc, char **argv, const char *shorts, const struct option *longs)
{
    char remedy[YAML_REMEDY_MAX], word[YAML_NAME_MAX + 1];
    struct choices choices = { .what = "option", .at = option_at, .ctx = longs };

    opterr = 0;
    int value = getopt_long(argc, argv, shorts, longs, NULL);
    if (value != '?' && value != ':')
        return value;
    const char *given = optind > 0 && optind <= argc ? argv[optind - 1] : "";
    while (longs[choices.len].name)
        choices.len++;
    if (value == ':') {
        cli_usage_error(command, "--%s needs a value", option_named(longs, optopt));
    } else if (optopt && strncmp(given, "--", 2) == 0) {
        cli_usage_error(command, "--%s takes no value", option_named(longs, optopt));
    } else if (optopt) {
        cli_usage_error(command, "no option '-%c'", optopt);
    } else {
        snprintf(word, sizeof word, "%.*s", (int)strcspn(given + 2, "="), given + 2);
        int near = nearest_name(word, &choices);
        if (near >= 0)
            cli_usage_error(command, "no option '--%s'; did you mean '--%s'?", word, longs[near].name);
        else
            cli_usage_error(command, "no option '--%s'%s", word, name_remedy(word, &choices, remedy));
    }
    return '?';
}

bool cli_number(const char *command, const char *option, const char *text, uint32_t min, uint32_t max, uint32_t *out)
{
    char *end;

    errno = 0;
    unsigned long n = strtoul(text, &end, 10);
    if (errno || *end || strspn(text, "0123456789") != strlen(text) || n < min || n > max) {
        cli_usage_error(command, "%s needs a whole number from %u to %u, not '%.60s'", option, min, max, text);
        return false;
    }
    *out = (uint32_t)n;
    return true;
}

static const char *core_at(const void *ctx, unsigned idx)
{
    return (void)ctx, core_rows[idx].name;
}

void cli_overrides_init(struct cli_overrides *o, int argc)
{
    *o = (struct cli_overrides){ .sets = calloc((size_t)argc, sizeof *o->sets) };
    if (!o->sets) {
        fprintf(stderr, "kvrepro: out of memory\n");
        abort();
    }
    o->overrides.sets = o->sets;
}

int cli_override_core(const char *command, struct cli_overrides *o, const char *core)
{
    struct choices cores = { "core", core_rows_len, core_at, NULL };

    if (core_by_name(core) < 0)
        return cli_no_such(command, core, &cores);
    o->overrides.core = core;
    return 0;
}

void cli_override_set(struct cli_overrides *o, const char *set)
{
    o->sets[o->overrides.sets_len++] = set;
}

int cli_close_stdout(int status)
{
    /* Not closed: a sanitizer may still have something to say. */
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    fprintf(stderr, "kvrepro: can't write to the standard output: %s\n", strerror(errno));
    return EXIT_USAGE;
}
