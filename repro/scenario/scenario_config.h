/* From a scenario to the configuration that the machines read. */
#ifndef KVREPRO_SCENARIO_CONFIG_H
#define KVREPRO_SCENARIO_CONFIG_H

#include "scenario.h"

struct scenario_world {
    const struct policy *policy;
    uint32_t layers;        /* attention layers whose rows travel */
    uint32_t message_spare; /* as in struct config_input */
    int moved;              /* this request goes through prefill machine `prefill` instead of its own; -1: none does */
    uint32_t prefill;
};

/* NULL when memory is short. */
struct config *scenario_config(const struct scenario *s, const struct scenario_world *w);

#endif
