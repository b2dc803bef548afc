/*
 * What this program was built from, as found out when it was built: the header provenance_build.h, printed by
 * scripts/provenance. Never part of a result digest.
 */
#ifndef KVREPRO_PROVENANCE_H
#define KVREPRO_PROVENANCE_H

struct provenance {
    const char *tree; /* git's tree hash, or "unknown" */
    int clean;        /* 1: exactly that tree; 0: with changes; -1: unknown */
    const char *compiler;
    const char *cflags;
};

extern const struct provenance provenance;

#endif
