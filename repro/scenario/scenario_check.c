#include "scenario_read.h"

#include <string.h>

#include "../protocol/names.h"

/* What a match can ask of a point, beyond its row: which transfers carry a chunk, and what words its status can be. */
struct point_detail {
    bool chunk;        /* belongs to one chunk */
    bool last_chunk;   /* only the last chunk of a request comes here */
    uint32_t statuses; /* bit set of enum point_status; 0: it carries none */
};

#define STATUS(id) (1u << POINT_STATUS_##id)

static const struct point_detail details[POINT_COUNT] = {
    [POINT_CHUNK_ENQUEUE] = { .chunk = true },
    [POINT_CHUNK_DEQUEUE] = { .chunk = true },
    [POINT_CHUNK_COUNT] = { .chunk = true },
    [POINT_CHUNK_CHECK] = { .chunk = true, .statuses = STATUS(OK) | STATUS(SKIP) | STATUS(ERROR) },
    [POINT_SEND_BEGIN] = { .chunk = true },
    [POINT_KV_RECHECK] = { .chunk = true, .statuses = STATUS(OK) | STATUS(SKIP) },
    [POINT_KV_POST] = { .chunk = true },
    [POINT_KV_COMPLETE] = { .chunk = true, .statuses = STATUS(OK) | STATUS(ERROR) | STATUS(REFUSED) },
    [POINT_STATE_POST] = { .chunk = true, .last_chunk = true },
    [POINT_AUX_POST] = { .chunk = true, .last_chunk = true },
    [POINT_STATUS_SEND] = { .chunk = true, .statuses = STATUS(SUCCESS) | STATUS(FAILED) },
    [POINT_CHUNK_DONE] = { .chunk = true, .statuses = STATUS(OK) | STATUS(SKIP) | STATUS(ERROR) },
    [POINT_KV_FRAGMENT] = { .chunk = true },
    [POINT_KV_LANDED] = { .chunk = true },
    [POINT_STATE_LANDED] = { .chunk = true, .last_chunk = true },
    [POINT_AUX_LANDED] = { .chunk = true, .last_chunk = true },
    [POINT_ACK_RECEIVE] = { .statuses = STATUS(COUNTED) | STATUS(DROPPED) },
    [POINT_STATUS_RECEIVE] = { .statuses = STATUS(SUCCESS) | STATUS(FAILED) | STATUS(DROPPED) },
    [POINT_AUX_CONSUME] = { .statuses = STATUS(OWN) | STATUS(FOREIGN) },
    [POINT_ACK_SEND] = { .statuses = STATUS(RECEIVED) | STATUS(DRAINED) },
    [POINT_REQUEST_FINISH] = { .statuses = STATUS(OK) | STATUS(ABORT) },
    [POINT_CLIENT_ANSWER] = { .statuses = STATUS(OK) | STATUS(ABORT) | STATUS(ERROR) },
};

static uint32_t pages_for(uint32_t tokens, uint32_t page_tokens)
{
    return (tokens + page_tokens - 1) / page_tokens;
}

uint32_t request_chunks(const struct scenario *s, const struct request_spec *q)
{
    return s->prefill.chunk_tokens ? pages_for(q->prompt_tokens, s->prefill.chunk_tokens) : 1;
}

/* A key that is there is shown where it stands, one that is not at its mapping. */
static const struct ynode *at_key(const struct ynode *map, const char *key)
{
    const struct ynode *n = yaml_get(map, key);
    return n ? n : map;
}

static bool check_side(struct reader *r, const struct ynode *n, const struct side_spec *side)
{
    bool ok = true;
    if (side->instances * side->ranks > SCENARIO_RANKS_MAX) {
        yaml_error(r->y, at_key(n, "ranks"), "%u instances of %u ranks are %u ranks on one side, more than %d",
                   side->instances, side->ranks, side->instances * side->ranks, (int)SCENARIO_RANKS_MAX);
        ok = false;
    }
    if (side->slot_allocator == ALLOCATOR_SORTED) {
        yaml_error(r->y, at_key(n, "slots"), "'sorted' is an order of pages; slots can be fifo, lifo, lowest or any");
        ok = false;
    }
    return ok;
}

void check_topology(struct reader *r, const struct ynode *prefill, const struct ynode *decode)
{
    struct side_spec *p = &r->s->prefill, *d = &r->s->decode;
    bool ok = check_side(r, prefill, p);
    ok = check_side(r, decode, d) && ok;

    if (p->page_tokens && d->page_tokens && p->page_tokens != d->page_tokens) {
        yaml_error(r->y, at_key(decode, "page_tokens"),
                   "pages of %u tokens here and of %u on the prefill side; a page travels as it is, both must agree",
                   d->page_tokens, p->page_tokens);
        ok = false;
    }
    uint32_t page_tokens = p->page_tokens ? p->page_tokens : d->page_tokens ? d->page_tokens : 16;
    if (ok && p->chunk_tokens % page_tokens != 0) {
        yaml_error(r->y, at_key(prefill, "chunk_tokens"),
                   "a chunk of %u tokens is no whole number of pages of %u tokens", p->chunk_tokens, page_tokens);
        ok = false;
    }
    if (ok && d->reserve >= d->pages) {
        yaml_error(r->y, at_key(decode, "reserve_pages"),
                   "all of the %u pages are kept free: nothing can ever be admitted", d->pages);
        ok = false;
    }
    r->topology_ok = ok;
}

void check_request(struct reader *r, const struct request_spec *q, const struct ynode *n)
{
    const struct side_spec *p = &r->s->prefill, *d = &r->s->decode;
    const struct ynode *prompt = at_key(n, "prompt"), *tokens = at_key(prompt, "tokens");

    if (q->prompt_tokens + q->max_tokens > SCENARIO_TOKENS_MAX) {
        yaml_error(r->y, at_key(n, "max_tokens"), "%u prompt tokens and %u new ones are more than %d", q->prompt_tokens,
                   q->max_tokens, (int)SCENARIO_TOKENS_MAX);
        return;
    }
    if (!r->topology_ok)
        return;
    uint32_t prompt_pages = pages_for(q->prompt_tokens, p->page_tokens);
    /* The last token is chosen but its row never written. */
    uint32_t all_pages = pages_for(q->prompt_tokens + q->max_tokens - 1, p->page_tokens);
    if (prompt_pages > p->pages)
        yaml_error(r->y, tokens, "the prompt needs %u pages, a prefill rank has %u: it can never be computed",
                   prompt_pages, p->pages);
    else if (prompt_pages + d->reserve > d->pages)
        yaml_error(r->y, tokens,
                   "the prompt needs %u pages, a decode rank has %u and keeps %u free: it can never be admitted",
                   prompt_pages, d->pages, d->reserve);
    else if (all_pages > d->pages)
        yaml_error(r->y, at_key(n, "max_tokens"),
                   "prompt and new tokens need %u pages, a decode rank has %u: it can never finish", all_pages,
                   d->pages);
}

/* Sides at which the point is passed: bit 0 prefill, bit 1 decode; 0: on the wire. */
static unsigned point_sides(enum point point)
{
    switch (point_rows[point].where) {
    case WHERE_PREFILL:
        return 1u << SIDE_PREFILL;
    case WHERE_DECODE:
        return 1u << SIDE_DECODE;
    case WHERE_EITHER:
        return 1u << SIDE_PREFILL | 1u << SIDE_DECODE;
    case WHERE_WIRE:
        return 0;
    }
    return 0;
}

static unsigned match_sides(const struct point_match *m)
{
    unsigned sides = point_sides(m->point);
    return m->side < 0 ? sides : sides & 1u << m->side;
}

static bool actor_passes(enum point_who who, int actor)
{
    switch (who) {
    case WHO_SCHEDULER:
        return actor == ACTOR_SCHEDULER;
    case WHO_RECEIVER:
        return actor == ACTOR_RECEIVER;
    case WHO_WORKER:
        return actor >= ACTOR_WORKER;
    case WHO_RECEIVER_OR_WORKER:
        return actor == ACTOR_RECEIVER || actor >= ACTOR_WORKER;
    case WHO_TRANSFER:
        return false;
    }
    return false;
}

bool match_allows(const struct scenario *s, const struct point_match *m, uint32_t request)
{
    const struct request_spec *q = &s->requests[request];
    if (m->request >= 0 && (uint32_t)m->request != request)
        return false;
    if (q->prompt_tokens == 0 || q->max_tokens == 0)
        return true;
    if (m->chunk >= 0 && (uint32_t)m->chunk >= request_chunks(s, q))
        return false;
    if (m->chunk >= 0 && details[m->point].last_chunk && (uint32_t)m->chunk != request_chunks(s, q) - 1)
        return false;
    if (m->n >= 0 && (uint32_t)m->n >= q->max_tokens)
        return false;
    if (m->instance < 0 && m->rank < 0)
        return true;
    for (int side = 0; side < SIDE_COUNT; side++) {
        uint32_t ranks = side == SIDE_PREFILL ? s->prefill.ranks : s->decode.ranks;
        uint32_t machine = side == SIDE_PREFILL ? q->prefill : q->decode;
        if ((match_sides(m) & 1u << side) && (m->instance < 0 || (uint32_t)m->instance == machine / ranks) &&
            (m->rank < 0 || (uint32_t)m->rank == machine % ranks))
            return true;
    }
    return false;
}

static bool never(struct reader *r, const struct ynode *n, const char *key, const char *why)
{
    yaml_error(r->y, at_key(n, key), "this can never match: %s", why);
    return false;
}

static bool check_kind(struct reader *r, const struct ynode *n, const struct point_match *m)
{
    const struct point_row *row = &point_rows[m->point];
    const struct point_detail *detail = &details[m->point];
    const struct ynode *instance = at_key(n, "instance");
    const uint32_t statuses = detail->statuses ? detail->statuses : STATUS(NONE);
    char why[200];

    if (row->where == WHERE_WIRE && (m->side >= 0 || m->instance >= 0 || m->rank >= 0)) {
        snprintf(why, sizeof why, "%s is on the wire, not on a side; name the request", row->name);
        return never(r, n, m->side >= 0 ? "side" : m->instance >= 0 ? "instance" : "rank", why);
    }
    if (m->side >= 0 && !(point_sides(m->point) & 1u << m->side)) {
        snprintf(why, sizeof why, "%s is passed on the %s side only", row->name, side_name((unsigned)(1 - m->side)));
        return never(r, n, "side", why);
    }
    if (m->actor >= 0 && !actor_passes(row->who, m->actor)) {
        snprintf(why, sizeof why, "%s is passed by the %s", row->name, who_name(row->who));
        return never(r, n, "actor", why);
    }
    if (m->n >= 0 && m->point != POINT_TOKEN)
        return never(r, n, "n", "only the point token has an n");
    if (m->fragment >= 0 && m->point != POINT_KV_FRAGMENT)
        return never(r, n, "fragment", "only the point kv.fragment has a fragment");
    if (m->chunk >= 0 && !detail->chunk) {
        snprintf(why, sizeof why, "%s is not passed by a chunk", row->name);
        return never(r, n, "chunk", why);
    }
    if (m->status >= 0 && !(statuses & 1u << m->status)) {
        int used = snprintf(why, sizeof why, "the status of %s is", row->name);
        for (unsigned i = 0; i < POINT_STATUS_COUNT; i++)
            if (statuses & 1u << i)
                used += snprintf(why + used, sizeof why - (size_t)used, " %s%s", point_status_name(i),
                                 statuses >> i > 1 ? " or" : "");
        return never(r, n, "status", why);
    }
    if (m->point == POINT_TOKEN && m->request >= 0 && m->n >= 0 && m->occurrence > 1)
        return never(r, n, "occurrence", "a request chooses its token n once");

    if (!r->topology_ok)
        return true;
    const struct side_spec *p = &r->s->prefill, *d = &r->s->decode;
    unsigned sides = match_sides(m);
    uint32_t instances = sides == 1u << SIDE_PREFILL   ? p->instances
                         : sides == 1u << SIDE_DECODE  ? d->instances
                         : p->instances > d->instances ? p->instances
                                                       : d->instances;
    uint32_t ranks = sides == 1u << SIDE_PREFILL  ? p->ranks
                     : sides == 1u << SIDE_DECODE ? d->ranks
                     : p->ranks > d->ranks        ? p->ranks
                                                  : d->ranks;
    if (m->instance >= 0 && (uint32_t)m->instance >= instances) {
        yaml_error(r->y, instance, "no instance %d; there are %u, counted from 0", m->instance, instances);
        return false;
    }
    if (m->rank >= 0 && (uint32_t)m->rank >= ranks) {
        yaml_error(r->y, at_key(n, "rank"), "no rank %d; an instance has %u, counted from 0", m->rank, ranks);
        return false;
    }
    if (m->actor >= ACTOR_WORKER && (uint32_t)(m->actor - ACTOR_WORKER) >= p->workers) {
        yaml_error(r->y, at_key(n, "actor"), "no worker %d; a prefill rank has %u, counted from 0",
                   m->actor - ACTOR_WORKER, p->workers);
        return false;
    }
    return true;
}

/* The key that excludes the last request asked about, for the caret and the words. */
static bool report_excluded(struct reader *r, const struct ynode *n, const struct point_match *m)
{
    const struct scenario *s = r->s;
    const struct request_spec *q = m->request >= 0 ? &s->requests[m->request] : NULL;
    uint32_t chunks = q ? request_chunks(s, q) : 0;
    char why[200];

    if (!q)
        return never(r, n,
                     m->n >= 0       ? "n"
                     : m->chunk >= 0 ? "chunk"
                                     : "point",
                     "no request of this scenario does all of this");
    if (m->chunk >= 0 && (uint32_t)m->chunk >= chunks) {
        snprintf(why, sizeof why, "%.63s has %u chunk%s, counted from 0", q->name, chunks, chunks == 1 ? "" : "s");
        return never(r, n, "chunk", why);
    }
    if (m->chunk >= 0 && details[m->point].last_chunk && (uint32_t)m->chunk != chunks - 1) {
        snprintf(why, sizeof why, "only the last chunk of %.63s, number %u, comes to %s", q->name, chunks - 1,
                 point_name(m->point));
        return never(r, n, "chunk", why);
    }
    if (m->n >= 0 && (uint32_t)m->n >= q->max_tokens) {
        snprintf(why, sizeof why, "%.63s has %u tokens, counted from 0", q->name, q->max_tokens);
        return never(r, n, "n", why);
    }
    snprintf(why, sizeof why, "%.63s lives on prefill instance %u rank %u and decode instance %u rank %u", q->name,
             q->prefill / s->prefill.ranks, q->prefill % s->prefill.ranks, q->decode / s->decode.ranks,
             q->decode % s->decode.ranks);
    return never(r, n, m->instance >= 0 ? "instance" : "rank", why);
}

bool check_match(struct reader *r, const struct ynode *n, const struct point_match *m)
{
    if (!check_kind(r, n, m))
        return false;
    if (!r->topology_ok)
        return true;
    for (uint32_t i = 0; i < r->s->requests_len; i++)
        if (match_allows(r->s, m, i))
            return true;
    if (r->s->requests_len == 0)
        return true;
    return report_excluded(r, n, m);
}
