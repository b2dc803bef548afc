#include "recorded.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { RECORDED_MAX = 64 << 20 };

int recorded_digest(const json_t *document, uint64_t *out)
{
    json_t *covered = json_copy((json_t *)(uintptr_t)document);
    char *canonical = NULL;

    if (covered) {
        json_object_del(covered, "result_digest");
        json_object_del(covered, "provenance");
        canonical = json_dumps(covered, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENSURE_ASCII);
    }
    json_decref(covered);
    if (!canonical)
        return -ENOMEM;
    *out = XXH3_64bits(canonical, strlen(canonical));
    free(canonical);
    return 0;
}

static bool digest_of(const json_t *value, uint64_t *out)
{
    const char *s = json_string_value(value);

    if (!s || strlen(s) != 16 || strspn(s, "0123456789abcdef") != 16)
        return false;
    *out = strtoull(s, NULL, 16);
    return true;
}

/* A git hash or "unknown"; it is shown to people, so nothing else may be in it. */
static bool is_tree(const char *s)
{
    size_t len = strlen(s);

    return strcmp(s, "unknown") == 0 || (len >= 4 && len <= 64 && strspn(s, "0123456789abcdef") == len);
}

/* The first field that is not as a result has it, or NULL. */
static const char *take_fields(struct recorded *r)
{
    const json_t *made = json_object_get(r->document, "provenance"), *arms = json_object_get(r->document, "arms");
    const json_t *clean = json_object_get(made, "clean");

    r->scenario = json_string_value(json_object_get(r->document, "scenario"));
    r->tree = json_string_value(json_object_get(made, "tree"));
    r->clean = json_is_true(clean) ? 1 : json_is_false(clean) ? 0 : -1;
    r->arms_len = (uint32_t)json_array_size(arms);
    return !r->scenario                                                                   ? "scenario"
           : !json_is_array(arms)                                                         ? "arms"
           : !digest_of(json_object_get(r->document, "result_digest"), &r->result_digest) ? "result_digest"
           : !r->tree || !is_tree(r->tree)                                                ? "provenance.tree"
           : !digest_of(json_object_get(made, "scenario_digest"), &r->scenario_digest)    ? "provenance.scenario_digest"
           : !digest_of(json_object_get(made, "model_digest"), &r->model_digest)          ? "provenance.model_digest"
                                                                                          : NULL;
}

int recorded_parse(const char *path, const char *text, size_t text_len, struct recorded *out, FILE *errors)
{
    json_error_t error;

    *out = (struct recorded){ .document = json_loadb(text, text_len, JSON_REJECT_DUPLICATES, &error) };
    if (!out->document) {
        fprintf(errors, "%s:%d:%d: error: no JSON: %s\n", path, error.line, error.column, error.text);
        return -EINVAL;
    }
    const char *missing = take_fields(out);
    int rc = 0;
    if (missing) {
        fprintf(errors, "%s: error: this is no result of kvrepro: '%s' is missing or wrong\n", path, missing);
        rc = -EINVAL;
    } else if ((rc = recorded_digest(out->document, &out->content_digest)) != 0) {
        fprintf(errors, "%s: error: %s\n", path, strerror(-rc));
    }
    if (rc)
        recorded_free(out);
    return rc;
}

static int read_all(FILE *f, char **text, size_t *len)
{
    size_t max = 0;

    *text = NULL;
    *len = 0;
    do {
        if (*len == max) {
            max = max ? 2 * max : 1 << 16;
            char *more = max > RECORDED_MAX ? NULL : realloc(*text, max);
            if (!more)
                return max > RECORDED_MAX ? -EFBIG : -ENOMEM;
            *text = more;
        }
        *len += fread(*text + *len, 1, max - *len, f);
    } while (!feof(f) && !ferror(f));
    return ferror(f) ? (errno ? -errno : -EIO) : 0;
}

int recorded_read(const char *path, struct recorded *out, FILE *errors)
{
    FILE *f = fopen(path, "re");
    char *text = NULL;
    size_t len = 0;
    int rc = f ? 0 : -errno;

    *out = (struct recorded){ .document = NULL };
    if (!rc)
        rc = read_all(f, &text, &len);
    if (rc)
        fprintf(errors, "%s: error: %s\n", path, strerror(-rc));
    else
        rc = recorded_parse(path, text, len, out, errors);
    if (f)
        fclose(f);
    free(text);
    return rc;
}

void recorded_free(struct recorded *r)
{
    json_decref(r->document);
    *r = (struct recorded){ .document = NULL };
}
