#include "text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void text_add(struct text *t, const char *format, ...)
{
    va_list args;
    size_t left = sizeof t->s - t->len;

    va_start(args, format);
    int n = vsnprintf(t->s + t->len, left, format, args);
    va_end(args);
    if (n > 0)
        t->len += (size_t)n < left ? (size_t)n : left - 1;
}

void text_shell(struct text *t, const char *s)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./=:,+@%";

    if (*s && strspn(s, plain) == strlen(s)) {
        text_add(t, "%s", s);
        return;
    }
    text_add(t, "'");
    for (; *s; s++)
        if (*s == '\'')
            text_add(t, "'\\''");
        else
            text_add(t, "%c", *s);
    text_add(t, "'");
}

static unsigned columns_of(const char *s, size_t s_len)
{
    unsigned columns = 0;

    for (size_t i = 0; i < s_len; i++)
        columns += (s[i] & 0xc0) != 0x80;
    return columns;
}

unsigned text_columns(const char *s)
{
    return columns_of(s, strlen(s));
}

void text_row(FILE *f, unsigned indent, unsigned label_columns, const char *label, const char *s)
{
    const unsigned left = indent + label_columns;
    unsigned label_len = text_columns(label), at;

    if (label_len > 0 && label_len >= label_columns) {
        fprintf(f, "%*s%s\n", (int)indent, "", label);
        label = "";
        label_len = 0;
    }
    /* Blanks are written only in front of a word, so that no line ends with one. */
    fprintf(f, "%*s%s", label_len ? (int)indent : 0, "", label);
    at = label_len ? indent + label_len : 0;
    unsigned word_at = left;
    for (;;) {
        const char *start = s;
        s += strspn(s, " ");
        size_t blanks = (size_t)(s - start), word_len = strcspn(s, " \n");
        unsigned word = columns_of(s, word_len);
        if (word_len > 0) {
            if (word_at > left && word_at + blanks + word > TEXT_COLUMNS) {
                fputc('\n', f);
                at = 0;
                word_at = left;
                blanks = 0;
            }
            word_at += (unsigned)blanks;
            fprintf(f, "%*s%.*s", (int)(word_at > at ? word_at - at : 0), "", (int)word_len, s);
            at = word_at = word_at + word;
            s += word_len;
        }
        if (*s == '\0')
            break;
        if (*s == '\n') {
            s++;
            if (*s == '\0')
                break;
            fputc('\n', f);
            at = 0;
            word_at = left;
        }
    }
    fputc('\n', f);
}

const char *text_duration(uint64_t us, char *buf)
{
    uint64_t unit = us < 1000 ? 1 : us < 1000000 ? 1000 : 1000000;
    uint64_t thousandth = unit < 1000 ? 1 : unit / 1000;
    uint64_t rounded = (us + thousandth / 2) / thousandth;
    uint64_t whole = unit == 1 ? rounded : rounded / 1000;
    unsigned part = unit == 1 ? 0 : (unsigned)(rounded % 1000);
    static const char *const names[] = { "us", "ms", "s" };
    const char *name = names[unit == 1 ? 0 : unit == 1000 ? 1 : 2];

    if (part == 0)
        snprintf(buf, TEXT_NUMBER_MAX, "%" PRIu64 " %s", whole, name);
    else if (part % 100 == 0)
        snprintf(buf, TEXT_NUMBER_MAX, "%" PRIu64 ".%u %s", whole, part / 100, name);
    else if (part % 10 == 0)
        snprintf(buf, TEXT_NUMBER_MAX, "%" PRIu64 ".%02u %s", whole, part / 10, name);
    else
        snprintf(buf, TEXT_NUMBER_MAX, "%" PRIu64 ".%03u %s", whole, part, name);
    return buf;
}

const char *text_count(uint64_t n, char *buf)
{
    char digits[TEXT_NUMBER_MAX];
    int len = snprintf(digits, sizeof digits, "%" PRIu64, n), to = 0;

    for (int i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            buf[to++] = ',';
        buf[to++] = digits[i];
    }
    buf[to] = '\0';
    return buf;
}

int text_colour(FILE *f)
{
    /* https://no-color.org: present and not empty, whatever the value. */
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

    return isatty(fileno(f)) && !(no && *no) && term && *term && strcmp(term, "dumb") != 0;
}
