#include "progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "../report/text.h"

enum { PROGRESS_MAX = 512 };

void progress_init(struct progress *p)
{
    *p = (struct progress){ .on = isatty(STDERR_FILENO) };
}

void progress_clear(struct progress *p)
{
    if (p->shown)
        fprintf(stderr, "\r%*s\r", (int)p->shown, "");
    fflush(stderr);
    p->shown = 0;
}

void progress_show(struct progress *p, const char *format, ...)
{
    struct winsize size;
    unsigned columns = 80;
    char line[PROGRESS_MAX];
    va_list args;

    if (!p->on)
        return;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 8)
        columns = size.ws_col;
    va_start(args, format);
    int len = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    len = len < 0 ? 0 : len < PROGRESS_MAX ? len : PROGRESS_MAX - 1;
    while (text_columns(line) >= columns)
        line[--len] = '\0';
    progress_clear(p);
    fprintf(stderr, "%s", line);
    fflush(stderr);
    p->shown = text_columns(line);
}
