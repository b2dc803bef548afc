/* Compares what an arm showed with what its scenario expects. */
#ifndef KVREPRO_EXPECT_H
#define KVREPRO_EXPECT_H

#include "play.h"

/* Fills result.differences and result.as_expected; the requests' outputs have been compared. -ENOMEM. */
int expect_compare(const struct scenario *s, struct played *p);

#endif
