/* The decode machine behind machine.h; for machine.c and the world. */
#ifndef KVREPRO_DECODE_H
#define KVREPRO_DECODE_H

#include "machine.h"

void decode_init(const struct config *c, uint32_t machine, uint8_t *state);
void decode_step(const struct config *c, uint32_t machine, uint8_t *state, const struct event *e, struct actions *out);
struct ready decode_ready(const struct config *c, uint32_t machine, const uint8_t *state, uint32_t actor);
bool decode_idle(const struct config *c, uint32_t machine, const uint8_t *state, uint32_t actor);
bool decode_awaits(const struct config *c, uint32_t machine, const uint8_t *state, uint32_t actor, enum effect effect,
                   uint32_t request);
bool decode_timer(const struct config *c, uint32_t machine, const uint8_t *state, uint32_t request);
bool decode_at_point(const struct config *c, uint32_t machine, const uint8_t *state, uint32_t actor);
bool decode_local(const struct config *c, uint32_t machine, const uint8_t *state, uint32_t actor);
/* Whether the request was aborted, or its transfer reported as failed. */
bool decode_troubled(const struct config *c, uint32_t machine, const uint8_t *state, uint32_t request);

#endif
