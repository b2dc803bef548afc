#include "yaml_tree.h"

#include <stdarg.h>
#include <string.h>

enum { EXCERPT_COLUMNS = 140, MESSAGE_MAX = 2048 };

size_t utf8_decode(const char *s, size_t s_len, uint32_t *code)
{
    const unsigned char *u = (const unsigned char *)s;
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    size_t len;
    uint32_t c;

    if (s_len == 0)
        return 0;
    if (u[0] < 0x80)
        len = 1, c = u[0];
    else if (u[0] >= 0xc2 && u[0] <= 0xdf)
        len = 2, c = u[0] & 0x1fu;
    else if ((u[0] & 0xf0) == 0xe0)
        len = 3, c = u[0] & 0x0fu;
    else if (u[0] >= 0xf0 && u[0] <= 0xf4)
        len = 4, c = u[0] & 0x07u;
    else
        return 0;
    if (len > s_len)
        return 0;
    for (size_t i = 1; i < len; i++) {
        if ((u[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (u[i] & 0x3fu);
    }
    if (c < least[len] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
        return 0;
    *code = c;
    return len;
}

bool yaml_character_ok(uint32_t code)
{
    if (code < 0x20)
        return code == '\t' || code == '\n' || code == '\r';
    if (code >= 0x7f && code <= 0x9f)
        return false;
    return code != 0x2028 && code != 0x2029 && code != 0xfeff && (code & 0xfffe) != 0xfffe;
}

/* One printed column a character, whatever the bytes are: the caret below must fit and a terminal must not be steered. */
static void put_text(FILE *f, const char *s, size_t s_len, uint32_t from_column, uint32_t columns)
{
    uint32_t column = 1;
    for (size_t i = 0; i < s_len && column < from_column + columns; column++) {
        uint32_t code = 0;
        size_t len = utf8_decode(s + i, s_len - i, &code);
        if (column >= from_column) {
            if (code == '\t' || code == '\n' || code == '\r')
                fputc(' ', f);
            else if (len == 0 || !yaml_character_ok(code))
                fputc('?', f);
            else
                fwrite(s + i, 1, len, f);
        }
        i += len ? len : 1;
    }
}

/* Line breaks are newline, carriage return, or both in this order, as libfyaml counts them. */
static const char *find_line(const struct yaml *y, uint32_t line, size_t *line_len)
{
    size_t i = 0;
    for (uint32_t at = 1; at < line; at++) {
        while (i < y->text_len && y->text[i] != '\n' && y->text[i] != '\r')
            i++;
        if (i == y->text_len)
            return NULL;
        i += i + 1 < y->text_len && y->text[i] == '\r' && y->text[i + 1] == '\n' ? 2 : 1;
    }
    size_t end = i;
    while (end < y->text_len && y->text[end] != '\n' && y->text[end] != '\r')
        end++;
    *line_len = end - i;
    return y->text + i;
}

static void put_line(const struct yaml *y, struct place place)
{
    size_t line_len = 0;
    const char *line = find_line(y, place.line, &line_len);
    if (!line)
        return;
    uint32_t from = place.column > EXCERPT_COLUMNS - 20 ? place.column - EXCERPT_COLUMNS / 2 : 1;
    fprintf(y->errors, "%6u | ", place.line);
    put_text(y->errors, line, line_len, from, EXCERPT_COLUMNS);
    fprintf(y->errors, "\n       | %*s^\n", (int)(place.column - from), "");
}

static void put_set(const struct yaml *y, uint32_t set)
{
    fputs("--set ", y->errors);
    put_text(y->errors, y->sets[set - 1], strlen(y->sets[set - 1]), 1, EXCERPT_COLUMNS);
    fputs(": error: ", y->errors);
}

static bool one_more(struct yaml *y)
{
    y->errors_len++;
    if (y->errors_len == YAML_ERRORS_MAX + 1)
        fprintf(y->errors, "%s: more than %d errors, the rest is not shown\n", y->path, (int)YAML_ERRORS_MAX);
    return y->errors_len <= YAML_ERRORS_MAX;
}

static void report(struct yaml *y, uint32_t set, struct place place, const char *format, va_list args)
{
    /* Words of the file in a message may be cut within a character and may hold line breaks. */
    char message[MESSAGE_MAX];

    if (!one_more(y))
        return;
    if (set)
        put_set(y, set);
    else if (place.line)
        fprintf(y->errors, "%s:%u:%u: error: ", y->path, place.line, place.column);
    else
        fprintf(y->errors, "%s: error: ", y->path);
    vsnprintf(message, sizeof message, format, args);
    put_text(y->errors, message, strlen(message), 1, MESSAGE_MAX);
    fputc('\n', y->errors);
    if (!set && place.line)
        put_line(y, place);
}

void yaml_error(struct yaml *y, const struct ynode *n, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    report(y, n->set, n->place, format, args);
    va_end(args);
}

void yaml_error_at(struct yaml *y, struct place place, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    report(y, y->set, place, format, args);
    va_end(args);
}
