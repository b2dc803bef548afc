#include "gate.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

#include "../mutant.h"

enum { NAME_COLUMNS_MAX = 40 };

static const char *const state_words[] = { "ok", "DIFFERS", "VOID", "ERROR" };

/* --- in memory --- */

bool gate_add_text(struct gate_texts *texts, const char *s)
{
    char **more = realloc(texts->s, (texts->len + 1) * sizeof *more);

    if (!more)
        return false;
    texts->s = more;
    texts->s[texts->len] = strdup(s);
    return texts->s[texts->len] != NULL && ++texts->len;
}

void gate_raise(struct gate_scenario *g, struct gate_case *c, enum gate_state state)
{
    if (c->state < state)
        c->state = state;
    if (g->state < state)
        g->state = state;
}

struct gate_case *gate_add_case(struct gate_scenario *g, const char *name, enum gate_state state)
{
    struct gate_case *more = realloc(g->cases, (g->cases_len + 1) * sizeof *more);

    if (!more)
        return NULL;
    g->cases = more;
    more[g->cases_len] = (struct gate_case){ .name = strdup(name) };
    if (!more[g->cases_len].name)
        return NULL;
    gate_raise(g, &more[g->cases_len], state);
    return &more[g->cases_len++];
}

static void drop_texts(struct gate_texts *texts)
{
    for (uint32_t i = 0; i < texts->len; i++)
        free(texts->s[i]);
    free(texts->s);
}

static void drop_cases(struct gate_scenario *g)
{
    for (uint32_t i = 0; i < g->cases_len; i++) {
        free(g->cases[i].name);
        drop_texts(&g->cases[i].reasons);
        drop_texts(&g->cases[i].paths);
    }
    free(g->cases);
    g->cases = NULL;
    g->cases_len = g->arms_len = 0;
}

void gate_fini(struct gate_scenario *g)
{
    drop_cases(g);
    free(g->name);
    free(g->path);
    free(g->recorded_path);
    *g = (struct gate_scenario){ .name = NULL };
}

/* --- between processes --- */

/* What another program or a file said may be no UTF-8, which jansson refuses. */
static json_t *any_string(const char *s)
{
    json_t *value = json_string(s);
    char *copy = value ? NULL : strdup(s);

    for (char *c = copy; c && *c; c++)
        if (*c & 0x80)
            *c = '?';
    if (copy)
        value = json_string(copy);
    free(copy);
    return value;
}

static json_t *texts_to_json(const struct gate_texts *texts)
{
    json_t *a = json_array();

    for (uint32_t i = 0; i < texts->len; i++)
        if (json_array_append_new(a, any_string(texts->s[i])) != 0) {
            json_decref(a);
            return NULL;
        }
    return a;
}

char *gate_write(const struct gate_scenario *g)
{
    json_t *cases = json_array();
    char *out = NULL;
    bool failed = false;

    for (uint32_t i = 0; i < g->cases_len; i++) {
        const struct gate_case *c = &g->cases[i];
        json_t *o = json_pack("{so si so so sI}", "name", any_string(c->name), "state", (int)c->state, "reasons",
                              texts_to_json(&c->reasons), "paths", texts_to_json(&c->paths), "total",
                              (json_int_t)c->paths_total);
        failed = failed || json_array_append_new(cases, o) != 0;
    }
    json_t *document = json_pack("{sb si so}", "unreadable", g->unreadable, "arms", (int)g->arms_len, "cases", cases);
    if (document && !failed)
        out = json_dumps(document, JSON_COMPACT);
    json_decref(document);
    return out;
}

static bool texts_from_json(struct gate_texts *texts, const json_t *a)
{
    for (size_t i = 0; i < json_array_size(a); i++)
        if (!json_is_string(json_array_get(a, i)) || !gate_add_text(texts, json_string_value(json_array_get(a, i))))
            return false;
    return json_is_array(a);
}

static bool case_from_json(struct gate_scenario *g, json_t *o)
{
    const char *name;
    json_t *reasons, *paths;
    json_int_t total;
    int state;

    if (json_unpack(o, "{ss si so so sI}", "name", &name, "state", &state, "reasons", &reasons, "paths", &paths,
                    "total", &total) != 0 ||
        state < GATE_OK || state > GATE_ERROR || total < 0)
        return false;
    struct gate_case *c = gate_add_case(g, name, (enum gate_state)state);
    if (!c)
        return false;
    c->paths_total = (uint64_t)total;
    return texts_from_json(&c->reasons, reasons) && texts_from_json(&c->paths, paths);
}

int gate_read(struct gate_scenario *g, const char *text)
{
    json_t *document = json_loads(text, JSON_REJECT_DUPLICATES, NULL), *cases;
    int unreadable, arms;
    bool good =
        document && json_unpack(document, "{sb si so}", "unreadable", &unreadable, "arms", &arms, "cases", &cases) == 0;

    drop_cases(g);
    for (size_t i = 0; good && i < json_array_size(cases); i++)
        good = case_from_json(g, json_array_get(cases, i));
    good = good && json_is_array(cases) && arms >= 0 && (uint32_t)arms <= g->cases_len;
    if (good) {
        g->unreadable = unreadable;
        g->arms_len = (uint32_t)arms;
    } else {
        drop_cases(g);
        g->state = GATE_OK;
    }
    json_decref(document);
    return good ? 0 : -EINVAL;
}

/* --- for people --- */

struct printer {
    FILE *f;
    const struct gate_scenario *scenarios;
    uint32_t len;
    const struct gate_options *options;
    uint32_t counts[GATE_ERROR + 1];
    uint32_t arms, skipped;
};

static void toned(const struct printer *p, enum gate_state state, const char *s)
{
    if (p->options->colour)
        fprintf(p->f, "%s%s\033[0m", state == GATE_OK ? "\033[32m" : "\033[1;31m", s);
    else
        fputs(s, p->f);
}

static const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

/* One line of it at most `columns` wide; what a terminal might obey is left out. */
static void put_line(FILE *f, const char *s, unsigned columns)
{
    const size_t line = strcspn(s, "\n");
    unsigned at = 0, whole = 0;

    for (size_t i = 0; i < line; i++)
        whole += (s[i] & 0xc0) != 0x80;
    bool cut = whole > columns || s[line] == '\n';
    for (size_t i = 0; i < line; i++) {
        unsigned char c = (unsigned char)s[i];
        at += (c & 0xc0) != 0x80;
        if (cut && at + 3 > columns)
            break;
        fputc(c < 0x20 || c == 0x7f ? '?' : c, f);
    }
    if (cut)
        fputs("...", f);
}

static void put_lines(FILE *f, const char *indent, const char *bullet, const char *s)
{
    for (const char *lead = bullet; *s; lead = "  ") {
        size_t len = strcspn(s, "\n");
        fprintf(f, "%s%s", indent, lead);
        for (size_t i = 0; i < len; i++)
            fputc((unsigned char)s[i] < 0x20 || s[i] == 0x7f ? ' ' : s[i], f);
        fputc('\n', f);
        s += len + (s[len] == '\n');
    }
}

static bool is_skipped(const struct gate_case *c)
{
    return c->state == GATE_OK && c->reasons.len;
}

/* The case for which nothing of the scenario was played, or NULL. */
static const struct gate_case *skipped_case(const struct gate_scenario *g)
{
    for (uint32_t i = 0; g->state == GATE_OK && i < g->cases_len; i++)
        if (is_skipped(&g->cases[i]))
            return &g->cases[i];
    return NULL;
}

static const struct gate_case *worst_case(const struct gate_scenario *g)
{
    for (uint32_t i = 0; i < g->cases_len; i++)
        if (g->cases[i].state == g->state)
            return &g->cases[i];
    return NULL;
}

static void put_scenario_line(const struct printer *p, const struct gate_scenario *g, unsigned names)
{
    const struct gate_case *c = g->state == GATE_OK ? skipped_case(g) : worst_case(g);
    const char *word = g->state == GATE_OK && c ? "skip" : state_words[g->state];
    struct text arms = { .len = 0 }, reason = { .len = 0 };

    toned(p, g->state, word);
    fprintf(p->f, "%*s", (int)(9 - strlen(word)), "");
    put_line(p->f, g->name, names);
    if (g->arms_len)
        text_add(&arms, "%u arm%s", g->arms_len, plural(g->arms_len));
    else
        text_add(&arms, "-");
    unsigned used = text_columns(g->name);
    if (!c) {
        fprintf(p->f, "%*s  %s\n", (int)(used < names ? names - used : 0), "", arms.s);
        return;
    }
    fprintf(p->f, "%*s  %-7s  ", (int)(used < names ? names - used : 0), "", arms.s);
    if (c < g->cases + g->arms_len)
        text_add(&reason, "%s: ", c->name);
    text_add(&reason, "%s", c->reasons.len ? c->reasons.s[0] : c->paths.len ? c->paths.s[0] : "differs");
    put_line(p->f, reason.s, TEXT_COLUMNS - 9 - names - 2 - 7 - 2);
    fputc('\n', p->f);
}

static void put_paths(const struct printer *p, const struct gate_scenario *g)
{
    uint64_t total = 0;
    uint32_t named = 0;

    for (uint32_t i = 0; i < g->cases_len; i++)
        total += g->cases[i].paths_total;
    if (total == 0)
        return;
    fprintf(p->f, "  differs from %s in %" PRIu64 " value%s:\n", g->recorded_path, total, plural(total));
    for (uint32_t i = 0; i < g->cases_len; i++)
        for (uint32_t k = 0; k < g->cases[i].paths.len && named < GATE_PATHS_MAX; k++, named++)
            put_lines(p->f, "    ", "", g->cases[i].paths.s[k]);
    if (named < total)
        fprintf(p->f, "    and %" PRIu64 " more\n", total - named);
}

static void put_scenario(const struct printer *p, const struct gate_scenario *g)
{
    fputc('\n', p->f);
    put_line(p->f, g->name, TEXT_COLUMNS);
    fprintf(p->f, ": ");
    toned(p, g->state, state_words[g->state]);
    fputc('\n', p->f);
    for (uint32_t i = 0; i < g->cases_len; i++) {
        const struct gate_case *c = &g->cases[i];
        if (c->reasons.len == 0)
            continue;
        if (i < g->arms_len)
            put_lines(p->f, "  ", "", c->name);
        for (uint32_t k = 0; k < c->reasons.len && k < GATE_REASONS_MAX; k++)
            put_lines(p->f, i < g->arms_len ? "    " : "  ", "- ", c->reasons.s[k]);
        if (c->reasons.len > GATE_REASONS_MAX)
            fprintf(p->f, "    and %u more\n", c->reasons.len - GATE_REASONS_MAX);
    }
    put_paths(p, g);
    if (g->orphan)
        return;
    struct text command = { .len = 0 };
    text_shell(&command, p->options->program);
    text_add(&command, " %s ", g->unreadable ? "check" : "run");
    text_shell(&command, g->path);
    fprintf(p->f, "  see: %s\n", command.s);
}

static void put_counts(const struct printer *p)
{
    static const char *const words[] = { "as expected and as recorded", "differ", "void", "could not be played" };
    struct text out = { .len = 0 };

    text_add(&out, "%u scenario%s, %u arm%s:", p->len, plural(p->len), p->arms, plural(p->arms));
    for (int state = GATE_OK; state <= GATE_ERROR; state++)
        if (state == GATE_OK || p->counts[state])
            text_add(&out, "%s %u %s", state == GATE_OK ? "" : ",",
                     p->counts[state] - (state == GATE_OK ? p->skipped : 0),
                     state == GATE_DIFFERS && p->counts[state] == 1 ? "differs" : words[state]);
    if (p->skipped)
        text_add(&out, ", %u not played", p->skipped);
    toned(p, p->counts[GATE_OK] == p->len ? GATE_OK : GATE_DIFFERS, out.s);
    fputc('\n', p->f);
}

static void put_next(const struct printer *p)
{
    bool recorded = false, expected = false;

    for (uint32_t i = 0; i < p->len; i++)
        for (uint32_t k = 0; k < p->scenarios[i].cases_len; k++) {
            const struct gate_case *c = &p->scenarios[i].cases[k];
            recorded = recorded || c->paths_total || (c->state == GATE_DIFFERS && k >= p->scenarios[i].arms_len);
            expected = expected || (c->reasons.len && k < p->scenarios[i].arms_len);
        }
    fputs("next:\n", p->f);
    fputs("  the command after 'see:' shows what happened in that scenario\n", p->f);
    if (expected)
        fputs("  if it is how the system really behaves, change the scenario's `expect:`\n", p->f);
    if (recorded)
        fputs("  if the change is meant: make bless, and say why in the commit\n", p->f);
    fprintf(p->f, "  then once more: %s\n", p->options->again);
}

void gate_print(FILE *f, const struct gate_scenario *scenarios, uint32_t len, const struct gate_options *options)
{
    struct printer p = { .f = f, .scenarios = scenarios, .len = len, .options = options };
    unsigned names = 8;

    for (uint32_t i = 0; i < len; i++) {
        unsigned columns = text_columns(scenarios[i].name);
        names = columns > names ? columns : names;
        p.counts[scenarios[i].state]++;
        p.arms += scenarios[i].arms_len;
        p.skipped += skipped_case(&scenarios[i]) != NULL;
    }
    names = names > NAME_COLUMNS_MAX ? NAME_COLUMNS_MAX : names;
    for (uint32_t i = 0; i < len; i++)
        put_scenario_line(&p, &scenarios[i], names);
    for (uint32_t i = 0; i < len; i++)
        if (scenarios[i].state != GATE_OK)
            put_scenario(&p, &scenarios[i]);
    fputc('\n', f);
    put_counts(&p);
    if (p.counts[GATE_OK] != len)
        put_next(&p);
}

/* --- JUnit --- */

/* Bytes of the character at s if XML 1.0 may hold it, else 0. */
static size_t xml_character(const unsigned char *s)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    size_t len = s[0] < 0x80 ? 1 : s[0] >= 0xf0 && s[0] < 0xf8 ? 4 : s[0] >= 0xe0 ? 3 : s[0] >= 0xc0 ? 2 : 0;
    uint32_t c = s[0];

    if (len == 0 || s[0] >= 0xf8)
        return 0;
    if (len > 1)
        c &= 0xffu >> (len + 1);
    for (size_t i = 1; i < len; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (s[i] & 0x3fu);
    }
    if (c < least[len] || (c < 0x20 && c != '\n' && c != '\t') || (c >= 0xd800 && c < 0xe000) ||
        (c & 0xfffe) == 0xfffe || c > 0x10ffff || (c >= 0x7f && c < 0xa0))
        return 0;
    return len;
}

void xml_text(FILE *f, const char *s)
{
    while (*s) {
        size_t len = xml_character((const unsigned char *)s);
        switch (len ? *s : '?') {
        case '&':
            fputs("&amp;", f);
            break;
        case '<':
            fputs("&lt;", f);
            break;
        case '>':
            fputs("&gt;", f);
            break;
        case '"':
            fputs("&quot;", f);
            break;
        case '\'':
            fputs("&apos;", f);
            break;
        /* Or a reader makes a blank of it in an attribute. */
        case '\n':
            fputs("&#10;", f);
            break;
        case '\t':
            fputs("&#9;", f);
            break;
        default:
            if (len)
                fwrite(s, 1, len, f);
            else
                fputc('?', f);
        }
        s += len ? len : 1;
    }
}

static void put_counted(FILE *f, uint32_t tests, uint32_t failures, uint32_t errors, uint32_t skipped)
{
    fprintf(f, " tests=\"%u\" failures=\"%u\" errors=\"%u\" skipped=\"%u\">\n", tests, failures, errors, skipped);
}

static uint32_t count(const struct gate_scenario *g, enum gate_state least, enum gate_state most)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < g->cases_len; i++)
        n += g->cases[i].state >= least && g->cases[i].state <= most;
    return n;
}

static uint32_t count_skipped(const struct gate_scenario *g)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < g->cases_len; i++)
        n += is_skipped(&g->cases[i]);
    return n;
}

static void put_details(FILE *f, const struct gate_scenario *g, const struct gate_case *c)
{
    const char *tag = c->state == GATE_DIFFERS ? "failure" : "error";

    if (is_skipped(c)) {
        fputs("      <skipped message=\"", f);
        xml_text(f, c->reasons.s[0]);
        fputs("\"/>\n", f);
        return;
    }

    fprintf(f, "      <%s type=\"%s\" message=\"", tag,
            c->state == GATE_DIFFERS ? "differs"
            : c->state == GATE_VOID  ? "void"
                                     : "error");
    xml_text(f, c->reasons.len ? c->reasons.s[0] : c->paths.len ? c->paths.s[0] : "differs");
    fputs("\">", f);
    for (uint32_t i = 0; i < c->reasons.len; i++) {
        xml_text(f, c->reasons.s[i]);
        fputc('\n', f);
    }
    if (c->paths_total) {
        struct text head = { .len = 0 };
        text_add(&head, "differs from %s in %" PRIu64 " value%s:", g->recorded_path, c->paths_total,
                 plural(c->paths_total));
        xml_text(f, head.s);
        fputc('\n', f);
    }
    for (uint32_t i = 0; i < c->paths.len; i++) {
        xml_text(f, c->paths.s[i]);
        fputc('\n', f);
    }
    fprintf(f, "</%s>\n", tag);
}

void gate_junit(FILE *f, const struct gate_scenario *scenarios, uint32_t len)
{
    uint32_t tests = 0, failures = 0, errors = 0, skipped = 0;

    for (uint32_t i = 0; i < len; i++) {
        tests += scenarios[i].cases_len;
        failures += MUTANT(40) ? 0 : count(&scenarios[i], GATE_DIFFERS, GATE_DIFFERS);
        errors += count(&scenarios[i], GATE_VOID, GATE_ERROR);
        skipped += count_skipped(&scenarios[i]);
    }
    fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"kvrepro gate\"", f);
    put_counted(f, tests, failures, errors, skipped);
    for (uint32_t i = 0; i < len; i++) {
        const struct gate_scenario *g = &scenarios[i];
        fputs("  <testsuite name=\"", f);
        xml_text(f, g->name);
        fputc('"', f);
        put_counted(f, g->cases_len, count(g, GATE_DIFFERS, GATE_DIFFERS), count(g, GATE_VOID, GATE_ERROR),
                    count_skipped(g));
        for (uint32_t k = 0; k < g->cases_len; k++) {
            fputs("    <testcase classname=\"", f);
            xml_text(f, g->name);
            fputs("\" name=\"", f);
            xml_text(f, g->cases[k].name);
            bool plain = g->cases[k].state == GATE_OK && !is_skipped(&g->cases[k]);
            fprintf(f, "\"%s\n", plain ? "/>" : ">");
            if (!plain) {
                put_details(f, g, &g->cases[k]);
                fputs("    </testcase>\n", f);
            }
        }
        fputs("  </testsuite>\n", f);
    }
    fputs("</testsuites>\n", f);
}
