/* A result file read back: its content and what it says it was made from. */
#ifndef KVREPRO_RECORDED_H
#define KVREPRO_RECORDED_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json_t;

struct recorded {
    struct json_t *document; /* owner of the texts below */
    const char *scenario;
    const char *tree;
    int clean; /* as in struct provenance */
    uint64_t scenario_digest, model_digest;
    uint64_t result_digest;  /* as the file states it */
    uint64_t content_digest; /* of what the file contains */
    uint32_t arms_len;
};

/* -errno or -EINVAL, with one line on `errors` that names the file. recorded_free() after 0. */
int recorded_read(const char *path, struct recorded *out, FILE *errors);
/* The same from memory; `path` is only used in messages. */
int recorded_parse(const char *path, const char *text, size_t text_len, struct recorded *out, FILE *errors);
void recorded_free(struct recorded *r);

/* XXH3-64 of all that a result digest covers: the document without result_digest and provenance. -ENOMEM. */
int recorded_digest(const struct json_t *document, uint64_t *out);

#endif
