/*
 * Parks: which arrival at a point is held, and which may go on. The rules are those of the barrier service; they live
 * here without any transport so that a simulator and a service decide alike.
 *
 * A park is one-shot: it takes the occurrence-th arrival that matches its point and keys, and none after that. A release
 * that comes before the arrival is remembered. Points and keys are numbers; what they mean is the caller's business.
 */
#ifndef KVBARRIER_PARK_H
#define KVBARRIER_PARK_H

#include <stdbool.h>
#include <stdint.h>

enum { PARK_KEYS = 9, PARK_ANY = -1 };

enum park_state {
    PARK_UNUSED,
    PARK_ARMED,
    PARK_HOLDS,    /* somebody has arrived and waits */
    PARK_RELEASED, /* before anybody arrived: the arrival will go on at once */
    PARK_PASSED
};

struct park {
    enum park_state state;
    uint32_t point;
    int32_t keys[PARK_KEYS]; /* PARK_ANY matches every value */
    uint32_t occurrence;     /* 1: the first */
    uint32_t seen;           /* matching arrivals so far */
    uint64_t ticket;         /* of the arrival that is held */
};

struct park_set {
    struct park *parks;
    uint32_t len;
    uint64_t arrivals; /* the last ticket given out */
};

/* The caller's memory: parks[len], all unused. */
void park_set_init(struct park_set *s, struct park *parks, uint32_t len);
void park_arm(struct park_set *s, uint32_t idx, uint32_t point, const int32_t keys[PARK_KEYS], uint32_t occurrence);
/* Somebody is at a point. Returns the park that holds this arrival, or -1: go on. */
int park_arrive(struct park_set *s, uint32_t point, const int32_t keys[PARK_KEYS]);
/* Returns whether somebody was held and may go on now; otherwise the release is remembered. */
bool park_release(struct park_set *s, uint32_t idx);
/* Whether a park's point and keys match an arrival (occurrence not counted). */
bool park_matches(uint32_t point, const int32_t want[PARK_KEYS], uint32_t at, const int32_t keys[PARK_KEYS]);

#endif
