/*
 * What an exploration found, for people and as JSON: which core is safe and live with which engine, within which scope, and
 * the shortest ways to a corruption or to memory that is pinned, step by step.
 */
#ifndef KVREPRO_EXPLORED_H
#define KVREPRO_EXPLORED_H

#include <stdio.h>

#include "../explore/explore.h"
#include "provenance.h"

/* A core with an engine; `result` holds once it is done. */
struct explored_cell {
    unsigned core, engine; /* rows of policy.h */
    bool done;
    struct explore_cell result;
};

struct explored {
    const struct scenario *s;
    const struct explored_cell *cells; /* [cells_len] engine by engine */
    uint32_t cells_len;
    struct explore_options options;
    const char *program; /* how the reader called us, for the commands under "next" */
    bool told;           /* the ways are told below the table */
};

/* Plain lines of at most 100 columns. */
void explored_print(FILE *f, const struct explored *x);
/* The counterexample of a finished cell and its shortest way to a pinned end, whichever there are. -ENOMEM. */
int explored_story(FILE *f, const struct explored *x, const struct explored_cell *cell);
/* The document with a newline at its end, for the caller to free(); NULL: out of memory. */
char *explored_json(const struct explored *x, const struct provenance *p);

#endif
