#include "park.h"

#include <string.h>

#ifndef MUTANT
#define MUTANT(n) 0 /* planted faults, for tests of the tests */
#endif

void park_set_init(struct park_set *s, struct park *parks, uint32_t len)
{
    memset(parks, 0, len * sizeof *parks);
    *s = (struct park_set){ .parks = parks, .len = len };
}

void park_arm(struct park_set *s, uint32_t idx, uint32_t point, const int32_t keys[PARK_KEYS], uint32_t occurrence)
{
    struct park *p = &s->parks[idx];

    *p = (struct park){ .state = PARK_ARMED, .point = point, .occurrence = occurrence };
    memcpy(p->keys, keys, sizeof p->keys);
}

bool park_matches(uint32_t point, const int32_t want[PARK_KEYS], uint32_t at, const int32_t keys[PARK_KEYS])
{
    if (point != at)
        return false;
    for (int i = 0; i < PARK_KEYS; i++)
        if (want[i] != PARK_ANY && want[i] != keys[i])
            return false;
    return true;
}

int park_arrive(struct park_set *s, uint32_t point, const int32_t keys[PARK_KEYS])
{
    int holds = -1;

    s->arrivals++;
    for (uint32_t i = 0; i < s->len; i++) {
        struct park *p = &s->parks[i];

        if ((p->state != PARK_ARMED && p->state != PARK_RELEASED) || !park_matches(p->point, p->keys, point, keys) ||
            ++p->seen < p->occurrence + MUTANT(36))
            continue;
        if (p->state == PARK_RELEASED) {
            p->state = PARK_PASSED;
        } else if (holds < 0) { /* two parks on one arrival: the lower index holds it, the other waits for the next */
            p->state = PARK_HOLDS;
            p->ticket = s->arrivals;
            holds = (int)i;
        } else {
            p->seen--;
        }
    }
    return holds;
}

bool park_release(struct park_set *s, uint32_t idx)
{
    struct park *p = &s->parks[idx];

    if (p->state == PARK_HOLDS) {
        p->state = PARK_PASSED;
        return true;
    }
    if (p->state == PARK_ARMED && !MUTANT(37))
        p->state = PARK_RELEASED;
    return false;
}
