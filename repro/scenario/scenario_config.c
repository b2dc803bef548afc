#include "scenario_config.h"

#include <stdlib.h>

static struct side_config side_of(const struct side_spec *s)
{
    return (struct side_config){ .instances = s->instances,
                                 .ranks = s->ranks,
                                 .pages = s->pages,
                                 .state_slots = s->state_slots,
                                 .aux_slots = s->aux_slots,
                                 .request_slots = s->request_slots,
                                 .workers = s->workers,
                                 .reserve_pages = s->reserve,
                                 .allocator = s->allocator,
                                 .slot_allocator = s->slot_allocator };
}

struct config *scenario_config(const struct scenario *s, const struct scenario_world *w)
{
    struct request_input *requests = calloc(s->requests_len, sizeof *requests);
    struct config_input in = { .policy = *w->policy,
                               .sides = { side_of(&s->prefill), side_of(&s->decode) },
                               .page_tokens = s->decode.page_tokens,
                               .chunk_tokens = s->prefill.chunk_tokens,
                               .layers = w->layers,
                               .wire_reverse = s->wire_reverse,
                               .message_spare = w->message_spare,
                               .requests = requests,
                               .requests_len = s->requests_len };
    struct config *c;

    if (!requests)
        return NULL;
    for (uint32_t r = 0; r < s->requests_len; r++) {
        const struct request_spec *q = &s->requests[r];

        requests[r] = (struct request_input){ q->prompt_tokens, q->max_tokens,
                                              (int)r == w->moved ? w->prefill : q->prefill, q->decode, q->room };
    }
    c = config_new(&in);
    free(requests);
    return c;
}
