/*
 * Typed fields of a mapping, read by a table: one row per key, with its type and limits. Everything the table does not name is an
 * error that names the nearest key that is.
 *
 * Readers write an error themselves and return false; a target is only written to if its value is good.
 */
#ifndef KVREPRO_YAML_FIELDS_H
#define KVREPRO_YAML_FIELDS_H

#include "yaml_tree.h"

enum { YAML_NAME_MAX = 63, YAML_TEXT_MAX = 4000, YAML_LINE_MAX = 200 };

#define DURATION_MAX_US      UINT64_C(86400000000) /* 24 h */
#define KNOB_DURATION_MAX_US 3600000000u           /* 1 h: knobs and times have 32 bits */

/* Names a value can have. `what` says what they are names of, in messages. */
struct choices {
    const char *what;
    unsigned len;
    const char *(*at)(const void *ctx, unsigned idx);
    const void *ctx;
};

/* `at` for a ctx that is an array of names. */
const char *choice_word(const void *ctx, unsigned idx);

enum field_kind {
    FIELD_U32,        /* uint32_t */
    FIELD_U64,        /* uint64_t */
    FIELD_INT,        /* int */
    FIELD_DURATION,   /* uint64_t, microseconds */
    FIELD_DURATION32, /* uint32_t, microseconds */
    FIELD_BOOL,       /* int, 0 or 1 */
    FIELD_CHOICE,     /* int, index in choices */
    FIELD_NAME,       /* const char *: letters, digits, _ and - */
    FIELD_LINE,       /* const char *: one line */
    FIELD_TEXT,       /* const char * */
    FIELD_RANGE,      /* struct range of numbers */
    FIELD_RANGE_US,   /* struct range of durations */
    FIELD_NODE,       /* struct ynode *, for the caller to read */
    FIELD_REFUSED,    /* a key that belongs elsewhere: `why` says where */
};

struct field {
    const char *name;
    enum field_kind kind;
    bool required;
    size_t offset; /* of the target in the structure */
    uint64_t min, max;
    const struct choices *choices;
    const char *why;
};

#define FIELDS_LEN(table) (sizeof(table) / sizeof(table)[0])

/* `what` is what the mapping is, with its article, as in "a request". False if anything was wrong; the rest is read all the same. */
bool yaml_fields(struct yaml *y, const struct ynode *map, const char *what, const struct field *fields,
                 size_t fields_len, void *target);

bool yaml_is_map(struct yaml *y, const struct ynode *n, const char *what, const char *example);
bool yaml_is_list(struct yaml *y, const struct ynode *n, const char *what, const char *example);
bool yaml_number(struct yaml *y, const struct ynode *n, uint64_t min, uint64_t max, uint64_t *out);
bool yaml_duration(struct yaml *y, const struct ynode *n, uint64_t min_us, uint64_t max_us, uint64_t *out_us);
bool yaml_bool(struct yaml *y, const struct ynode *n, int *out);
bool yaml_choice(struct yaml *y, const struct ynode *n, const struct choices *choices, int *out);
bool yaml_name(struct yaml *y, const struct ynode *n, const char **out);
bool yaml_line(struct yaml *y, const struct ynode *n, const char **out);
bool yaml_range(struct yaml *y, const struct ynode *n, bool of_durations, uint64_t min, uint64_t max,
                struct range *out);

/* How a message refers to a value: "'pages'", "this item". Returns buf. */
enum { YAML_LABEL_MAX = 80 };
const char *yaml_label(const struct ynode *n, char *buf);

/* Why a text is no duration; NULL: it is one. */
const char *duration_parse(const char *text, uint64_t *us);

/* Index of the name that the text was probably meant to be, or -1. */
int nearest_name(const char *text, const struct choices *choices);
/* Writes "; did you mean 'x'?" or "; known: a, b, c". Returns buf. */
enum { YAML_REMEDY_MAX = 1200 };
const char *name_remedy(const char *text, const struct choices *choices, char *buf);

#endif
