/*
 * A scenario: topology, requests, steps, arms and what is expected of them, as read from one YAML file.
 *
 * scenario_load() checks everything that can be known without playing: a scenario that loads names only requests,
 * points, cores and parks that exist and asks only for a topology that can be built. All memory belongs to the scenario
 * and goes with scenario_free(). Times are scenario time in microseconds. Indices count from 0; -1 means "not given, any".
 */
#ifndef KVREPRO_SCENARIO_H
#define KVREPRO_SCENARIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "../protocol/config.h"
#include "../protocol/points.h"
#include "../protocol/policy.h"

enum {
    SCENARIO_FILE_MAX = 1 << 20,
    SCENARIO_REQUESTS_MAX = 64,
    SCENARIO_RANKS_MAX = 64,     /* instances x ranks, each side */
    SCENARIO_PAGES_MAX = 4096,   /* of one pool */
    SCENARIO_TOKENS_MAX = 16384, /* prompt + max_tokens of one request */
    SCENARIO_ARMS_MAX = 64,
    SCENARIO_STEPS_MAX = 256, /* common + own of one arm */
    SCENARIO_PAGE_TOKENS_MAX = 1024,
    SCENARIO_WORKERS_MAX = 64, /* of one rank */
    SCENARIO_PHASES_MAX = 1000,
    SCENARIO_ITEMS_MAX = 64,  /* of one await or one `order:`, or faults of one arm */
    SCENARIO_EVENTS_MAX = 32, /* of one `explore:` */
};

struct place {
    uint32_t line, column; /* 1-based; 0: not in the file */
};

/* One side of the topology. Page 0 and slot 0 exist and are never handed out: `pages: 64` are pages 1..64. */
struct side_spec {
    uint32_t instances;       /* 1 */
    uint32_t ranks;           /* of each instance, data parallel; 1 */
    uint32_t pages;           /* 64 */
    uint32_t page_tokens;     /* 16; both sides must agree */
    uint32_t state_slots;     /* as many as requests (at least 1) */
    uint32_t aux_slots;       /* decode only; as many as requests (at least 2) */
    uint32_t request_slots;   /* decode only; as many as requests (at least 1) */
    uint32_t workers;         /* prefill only: transfer workers = queues of one rank; 4 */
    uint32_t chunk_tokens;    /* prefill only: tokens of one chunk, a multiple of page_tokens; 0: the whole prompt */
    uint32_t reserve;         /* decode only: admission keeps so many pages free for growth (key `reserve_pages`); 0 */
    enum allocator allocator; /* sorted */
    enum allocator slot_allocator; /* state and aux slots; fifo (only fifo, lifo, lowest, any) */
};

struct request_spec {
    const char *name;
    struct place place;
    uint64_t prompt_seed;
    uint32_t prompt_tokens; /* at least 1 */
    uint32_t max_tokens;    /* at least 1; the first one is made by the prefill */
    uint32_t prefill;       /* machine of the prefill side: instance * ranks + rank */
    uint32_t decode;        /* machine of the decode side, likewise */
    uint32_t room;          /* own index unless the scenario reuses a room (key `room: NAME of an earlier request`) */
};

struct times_spec {
    uint32_t step_us;          /* one decode iteration with a batch: key `step`, 10ms */
    uint32_t prefill_token_us; /* prefill of one token: key `prefill_token`, 20us */
    uint32_t fragment_us;      /* flight of one fragment: key `fragment`, 50us */
    uint32_t message_us;       /* flight of one control message: key `message`, 200us */
    uint32_t fence_us;         /* until a fence is up: key `fence`, 1ms */
};

struct watch_spec {
    int request;     /* -1: nothing is watched */
    uint32_t tokens; /* the rows of the first so many prompt tokens, every attention layer */
};

struct point_match {
    struct place place;
    enum point point;
    int request, side, instance, rank; /* -1: any */
    int actor; /* enum actor (ACTOR_WORKER + k for `worker K`); -1: any. Keys: actor: scheduler | receiver | worker 0 */
    int chunk, fragment;
    int n;               /* of point token */
    int status;          /* enum point_status; -1: any */
    uint32_t occurrence; /* the so-manieth passing that matches the rest; 1 */
};

enum await_kind { AWAIT_PARK, AWAIT_POINT };
struct await_item {
    enum await_kind kind;
    uint32_t park;            /* AWAIT_PARK: index in the arm's parks */
    struct point_match match; /* AWAIT_POINT */
};

enum step_kind { STEP_PARK, STEP_SUBMIT, STEP_ABORT, STEP_AWAIT, STEP_RELEASE, STEP_WAIT, STEP_STOP, STEP_RESUME };
/* `at: both` aborts at decode first unless `first: prefill`. */
enum abort_at { ABORT_AT_DECODE, ABORT_AT_PREFILL, ABORT_AT_DECODE_PREFILL, ABORT_AT_PREFILL_DECODE };

struct step {
    enum step_kind kind;
    struct place place;
    uint32_t park;            /* PARK, RELEASE: index in the arm's parks */
    struct point_match match; /* PARK */
    uint32_t request;         /* SUBMIT, ABORT */
    enum abort_at at;         /* ABORT */
    struct await_item *items; /* AWAIT */
    uint32_t items_len;
    bool all;            /* AWAIT: all of items, else whichever comes first */
    uint64_t within_us;  /* AWAIT; 120 s */
    uint32_t machine;    /* STOP, RESUME: {side: decode, instance: 0, rank: 0}; prefill machines first, then decode's */
    uint64_t wait_us;    /* WAIT; of the first phase if the arm has phases */
    uint64_t wait_to_us; /* WAIT with phases: phase i of n waits wait_us + (wait_to_us - wait_us) * i / n */
    bool phased;
};

/*
 * What a hostile network or engine does to one message or write; keys of `faults:`, of the scenario and of an arm (whose
 * faults come after the scenario's). A message is matched by its kind (metadata, abort, status, ack, notify) and request, a
 * write by its kind (kv, state, aux), request, chunk (kv) and, for delay and lose, fragment. The occurrence-th match
 * is hit (key `occurrence`, default 1).
 *   {message: ack, request: A, do: lose}              lost; `double`: arrives twice; `overtake`: before all others of its
 *                                                     channel; {do: delay, by: 5s}: that much later
 *   {write: kv, request: A, fragment: 1, do: delay, by: 40s}
 *   {write: state, request: A, do: lose}              its bytes never land and it never completes
 *   {write: kv, request: A, do: error, by: 1s}        the engine reports an error 1 s after the post; the bytes fly on
 */
enum fault_kind { FAULT_LOSE, FAULT_DOUBLE, FAULT_OVERTAKE, FAULT_DELAY, FAULT_ERROR };
struct fault {
    struct place place;
    enum fault_kind kind;
    bool is_write;
    int message;                  /* enum message_type of machine.h */
    int effect;                   /* EFFECT_KV, EFFECT_STATE, EFFECT_AUX */
    int request, chunk, fragment; /* -1: any */
    uint32_t occurrence;
    uint64_t by_us; /* DELAY, ERROR (after the post; 0: at once) */
};

struct park_spec {
    const char *name;
    struct place place;
};

/* An expected number: given with one value (min == max) or as {min: …, max: …}. */
struct range {
    bool given;
    uint64_t min, max;
};

enum output_kind { OUTPUT_IDENTICAL, OUTPUT_DIVERGED, OUTPUT_FAILED, OUTPUT_NOT_ADMITTED };
enum finish_reason { FINISH_NONE, FINISH_LENGTH, FINISH_ABORT, FINISH_ERROR };
enum hold_end { HOLD_END_ACK, HOLD_END_TIMER, HOLD_END_FENCE, HOLD_END_NEVER };

struct expect_request {
    struct place place;
    uint32_t request;
    int output; /* enum output_kind or -1 */
    struct range first, differing, tokens;
    int status;        /* HTTP status decode's client saw, or -1 */
    int finish_reason; /* enum finish_reason or -1 */
    int silent;        /* 0, 1 or -1 */
    struct expect_rows *rows;
    uint32_t rows_len;
    int state_from; /* whose state decode read, or -1 */
};

/* How many rows of the request, written by `writer`, decode read at one time (the most it ever read). Key
 * `rows_from: {A: 512}`; a state slot counts by `state_from: A`. */
struct expect_rows {
    uint32_t writer;
    struct range rows;
};

struct expect_hold {
    struct place place;
    uint32_t request;
    int ended_by; /* enum hold_end or -1 */
    struct range held_us;
};

/* Numbers of an arm that can be expected by name; keys of `memory:` and `liveness:`. */
#define EXPECT_NUMBER_TABLE(X)                                    \
    X(STALE_PAGES, "memory", "stale_pages")                       \
    X(STALE_SLOTS, "memory", "stale_slots")                       \
    X(STALE_AUX, "memory", "stale_aux")                           \
    X(STALE_BYTES, "memory", "stale_bytes")                       \
    X(STALE_FREE_BYTES, "memory", "stale_free_bytes")             \
    X(WATCHED_TOKENS_CHANGED, "memory", "watched_tokens_changed") \
    X(SHARED_PAGES, "memory", "shared_pages")                     \
    X(PINNED_PAGES, "liveness", "pinned_pages")                   \
    X(COLLATERAL_FAILED, "liveness", "collateral_failed")         \
    X(UNANSWERED, "liveness", "unanswered")

enum expect_number {
#define X(id, group, name) EXPECT_##id,
    EXPECT_NUMBER_TABLE(X)
#undef X
        EXPECT_NUMBER_COUNT
};

struct expect {
    struct expect_request *requests;
    uint32_t requests_len;
    struct range numbers[EXPECT_NUMBER_COUNT];
    struct place number_places[EXPECT_NUMBER_COUNT];
    struct expect_hold *holds;
    uint32_t holds_len;
    struct point_match *order; /* must be passed in this order (first passing of each) */
    uint32_t order_len;
    int prevented_step; /* 1-based number of the step (common steps first), or -1: must not be prevented */
    struct place prevented_place;
};

/* What the thread that a scenario reproduces reports of an arm (key `published`), to be shown beside what came out. */
struct published {
    bool given;
    uint32_t first, differing, tokens; /* unless identical */
    bool identical;
    const char *note; /* or NULL */
};

/* An arm of the file with `cores: [name, …]` or `engines: [name, …]` is several here, named "NAME (CORE)", "NAME (ENGINE)" or
 * "NAME (CORE, ENGINE)"; they share their steps, parks, faults and expectations. */
struct arm {
    const char *name;
    const char *about; /* or NULL */
    struct place place;
    const char *core_name; /* the row it starts from */
    const char *engine_name;
    struct policy policy; /* the row with overrides applied */
    bool core_overridden;
    struct step *steps; /* common steps, then its own */
    uint32_t steps_len;
    struct park_spec *parks;
    uint32_t parks_len;
    bool *end_parked; /* [parks_len]: `end: {parked: […]}` */
    uint32_t phases;  /* 1 unless one of its waits is phased */
    struct fault *faults;
    uint32_t faults_len;
    struct expect expect;
    struct published published;
};

/*
 * `explore:` instead of steps and arms: who exists and what may happen, in any order.
 *   explore:
 *     events: [{submit: A}, {abort: {request: A, at: decode}}, {submit: B}]   # each at most once
 *     faults: {stall: A, engine_timeout: false}   # stall: this request's writer may stop for ever
 *     cores: all                                  # or a list; likewise engines
 *     engines: all
 */
struct explore_event {
    struct place place;
    enum step_kind kind; /* STEP_SUBMIT, STEP_ABORT */
    uint32_t request;
    enum abort_at at; /* ABORT: decode or prefill */
};

struct explore_spec {
    bool given;
    struct place place;
    struct explore_event *events;
    uint32_t events_len;
    int stall;                 /* request, or -1 */
    bool engine_timeout;       /* the engine's own time-out may strike */
    unsigned *cores, *engines; /* rows of policy.h */
    uint32_t cores_len, engines_len;
};

struct scenario {
    const char *path; /* as given */
    const char *name;
    const char *about;
    const char *origin;  /* `origin:` the public thread it reproduces, or NULL */
    uint64_t model_seed; /* `model: {seed: …}`, default 1 */
    uint64_t digest;     /* XXH3-64 of the file's bytes, with overrides appended */
    struct side_spec prefill, decode;
    struct times_spec times;
    struct request_spec *requests;
    uint32_t requests_len;
    struct watch_spec watch;
    bool wire_reverse; /* `wire: {order: reverse}`: the fragments of a write land last one first; default forward */
    struct arm *arms;  /* none if explore.given */
    uint32_t arms_len;
    struct explore_spec explore;
    void *memory; /* owner of all of the above */
};

/* What stands in for parts of the file: `--core NAME` for every arm; `--set topology.decode.pages=66` before reading. */
struct scenario_overrides {
    const char *core;
    const char *const *sets;
    uint32_t sets_len;
};

/*
 * Reads and checks one file. On error returns -EINVAL (or -errno if it can't be read) and writes one or several messages
 * to `errors`, each with file:line:column, the line itself, a caret and a remedy. `overrides` may be NULL.
 */
int scenario_load(const char *path, const struct scenario_overrides *overrides, struct scenario **out, FILE *errors);
/* The same from memory; `path` is only used in messages. */
int scenario_parse(const char *path, const char *text, size_t text_len, const struct scenario_overrides *overrides,
                   struct scenario **out, FILE *errors);
void scenario_free(struct scenario *s);

const char *allocator_name(enum allocator a);
const char *output_kind_name(int output);
const char *finish_reason_name(int reason);
const char *hold_end_name(int end);

#endif
