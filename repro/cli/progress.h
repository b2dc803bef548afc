/* One line on the terminal, written over and over; blanks and not escapes wipe it. Nothing where stderr is no terminal. */
#ifndef KVREPRO_PROGRESS_H
#define KVREPRO_PROGRESS_H

#include <stdbool.h>

struct progress {
    bool on;
    unsigned shown; /* columns that are on the screen now */
};

void progress_init(struct progress *p);
__attribute__((format(printf, 2, 3))) void progress_show(struct progress *p, const char *format, ...);
void progress_clear(struct progress *p);

#endif
