/*
 * Explores a scenario without a script: every order of what its machines, its network and its clients can do, for a core
 * and an engine, within what the file allows to happen. Owner tags instead of bytes, one attention layer.
 *
 * Three ways to treat the timers of holds: they may fire at any time, only when nothing else can happen, or never. A core is
 * safe only if it is so with timers at any time; it is live only if it pins nothing with timers last. A writer that may
 * stall for ever counts for liveness: the states in which only that writer could still do something are ends too.
 */
#ifndef KVREPRO_EXPLORE_H
#define KVREPRO_EXPLORE_H

#include "../scenario/scenario.h"
#include "search.h"

struct explore_options {
    bool reduce;         /* leave out orders that lead to the same states */
    uint64_t states_max; /* of one search; past it a cell is bounded and never called safe */
};

struct explore_cell {
    unsigned core, engine; /* rows of policy.h */
    struct search_result any, last,
        never; /* by how the timers fire; cores without a timer: `any` alone, the others zero */
    bool complete, safe, live;
    uint64_t states, transitions; /* of all three */
    double seconds;
};

/* What is explored: the scenario's topology and requests under a core and an engine. NULL when memory is short. */
struct config *explore_config(const struct scenario *s, unsigned core, unsigned engine);

/* -ENOMEM; -EINVAL: the scenario has no `explore`. explore_cell_free() after 0. */
int explore_cell(const struct scenario *s, unsigned core, unsigned engine, const struct explore_options *o,
                 struct explore_cell *out);
void explore_cell_free(struct explore_cell *c);

#endif
