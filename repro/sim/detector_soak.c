/*
 * The detector of changed rows, for long: make soak. Progress on a terminal; the result on stdout.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "detector.h"

struct shown {
    const struct detector_input *in;
    double began, last;
};

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* A clean look checks every row, as the one after a changed bit does. */
static void show(void *ctx, uint64_t row_checks, uint64_t plants)
{
    struct shown *s = ctx;
    double now = seconds(), work = (double)s->in->row_checks + 128.0 * (double)s->in->plants;
    double part = ((double)row_checks + 128.0 * (double)plants) / work;

    if (now - s->last < 0.2)
        return;
    s->last = now;
    fprintf(stderr, "\rdetector: %3.0f %%, %.0f M row checks, %.0f k changed bits; %.0f s left \033[K", 100 * part,
            (double)row_checks / 1e6, (double)plants / 1e3, part > 0 ? (now - s->began) * (1 - part) / part : 0.0);
}

int main(int argc, char **argv)
{
    struct detector_input in = { .row_checks = 1000000000, .plants = 1000000, .seed = 20240607 };
    struct shown shown = { &in, seconds(), 0 };
    struct detector_result r;
    bool terminal = isatty(STDERR_FILENO);

    if (argc > 3 || (argc > 1 && argv[1][0] == '-')) {
        bool help = argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);

        fprintf(
            help ? stdout : stderr,
            "usage: detector-soak [ROW_CHECKS [CHANGED_BITS]]\n\n"
            "Plays requests with watched rows, looks at rows that nobody touches, and changes single bits in them.\n"
            "Exit status 1: a false alarm, or a change that was not told as its row; 2: it could not be run.\n\n"
            "example:\n  detector-soak 1000000000 1000000\n");
        return help ? 0 : 2;
    }
    if (argc > 1)
        in.row_checks = strtoull(argv[1], NULL, 10);
    if (argc > 2)
        in.plants = strtoull(argv[2], NULL, 10);
    if (terminal) {
        in.progress = show;
        in.progress_ctx = &shown;
    }
    if (detector_run(&in, &r)) {
        fprintf(stderr, "detector-soak: out of memory\n");
        return 2;
    }
    if (terminal)
        fprintf(stderr, "\r\033[K");
    printf("%s detector: %" PRIu64 " row checks without a change, %" PRIu64 " false alarms; %" PRIu64
           " changed bits, %" PRIu64 " missed, %" PRIu64
           " told as another row; %u of %u rows and %u of %u places in a row were hit; %" PRIu64
           " plays, %.1f s, seed %" PRIu64 "\n",
           detector_ok(&r) ? "ok" : "not ok", r.row_checks, r.false_alarms, r.plants, r.missed, r.misplaced, r.rows_hit,
           r.rows, r.bits_hit, r.bits, r.plays, seconds() - shown.began, in.seed);
    return detector_ok(&r) ? 0 : 1;
}
