/*
 * Work in processes of their own, some at a time, so that a crash is one job's failure and not the program's. Each job
 * writes what it found to a file that only this program sees, read when the job has ended: what comes out depends on
 * no timing. For a program of one thread; the jobs end with it.
 */
#ifndef KVREPRO_JOBS_H
#define KVREPRO_JOBS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct job {
    char *out, *said; /* what it wrote to its file; and to the standard output and error, a crash's report with it */
    char *why;        /* how it ended, if not with exit status 0; else NULL */
};

struct jobs {
    uint32_t len, at_once;                                    /* at_once: at least 1 */
    int (*work)(void *ctx, uint32_t idx, FILE *out);          /* in the job's process; returns its exit status */
    void (*progress)(void *ctx, uint32_t done, uint32_t len); /* here, after each job; or NULL */
    void *ctx;
};

/* Fills jobs[len]; -errno if nothing could be played. jobs_free() after either. */
int jobs_run(const struct jobs *set, struct job *jobs);
void jobs_free(struct job *jobs, uint32_t len);

/* Processors that this process may use. */
uint32_t jobs_processors(void);

#endif
