/*
 * The gate: every scenario of a folder against what it expects and against its recorded result. What was found, as lines
 * for people and as JUnit XML; neither holds anything that depends on time or on the order of the work.
 */
#ifndef KVREPRO_GATE_H
#define KVREPRO_GATE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json_t;

enum {
    GATE_PATHS_MAX = 5,   /* differing values that are named, of a scenario */
    GATE_REASONS_MAX = 5, /* and what is not as expected, of an arm; for people only */
};

/* The worse the higher. */
enum gate_state { GATE_OK, GATE_DIFFERS, GATE_VOID, GATE_ERROR };

struct gate_texts {
    char **s;
    uint32_t len;
};

/* An arm, or what concerns no single one. */
struct gate_case {
    char *name;
    enum gate_state state;
    struct gate_texts
        reasons;             /* why it is not as expected, is void or could not be played; of GATE_OK: why not played */
    struct gate_texts paths; /* where it differs from the recorded result */
    uint64_t paths_total;
};

struct gate_scenario {
    char *name;
    char *path, *recorded_path;
    enum gate_state state; /* the worst of its cases' */
    bool unreadable;       /* GATE_ERROR because the file is no scenario */
    bool orphan;           /* there is a recorded result only */
    uint32_t arms_len;     /* cases that are arms: the first ones */
    struct gate_case *cases;
    uint32_t cases_len;
};

/* Adds a case; NULL when memory is short. The state of the scenario becomes at least the case's. */
struct gate_case *gate_add_case(struct gate_scenario *g, const char *name, enum gate_state state);
/* False when memory is short. */
bool gate_add_text(struct gate_texts *texts, const char *s);
void gate_raise(struct gate_scenario *g, struct gate_case *c, enum gate_state state);
/* Frees what the scenario owns. */
void gate_fini(struct gate_scenario *g);

/* The cases as JSON, from one process to another; NULL when memory is short. And back: -EINVAL if it is none. */
char *gate_write(const struct gate_scenario *g);
int gate_read(struct gate_scenario *g, const char *text);

struct gate_options {
    bool colour;
    const char *program; /* how the reader called us */
    const char *again;   /* this very call, as a shell reads it */
};

/* A line a scenario, then how each differs, then counts and what to do next. */
void gate_print(FILE *f, const struct gate_scenario *scenarios, uint32_t len, const struct gate_options *options);
/* https://github.com/testmoapp/junitxml: failure for what differs, error for what is void or could not be played. */
void gate_junit(FILE *f, const struct gate_scenario *scenarios, uint32_t len);

/* As XML 1.0 may hold it, in text and between quotes: what it may not becomes '?'. */
void xml_text(FILE *f, const char *s);

#endif
