#include "compare_json.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../mutant.h"

enum { VALUE_MAX = 60 };

struct walk {
    struct json_comparison *out;
    enum compare_what what;
    uint32_t max;
    bool digests; /* look at digests only, or at all else only */
    bool whole;   /* at the document's top */
    bool failed;
    struct text path;
};

static char *value_text(const json_t *value)
{
    char *s = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_ENSURE_ASCII);

    if (s && strlen(s) > VALUE_MAX)
        strcpy(s + VALUE_MAX - 3, "...");
    return s;
}

static char *elements_text(const json_t *array)
{
    char *s;
    size_t len = json_array_size(array);

    return asprintf(&s, "%zu element%s", len, len == 1 ? "" : "s") < 0 ? NULL : s;
}

static void add(struct walk *w, char *recorded, char *now)
{
    struct json_comparison *out = w->out;
    struct json_difference d = { .recorded = recorded, .now = now };

    out->total++;
    if (out->len < w->max && (d.path = strdup(w->path.len ? w->path.s : ".")) != NULL) {
        out->list[out->len++] = d;
        return;
    }
    w->failed = w->failed || out->len < w->max;
    free(recorded);
    free(now);
}

static void differ(struct walk *w, const json_t *recorded, const json_t *now)
{
    char *was = recorded ? value_text(recorded) : NULL, *is = now ? value_text(now) : NULL;

    w->failed = w->failed || (recorded && !was) || (now && !is);
    add(w, was, is);
}

static bool is_word(const char *key)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";

    return *key && strspn(key, letters) == strlen(key) && !(*key >= '0' && *key <= '9');
}

static void enter(struct walk *w, const char *key)
{
    if (is_word(key)) {
        text_add(&w->path, ".%s", key);
        return;
    }
    json_t *name = json_string(key);
    char *quoted = name ? value_text(name) : NULL;
    text_add(&w->path, ".%s", quoted ? quoted : "?");
    free(quoted);
    json_decref(name);
}

static bool is_digest(const char *key)
{
    const char *last = strrchr(key, '_');

    return last && strcmp(last, "_digest") == 0;
}

static void walk(struct walk *w, const json_t *recorded, const json_t *now);

static void walk_key(struct walk *w, const char *key, const json_t *recorded, const json_t *now)
{
    bool leaf = !json_is_object(recorded) && !json_is_array(recorded);
    size_t len = w->path.len;
    bool whole = w->whole;

    if (whole && (strcmp(key, "provenance") == 0 || strcmp(key, "result_digest") == 0))
        return;
    if (leaf && is_digest(key) != w->digests)
        return;
    if (w->what == COMPARE_WITHOUT_EXPECTATIONS && (strcmp(key, "as_expected") == 0 || strcmp(key, "differences") == 0))
        return;
    w->whole = false;
    enter(w, key);
    if (recorded && now)
        walk(w, recorded, now);
    else if (leaf || !w->digests)
        differ(w, recorded, now);
    w->path.len = len;
    w->path.s[len] = '\0';
    w->whole = whole;
}

static void walk_objects(struct walk *w, const json_t *recorded, const json_t *now)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)recorded, key, value) walk_key(w, key, value, json_object_get(now, key));
    json_object_foreach((json_t *)(uintptr_t)now, key, value) if (!json_object_get(recorded, key))
        walk_key(w, key, NULL, value);
}

static void walk_arrays(struct walk *w, const json_t *recorded, const json_t *now)
{
    size_t was = json_array_size(recorded), is = json_array_size(now), len = w->path.len;

    for (size_t i = 0; i < was && i < is; i++) {
        const json_t *element = json_array_get(recorded, i);
        if (w->digests && !json_is_object(element) && !json_is_array(element))
            continue;
        text_add(&w->path, "[%zu]", i);
        walk(w, element, json_array_get(now, i));
        w->path.len = len;
        w->path.s[len] = '\0';
    }
    if (was != is && !w->digests)
        add(w, elements_text(recorded), elements_text(now));
}

static void walk(struct walk *w, const json_t *recorded, const json_t *now)
{
    if (json_is_object(recorded) && json_is_object(now))
        walk_objects(w, recorded, now);
    else if (json_is_array(recorded) && json_is_array(now))
        walk_arrays(w, recorded, now);
    else if (!MUTANT(39) && !json_equal(recorded, now) &&
             (!w->digests || (!json_is_object(recorded) && !json_is_array(recorded))))
        differ(w, recorded, now);
}

int compare_json(const json_t *recorded, const json_t *now, const char *prefix, enum compare_what what, uint32_t max,
                 struct json_comparison *out)
{
    struct walk w = { .out = out, .max = max, .what = what };

    *out = (struct json_comparison){ .list = calloc(max ? max : 1, sizeof *out->list) };
    if (!out->list)
        return -ENOMEM;
    text_add(&w.path, "%s", prefix);
    for (int digests = 0; digests < 2; digests++) {
        w.digests = digests;
        w.whole = *prefix == '\0';
        walk(&w, recorded, now);
    }
    const json_t *was = json_object_get(recorded, "result_digest"), *is = json_object_get(now, "result_digest");
    if (*prefix == '\0' && out->total == 0 && (was || is) && !json_equal(was, is)) {
        enter(&w, "result_digest");
        differ(&w, was, is);
    }
    return w.failed ? -ENOMEM : 0;
}

void comparison_free(struct json_comparison *c)
{
    for (uint32_t i = 0; i < c->len; i++) {
        free(c->list[i].path);
        free(c->list[i].recorded);
        free(c->list[i].now);
    }
    free(c->list);
    *c = (struct json_comparison){ .list = NULL };
}

void difference_text(const struct json_difference *d, const char *recorded, const char *now, struct text *out)
{
    text_add(out, "%s: %s %s, %s %s", d->path, recorded, d->recorded ? d->recorded : "nothing", now,
             d->now ? d->now : "nothing");
}
