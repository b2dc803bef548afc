#include "matrix.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "shown.h"
#include "text.h"

enum { INDENT = 2, GAP = 2, SHORT_LABELS = 34, LEGEND_LABELS = 30, ARM_LABEL = 5, ENGINES_MAX = 16, ROWS_MAX = 256 };

static const char *finding_word(enum finding found, const struct request_result *worst)
{
    bool outside = worst && worst->output == OUTPUT_NOT_ADMITTED;

    switch (found) {
    case FOUND_HARMLESS:
    case FOUND_PINNED:
        return "identical";
    case FOUND_STALE:
        return "stale";
    case FOUND_DIVERGED:
        return "corrupts";
    case FOUND_FAILED:
    case FOUND_NOT_ADMITTED:
    case FOUND_UNANSWERED:
        return outside ? "not-admitted" : "failed";
    case FOUND_PREVENTED:
        return outside ? "not-admitted" : "prevented";
    case FOUND_NOTHING:
    case FOUND_VOID:
        break;
    }
    return "void";
}

/* --- a cell --- */

static void put_worst(const struct arm_summary *a, const struct arm_result *r, const struct scenario *s, int worst,
                      enum finding found, struct text *out)
{
    const struct request_result *q = worst >= 0 ? &r->requests[worst] : NULL;
    uint32_t others = 0;

    for (uint32_t i = 0; i < s->requests_len; i++)
        others += request_counts(r, a->arm, i);
    if (q && others > 1)
        text_add(out, "%s ", s->requests[worst].name);
    if (found == FOUND_DIVERGED && arm_played_often(a))
        text_add(out, "corrupts in %u/%u plays", a->diverged, a->results_len);
    else if (q && q->output == OUTPUT_DIVERGED)
        text_add(out, "corrupts %u %u/%u", q->first, q->differing, q->tokens);
    else if (q && q->output == OUTPUT_NOT_ADMITTED)
        text_add(out, "not admitted");
    else if (found == FOUND_PREVENTED)
        text_add(out, "prevented at step %u", r->ended_step);
    else if (q && q->output == OUTPUT_FAILED && q->status)
        text_add(out, "failed %u", q->status);
    else if (q && q->output == OUTPUT_FAILED)
        text_add(out, result_final(r) ? "never answered" : "not answered at the end");
    else
        text_add(out, q && q->output == OUTPUT_IDENTICAL ? "identical" : "no harm");
    if (q && q->output == OUTPUT_DIVERGED && q->silent)
        text_add(out, " silent");
    if (q && q->output == OUTPUT_NOT_ADMITTED && found == FOUND_PREVENTED)
        text_add(out, " (prevented at step %u)", r->ended_step);
    if (found == FOUND_STALE)
        text_add(out, ", stale write");
}

static json_t *number_or_null(bool given, uint64_t n)
{
    return given ? json_integer((json_int_t)n) : json_null();
}

static json_t *unsaid(const char *finding, const char *text, const char *why)
{
    json_t *reason = json_string(why);

    if (!reason)
        reason = json_string("a reason that is no text");
    return json_pack("{ss ss sn si si so}", "finding", finding, "text", text, "hold", "pinned_pages", 0,
                     "collateral_failed", 0, "why", reason);
}

json_t *matrix_void(const char *why)
{
    return unsaid("void", "void", why);
}

bool matrix_is_void(const json_t *cell)
{
    const char *finding = json_string_value(json_object_get(cell, "finding"));

    return !finding || strcmp(finding, "void") == 0;
}

json_t *matrix_cell(const struct arm_summary *a, const struct scenario *s)
{
    enum finding found = arm_finding(a, s);
    struct text out = { .len = 0 };

    if (found == FOUND_NOTHING)
        return matrix_void("not played");
    for (uint32_t i = 0; found == FOUND_VOID && i < a->results_len; i++)
        if (a->results[i].ended == ARM_VOID && a->results[i].unmet)
            return unsaid("not-applicable", "does not apply", a->results[i].why ? a->results[i].why : "");
        else if (a->results[i].ended == ARM_VOID)
            return matrix_void(a->results[i].why ? a->results[i].why : "void");
    const struct arm_result *r = &a->results[arm_shown(a, s)];
    const struct hold_result *h = result_hold(r, a->arm);
    int worst = arm_worst_request(a, s);
    const struct request_result *q = worst >= 0 ? &r->requests[worst] : NULL;
    bool diverged = q && q->output == OUTPUT_DIVERGED;
    json_t *hold = h ? json_pack("{ss ss sI}", "request", s->requests[h->request].name, "ended_by",
                                 hold_end_name(h->ended_by), "held_us", (json_int_t)h->held_us)
                     : json_null();

    put_worst(a, r, s, worst, found, &out);
    return json_pack(
        "{ss ss so so so so so so si si so so sI sI sI sI sI so}", "finding", finding_word(found, q), "text", out.s,
        "request", q ? json_string(s->requests[worst].name) : json_null(), "first",
        number_or_null(diverged, q ? q->first : 0), "differing", number_or_null(diverged, q ? q->differing : 0),
        "tokens", number_or_null(q, q ? q->tokens : 0), "status", number_or_null(q && q->status, q ? q->status : 0),
        "silent", json_boolean(diverged && q->silent), "plays", (int)a->results_len, "diverged", (int)a->diverged,
        "prevented_step", number_or_null(r->ended == ARM_PREVENTED, r->ended_step), "hold", hold, "stale_pages",
        (json_int_t)r->numbers[EXPECT_STALE_PAGES], "stale_slots", (json_int_t)r->numbers[EXPECT_STALE_SLOTS],
        "pinned_pages", (json_int_t)r->numbers[EXPECT_PINNED_PAGES], "pinned_for_ever", (json_int_t)result_pinned(r),
        "collateral_failed", (json_int_t)r->numbers[EXPECT_COLLATERAL_FAILED], "why", json_null());
}

/* --- the table --- */

struct table {
    FILE *f;
    const json_t *document;
    const struct matrix_options *options;
    size_t engines;
};

static const char *string(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));

    return s ? s : "";
}

static void toned(const struct table *t, const json_t *cell, const char *s)
{
    const char *finding = cell ? string(cell, "finding") : "";
    const char *code = strcmp(finding, "corrupts") == 0 || strcmp(finding, "void") == 0 ? "\033[1;31m"
                       : strcmp(finding, "identical") == 0                              ? "\033[32m"
                                                                                        : "\033[33m";

    if (t->options->colour && cell)
        fprintf(t->f, "%s%s\033[0m", code, s);
    else
        fputs(s, t->f);
}

static void hold_text(const json_t *cell, struct text *out)
{
    const json_t *hold = json_object_get(cell, "hold");
    char number[TEXT_NUMBER_MAX];

    if (!json_is_object(hold))
        text_add(out, "-");
    else if (strcmp(string(hold, "ended_by"), "never") == 0)
        text_add(out, "never");
    else
        text_add(out, "%s %s", string(hold, "ended_by"),
                 text_duration((uint64_t)json_integer_value(json_object_get(hold, "held_us")), number));
}

static void pinned_text(const json_t *cell, struct text *out)
{
    json_int_t pages = json_integer_value(json_object_get(cell, "pinned_pages"));

    if (pages && !json_integer_value(json_object_get(cell, "pinned_for_ever")))
        text_add(out, "-");
    else
        text_add(out, "%lld", (long long)pages);
}

static void failed_text(const json_t *cell, struct text *out)
{
    text_add(out, "%lld", (long long)json_integer_value(json_object_get(cell, "collateral_failed")));
}

/* What all engines have in common once, else "this / that". */
static void of_engines(const json_t *cells, void (*put)(const json_t *, struct text *), struct text *out)
{
    struct text one = { .len = 0 }, all = { .len = 0 };
    bool same = true;

    for (size_t i = 0; i < json_array_size(cells); i++) {
        struct text this = { .len = 0 };
        put(json_array_get(cells, i), &this);
        if (i == 0)
            one = this;
        same = same && strcmp(one.s, this.s) == 0;
        text_add(&all, "%s%s", i ? " / " : "", this.s);
    }
    text_add(out, "%s", same ? one.s : all.s);
}

static void put_text(const json_t *cell, struct text *out)
{
    text_add(out, "%s", string(cell, "text"));
}

/* The core, with a plus if the file changes knobs of it, and the so-manieth such row's number after the first. */
static void row_name(const json_t *rows, const json_t *row, struct text *out)
{
    json_t *other;
    size_t i, number = 1;

    text_add(out, "%s", string(row, "core"));
    if (!*string(row, "with"))
        return;
    json_array_foreach(rows, i, other)
    {
        if (other == row)
            break;
        number += *string(other, "with") && strcmp(string(other, "core"), string(row, "core")) == 0;
    }
    text_add(out, "+");
    if (number > 1)
        text_add(out, "%zu", number);
}

/* Columns: the core, one for each engine, hold, pinned, failed. */
static void cell_text(const json_t *rows, const json_t *row, size_t column, size_t engines, struct text *out)
{
    const json_t *cells = json_object_get(row, "cells");

    *out = (struct text){ .len = 0 };
    if (column == 0)
        row_name(rows, row, out);
    else if (column <= engines)
        put_text(json_array_get(cells, column - 1), out);
    else
        of_engines(cells, column == engines + 1 ? hold_text : column == engines + 2 ? pinned_text : failed_text, out);
}

static void head_text(const json_t *arm, size_t column, size_t engines, struct text *out)
{
    static const char *const heads[] = { "hold ended", "pinned", "failed" };
    const json_t *engine = json_array_get(json_object_get(arm, "engines"), column - 1);

    *out = (struct text){ .len = 0 };
    if (column == 0)
        text_add(out, "core");
    else if (column <= engines)
        text_add(out, "%s%s", string(engine, "engine"), *string(engine, "with") ? "+" : "");
    else
        text_add(out, "%s", heads[column - engines - 1]);
}

/* What the pluses stand for, and why cells are void; a reason that all engines share is said once. */
static void put_notes(const struct table *t, const json_t *arm)
{
    json_t *engine, *row;
    size_t i, c;

    json_array_foreach(json_object_get(arm, "engines"), i, engine)
    {
        struct text line = { .len = 0 };
        text_add(&line, "%s+ is the file's own: %s", string(engine, "engine"), string(engine, "with"));
        if (*string(engine, "with"))
            text_row(t->f, INDENT, 0, "", line.s);
    }
    json_array_foreach(json_object_get(arm, "rows"), i, row)
    {
        const json_t *cells = json_object_get(row, "cells");
        struct text name = { .len = 0 }, line = { .len = 0 };
        row_name(json_object_get(arm, "rows"), row, &name);
        text_add(&line, "%s is the file's own: %s", name.s, string(row, "with"));
        if (*string(row, "with"))
            text_row(t->f, INDENT, 0, "", line.s);
        for (c = 0; c < json_array_size(cells); c++) {
            const char *why = string(json_array_get(cells, c), "why");
            line.len = 0;
            text_add(&line, "%s void: %s", name.s, why);
            if (matrix_is_void(json_array_get(cells, c)) &&
                (c == 0 || strcmp(why, string(json_array_get(cells, c - 1), "why")) != 0))
                text_row(t->f, INDENT, 0, "", line.s);
        }
    }
}

static void put_arm(const struct table *t, const json_t *arm)
{
    const json_t *rows = json_object_get(arm, "rows");
    size_t columns = t->engines + 4, widths[ENGINES_MAX + 4] = { 0 };
    struct text cell;

    for (size_t c = 0; c < columns; c++) {
        head_text(arm, c, t->engines, &cell);
        widths[c] = text_columns(cell.s);
        for (size_t i = 0; i < json_array_size(rows); i++) {
            cell_text(rows, json_array_get(rows, i), c, t->engines, &cell);
            widths[c] = text_columns(cell.s) > widths[c] ? text_columns(cell.s) : widths[c];
        }
    }
    fputc('\n', t->f);
    text_row(t->f, 0, ARM_LABEL, "arm:", string(arm, "name"));
    for (size_t i = 0; i <= json_array_size(rows); i++) {
        const json_t *row = i ? json_array_get(rows, i - 1) : NULL;
        for (size_t c = 0; c < columns; c++) {
            if (row)
                cell_text(rows, row, c, t->engines, &cell);
            else
                head_text(arm, c, t->engines, &cell);
            fprintf(t->f, "%*s", c ? GAP : INDENT, "");
            toned(t, row && c > 0 && c <= t->engines ? json_array_get(json_object_get(row, "cells"), c - 1) : NULL,
                  cell.s);
            if (c + 1 < columns)
                fprintf(t->f, "%*s", (int)(widths[c] - text_columns(cell.s)), "");
        }
        fputc('\n', t->f);
    }
    put_notes(t, arm);
}

/* The worst that a core did, over all arms and engines. */
enum worst { NO_ORDER, NO_HARM, PINS, STALE, UNANSWERED, NOT_ADMITTED, FAILED, VOID, CORRUPTS, WORSTS };

static enum worst worst_of(const json_t *cell)
{
    static const char *const words[WORSTS] = {
        [NO_ORDER] = "prevented", [NO_HARM] = "identical", [STALE] = "stale",       [NOT_ADMITTED] = "not-admitted",
        [FAILED] = "failed",      [VOID] = "void",         [CORRUPTS] = "corrupts",
    };

    if (strcmp(string(cell, "finding"), "not-applicable") == 0)
        return NO_ORDER;
    if (strcmp(string(cell, "finding"), "identical") == 0 &&
        json_integer_value(json_object_get(cell, "pinned_for_ever")) > 0)
        return PINS;
    if (strcmp(string(cell, "finding"), "failed") == 0 && !json_is_integer(json_object_get(cell, "status")))
        return UNANSWERED;
    for (int i = 0; i < WORSTS; i++)
        if (words[i] && strcmp(string(cell, "finding"), words[i]) == 0)
            return (enum worst)i;
    return VOID;
}

static enum worst worst_of_core(const struct table *t, const char *core, const char *with)
{
    enum worst worst = NO_ORDER;
    size_t i, k, c;
    json_t *arm, *row, *cell;

    json_array_foreach(json_object_get(t->document, "arms"), i, arm)
        json_array_foreach(json_object_get(arm, "rows"), k,
                           row) if (strcmp(string(row, "core"), core) == 0 && strcmp(string(row, "with"), with) == 0)
            json_array_foreach(json_object_get(row, "cells"), c, cell) worst =
                worst_of(cell) > worst ? worst_of(cell) : worst;
    return worst;
}

static void put_short(const struct table *t)
{
    static const char *const words[WORSTS] = {
        [CORRUPTS] = "corrupts",
        [VOID] = "void: nothing can be said",
        [FAILED] = "makes a request fail",
        [NOT_ADMITTED] = "never lets a request in",
        [UNANSWERED] = "a request got no answer",
        [PINS] = "pins memory for ever",
        [STALE] = "stale write, no output changed",
        [NO_HARM] = "no harm",
        [NO_ORDER] = "this order can't happen",
    };
    const json_t *rows[ROWS_MAX];
    size_t rows_len = 0, i, k;
    json_t *arm, *row;

    json_array_foreach(json_object_get(t->document, "arms"), i, arm)
        json_array_foreach(json_object_get(arm, "rows"), k, row)
    {
        bool before = rows_len == ROWS_MAX;
        for (size_t n = 0; n < rows_len; n++)
            before = before || (strcmp(string(rows[n], "core"), string(row, "core")) == 0 &&
                                strcmp(string(rows[n], "with"), string(row, "with")) == 0);
        if (!before)
            rows[rows_len++] = row;
    }
    fputs("\nIN SHORT (the worst of all arms and engines)\n", t->f);
    for (int worst = WORSTS - 1; worst >= 0; worst--) {
        struct text out = { .len = 0 };
        for (size_t n = 0; n < rows_len; n++)
            if (worst_of_core(t, string(rows[n], "core"), string(rows[n], "with")) == (enum worst)worst)
                text_add(&out, *string(rows[n], "with") ? "%s%s (%s)" : "%s%s", out.len ? ", " : "",
                         string(rows[n], "core"), string(rows[n], "with"));
        if (out.len)
            text_row(t->f, INDENT, SHORT_LABELS, words[worst], out.s);
    }
}

static void put_next(const struct table *t)
{
    const json_t *arms = json_object_get(t->document, "arms"), *subject = NULL, *subject_arm = NULL;
    struct text command = { .len = 0 };
    json_t *arm, *row;
    size_t i, k;

    json_array_foreach(arms, i, arm)
        json_array_foreach(json_object_get(arm, "rows"), k,
                           row) if (!subject && !*string(row, "with") &&
                                    worst_of(json_array_get(json_object_get(row, "cells"), 0)) == CORRUPTS)
    {
        subject = row;
        subject_arm = arm;
    }
    if (!subject) {
        subject_arm = json_array_get(arms, 0);
        subject = json_array_get(json_object_get(subject_arm, "rows"), 0);
    }
    if (!subject)
        return;
    fputs("\nnext:\n  one core of these, told in full\n", t->f);
    text_shell(&command, t->options->program);
    text_add(&command, " run --core %s ", string(subject, "core"));
    if (*string(subject_arm, "run_arm")) {
        text_add(&command, "--arm ");
        text_shell(&command, string(subject_arm, "run_arm"));
        text_add(&command, " ");
    }
    text_shell(&command, string(t->document, "path"));
    fprintf(t->f, "      %s\n  what it does, knob by knob, and where that stands upstream\n", command.s);
    command.len = 0;
    text_shell(&command, t->options->program);
    fprintf(t->f, "      %s explain %s\n", command.s, string(subject, "core"));
}

void matrix_print(FILE *f, const json_t *document, const struct matrix_options *options)
{
    struct table t = { .f = f, .document = document, .options = options };
    struct text line = { .len = 0 };
    json_t *arm;
    size_t i;

    t.engines = json_array_size(json_object_get(json_array_get(json_object_get(document, "arms"), 0), "engines"));
    if (t.engines > ENGINES_MAX)
        t.engines = ENGINES_MAX;
    text_add(&line, "%s, with every core: %s", string(document, "scenario"), string(document, "about"));
    text_row(f, 0, 0, "", line.s);
    text_row(f, 0, 0, "",
             "what became, with each engine, of the request that fared worst (those cut off by an abort left out):");
    text_row(f, INDENT, LEGEND_LABELS, "corrupts 269 243/512 silent",
             "other tokens from number 269 on, 243 of 512, with a clean answer");
    text_row(f, INDENT, LEGEND_LABELS, "prevented at step N", "with this core the scenario's order can't happen");
    text_row(f, INDENT, LEGEND_LABELS, "hold ended", "what let the aborted request's memory go, and after how long");
    text_row(f, INDENT, LEGEND_LABELS, "pinned",
             "pages held with nothing left to free them; - where the arm was cut short or left a park closed");
    text_row(f, INDENT, LEGEND_LABELS, "failed", "requests that failed with an error: collateral");
    if (t.engines > 1)
        text_row(f, INDENT, LEGEND_LABELS, "this / that", "the engines differ");
    json_array_foreach(json_object_get(document, "arms"), i, arm) put_arm(&t, arm);
    put_short(&t);
    put_next(&t);
}
