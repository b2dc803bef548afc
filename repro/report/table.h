/* The table for people: what happened in each arm of a scenario, which core lets it happen, and what to do next. */
#ifndef KVREPRO_TABLE_H
#define KVREPRO_TABLE_H

#include <stdio.h>

#include "../sim/result.h"

struct table_options {
    bool colour;
    const char *program; /* how the reader called us, for the commands under "next" */
    bool core_replaced;  /* --core: what the scenario expects was written for other cores */
};

/* Plain lines of at most 100 columns; ASCII but for what the scenario itself says. */
void table_print(FILE *f, const struct run_result *r, const struct table_options *options);
/* Only what is not as expected, a line each. */
void table_print_differences(FILE *f, const struct run_result *r);

#endif
