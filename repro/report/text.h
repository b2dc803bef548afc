/*
 * Text for people: rows of a label and wrapped words, at most TEXT_COLUMNS wide, and numbers as people write them.
 * Nothing here fails or allocates; a text that outgrows its buffer is cut.
 */
#ifndef KVREPRO_TEXT_H
#define KVREPRO_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { TEXT_COLUMNS = 100, TEXT_NUMBER_MAX = 32 };

struct text {
    size_t len;
    char s[4096];
};

__attribute__((format(printf, 2, 3))) void text_add(struct text *t, const char *format, ...);

/* As a POSIX shell reads it back. */
void text_shell(struct text *t, const char *s);

/* Columns that a UTF-8 text takes, one a code point. */
unsigned text_columns(const char *s);

/*
 * `indent` blanks, the label in `label_columns`, then s wrapped under its first word. A label that is too long gets a
 * line of its own. Newlines in s are kept; a word longer than a line is not cut.
 */
void text_row(FILE *f, unsigned indent, unsigned label_columns, const char *label, const char *s);

/* "40 us", "2.7 ms", "30 s": rounded to three decimals. buf of TEXT_NUMBER_MAX bytes; returns it. */
const char *text_duration(uint64_t us, char *buf);
/* Digits in groups of three: "1,234,567". */
const char *text_count(uint64_t n, char *buf);

/* Whether to colour what goes to f: only on a terminal that can, and if the reader has not said NO_COLOR. */
int text_colour(FILE *f);

#endif
