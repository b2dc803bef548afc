/* The result file: one JSON document a scenario. */
#ifndef KVREPRO_JSON_H
#define KVREPRO_JSON_H

#include "../sim/result.h"
#include "provenance.h"

struct json_t;

/* The document with a newline at its end, for the caller to free(); NULL: out of memory. */
char *json_report(const struct run_result *r, const struct provenance *p);

/* The object `provenance`; NULL: out of memory. */
struct json_t *json_made_of(const struct scenario *s, uint64_t model_digest, const struct provenance *p);

#endif
