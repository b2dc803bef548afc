/*
 * Exhaustive search of small worlds: clones, steps and hashes the same machines that the simulator drives, and takes every
 * enabled transition in every order. Client events (submit, abort) are transitions too, each at most once.
 *
 * Breadth first, so the counterexample it reports is a shortest one (with reduction: of the orders that are left). States
 * are compared byte by byte.
 */
#ifndef KVREPRO_SEARCH_H
#define KVREPRO_SEARCH_H

#include "../protocol/world.h"

enum client_kind { CLIENT_SUBMIT, CLIENT_ABORT };

struct client_event {
    enum client_kind kind;
    uint32_t request;
    enum side side; /* ABORT; a submit goes to both sides */
};

/* When a hold's timer may fire: at any time, only when nothing else can happen, or never. */
enum search_timers { TIMERS_ANY, TIMERS_LAST, TIMERS_NEVER };

struct search_input {
    const struct config *config;
    const struct client_event *clients; /* at most 32; an abort is possible once its request has been submitted */
    uint32_t clients_len;
    uint64_t states_max; /* the search ends as incomplete past so many */
    bool reduce;         /* take a local transition at once and leave the other orders out */
    bool contract;       /* check the step contract in every state, which takes as long again */
    enum search_timers timers;
    int stall; /* request whose writer may stop for ever, or -1 */
};

/* One transition of a counterexample, for people. */
struct search_step {
    bool client;
    struct client_event event;
    struct transition transition;
    enum point point; /* the point that the step ended at, if any */
    bool has_point;
    uint32_t request;
};

struct search_result {
    uint64_t states, transitions;
    bool complete;
    bool corrupts;     /* decode read a page or slot with another request's bytes */
    uint64_t shortest; /* transitions of a shortest way there */
    struct search_step *steps;
    uint32_t steps_len;
    uint64_t terminal,
        pinned; /* states with nothing enabled (but a stalled writer); those in which decode still owns pages */
    uint64_t pinned_after; /* transitions to the first such state */
    struct search_step *pinned_steps;
    uint32_t pinned_steps_len;
    uint64_t terminal_digest; /* of the set of terminal states: equal with and without reduction */
    /* Breaches of the step contract, each counted where it shows. All must be 0. */
    uint64_t idle_changes; /* an idle actor's step changed the state */
    uint64_t go_keeps;     /* a ready actor's step did not */
    uint64_t cycles;       /* a state can come back */
    uint64_t unbalanced;   /* a page or slot neither free nor owned, or both */
};

/* -ENOMEM; -E2BIG: too many clients. search_result_free() after 0. */
int search_run(const struct search_input *in, struct search_result *out);
void search_result_free(struct search_result *r);

#endif
