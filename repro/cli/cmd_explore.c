#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../report/explored.h"
#include "../report/text.h"
#include "cli.h"
#include "outfile.h"
#include "progress.h"

enum { STATES_LIMIT = 20000000, ROWS_MAX = 64 };

static void usage(void)
{
    printf("\
usage: kvrepro explore [OPTION]... FILE\n\
\n\
Takes a scenario without a script (key 'explore') through every order in which its machines, its network and its\n\
clients can act, with each transfer core and engine, and shows which core is safe (decode never reads what another\n\
request has written) and which is live (decode never keeps memory for ever); for the others, how few transitions\n\
lead there. Timers of holds are treated in three ways: they fire at any time, only when nothing else can happen, or\n\
never. A core is called safe if it is with timers at any time, live if it is with timers last.\n\
\n\
A search that would need more states than allowed ends early: its cell is 'bounded', which is never 'safe'.\n\
Ctrl-C shows the cells that are finished.\n\
\n\
options:\n\
      --core NAME           only this core of the file's ('kvrepro list cores'); may be repeated\n\
      --engine NAME         only this engine of the file's ('kvrepro list engines'); may be repeated\n\
      --set KEY=VALUE       as if the file said so, as in --set topology.decode.pages=9; may be repeated\n\
      --no-reduce           all orders, also those of steps that commute; many times the states\n\
      --states-limit N      at most so many states in one search (20000000)\n\
      --memory-limit SIZE   at most as many states as fit into so much memory, as in 500M or 8G\n\
      --story               tell each counterexample and each shortest way to pinned memory, step by step\n\
      --json FILE           the result as JSON ('-': to the standard output, instead of the table)\n\
  -h, --help                this text\n\
\n\
In the JSON 'safe' and 'live' are true, false or, where a search was bounded before it found out, null.\n\
\n\
exit status: 0 every cell is complete, whatever it found; 1 some cell is bounded or missing; 2 usage or scenario\n\
error, not enough memory, or a file could not be written\n\
\n\
examples:\n\
  kvrepro explore scenarios/explore.yaml\n\
  kvrepro explore --core deferred-35360 --engine mooncake --story scenarios/explore.yaml\n\
  kvrepro explore --states-limit 100000000 --memory-limit 16G --json explore.json scenarios/explore.yaml\n");
}

struct explore_command {
    struct cli_overrides overrides;
    bool cores[ROWS_MAX], engines[ROWS_MAX]; /* those asked for, if any is */
    bool some_cores, some_engines;
    bool reduce, story, help;
    uint32_t states_limit;
    uint64_t memory_limit; /* bytes; 0: none */
    const char *json;
};

static const char *core_at(const void *ctx, unsigned idx)
{
    return (void)ctx, core_rows[idx].name;
}
static const char *engine_at(const void *ctx, unsigned idx)
{
    return (void)ctx, engine_rows[idx].name;
}

static bool parse_size(const char *text, uint64_t *out)
{
    static const char units[] = "KMGT";
    size_t digits = strspn(text, "0123456789");
    char *end;

    errno = 0;
    uint64_t n = strtoull(text, &end, 10);
    const char *unit = *end ? strchr(units, *end) : NULL;
    unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
    if (digits == 0 || errno || (*end && (!unit || end[1])) || n == 0 || n > UINT64_MAX >> 1 >> shift) {
        cli_usage_error("explore", "--memory-limit needs a size, as in 500M or 8G, not '%.60s'", text);
        return false;
    }
    *out = n << shift;
    return true;
}

static int parse(int argc, char **argv, struct explore_command *o)
{
    enum { OPT_CORE = 256, OPT_ENGINE, OPT_SET, OPT_NO_REDUCE, OPT_STATES, OPT_MEMORY, OPT_STORY, OPT_JSON };
    static const struct option longs[] = {
        { "core", required_argument, NULL, OPT_CORE },
        { "engine", required_argument, NULL, OPT_ENGINE },
        { "set", required_argument, NULL, OPT_SET },
        { "no-reduce", no_argument, NULL, OPT_NO_REDUCE },
        { "states-limit", required_argument, NULL, OPT_STATES },
        { "memory-limit", required_argument, NULL, OPT_MEMORY },
        { "story", no_argument, NULL, OPT_STORY },
        { "json", required_argument, NULL, OPT_JSON },
        { "help", no_argument, NULL, 'h' },
        { 0 },
    };
    const struct choices cores = { "core", core_rows_len, core_at, NULL };
    const struct choices engines = { "engine", engine_rows_len, engine_at, NULL };
    int option;

    while ((option = cli_option("explore", argc, argv, ":h", longs)) != -1) {
        switch (option) {
        case OPT_CORE:
            if (core_by_name(optarg) < 0)
                return cli_no_such("explore", optarg, &cores);
            o->cores[core_by_name(optarg)] = o->some_cores = true;
            break;
        case OPT_ENGINE:
            if (engine_by_name(optarg) < 0)
                return cli_no_such("explore", optarg, &engines);
            o->engines[engine_by_name(optarg)] = o->some_engines = true;
            break;
        case OPT_SET:
            cli_override_set(&o->overrides, optarg);
            break;
        case OPT_NO_REDUCE:
            o->reduce = false;
            break;
        case OPT_STATES:
            if (!cli_number("explore", "--states-limit", optarg, 1, 4000000000u, &o->states_limit))
                return EXIT_USAGE;
            break;
        case OPT_MEMORY:
            if (!parse_size(optarg, &o->memory_limit))
                return EXIT_USAGE;
            break;
        case OPT_STORY:
            o->story = true;
            break;
        case OPT_JSON:
            o->json = optarg;
            break;
        case 'h':
            o->help = true;
            return 0;
        default:
            return EXIT_USAGE;
        }
    }
    if (optind == argc)
        return cli_usage_error("explore", "no scenario file named");
    if (argc - optind > 1)
        return cli_usage_error("explore", "one scenario at a time, not '%.60s' too", argv[optind + 1]);
    if (o->story && o->json && strcmp(o->json, "-") == 0)
        return cli_usage_error("explore", "--story and the JSON can't both go to the standard output");
    return 0;
}

/* --- which cells --- */

/* A name that was asked for and is not in the file's list. */
static int check_listed(const struct scenario *s, const char *what, const unsigned *listed, uint32_t listed_len,
                        const bool *wanted, const struct choices *rows)
{
    for (unsigned row = 0; row < rows->len; row++) {
        bool found = false;
        for (uint32_t i = 0; i < listed_len; i++)
            found = found || listed[i] == row;
        if (wanted[row] && !found)
            return cli_usage_error("explore", "%s does not explore the %s '%s'; add it to the file's '%ss'", s->path,
                                   what, rows->at(rows->ctx, row), what);
    }
    return 0;
}

static int make_cells(const struct explore_command *o, struct explored *x, struct explored_cell **out)
{
    const struct explore_spec *e = &x->s->explore;
    const struct choices cores = { "core", core_rows_len, core_at, NULL };
    const struct choices engines = { "engine", engine_rows_len, engine_at, NULL };
    struct explored_cell *cells = calloc((size_t)e->cores_len * e->engines_len, sizeof *cells);

    *out = cells;
    x->cells = cells;
    if (!cells) {
        fprintf(stderr, "kvrepro explore: out of memory\n");
        return EXIT_USAGE;
    }
    if (check_listed(x->s, "core", e->cores, e->cores_len, o->cores, &cores) != 0 ||
        check_listed(x->s, "engine", e->engines, e->engines_len, o->engines, &engines) != 0)
        return EXIT_USAGE;
    for (uint32_t g = 0; g < e->engines_len; g++)
        for (uint32_t c = 0; c < e->cores_len; c++)
            if ((!o->some_cores || o->cores[e->cores[c]]) && (!o->some_engines || o->engines[e->engines[g]]))
                cells[x->cells_len++] = (struct explored_cell){ .core = e->cores[c], .engine = e->engines[g] };
    return 0;
}

/* --- how many states --- */

/* What so many states take: each its bytes and what is noted of it, and the table in which they are looked up, four bytes a
 * slot, at least two slots a state, a power of two. */
static uint64_t memory_of(uint64_t states, uint64_t state_bytes)
{
    const uint64_t noted = 3 * sizeof(uint32_t) + sizeof(uint16_t);
    uint64_t slots = 1024;

    while (slots < 2 * states)
        slots *= 2;
    return states * (state_bytes + noted) + slots * sizeof(uint32_t);
}

static uint64_t states_within(uint64_t limit, uint64_t state_bytes, uint64_t most)
{
    uint64_t least = 0;

    while (least < most) {
        uint64_t middle = least + (most - least + 1) / 2;
        if (memory_of(middle, state_bytes) <= limit)
            least = middle;
        else
            most = middle - 1;
    }
    return least;
}

/* One number for all cells, so that they can be compared: what the largest state leaves room for. */
static int limit_states(const struct explore_command *o, struct explored *x)
{
    uint64_t bytes = 0;

    x->options.states_max = o->states_limit;
    if (!o->memory_limit)
        return 0;
    for (uint32_t i = 0; i < x->cells_len; i++) {
        struct config *c = explore_config(x->s, x->cells[i].core, x->cells[i].engine);
        if (!c) {
            fprintf(stderr, "kvrepro explore: out of memory\n");
            return EXIT_USAGE;
        }
        bytes = c->world_size + sizeof(uint32_t) > bytes ? c->world_size + sizeof(uint32_t) : bytes;
        config_free(c);
    }
    x->options.states_max = states_within(o->memory_limit, bytes, o->states_limit);
    if (x->options.states_max == 0)
        return cli_usage_error("explore", "--memory-limit: one state alone takes %" PRIu64 " bytes",
                               memory_of(1, bytes));
    return 0;
}

/* --- the searches: in a thread of their own, so that Ctrl-C and the progress don't wait for them --- */

struct searches {
    const struct explored *x;
    struct explored_cell *cells;
    uint32_t at; /* the cell that is being searched */
    int rc;
};

static sem_t wake;
static volatile sig_atomic_t interrupted;

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
    sem_post(&wake);
}

static void *search(void *arg)
{
    struct searches *s = arg;
    struct explored_cell *cell = &s->cells[s->at];

    s->rc = explore_cell(s->x->s, cell->core, cell->engine, &s->x->options, &cell->result);
    sem_post(&wake);
    return NULL;
}

static void show_progress(struct progress *p, const struct searches *s, time_t began)
{
    const struct explored_cell *cell = &s->cells[s->at];

    progress_show(p, "%s: %u of %u explored, %lld s: %s, %s", s->x->s->name, s->at, s->x->cells_len,
                  (long long)(time(NULL) - began), core_rows[cell->core].name, engine_rows[cell->engine].name);
}

/* 0 when the cell is done; EINTR after Ctrl-C, with the thread still at work; or -errno. */
static int search_one(struct searches *s, struct progress *p, time_t began)
{
    pthread_t thread;
    struct timespec until;
    int rc = pthread_create(&thread, NULL, search, s);

    if (rc)
        return -rc;
    do {
        show_progress(p, s, began);
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
        rc = sem_timedwait(&wake, &until) == 0 ? 0 : errno;
    } while (rc == ETIMEDOUT || (rc == EINTR && !interrupted));
    if (interrupted) {
        pthread_detach(thread);
        return EINTR;
    }
    pthread_join(thread, NULL);
    if (s->rc == 0)
        s->cells[s->at].done = true;
    return s->rc;
}

static int search_all(struct searches *s)
{
    /* Once only: a second Ctrl-C ends the program as it would any other. */
    struct sigaction action = { .sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND }, old;
    struct progress progress;
    time_t began = time(NULL);
    int rc = 0;

    sem_init(&wake, 0, 0);
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, NULL, &old);
    if (old.sa_handler != SIG_IGN)
        sigaction(SIGINT, &action, NULL);
    progress_init(&progress);
    for (s->at = 0; rc == 0 && s->at < s->x->cells_len; s->at++)
        rc = search_one(s, &progress, began);
    progress_clear(&progress);
    if (rc != EINTR)
        sigaction(SIGINT, &old, NULL);
    if (rc < 0)
        fprintf(stderr, "kvrepro explore: %s with %s and %s: %s%s\n", s->x->s->path,
                core_rows[s->cells[s->at - 1].core].name, engine_rows[s->cells[s->at - 1].engine].name, strerror(-rc),
                rc == -ENOMEM ? "; lower --states-limit or give a --memory-limit" : "");
    return rc;
}

/* --- what came out --- */

static int cant_write(const char *path, int error)
{
    fprintf(stderr, "kvrepro explore: can't write '%s': %s\n", path, strerror(error));
    return EXIT_USAGE;
}

static int write_json(struct outfile *file, const char *path, const struct explored *x)
{
    char *json = explored_json(x, &provenance);
    int rc;

    if (!json)
        return cant_write(path, ENOMEM);
    fputs(json, file->f);
    free(json);
    rc = outfile_commit(file);
    return rc ? cant_write(path, -rc) : 0;
}

static int tell(const struct explored *x)
{
    for (uint32_t i = 0; i < x->cells_len; i++)
        if (x->cells[i].done && explored_story(stdout, x, &x->cells[i]) != 0) {
            fprintf(stderr, "kvrepro explore: out of memory\n");
            return EXIT_USAGE;
        }
    return 0;
}

static void name_missing(const struct explored *x)
{
    struct text out = { .len = 0 };
    uint32_t missing = 0;

    for (uint32_t i = 0; i < x->cells_len; i++)
        if (!x->cells[i].done) {
            text_add(&out, "%s%s with %s", missing ? ", " : "", core_rows[x->cells[i].core].name,
                     engine_rows[x->cells[i].engine].name);
            missing++;
        }
    fprintf(stderr, "kvrepro explore: interrupted; %u of %u cells are missing: %s\n", missing, x->cells_len, out.s);
}

static int show(const struct explore_command *o, const struct explored *x, struct outfile *json)
{
    int status = o->json ? write_json(json, o->json, x) : 0;

    if (status == 0 && !(o->json && strcmp(o->json, "-") == 0))
        explored_print(stdout, x);
    if (status == 0 && o->story)
        status = tell(x);
    for (uint32_t i = 0; status == 0 && i < x->cells_len; i++)
        if (!x->cells[i].done || !x->cells[i].result.complete)
            status = EXIT_DIFFERS;
    return status;
}

static int explore(const struct explore_command *o, struct explored *x, bool *still_at_work)
{
    struct explored_cell *cells;
    struct outfile json = { .f = NULL };
    int status = make_cells(o, x, &cells), rc;

    if (status == 0)
        status = limit_states(o, x);
    /* Found out now, and not after the searches. */
    if (status == 0 && o->json && (rc = outfile_open(&json, o->json)) != 0)
        status = cant_write(o->json, -rc);
    if (status)
        return status;
    struct searches *s = calloc(1, sizeof *s);
    if (!s) {
        outfile_discard(&json);
        return cant_write(o->json ? o->json : "the table", ENOMEM);
    }
    *s = (struct searches){ .x = x, .cells = cells };
    rc = search_all(s);
    *still_at_work = rc == EINTR;
    status = rc < 0 ? EXIT_USAGE : show(o, x, &json);
    if (rc == EINTR)
        name_missing(x);
    else
        free(s);
    outfile_discard(&json);
    return status;
}

int cmd_explore(int argc, char **argv)
{
    /* Not on the stack: after Ctrl-C a search goes on until the program has ended. */
    static struct explore_command o;
    static struct explored x;
    struct scenario *s = NULL;
    bool still_at_work = false;

    o = (struct explore_command){ .reduce = true, .states_limit = STATES_LIMIT };
    cli_overrides_init(&o.overrides, argc);
    int status = parse(argc, argv, &o);
    if (status == 0 && o.help) {
        usage();
    } else if (status == 0 && scenario_load(argv[optind], &o.overrides.overrides, &s, stderr) != 0) {
        status = EXIT_USAGE;
    } else if (status == 0 && !s->explore.given) {
        fprintf(stderr, "%s: nothing to explore: it is for '%s run'\n", s->path, cli_program);
        status = EXIT_USAGE;
    } else if (status == 0) {
        x = (struct explored){ .s = s, .options = { .reduce = o.reduce }, .program = cli_program, .told = o.story };
        status = explore(&o, &x, &still_at_work);
    }
    if (!still_at_work) {
        for (uint32_t i = 0; i < x.cells_len; i++)
            if (x.cells[i].done)
                explore_cell_free((struct explore_cell *)&x.cells[i].result);
        free((struct explored_cell *)x.cells);
        scenario_free(s);
    }
    free(o.overrides.sets);
    return cli_close_stdout(status);
}
