/* Where two results differ: the paths, as jq writes them, with both values. Provenance is left out. */
#ifndef KVREPRO_COMPARE_JSON_H
#define KVREPRO_COMPARE_JSON_H

#include <stdint.h>

#include "text.h"

struct json_t;

struct json_difference {
    char *path;
    char *recorded, *now; /* compact JSON, long ones cut; NULL: it is not there */
};

struct json_comparison {
    struct json_difference *list; /* [len] the first max; what a digest says comes after what it is a digest of */
    uint32_t len;
    uint64_t total; /* how many values differ */
};

/* What to leave out: what an arm's result says of its expectations, for whoever tells that already. */
enum compare_what { COMPARE_ALL, COMPARE_WITHOUT_EXPECTATIONS };

/*
 * `prefix` is the path of both, "" for whole documents. The result digest follows from the rest: it is named only if
 * nothing else differs. -ENOMEM; comparison_free() after either.
 */
int compare_json(const struct json_t *recorded, const struct json_t *now, const char *prefix, enum compare_what what,
                 uint32_t max, struct json_comparison *out);
void comparison_free(struct json_comparison *c);

/* ".arms[0].requests.B.first: recorded 269, now 270", with other words for the two sides. */
void difference_text(const struct json_difference *d, const char *recorded, const char *now, struct text *out);

#endif
