#include "scenario.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "../protocol/names.h"
#include "scenario_read.h"

static const char *const allocators[ALLOCATOR_COUNT] = { "sorted", "lifo", "fifo", "lowest", "any" };
static const char *const outputs[] = { "identical", "diverged", "failed", "not-admitted" };
static const char *const finish_reasons[] = { "none", "length", "abort", "error" };
static const char *const hold_ends[] = { "ack", "timer", "fence", "never" };

#define WORDS(table) .len = sizeof(table) / sizeof(table)[0], .at = choice_word, .ctx = (table)

static const char *point_at(const void *ctx, unsigned idx)
{
    return (void)ctx, point_name(idx);
}
static const char *status_at(const void *ctx, unsigned idx)
{
    return (void)ctx, point_status_name(idx);
}
static const char *side_at(const void *ctx, unsigned idx)
{
    return (void)ctx, side_name(idx);
}
static const char *request_at(const void *ctx, unsigned idx)
{
    return ((const struct scenario *)ctx)->requests[idx].name;
}

const struct choices point_choices = { "point", POINT_COUNT, point_at, NULL };
const struct choices status_choices = { "status", POINT_STATUS_COUNT, status_at, NULL };
const struct choices side_choices = { "side", SIDE_COUNT, side_at, NULL };
const struct choices allocator_choices = { .what = "allocator", WORDS(allocators) };
const struct choices output_choices = { .what = "kind of output", WORDS(outputs) };
const struct choices finish_choices = { .what = "finish reason", WORDS(finish_reasons) };
const struct choices hold_end_choices = { .what = "end of a hold", WORDS(hold_ends) };

static const char *word(const struct choices *choices, int idx)
{
    return idx >= 0 && (unsigned)idx < choices->len ? choices->at(choices->ctx, (unsigned)idx) : "?";
}

const char *allocator_name(enum allocator a)
{
    return word(&allocator_choices, (int)a);
}
const char *output_kind_name(int output)
{
    return word(&output_choices, output);
}
const char *finish_reason_name(int reason)
{
    return word(&finish_choices, reason);
}
const char *hold_end_name(int end)
{
    return word(&hold_end_choices, end);
}

struct top {
    const char *name, *about, *origin;
    struct ynode *model, *topology, *times, *wire, *requests, *watch, *faults, *steps, *arms, *explore;
};

static const struct field top_fields[] = {
    { .name = "scenario", .kind = FIELD_NAME, .required = true, .offset = offsetof(struct top, name) },
    { .name = "about", .kind = FIELD_TEXT, .offset = offsetof(struct top, about) },
    { .name = "origin", .kind = FIELD_TEXT, .offset = offsetof(struct top, origin) },
    { .name = "model", .kind = FIELD_NODE, .offset = offsetof(struct top, model) },
    { .name = "topology", .kind = FIELD_NODE, .required = true, .offset = offsetof(struct top, topology) },
    { .name = "times", .kind = FIELD_NODE, .offset = offsetof(struct top, times) },
    { .name = "wire", .kind = FIELD_NODE, .offset = offsetof(struct top, wire) },
    { .name = "requests", .kind = FIELD_NODE, .required = true, .offset = offsetof(struct top, requests) },
    { .name = "watch", .kind = FIELD_NODE, .offset = offsetof(struct top, watch) },
    { .name = "faults", .kind = FIELD_NODE, .offset = offsetof(struct top, faults) },
    { .name = "steps", .kind = FIELD_NODE, .offset = offsetof(struct top, steps) },
    { .name = "arms", .kind = FIELD_NODE, .offset = offsetof(struct top, arms) },
    { .name = "explore", .kind = FIELD_NODE, .offset = offsetof(struct top, explore) },
};

static const char on_prefill[] = "belongs to the prefill side";
static const char on_decode[] = "belongs to the decode side";

#define SIDE_NUMBER(key, member, least, most)                                                                   \
    {                                                                                                           \
        .name = key, .kind = FIELD_U32, .offset = offsetof(struct side_spec, member), .min = least, .max = most \
    }
#define SIDE_FIELDS                                                                                                 \
    SIDE_NUMBER("instances", instances, 1, SCENARIO_RANKS_MAX), SIDE_NUMBER("ranks", ranks, 1, SCENARIO_RANKS_MAX), \
        SIDE_NUMBER("pages", pages, 1, SCENARIO_PAGES_MAX),                                                         \
        SIDE_NUMBER("page_tokens", page_tokens, 1, SCENARIO_PAGE_TOKENS_MAX),                                       \
        SIDE_NUMBER("state_slots", state_slots, 1, SCENARIO_PAGES_MAX),                                             \
        { .name = "allocator",                                                                                      \
          .kind = FIELD_CHOICE,                                                                                     \
          .offset = offsetof(struct side_spec, allocator),                                                          \
          .choices = &allocator_choices },                                                                          \
    {                                                                                                               \
        .name = "slots", .kind = FIELD_CHOICE, .offset = offsetof(struct side_spec, slot_allocator),                \
        .choices = &allocator_choices                                                                               \
    }

static const struct field prefill_fields[] = {
    SIDE_FIELDS,
    SIDE_NUMBER("workers", workers, 1, SCENARIO_WORKERS_MAX),
    SIDE_NUMBER("chunk_tokens", chunk_tokens, 1, SCENARIO_TOKENS_MAX),
    { .name = "aux_slots", .kind = FIELD_REFUSED, .why = on_decode },
    { .name = "request_slots", .kind = FIELD_REFUSED, .why = on_decode },
    { .name = "reserve_pages", .kind = FIELD_REFUSED, .why = on_decode },
};

static const struct field decode_fields[] = {
    SIDE_FIELDS,
    SIDE_NUMBER("aux_slots", aux_slots, 1, SCENARIO_PAGES_MAX),
    SIDE_NUMBER("request_slots", request_slots, 1, SCENARIO_PAGES_MAX),
    SIDE_NUMBER("reserve_pages", reserve, 0, SCENARIO_PAGES_MAX),
    { .name = "workers", .kind = FIELD_REFUSED, .why = on_prefill },
    { .name = "chunk_tokens", .kind = FIELD_REFUSED, .why = on_prefill },
};

static bool read_side(struct reader *r, const struct ynode *n, const char *what, const struct field *fields,
                      size_t fields_len, struct side_spec *out)
{
    /* 0 in page_tokens and the slots: not given. */
    *out = (struct side_spec){
        .instances = 1, .ranks = 1, .pages = 64, .allocator = ALLOCATOR_SORTED, .slot_allocator = ALLOCATOR_FIFO
    };
    return n && yaml_is_map(r->y, n, what, "{instances: 1, pages: 64}") &&
           yaml_fields(r->y, n, what, fields, fields_len, out);
}

static void read_topology(struct reader *r, const struct ynode *n)
{
    static const struct field fields[] = {
        { .name = "prefill", .kind = FIELD_NODE, .required = true, .offset = 0 },
        { .name = "decode", .kind = FIELD_NODE, .required = true, .offset = sizeof(struct ynode *) },
    };
    struct ynode *sides[2] = { NULL, NULL };
    struct scenario *s = r->s;

    bool ok = n && yaml_is_map(r->y, n, "the topology", "topology: {prefill: {pages: 64}, decode: {pages: 64}}") &&
              yaml_fields(r->y, n, "the topology", fields, FIELDS_LEN(fields), sides);
    ok = read_side(r, sides[0], "a prefill side", prefill_fields, FIELDS_LEN(prefill_fields), &s->prefill) && ok;
    ok = read_side(r, sides[1], "a decode side", decode_fields, FIELDS_LEN(decode_fields), &s->decode) && ok;
    r->topology_ok = ok;
    if (ok)
        check_topology(r, sides[0], sides[1]);
    if (!s->prefill.page_tokens)
        s->prefill.page_tokens = s->decode.page_tokens ? s->decode.page_tokens : 16;
    if (!s->decode.page_tokens)
        s->decode.page_tokens = s->prefill.page_tokens;
}

static uint32_t or_else(uint32_t given, uint32_t requests, uint32_t least)
{
    return given ? given : requests > least ? requests : least;
}

static void fill_slots(struct scenario *s)
{
    s->prefill.state_slots = or_else(s->prefill.state_slots, s->requests_len, 1);
    s->decode.state_slots = or_else(s->decode.state_slots, s->requests_len, 1);
    s->decode.aux_slots = or_else(s->decode.aux_slots, s->requests_len, 2);
    s->decode.request_slots = or_else(s->decode.request_slots, s->requests_len, 1);
    if (!s->prefill.workers)
        s->prefill.workers = 4;
}

static void read_times(struct reader *r, const struct ynode *n)
{
#define TIME(key, member, least)                                                                            \
    {                                                                                                       \
        .name = key, .kind = FIELD_DURATION32, .offset = offsetof(struct times_spec, member), .min = least, \
        .max = KNOB_DURATION_MAX_US                                                                         \
    }
    static const struct field fields[] = {
        TIME("step", step_us, 1),         TIME("prefill_token", prefill_token_us, 0),
        TIME("fragment", fragment_us, 0), TIME("message", message_us, 0),
        TIME("fence", fence_us, 0),
    };
    r->s->times = (struct times_spec){
        .step_us = 10000, .prefill_token_us = 20, .fragment_us = 50, .message_us = 200, .fence_us = 1000
    };
    if (n && yaml_is_map(r->y, n, "'times'", "times: {step: 10ms}"))
        yaml_fields(r->y, n, "'times'", fields, FIELDS_LEN(fields), &r->s->times);
}

static void read_wire(struct reader *r, const struct ynode *n)
{
    static const char *const words[] = { "forward", "reverse" };
    static const struct choices orders = { .what = "order of fragments", WORDS(words) };
    static const struct field fields[] = {
        { .name = "order", .kind = FIELD_CHOICE, .required = true, .choices = &orders },
    };
    int order = 0;

    if (n && yaml_is_map(r->y, n, "'wire'", "wire: {order: reverse}"))
        yaml_fields(r->y, n, "'wire'", fields, FIELDS_LEN(fields), &order);
    r->s->wire_reverse = order == 1;
}

static void read_model(struct reader *r, const struct ynode *n)
{
    static const struct field fields[] = { { .name = "seed", .kind = FIELD_U64, .required = true, .max = UINT64_MAX } };
    r->s->model_seed = 1;
    if (n && yaml_is_map(r->y, n, "'model'", "model: {seed: 1}"))
        yaml_fields(r->y, n, "'model'", fields, FIELDS_LEN(fields), &r->s->model_seed);
}

static void read_machine(struct reader *r, const struct ynode *n, const struct side_spec *side, const char *what,
                         uint32_t *out)
{
    static const struct field fields[] = {
        { .name = "instance", .kind = FIELD_NODE, .required = true, .offset = 0 },
        { .name = "rank", .kind = FIELD_NODE, .offset = sizeof(struct ynode *) },
    };
    struct ynode *parts[2] = { NULL, NULL };
    uint64_t instance = 0, rank = 0;

    if (n->kind != YNODE_MAP)
        parts[0] = (struct ynode *)n;
    else if (!yaml_fields(r->y, n, what, fields, FIELDS_LEN(fields), parts))
        return;
    if (!r->topology_ok)
        return;
    if (yaml_number(r->y, parts[0], 0, side->instances - 1, &instance) &&
        (!parts[1] || yaml_number(r->y, parts[1], 0, side->ranks - 1, &rank)))
        *out = (uint32_t)instance * side->ranks + (uint32_t)rank;
}

struct request_nodes {
    struct ynode *prompt, *prefill, *decode, *room;
    uint32_t max_tokens;
};

struct prompt {
    uint64_t seed;
    uint32_t tokens;
};

static void read_request(struct reader *r, const struct ynode *n, struct request_spec *q)
{
    static const struct field fields[] = {
        { .name = "prompt", .kind = FIELD_NODE, .required = true, .offset = offsetof(struct request_nodes, prompt) },
        { .name = "max_tokens",
          .kind = FIELD_U32,
          .required = true,
          .offset = offsetof(struct request_nodes, max_tokens),
          .min = 1,
          .max = SCENARIO_TOKENS_MAX },
        { .name = "prefill", .kind = FIELD_NODE, .offset = offsetof(struct request_nodes, prefill) },
        { .name = "decode", .kind = FIELD_NODE, .offset = offsetof(struct request_nodes, decode) },
        { .name = "room", .kind = FIELD_NODE, .offset = offsetof(struct request_nodes, room) },
    };
    static const struct field prompt_fields[] = {
        { .name = "seed",
          .kind = FIELD_U64,
          .required = true,
          .offset = offsetof(struct prompt, seed),
          .max = UINT64_MAX },
        { .name = "tokens",
          .kind = FIELD_U32,
          .required = true,
          .offset = offsetof(struct prompt, tokens),
          .min = 1,
          .max = SCENARIO_TOKENS_MAX },
    };
    struct request_nodes nodes = { 0 };
    struct prompt prompt = { 0 };
    int room;

    if (!yaml_is_map(r->y, n, "a request", "A: {prompt: {seed: 1, tokens: 512}, max_tokens: 512}"))
        return;
    bool ok = yaml_fields(r->y, n, "a request", fields, FIELDS_LEN(fields), &nodes);
    if (nodes.prompt && yaml_is_map(r->y, nodes.prompt, "a prompt", "prompt: {seed: 1, tokens: 512}"))
        ok = yaml_fields(r->y, nodes.prompt, "a prompt", prompt_fields, FIELDS_LEN(prompt_fields), &prompt) && ok;
    q->prompt_seed = prompt.seed;
    q->prompt_tokens = prompt.tokens;
    q->max_tokens = nodes.max_tokens;
    if (nodes.prefill)
        read_machine(r, nodes.prefill, &r->s->prefill, "a place on the prefill side", &q->prefill);
    if (nodes.decode)
        read_machine(r, nodes.decode, &r->s->decode, "a place on the decode side", &q->decode);
    if (nodes.room && read_request_name(r, nodes.room, &room))
        q->room = r->s->requests[room].room;
    if (ok && prompt.tokens && nodes.max_tokens)
        check_request(r, q, n);
}

/* Keys of `expect:` that are no requests. */
static bool reserved(const char *name)
{
    static const char *const words[] = { "memory", "liveness", "holds", "order", "prevented" };
    for (size_t i = 0; i < FIELDS_LEN(words); i++)
        if (strcmp(words[i], name) == 0)
            return true;
    return false;
}

static void read_requests(struct reader *r, const struct ynode *map)
{
    struct scenario *s = r->s;
    if (!map ||
        !yaml_is_map(r->y, map, "'requests'", "requests: {A: {prompt: {seed: 1, tokens: 512}, max_tokens: 512}}"))
        return;
    if (map->len == 0)
        yaml_error(r->y, map, "no requests; a scenario needs at least one");
    if (map->len > SCENARIO_REQUESTS_MAX) {
        yaml_error(r->y, map, "%u requests, more than %d", map->len, (int)SCENARIO_REQUESTS_MAX);
        return;
    }
    s->requests = arena_alloc(&r->y->arena, map->len * sizeof *s->requests);
    for (const struct ynode *n = map->first; n; n = n->next) {
        struct request_spec q = { .place = n->key->place, .room = s->requests_len };
        if (!yaml_name(r->y, n->key, &q.name))
            continue;
        if (reserved(q.name)) {
            yaml_error(r->y, n->key, "a request can't be named '%s', which is a key of 'expect'; choose another name",
                       q.name);
            continue;
        }
        read_request(r, n, &q);
        s->requests[s->requests_len++] = q;
        r->requests.len = s->requests_len;
    }
}

static void read_watch(struct reader *r, const struct ynode *n)
{
    struct {
        struct ynode *request, *tokens;
    } nodes = { NULL, NULL };
    static const struct field fields[] = {
        { .name = "request", .kind = FIELD_NODE, .required = true, .offset = 0 },
        { .name = "tokens", .kind = FIELD_NODE, .required = true, .offset = sizeof(struct ynode *) },
    };
    uint64_t tokens;
    int request;

    r->s->watch.request = -1;
    if (!n || !yaml_is_map(r->y, n, "'watch'", "watch: {request: B, tokens: 64}") ||
        !yaml_fields(r->y, n, "'watch'", fields, FIELDS_LEN(fields), &nodes) ||
        !read_request_name(r, nodes.request, &request) ||
        !yaml_number(r->y, nodes.tokens, 1, SCENARIO_TOKENS_MAX, &tokens))
        return;
    const struct request_spec *q = &r->s->requests[request];
    if (q->prompt_tokens && tokens > q->prompt_tokens) {
        yaml_error(r->y, nodes.tokens,
                   "the prompt of %s has only %u tokens: decode rewrites what follows, it can't be watched", q->name,
                   q->prompt_tokens);
        return;
    }
    r->s->watch = (struct watch_spec){ .request = request, .tokens = (uint32_t)tokens };
}

static void read_core_override(struct reader *r, const struct scenario_overrides *overrides)
{
    char remedy[YAML_REMEDY_MAX];
    const struct choices cores = core_choices();
    r->core_override = -1;
    if (!overrides || !overrides->core)
        return;
    r->core_override = core_by_name(overrides->core);
    if (r->core_override < 0)
        yaml_error_at(r->y, (struct place){ 0 }, "--core: no core '%.60s'%s", overrides->core,
                      name_remedy(overrides->core, &cores, remedy));
}

static void refuse(struct reader *r, const struct ynode *n, const char *why)
{
    if (n)
        yaml_error(r->y, n->key, "'%s' has no place beside 'explore': %s", n->key->text, why);
}

/* A file is for one of the two: arms tell an order, which is played; an exploration takes every order there is. */
static bool is_explored(struct reader *r, const struct top *top)
{
    if (top->explore && top->arms)
        yaml_error(r->y, top->explore->key,
                   "'explore' and 'arms' exclude each other: a file is either played or explored; use two files");
    else if (!top->explore && !top->arms)
        yaml_error(r->y, r->y->root,
                   "a scenario needs the key 'arms', for what is played, or 'explore', for every order at once");
    if (!top->explore || top->arms)
        return false;
    refuse(r, top->steps, "steps tell an order, and every order is taken; leave them out");
    refuse(r, top->watch, "no bytes move that could be watched, only who wrote what is kept; leave it out");
    refuse(r, top->faults, "what may go wrong stands below it, as in 'explore: {faults: {stall: A}}'");
    return true;
}

static void read_scenario(struct reader *r)
{
    const struct ynode *root = r->y->root;
    struct top top = { 0 };
    struct sequence common;
    struct fault *faults = NULL;

    if (!yaml_is_map(r->y, root, "a scenario", "scenario: NAME"))
        return;
    yaml_fields(r->y, root, "a scenario", top_fields, FIELDS_LEN(top_fields), &top);
    r->s->name = top.name;
    r->s->about = top.about;
    r->s->origin = top.origin;
    read_model(r, top.model);
    read_times(r, top.times);
    read_wire(r, top.wire);
    read_topology(r, top.topology);
    r->requests = (struct choices){ .what = "request", .at = request_at, .ctx = r->s };
    read_requests(r, top.requests);
    fill_slots(r->s);
    r->s->explore.stall = -1;
    if (is_explored(r, &top)) {
        read_watch(r, NULL);
        read_explore(r, top.explore);
        return;
    }
    read_watch(r, top.watch);
    r->faults_len = read_faults(r, top.faults, NULL, &faults);
    r->faults = faults;
    read_steps(r, NULL, top.steps, &common);
    if (top.arms)
        read_arms(r, top.arms, &common);
}

static uint64_t digest(const char *text, size_t text_len, const struct scenario_overrides *overrides)
{
    XXH3_state_t *state = XXH3_createState();
    if (!state)
        return XXH3_64bits(text, text_len);
    XXH3_64bits_reset(state);
    XXH3_64bits_update(state, text, text_len);
    for (uint32_t i = 0; overrides && i < overrides->sets_len; i++) {
        XXH3_64bits_update(state, "\n--set ", 7);
        XXH3_64bits_update(state, overrides->sets[i], strlen(overrides->sets[i]));
    }
    if (overrides && overrides->core) {
        XXH3_64bits_update(state, "\n--core ", 8);
        XXH3_64bits_update(state, overrides->core, strlen(overrides->core));
    }
    uint64_t value = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return value;
}

int scenario_parse(const char *path, const char *text, size_t text_len, const struct scenario_overrides *overrides,
                   struct scenario **out, FILE *errors)
{
    struct yaml y;
    struct reader r = { .y = &y };

    *out = NULL;
    if (yaml_init(&y, path, text, text_len, overrides ? overrides->sets : NULL, overrides ? overrides->sets_len : 0,
                  errors)) {
        r.s = arena_alloc(&y.arena, sizeof *r.s);
        read_core_override(&r, overrides);
        read_scenario(&r);
    }
    if (y.errors_len) {
        yaml_fini(&y);
        return -EINVAL;
    }
    r.s->path = arena_copy(&y.arena, path, strlen(path));
    r.s->digest = digest(text, text_len, overrides);
    r.s->memory = y.arena.head;
    *out = r.s;
    return 0;
}

/* One byte more than allowed, so that a file which is too long (or never ends, as /dev/zero) is seen to be. */
static int read_file(const char *path, char **text, size_t *text_len)
{
    const size_t max = (size_t)SCENARIO_FILE_MAX + 1;
    int rc = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    *text_len = 0;
    *text = malloc(max);
    if (!*text)
        rc = -ENOMEM;
    while (rc == 0 && *text_len < max) {
        ssize_t got = read(fd, *text + *text_len, max - *text_len);
        if (got < 0 && errno != EINTR)
            rc = -errno;
        if (got == 0)
            break;
        if (got > 0)
            *text_len += (size_t)got;
    }
    close(fd);
    if (rc) {
        free(*text);
        *text = NULL;
    }
    return rc;
}

int scenario_load(const char *path, const struct scenario_overrides *overrides, struct scenario **out, FILE *errors)
{
    char *text = NULL;
    size_t text_len = 0;

    *out = NULL;
    int rc = read_file(path, &text, &text_len);
    if (rc) {
        fprintf(errors, "%s: error: %s\n", path, strerror(-rc));
        return rc;
    }
    rc = scenario_parse(path, text, text_len, overrides, out, errors);
    free(text);
    return rc;
}

void scenario_free(struct scenario *s)
{
    if (!s)
        return;
    struct arena memory = { .head = s->memory };
    arena_fini(&memory);
}
