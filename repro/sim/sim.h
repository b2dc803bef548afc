/*
 * The simulator: gives the world's transitions due times on a scenario clock and takes them in the order of (time,
 * sequence); moves the bytes and runs the model that the machines only count. One thread, no wall clock.
 *
 * Due times: a go at once, unless its actor is parked; a message its flight after it was sent, or when its receiver has
 * time; the model as long as its tokens cost; a fragment one flight after it left (its source bytes are read then); an
 * engine's time-out and a hold's timer after their periods. Everything else at once.
 */
#ifndef KVREPRO_SIM_H
#define KVREPRO_SIM_H

#include "../../barrier/park.h"
#include "../protocol/world.h"
#include "../scenario/scenario.h"
#include "memory.h"

/* One point passed, or where an actor is held. */
struct pass {
    uint64_t time_us;
    uint32_t machine, actor; /* wire points: the prefill machine and worker that posted */
    enum point point;
    enum point_status status;
    uint32_t request, chunk;
    uint32_t n;    /* token: which; wire points: fragment */
    int park;      /* held by this park, or -1 */
    uint32_t wire; /* wire points: the wire entry */
};

typedef uint32_t sim_decode_fn(const struct model *m, struct model_work *w, const struct model_seq *s, uint32_t pos,
                               uint32_t token, float *logits);

struct sim;

/* Who looks on. Called in order, during a step. */
struct sim_watcher {
    void *ctx;
    /* A fragment (or a slot) is about to land: the owners are still those of before. */
    void (*landing)(void *ctx, struct sim *s, uint32_t wire, uint32_t fragment);
    void (*landed)(void *ctx, struct sim *s, uint32_t wire);
    void (*passed)(void *ctx, struct sim *s, const struct pass *p);
    /* Decode's batch is about to run: growth pages have been handed out. */
    void (*forward)(void *ctx, struct sim *s, uint32_t machine);
    void (*answered)(void *ctx, struct sim *s, uint32_t request, enum side side, enum point_status status);
};

struct sim_input {
    const struct config *config;
    const struct times_spec *times;
    const struct model *model;
    struct model_work *work;
    const uint32_t *const *prompts; /* [requests][prompt_tokens] */
    const struct fault *faults;     /* [faults_len] */
    uint32_t faults_len;
    struct park *parks; /* [parks_len] the caller's memory; all unused */
    uint32_t parks_len;
    struct sim_watcher watcher;
    sim_decode_fn *decode; /* NULL: model_decode */
    uint64_t *model_ns;    /* wall time spent in the model is added here, for benchmarks; or NULL */
};

struct sim_pending {
    struct transition t;
    uint64_t due_us, seq;
    bool held; /* its machine is stopped */
};

struct sim_message {
    uint32_t from, to;
    uint64_t due_us, seq;
};

struct sim {
    struct sim_input in;
    const struct config *c;
    uint8_t *world;
    uint64_t now_us, seq, steps;
    struct sim_pending **pending; /* [machines_len + 1]: by part of the world, the last is channels and wire */
    uint32_t *pending_len, *pending_max;
    struct transition *scratch;
    struct sim_message *messages; /* mirrors the world's list */
    uint32_t messages_len;
    struct sim_flight {
        float *bytes; /* of the fragment in the air */
        uint8_t *writers, state_writer;
        struct aux_record aux;
        uint64_t posted_us;
        int park;          /* held on the wire by this park, or -1 */
        bool lost;         /* by a fault: it never lands */
        uint64_t error_us; /* by a fault: when the engine reports an error; UINT64_MAX: never */
        const struct fault *error;
    } * flights;     /* [wire_len] */
    int *actor_park; /* [actors of all machines]: held by this park, or -1 */
    uint32_t *actor_base;
    struct memory *memory;  /* [machines] */
    struct aux_record *aux; /* [requests]: as the prefill computed it */
    uint32_t *aux_token;    /* [requests]: the first token that decode read from its aux slot */
    uint32_t **tokens;      /* [requests][max_tokens] */
    uint32_t *tokens_len;
    uint16_t *page_table;
    uint32_t *fault_seen; /* [faults_len] matches so far */
    bool *fault_hit;      /* [faults_len] it took effect */
    bool *stopped;        /* [machines] */
    struct park_set parks;
    bool failed; /* out of memory while growing a list */
};

/* -ENOMEM. sim_fini() after either. */
int sim_init(struct sim *s, const struct sim_input *in);
void sim_fini(struct sim *s);

/* When the next transition is due; false if nothing is enabled that isn't parked. */
bool sim_next_due(const struct sim *s, uint64_t *due_us);
/* Takes it. */
void sim_step(struct sim *s);
void sim_submit(struct sim *s, uint32_t request, enum side side);
void sim_abort(struct sim *s, uint32_t request, enum side side);
/* A peer that stops: nothing of this machine steps until it resumes, while writes into its memory go on landing. */
void sim_stop(struct sim *s, uint32_t machine, bool stop);
/* Lets go of what the park holds: an actor's go is stepped before this returns, a transfer flies on from now. A release
 * before the arrival is remembered. */
void sim_release(struct sim *s, uint32_t park);

/* The keys of a passing as the park set compares them; and what a scenario's match asks for. */
void sim_keys(const struct config *c, const struct pass *p, int32_t keys[PARK_KEYS]);
void sim_match_keys(const struct point_match *m, int32_t keys[PARK_KEYS]);

#endif
