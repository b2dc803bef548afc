#include "yaml_fields.h"

#include <ctype.h>
#include <string.h>

const char *choice_word(const void *ctx, unsigned idx)
{
    return ((const char *const *)ctx)[idx];
}

enum { QUOTE = 60 /* bytes of a wrong value that a message repeats */ };

const char *yaml_label(const struct ynode *n, char *buf)
{
    if (n->key)
        snprintf(buf, YAML_LABEL_MAX, "'%.60s'", n->key->text);
    else
        snprintf(buf, YAML_LABEL_MAX, n->parent ? "this item" : "this key");
    return buf;
}

/* Optimal string alignment: insertions, deletions, changes and swapped neighbours cost 1 each; case is free. */
static unsigned edit_distance(const char *a, const char *b)
{
    unsigned rows[3][YAML_NAME_MAX + 2];
    unsigned *before = rows[0], *above = rows[1], *row = rows[2];
    size_t a_len = strlen(a), b_len = strlen(b);

    for (size_t j = 0; j <= b_len; j++)
        above[j] = (unsigned)j;
    for (size_t i = 1; i <= a_len; i++) {
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= b_len; j++) {
            int x = tolower((unsigned char)a[i - 1]), y = tolower((unsigned char)b[j - 1]);
            unsigned cost = above[j - 1] + (x != y);
            if (above[j] + 1 < cost)
                cost = above[j] + 1;
            if (row[j - 1] + 1 < cost)
                cost = row[j - 1] + 1;
            if (i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) && y == tolower((unsigned char)a[i - 2]) &&
                before[j - 2] + 1 < cost)
                cost = before[j - 2] + 1;
            row[j] = cost;
        }
        unsigned *old = before;
        before = above;
        above = row;
        row = old;
    }
    return above[b_len];
}

int nearest_name(const char *text, const struct choices *choices)
{
    size_t text_len = strlen(text);
    int best = -1;
    unsigned best_distance = 0;

    if (text_len > YAML_NAME_MAX)
        return -1;
    for (unsigned i = 0; i < choices->len; i++) {
        const char *name = choices->at(choices->ctx, i);
        size_t name_len = strlen(name);
        if (name_len > YAML_NAME_MAX)
            continue;
        unsigned distance = edit_distance(text, name);
        unsigned most = 1 + (unsigned)(name_len < text_len ? name_len : text_len) / 3;
        if (distance <= most && distance < name_len && (best < 0 || distance < best_distance)) {
            best = (int)i;
            best_distance = distance;
        }
    }
    return best;
}

const char *name_remedy(const char *text, const struct choices *choices, char *buf)
{
    int near = nearest_name(text, choices);
    if (near >= 0) {
        snprintf(buf, YAML_REMEDY_MAX, "; did you mean '%.63s'?", choices->at(choices->ctx, (unsigned)near));
        return buf;
    }
    size_t used = (size_t)snprintf(buf, YAML_REMEDY_MAX, "; known:");
    for (unsigned i = 0; i < choices->len && used + YAML_NAME_MAX + 8 < YAML_REMEDY_MAX; i++)
        used += (size_t)snprintf(buf + used, YAML_REMEDY_MAX - used, "%s %.63s", i ? "," : "",
                                 choices->at(choices->ctx, i));
    if (choices->len == 0)
        snprintf(buf, YAML_REMEDY_MAX, "; there is none");
    return buf;
}

static const char *kind_words(const struct ynode *n)
{
    return n->kind == YNODE_LIST            ? "a list"
           : n->kind == YNODE_MAP           ? "a mapping"
           : n->text[0] == '\0' && n->plain ? "nothing"
                                            : "a single value";
}

bool yaml_is_map(struct yaml *y, const struct ynode *n, const char *what, const char *example)
{
    if (n->kind == YNODE_MAP)
        return true;
    yaml_error(y, n, "%s is a mapping, not %s; write it as in '%s'", what, kind_words(n), example);
    return false;
}

bool yaml_is_list(struct yaml *y, const struct ynode *n, const char *what, const char *example)
{
    if (n->kind == YNODE_LIST)
        return true;
    yaml_error(y, n, "%s is a list, not %s; write it as in '%s'", what, kind_words(n), example);
    return false;
}

static bool is_scalar(struct yaml *y, const struct ynode *n, const char *expected)
{
    char label[YAML_LABEL_MAX];
    if (n->kind == YNODE_SCALAR && !(n->plain && n->text[0] == '\0'))
        return true;
    yaml_error(y, n, "%s must be %s, not %s", yaml_label(n, label), expected, kind_words(n));
    return false;
}

bool yaml_number(struct yaml *y, const struct ynode *n, uint64_t min, uint64_t max, uint64_t *out)
{
    char label[YAML_LABEL_MAX];
    uint64_t value = 0;
    bool over = false;

    if (!is_scalar(y, n, "a number"))
        return false;
    size_t text_len = strlen(n->text);
    if (!n->plain || strspn(n->text, "0123456789") != text_len || (text_len > 1 && n->text[0] == '0')) {
        yaml_error(y, n, "%s must be a whole number in plain digits, not '%.*s'", yaml_label(n, label), (int)QUOTE,
                   n->text);
        return false;
    }
    for (const char *c = n->text; *c; c++) {
        unsigned digit = (unsigned)(*c - '0');
        over = over || value > (UINT64_MAX - digit) / 10;
        value = value * 10 + digit;
    }
    if (over || value < min || value > max) {
        yaml_error(y, n, "%s must be from %llu to %llu, not %.*s", yaml_label(n, label), (unsigned long long)min,
                   (unsigned long long)max, (int)QUOTE, n->text);
        return false;
    }
    *out = value;
    return true;
}

const char *duration_parse(const char *text, uint64_t *us)
{
    uint64_t value = 0, scale;
    size_t digits = strspn(text, "0123456789");
    const char *fraction = text + digits;
    size_t fraction_len = 0;

    if (text[0] == '-')
        return "time does not run backwards";
    if (digits == 0)
        return "write it as in '5s', '2.5ms' or '20us'";
    if (*fraction == '.') {
        fraction++;
        fraction_len = strspn(fraction, "0123456789");
        if (fraction_len == 0)
            return "write it as in '5s', '2.5ms' or '20us'";
    }
    const char *unit = fraction + fraction_len;
    if (strcmp(unit, "s") == 0)
        scale = 1000000;
    else if (strcmp(unit, "ms") == 0)
        scale = 1000;
    else if (strcmp(unit, "us") == 0)
        scale = 1;
    else
        return *unit ? "its unit must be us, ms or s" : "it has no unit; write it as in '5s', '2.5ms' or '20us'";
    if (digits > 1 && text[0] == '0')
        return "leave out leading zeros";

    for (size_t i = 0; i < digits; i++) {
        value = value * 10 + (uint64_t)(text[i] - '0');
        if (value > DURATION_MAX_US)
            return "that is more than 24 hours";
    }
    value *= scale;
    for (size_t i = 0; i < fraction_len; i++) {
        uint64_t digit = (uint64_t)(fraction[i] - '0');
        if (digit && scale == 1)
            return "it is no whole number of microseconds";
        scale = scale == 1 ? 1 : scale / 10;
        value += digit * scale;
    }
    if (value > DURATION_MAX_US)
        return "that is more than 24 hours";
    *us = value;
    return NULL;
}

bool yaml_duration(struct yaml *y, const struct ynode *n, uint64_t min_us, uint64_t max_us, uint64_t *out_us)
{
    char label[YAML_LABEL_MAX];
    uint64_t us = 0;

    if (!is_scalar(y, n, "a duration, as in '5s'"))
        return false;
    const char *why = duration_parse(n->text, &us);
    if (why) {
        yaml_error(y, n, "%s can't be '%.*s': %s", yaml_label(n, label), (int)QUOTE, n->text, why);
        return false;
    }
    if (us < min_us || us > max_us) {
        yaml_error(y, n, "%s must be from %lluus to %llus, not %.*s", yaml_label(n, label), (unsigned long long)min_us,
                   (unsigned long long)(max_us / 1000000), (int)QUOTE, n->text);
        return false;
    }
    *out_us = us;
    return true;
}

bool yaml_bool(struct yaml *y, const struct ynode *n, int *out)
{
    char label[YAML_LABEL_MAX];
    if (!is_scalar(y, n, "true or false"))
        return false;
    bool yes = strcmp(n->text, "true") == 0;
    if (!n->plain || (!yes && strcmp(n->text, "false") != 0)) {
        yaml_error(y, n, "%s must be true or false, not '%.*s'", yaml_label(n, label), (int)QUOTE, n->text);
        return false;
    }
    *out = yes;
    return true;
}

bool yaml_choice(struct yaml *y, const struct ynode *n, const struct choices *choices, int *out)
{
    char expected[YAML_LABEL_MAX], remedy[YAML_REMEDY_MAX];
    snprintf(expected, sizeof expected, "the name of a %s", choices->what);
    if (!is_scalar(y, n, expected))
        return false;
    for (unsigned i = 0; i < choices->len; i++)
        if (strcmp(n->text, choices->at(choices->ctx, i)) == 0) {
            *out = (int)i;
            return true;
        }
    yaml_error(y, n, "no %s '%.*s'%s", choices->what, (int)QUOTE, n->text, name_remedy(n->text, choices, remedy));
    return false;
}

bool yaml_name(struct yaml *y, const struct ynode *n, const char **out)
{
    char label[YAML_LABEL_MAX];
    if (!is_scalar(y, n, "a name"))
        return false;
    size_t text_len = strlen(n->text);
    size_t good = strspn(n->text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
    if (good == 0 || good != text_len || text_len > YAML_NAME_MAX) {
        yaml_error(y, n, "%s can't be '%.*s': a name has 1 to %d letters, digits, '_' and '-'", yaml_label(n, label),
                   (int)QUOTE, n->text, (int)YAML_NAME_MAX);
        return false;
    }
    *out = n->text;
    return true;
}

static bool read_text(struct yaml *y, const struct ynode *n, size_t max, bool one_line, const char **out)
{
    char label[YAML_LABEL_MAX];
    if (!is_scalar(y, n, "a text"))
        return false;
    if (n->text[0] == '\0' || strlen(n->text) > max || (one_line && strpbrk(n->text, "\r\n"))) {
        yaml_error(y, n, "%s must be a text of 1 to %zu bytes%s", yaml_label(n, label), max,
                   one_line ? " in one line" : "");
        return false;
    }
    *out = n->text;
    return true;
}

bool yaml_line(struct yaml *y, const struct ynode *n, const char **out)
{
    return read_text(y, n, YAML_LINE_MAX, true, out);
}

static bool range_value(struct yaml *y, const struct ynode *n, bool of_durations, uint64_t min, uint64_t max,
                        uint64_t *out)
{
    return of_durations ? yaml_duration(y, n, min, max, out) : yaml_number(y, n, min, max, out);
}

bool yaml_range(struct yaml *y, const struct ynode *n, bool of_durations, uint64_t min, uint64_t max, struct range *out)
{
    static const struct field fields[] = {
        { .name = "min", .kind = FIELD_NODE, .offset = 0 },
        { .name = "max", .kind = FIELD_NODE, .offset = sizeof(struct ynode *) },
    };
    char label[YAML_LABEL_MAX];
    struct ynode *ends[2] = { NULL, NULL };
    struct range range = { .given = true, .min = 0, .max = UINT64_MAX };

    if (n->kind != YNODE_MAP) {
        if (!range_value(y, n, of_durations, min, max, &range.min))
            return false;
        range.max = range.min;
        *out = range;
        return true;
    }
    if (!yaml_fields(y, n, "an expected number", fields, FIELDS_LEN(fields), ends))
        return false;
    if (!ends[0] && !ends[1]) {
        yaml_error(y, n, "%s needs a number, 'min', 'max' or both", yaml_label(n, label));
        return false;
    }
    bool ok = !ends[0] || range_value(y, ends[0], of_durations, min, max, &range.min);
    ok = (!ends[1] || range_value(y, ends[1], of_durations, min, max, &range.max)) && ok;
    if (ok && range.min > range.max) {
        yaml_error(y, ends[0], "'min' is more than 'max'");
        ok = false;
    }
    if (ok)
        *out = range;
    return ok;
}

static bool read_field(struct yaml *y, const struct field *f, struct ynode *n, void *target)
{
    uint64_t value = 0;
    uint32_t value32;
    int number = 0;
    const char *text = NULL;
    bool ok = false;

    switch (f->kind) {
    case FIELD_U64:
    case FIELD_DURATION:
        ok = f->kind == FIELD_U64 ? yaml_number(y, n, f->min, f->max, &value)
                                  : yaml_duration(y, n, f->min, f->max, &value);
        if (ok)
            memcpy(target, &value, sizeof value);
        return ok;
    case FIELD_U32:
    case FIELD_DURATION32:
        ok = f->kind == FIELD_U32 ? yaml_number(y, n, f->min, f->max, &value)
                                  : yaml_duration(y, n, f->min, f->max, &value);
        value32 = (uint32_t)value;
        if (ok)
            memcpy(target, &value32, sizeof value32);
        return ok;
    case FIELD_INT:
    case FIELD_BOOL:
    case FIELD_CHOICE:
        if (f->kind == FIELD_INT) {
            ok = yaml_number(y, n, f->min, f->max, &value);
            number = (int)value;
        } else {
            ok = f->kind == FIELD_BOOL ? yaml_bool(y, n, &number) : yaml_choice(y, n, f->choices, &number);
        }
        if (ok)
            memcpy(target, &number, sizeof number);
        return ok;
    case FIELD_NAME:
    case FIELD_LINE:
    case FIELD_TEXT:
        ok = f->kind == FIELD_NAME   ? yaml_name(y, n, &text)
             : f->kind == FIELD_LINE ? yaml_line(y, n, &text)
                                     : read_text(y, n, YAML_TEXT_MAX, false, &text);
        if (ok)
            memcpy(target, &text, sizeof text);
        return ok;
    case FIELD_RANGE:
    case FIELD_RANGE_US:
        return yaml_range(y, n, f->kind == FIELD_RANGE_US, f->min, f->max, target);
    case FIELD_NODE:
        memcpy(target, &n, sizeof n);
        return true;
    case FIELD_REFUSED:
        yaml_error(y, n->key, "key '%s' %s", f->name, f->why);
        return false;
    }
    return false;
}

struct field_names {
    const struct field *fields[YAML_KEYS_MAX];
};

static const char *field_name_at(const void *ctx, unsigned idx)
{
    return ((const struct field_names *)ctx)->fields[idx]->name;
}

static void report_unknown(struct yaml *y, const struct ynode *key, const char *what, const struct field *fields,
                           size_t fields_len)
{
    char remedy[YAML_REMEDY_MAX];
    struct field_names names;
    struct choices choices = { .what = "key", .at = field_name_at, .ctx = &names };
    for (size_t i = 0; i < fields_len && choices.len < YAML_KEYS_MAX; i++)
        if (fields[i].kind != FIELD_REFUSED)
            names.fields[choices.len++] = &fields[i];
    yaml_error(y, key, "%s has no key '%.*s'%s", what, (int)QUOTE, key->text, name_remedy(key->text, &choices, remedy));
}

bool yaml_fields(struct yaml *y, const struct ynode *map, const char *what, const struct field *fields,
                 size_t fields_len, void *target)
{
    bool ok = true;

    for (struct ynode *n = map->first; n; n = n->next) {
        size_t i = 0;
        while (i < fields_len && strcmp(fields[i].name, n->key->text) != 0)
            i++;
        if (i == fields_len) {
            report_unknown(y, n->key, what, fields, fields_len);
            ok = false;
        } else if (!read_field(y, &fields[i], n, (char *)target + fields[i].offset)) {
            ok = false;
        }
    }
    for (size_t i = 0; i < fields_len; i++)
        if (fields[i].required && !yaml_get(map, fields[i].name)) {
            yaml_error(y, map, "%s needs the key '%s'", what, fields[i].name);
            ok = false;
        }
    return ok;
}
