#include "explore.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "../scenario/scenario_config.h"

struct config *explore_config(const struct scenario *s, unsigned core, unsigned engine)
{
    struct policy policy;
    const struct scenario_world world = { .policy = &policy, .layers = 1, .moved = -1 };

    policy_set_core(&policy, core);
    policy_set_engine(&policy, engine);
    if (!s->explore.engine_timeout)
        policy.engine[ENGINE_TIMEOUT] = 0;
    return scenario_config(s, &world);
}

static uint32_t clients_of(const struct explore_spec *e, struct client_event *out)
{
    for (uint32_t i = 0; i < e->events_len; i++)
        out[i] = (struct client_event){ .kind = e->events[i].kind == STEP_SUBMIT ? CLIENT_SUBMIT : CLIENT_ABORT,
                                        .request = e->events[i].request,
                                        .side = e->events[i].at == ABORT_AT_PREFILL ? SIDE_PREFILL : SIDE_DECODE };
    return e->events_len;
}

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int explore_cell(const struct scenario *s, unsigned core, unsigned engine, const struct explore_options *o,
                 struct explore_cell *out)
{
    struct config *c;
    struct client_event *clients;
    struct search_input in = { .states_max = o->states_max, .reduce = o->reduce, .stall = s->explore.stall };
    bool timer;
    double began = now_s();
    int rc;

    *out = (struct explore_cell){ .core = core, .engine = engine };
    if (!s->explore.given)
        return -EINVAL;
    c = explore_config(s, core, engine);
    clients = calloc(s->explore.events_len + 1u, sizeof *clients);
    if (!c || !clients) {
        config_free(c);
        free(clients);
        return -ENOMEM;
    }
    in.config = c;
    in.clients = clients;
    in.clients_len = clients_of(&s->explore, clients);
    timer = c->policy.core[CORE_FREE] == FREE_HOLD && c->policy.core[CORE_HOLD_ENDS_BY_TIMER];
    rc = search_run(&in, &out->any);
    in.timers = TIMERS_LAST;
    if (!rc && timer)
        rc = search_run(&in, &out->last);
    in.timers = TIMERS_NEVER;
    if (!rc && timer)
        rc = search_run(&in, &out->never);
    config_free(c);
    free(clients);
    if (rc) {
        explore_cell_free(out);
        return rc;
    }
    out->complete = out->any.complete && (!timer || (out->last.complete && out->never.complete));
    out->safe = out->any.complete && !out->any.corrupts;
    out->live = timer ? out->last.complete && out->last.pinned == 0 : out->any.complete && out->any.pinned == 0;
    out->states = out->any.states + out->last.states + out->never.states;
    out->transitions = out->any.transitions + out->last.transitions + out->never.transitions;
    out->seconds = now_s() - began;
    return 0;
}

void explore_cell_free(struct explore_cell *c)
{
    search_result_free(&c->any);
    search_result_free(&c->last);
    search_result_free(&c->never);
}
