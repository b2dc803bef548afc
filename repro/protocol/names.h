/*
 * Names of the protocol's vocabulary, for readers and writers of files. Lookups return -1
 * for a name that does not exist. Not part of the machines.
 */
#ifndef KVREPRO_NAMES_H
#define KVREPRO_NAMES_H

#include "points.h"

enum point_where { WHERE_PREFILL, WHERE_DECODE, WHERE_EITHER, WHERE_WIRE };
enum point_who { WHO_SCHEDULER, WHO_RECEIVER, WHO_WORKER, WHO_RECEIVER_OR_WORKER, WHO_TRANSFER };

struct point_row {
    const char *name;
    enum point_where where;
    enum point_who who;
    const char *what;
};

extern const struct point_row point_rows[POINT_COUNT];

const char *point_name(unsigned point);
int point_by_name(const char *name);
const char *point_status_name(unsigned status);
int point_status_by_name(const char *name);
const char *side_name(unsigned side);
const char *who_name(unsigned who);

#endif
