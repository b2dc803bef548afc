/*
 * A YAML document as a tree of lists, mappings and scalars, each with its place, for small languages of our own: no
 * anchors, aliases, tags, directives or further documents, keys are plain words. libfyaml only delivers events; nesting,
 * sizes and duplicate keys are checked here, before anything is built from them.
 *
 * All nodes and texts belong to the document and go with yaml_fini(). Errors are written to `errors` where they are found,
 * at most YAML_ERRORS_MAX of them; the functions return false (or NULL) after having written one.
 */
#ifndef KVREPRO_YAML_TREE_H
#define KVREPRO_YAML_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "arena.h"
#include "scenario.h"

enum {
    YAML_ERRORS_MAX = 20,
    YAML_DEPTH_MAX = 24,
    YAML_KEYS_MAX = 256,    /* of one mapping */
    YAML_NODES_MAX = 65536, /* of one document */
    YAML_SET_MAX = 4096,    /* bytes of one --set argument */
    YAML_LINE_BYTES_MAX = 4096,
};

enum ynode_kind { YNODE_SCALAR, YNODE_LIST, YNODE_MAP };

struct ynode {
    enum ynode_kind kind;
    bool plain; /* a scalar without quotes */
    struct place place;
    uint32_t set;         /* 1-based number of the --set argument it comes from; 0: the file */
    const char *text;     /* of a scalar; no control characters but tab and newline */
    struct ynode *key;    /* of a value in a mapping */
    struct ynode *parent; /* NULL: the root, or a key */
    struct ynode *first, *last, *next;
    uint32_t len; /* children of a list or mapping */
};

struct yaml {
    const char *path;
    const char *text; /* the caller's, after a byte order mark */
    size_t text_len;
    const char *const *sets;
    uint32_t sets_len;
    uint32_t set; /* the --set argument being read; 0: the file */
    FILE *errors;
    unsigned errors_len;
    uint32_t nodes_len;
    struct arena arena;
    struct ynode *root;
};

/*
 * Checks the bytes, builds the tree, applies the --set arguments. `text`, `path` and `sets` must outlive the document. True if
 * there is a tree to read; it may still have lost a duplicate key, which errors_len tells.
 */
bool yaml_init(struct yaml *y, const char *path, const char *text, size_t text_len, const char *const *sets,
               uint32_t sets_len, FILE *errors);
void yaml_fini(struct yaml *y);

/* The value of a key, or NULL; NULL also if `map` is none. */
struct ynode *yaml_get(const struct ynode *map, const char *key);

/* Message at a node: file:line:column, the line and a caret, or the --set argument. */
__attribute__((format(printf, 3, 4))) void yaml_error(struct yaml *y, const struct ynode *n, const char *format, ...);
__attribute__((format(printf, 3, 4))) void yaml_error_at(struct yaml *y, struct place place, const char *format, ...);

/* Bytes of the well-formed UTF-8 sequence at s, and its code point; 0: ill-formed. */
size_t utf8_decode(const char *s, size_t s_len, uint32_t *code);
/* May stand in a file: no control character but tab, newline and carriage return, no line separator that only YAML 1.1 knows. */
bool yaml_character_ok(uint32_t code);

#endif
