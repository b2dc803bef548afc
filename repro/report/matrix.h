/*
 * One scenario under many cores and engines. The document is JSON:
 *   {"scenario", "about", "path", "arms": [{"name", "run_arm", "engines": [{"engine", "with"}],
 *    "rows": [{"core", "with", "cells": [one an engine]}]}], "provenance"}
 * `with`: the knobs that the file changes, "" if none; `run_arm`: what `kvrepro run --arm` takes, "" if that is not one.
 * The table is made from it alone.
 */
#ifndef KVREPRO_MATRIX_H
#define KVREPRO_MATRIX_H

#include "../sim/result.h"

struct json_t;

/* What one core with one engine gave, phases summed up; or that nothing can be said. NULL: out of memory. */
struct json_t *matrix_cell(const struct arm_summary *a, const struct scenario *s);
struct json_t *matrix_void(const char *why);
bool matrix_is_void(const struct json_t *cell);

struct matrix_options {
    bool colour;
    const char *program;
};

void matrix_print(FILE *f, const struct json_t *document, const struct matrix_options *options);

#endif
