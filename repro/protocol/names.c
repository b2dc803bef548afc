#include "names.h"

#include <string.h>

const struct point_row point_rows[POINT_COUNT] = {
#define X(id, name, side, actor, what) { name, WHERE_##side, WHO_##actor, what },
    POINT_TABLE(X)
#undef X
};

static const char *const statuses[POINT_STATUS_COUNT] = {
#define X(id, name) name,
    POINT_STATUS_TABLE(X)
#undef X
};

static const char *const sides[SIDE_COUNT] = { "prefill", "decode" };
static const char *const whos[] = { "scheduler", "receiver", "worker", "receiver or worker", "transfer" };

const char *point_name(unsigned point)
{
    return point < POINT_COUNT ? point_rows[point].name : "?";
}

int point_by_name(const char *name)
{
    for (int i = 0; i < POINT_COUNT; i++)
        if (strcmp(point_rows[i].name, name) == 0)
            return i;
    return -1;
}

const char *point_status_name(unsigned status)
{
    return status < POINT_STATUS_COUNT ? statuses[status] : "?";
}

int point_status_by_name(const char *name)
{
    for (int i = 0; i < POINT_STATUS_COUNT; i++)
        if (strcmp(statuses[i], name) == 0)
            return i;
    return -1;
}

const char *side_name(unsigned side)
{
    return side < SIDE_COUNT ? sides[side] : "?";
}

const char *who_name(unsigned who)
{
    return who < sizeof whos / sizeof whos[0] ? whos[who] : "?";
}
