/*
 * Files that appear whole or not at all: written under a temporary name beside the target, synced, then renamed. What is
 * no regular file (/dev/null, a pipe) is written straight. A signal that ends the program takes the temporaries with it.
 */
#ifndef KVREPRO_OUTFILE_H
#define KVREPRO_OUTFILE_H

#include <stdbool.h>
#include <stdio.h>

struct outfile {
    FILE *f;         /* NULL: not open */
    char *path;      /* as asked for, for messages */
    char *target;    /* where symbolic links lead */
    char *temporary; /* NULL: written straight */
    int slot;        /* in the list that the signal handler reads */
};

/* Opens for writing; finds out now that the path can't be written. -errno; out->f is then NULL. "-" is stdout. */
int outfile_open(struct outfile *out, const char *path);
/* Makes the file appear. On -errno it does not, and nothing is left of it. */
int outfile_commit(struct outfile *out);
/* Gives it up; an outfile that is not open or was committed is left alone. */
void outfile_discard(struct outfile *out);

/* Installs the handlers; once, before the first outfile_open(). */
void outfile_init(void);

#endif
