#include "provenance.h"

#include "provenance_build.h"

const struct provenance provenance = {
    .tree = PROVENANCE_TREE,
    .clean = PROVENANCE_CLEAN,
    .compiler = PROVENANCE_COMPILER,
    .cflags = PROVENANCE_CFLAGS,
};
