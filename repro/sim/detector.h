/*
 * How good the detector of changed rows is, measured in a real play: a request is played on fresh engines with its first
 * prompt rows watched, by the simulator and the oracle as every arm has them. From its commit to its last token, looks are
 * taken in between the steps. Clean looks must be silent while decode writes its own rows, and one changed bit in a watched
 * row of decode's pool must be told, at the next look, as that row and no other.
 */
#ifndef KVREPRO_DETECTOR_H
#define KVREPRO_DETECTOR_H

#include <stdbool.h>
#include <stdint.h>

struct detector_input {
    uint64_t row_checks; /* at least so many rows are looked at while nobody touches them */
    uint64_t plants;     /* so many bits are changed, one at a time */
    uint64_t seed;
    /* Called now and then; NULL: nobody wants to know. */
    void (*progress)(void *ctx, uint64_t row_checks, uint64_t plants);
    void *progress_ctx;
};

struct detector_result {
    uint64_t plays, row_checks, plants;
    uint64_t false_alarms;   /* rows told although nobody had touched them */
    uint64_t missed;         /* changed bits after which the next look told nothing */
    uint64_t misplaced;      /* told as another row, as several, or at another time */
    uint32_t rows;           /* watched, in one play */
    uint32_t rows_hit;       /* of these, with at least one bit changed */
    uint32_t bits, bits_hit; /* of a row: the places in it, of whatever row */
};

/* -ENOMEM. */
int detector_run(const struct detector_input *in, struct detector_result *out);
/* Something was looked at and changed, and nothing went wrong. How much was hit is for the caller to judge. */
bool detector_ok(const struct detector_result *r);

#endif
