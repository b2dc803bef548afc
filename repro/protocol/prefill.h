/* The prefill machine behind machine.h; for machine.c and the world. */
#ifndef KVREPRO_PREFILL_H
#define KVREPRO_PREFILL_H

#include "machine.h"

void prefill_init(const struct config *c, uint32_t machine, uint8_t *state);
void prefill_step(const struct config *c, uint32_t machine, uint8_t *state, const struct event *e, struct actions *out);
struct ready prefill_ready(const struct config *c, uint32_t machine, const uint8_t *state, uint32_t actor);
bool prefill_idle(const struct config *c, uint32_t machine, const uint8_t *state, uint32_t actor);
bool prefill_awaits(const struct config *c, uint32_t machine, const uint8_t *state, uint32_t actor, enum effect effect);
bool prefill_local(const struct config *c, uint32_t machine, const uint8_t *state, uint32_t actor);
/* Whether the request's room has failed, or its session is on the blacklist. */
bool prefill_troubled(const struct config *c, uint32_t machine, const uint8_t *state, uint32_t request);

#endif
