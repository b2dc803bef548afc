#include "machine.h"

#include "decode.h"
#include "prefill.h"

static bool is_prefill(const struct config *c, uint32_t machine)
{
    return machine < c->prefill_len;
}

void machine_step(const struct config *c, uint32_t machine, uint8_t *state, const struct event *event,
                  struct actions *actions)
{
    if (is_prefill(c, machine))
        prefill_step(c, machine, state, event, actions);
    else
        decode_step(c, machine, state, event, actions);
}

struct ready machine_ready(const struct config *c, uint32_t machine, const uint8_t *state, uint32_t actor)
{
    return is_prefill(c, machine) ? prefill_ready(c, machine, state, actor) : decode_ready(c, machine, state, actor);
}

uint32_t machine_recipient(enum message_type type)
{
    return type == MESSAGE_SUBMIT || type == MESSAGE_ABORT_REQUEST ? ACTOR_SCHEDULER : ACTOR_RECEIVER;
}

bool machine_accepts(const struct config *c, uint32_t machine, const uint8_t *state, uint32_t actor)
{
    return is_prefill(c, machine) ? prefill_idle(c, machine, state, actor) : decode_idle(c, machine, state, actor);
}

bool machine_awaits(const struct config *c, uint32_t machine, const uint8_t *state, uint32_t actor, enum effect effect,
                    uint32_t request)
{
    return is_prefill(c, machine) ? prefill_awaits(c, machine, state, actor, effect)
                                  : decode_awaits(c, machine, state, actor, effect, request);
}

bool machine_timer(const struct config *c, uint32_t machine, const uint8_t *state, uint32_t request)
{
    return !is_prefill(c, machine) && decode_timer(c, machine, state, request);
}

bool machine_at_point(const struct config *c, uint32_t machine, const uint8_t *state, uint32_t actor)
{
    if (!is_prefill(c, machine))
        return decode_at_point(c, machine, state, actor);
    return !prefill_idle(c, machine, state, actor) && prefill_ready(c, machine, state, actor).kind == READY_GO;
}

bool machine_local(const struct config *c, uint32_t machine, const uint8_t *state, uint32_t actor)
{
    return is_prefill(c, machine) ? prefill_local(c, machine, state, actor) : decode_local(c, machine, state, actor);
}
