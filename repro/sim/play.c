#include "play.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "../mutant.h"
#include "../protocol/names.h"
#include "../scenario/scenario_config.h"

/* Runs are acyclic, so this many transitions mean that the machines have lost their way: our bug, told as void. */
enum { STEPS_MAX = 50 * 1000 * 1000 };

struct latch {
    uint32_t seen;
    bool latched;
};

struct play {
    const struct stage *stage;
    const struct arm *arm;
    uint32_t phase;
    struct config *config;
    struct sim sim;
    struct oracle oracle;
    struct park *parks;
    struct latch **latches;     /* [steps][items] */
    uint64_t passes, *order_at; /* points passed so far; [expect.order] the first matching one, 0: none yet */
    struct latch *order;        /* [expect.order] */
    uint64_t *submitted_us;     /* [requests] UINT64_MAX: not yet */
    uint64_t step_began_us;
    /* The check of an ordinary transfer (solo plays): the source as it was when its last chunk was queued. */
    struct solo *solo;
    uint16_t *source_pages;
    uint32_t source_slot;
};

/* --- looking on --- */

static void trace_line(FILE *f, const struct config *c, const struct scenario *s, const struct pass *p)
{
    const struct machine_config *m = &c->machines[p->machine];
    char where[48], who[24];

    snprintf(where, sizeof where, "%s %u.%u", side_name(m->side), m->instance, m->rank);
    if (p->actor >= ACTOR_WORKER)
        snprintf(who, sizeof who, "worker %u", p->actor - ACTOR_WORKER);
    else
        snprintf(who, sizeof who, "%s", who_name(p->actor));
    fprintf(f, "%6" PRIu64 ".%06" PRIu64 "  %-12s %-10s %-16s %s", p->time_us / 1000000u, p->time_us % 1000000u, where,
            who, point_name(p->point), s->requests[p->request].name);
    if (m->side == SIDE_PREFILL && p->actor >= ACTOR_WORKER)
        fprintf(f, " chunk %u", p->chunk);
    if (p->point == POINT_TOKEN)
        fprintf(f, " n %u", p->n);
    else if (p->point == POINT_KV_FRAGMENT || p->point == POINT_KV_LANDED)
        fprintf(f, " fragment %u", p->n);
    if (p->status != POINT_STATUS_NONE)
        fprintf(f, " %s", point_status_name(p->status));
    fprintf(f, "%s\n", p->park >= 0 ? "  [parked]" : "");
}

static void latch_one(struct latch *l, const struct point_match *m, const struct pass *pass,
                      const int32_t keys[PARK_KEYS])
{
    int32_t want[PARK_KEYS];

    if (l->latched || m->point != pass->point)
        return;
    sim_match_keys(m, want);
    if (park_matches(m->point, want, pass->point, keys))
        l->latched = ++l->seen >= m->occurrence;
}

static void latch(struct play *p, const struct pass *pass)
{
    int32_t keys[PARK_KEYS];

    sim_keys(p->config, pass, keys);
    p->passes++;
    for (uint32_t i = 0; i < p->arm->expect.order_len; i++) {
        latch_one(&p->order[i], &p->arm->expect.order[i], pass, keys);
        if (p->order[i].latched && p->order_at[i] == 0)
            p->order_at[i] = p->passes;
    }
    for (uint32_t i = 0; i < p->arm->steps_len; i++)
        for (uint32_t k = 0; k < p->arm->steps[i].items_len; k++) {
            const struct await_item *item = &p->arm->steps[i].items[k];

            if (item->kind == AWAIT_POINT)
                latch_one(&p->latches[i][k], &item->match, pass, keys);
        }
}

/* Every byte of an ordinary transfer, looked up through both page tables and not through the wire. */
static void check_transfer(struct play *p, const struct pass *pass)
{
    const struct config *c = p->config;
    const struct request_config *r = &c->requests[pass->request];
    const struct memory *from = &p->sim.memory[r->prefill], *to = &p->sim.memory[r->decode];
    uint32_t pt = c->page_tokens;

    p->solo->exact = true;
    for (uint32_t token = 0; p->solo->exact && token < r->prompt_tokens; token++)
        for (uint32_t layer = 0; p->solo->exact && layer < c->layers; layer++)
            if (memcmp(memory_row(from, layer, p->source_pages[token / pt], token % pt),
                       memory_row(to, layer, world_page(c, p->sim.world, pass->request, token / pt), token % pt),
                       MODEL_ROW_FLOATS * sizeof(float)) != 0) {
                p->solo->exact = false;
                snprintf(p->solo->why, sizeof p->solo->why,
                         "the row of token %u in attention layer %u arrived with other bytes", token, layer);
            }
    if (p->solo->exact &&
        memcmp(memory_slot(from, p->source_slot), memory_slot(to, world_state_slot(c, p->sim.world, pass->request)),
               MODEL_STATE_FLOATS * sizeof(float)) != 0) {
        p->solo->exact = false;
        snprintf(p->solo->why, sizeof p->solo->why, "the state slot arrived with other bytes");
    }
    if (p->solo->exact && p->sim.tokens[pass->request][0] != p->sim.aux[pass->request].first_token) {
        p->solo->exact = false;
        snprintf(p->solo->why, sizeof p->solo->why, "the aux record arrived with another first token");
    }
}

static void solo_passed(struct play *p, const struct pass *pass)
{
    if (pass->point == POINT_CHUNK_ENQUEUE) {
        for (uint32_t i = 0; i < p->config->requests[pass->request].prompt_pages; i++)
            p->source_pages[i] = (uint16_t)world_source_page(p->config, p->sim.world, pass->request, i);
        p->source_slot = world_source_slot(p->config, p->sim.world, pass->request);
    } else if (pass->point == POINT_TRANSFER_COMMIT) {
        check_transfer(p, pass);
    }
}

static void passed(void *ctx, struct sim *s, const struct pass *pass)
{
    struct play *p = ctx;

    if (p->stage->trace && !p->solo)
        trace_line(p->stage->trace, p->config, p->stage->scenario, pass);
    if (p->solo)
        solo_passed(p, pass);
    latch(p, pass);
    oracle_passed(&p->oracle, s, pass);
}

static void landing(void *ctx, struct sim *s, uint32_t wire, uint32_t fragment)
{
    oracle_landing(&((struct play *)ctx)->oracle, s, wire, fragment);
}

static void landed(void *ctx, struct sim *s, uint32_t wire)
{
    oracle_landed(&((struct play *)ctx)->oracle, s, wire);
}

static void forward(void *ctx, struct sim *s, uint32_t machine)
{
    oracle_forward(&((struct play *)ctx)->oracle, s, machine);
}

static void answered(void *ctx, struct sim *s, uint32_t request, enum side side, enum point_status status)
{
    oracle_answered(&((struct play *)ctx)->oracle, s, request, side, status);
}

/* --- steps --- */

static bool item_satisfied(const struct play *p, uint32_t step, uint32_t item)
{
    const struct await_item *i = &p->arm->steps[step].items[item];
    const struct park *park = &p->parks[i->park];

    if (i->kind == AWAIT_POINT)
        return p->latches[step][item].latched;
    return park->state == PARK_HOLDS || (park->state == PARK_PASSED && !MUTANT(34));
}

static bool await_satisfied(const struct play *p, uint32_t step)
{
    const struct step *s = &p->arm->steps[step];

    for (uint32_t i = 0; i < s->items_len; i++)
        if (item_satisfied(p, step, i) != s->all)
            return !s->all;
    return s->all;
}

static uint64_t wait_us(const struct play *p, const struct step *s)
{
    if (!s->phased)
        return s->wait_us;
    return s->wait_us + (s->wait_to_us - s->wait_us) * p->phase / p->arm->phases;
}

/* Performs step i if it can complete now. */
static bool perform(struct play *p, uint32_t i)
{
    const struct step *s = &p->arm->steps[i];
    int32_t keys[PARK_KEYS];

    switch (s->kind) {
    case STEP_PARK:
        sim_match_keys(&s->match, keys);
        park_arm(&p->sim.parks, s->park, s->match.point, keys, s->match.occurrence);
        return true;
    case STEP_SUBMIT:
        p->submitted_us[s->request] = p->sim.now_us;
        sim_submit(&p->sim, s->request, SIDE_PREFILL);
        sim_submit(&p->sim, s->request, SIDE_DECODE);
        return true;
    case STEP_ABORT:
        if (s->at == ABORT_AT_PREFILL || s->at == ABORT_AT_PREFILL_DECODE)
            sim_abort(&p->sim, s->request, SIDE_PREFILL);
        if (s->at != ABORT_AT_PREFILL)
            sim_abort(&p->sim, s->request, SIDE_DECODE);
        if (s->at == ABORT_AT_DECODE_PREFILL)
            sim_abort(&p->sim, s->request, SIDE_PREFILL);
        return true;
    case STEP_RELEASE:
        sim_release(&p->sim, s->park);
        return true;
    case STEP_STOP:
    case STEP_RESUME:
        sim_stop(&p->sim, s->machine, s->kind == STEP_STOP);
        return true;
    case STEP_AWAIT:
        return await_satisfied(p, i);
    case STEP_WAIT:
        return p->sim.now_us >= p->step_began_us + wait_us(p, s);
    }
    return false;
}

/* --- what keeps a run from going on --- */

static const char *stage_text(enum decode_stage stage)
{
    static const char *const texts[DECODE_STAGE_COUNT] = { "not known to decode yet",
                                                           "aborted, its memory is held",
                                                           "waits for memory on decode",
                                                           "has memory on decode and waits for its KV",
                                                           "decodes",
                                                           "done" };

    return texts[stage];
}

static void who_waits_where(const struct play *p, FILE *f)
{
    const struct scenario *s = p->stage->scenario;

    for (uint32_t k = 0; k < p->arm->parks_len; k++)
        if (p->parks[k].state == PARK_HOLDS || p->parks[k].state == PARK_ARMED || p->parks[k].state == PARK_RELEASED)
            fprintf(f, "  park %s at %s: %s\n", p->arm->parks[k].name, point_name(p->parks[k].point),
                    p->parks[k].state == PARK_HOLDS ? "holds, not released" : "nobody has come");
    for (uint32_t m = 0; m < p->config->machines_len; m++)
        if (p->sim.stopped[m])
            fprintf(f, "  %s %u.%u: stopped\n", side_name(p->config->machines[m].side), p->config->machines[m].instance,
                    p->config->machines[m].rank);
    for (uint32_t r = 0; r < s->requests_len; r++) {
        enum decode_stage stage = world_stage(p->config, p->sim.world, r);

        if (p->submitted_us[r] == UINT64_MAX)
            fprintf(f, "  request %s: not submitted\n", s->requests[r].name);
        else if (stage != DECODE_DONE)
            fprintf(f, "  request %s: %s, %u pages\n", s->requests[r].name, stage_text(stage),
                    world_pages_len(p->config, p->sim.world, r));
    }
}

static void prevented(struct play *p, struct arm_result *r, uint32_t step, const char *because)
{
    const struct step *s = &p->arm->steps[step];
    size_t len;
    FILE *f = open_memstream(&r->why, &len);

    r->ended = ARM_PREVENTED;
    r->ended_step = step + 1;
    if (!f)
        return;
    fprintf(f, "step %u (line %u) can't complete at %" PRIu64 ".%06" PRIu64 " s: %s\n", step + 1, s->place.line,
            p->sim.now_us / 1000000u, p->sim.now_us % 1000000u, because);
    who_waits_where(p, f);
    fclose(f);
}

static void voided(struct play *p, struct arm_result *r, const char *because)
{
    size_t len;
    FILE *f;

    free(r->why);
    r->why = NULL;
    r->ended = ARM_VOID;
    f = open_memstream(&r->why, &len);
    if (!f)
        return;
    fprintf(f, "%s\n", because);
    who_waits_where(p, f);
    fclose(f);
}

/* --- the run --- */

/* The instant at which the step that waits has to give up or is over. */
static uint64_t deadline(const struct play *p, const struct step *s)
{
    return p->step_began_us + (s->kind == STEP_AWAIT ? s->within_us : wait_us(p, s));
}

static void run(struct play *p, struct arm_result *r)
{
    uint32_t step = 0, len = p->arm->steps_len;
    bool waiting = false;
    uint64_t due = 0;

    for (;;) {
        const struct step *s;

        while (step < len) {
            if (!waiting)
                p->step_began_us = p->sim.now_us;
            waiting = !perform(p, step);
            if (waiting)
                break;
            step++;
        }
        s = step < len ? &p->arm->steps[step] : NULL;
        if (!sim_next_due(&p->sim, &due)) {
            if (!s)
                break;
            if (s->kind == STEP_WAIT) {
                p->sim.now_us = deadline(p, s);
                continue;
            }
            prevented(p, r, step, "everything is idle or parked");
            return;
        }
        /* What is due at the instant at which a wait is over comes after the steps that follow it. */
        if (s && (due > deadline(p, s) || (s->kind == STEP_WAIT && due == deadline(p, s)))) {
            p->sim.now_us = deadline(p, s);
            if (s->kind == STEP_WAIT)
                continue;
            prevented(p, r, step, "its time (`within`) is over");
            return;
        }
        sim_step(&p->sim);
        if (p->sim.failed || p->sim.steps > STEPS_MAX) {
            voided(p, r, p->sim.failed ? "out of memory" : "the machines do not come to rest (a defect of kvrepro)");
            return;
        }
    }
    r->ended = ARM_QUIESCENT;
    for (uint32_t i = 0; i < p->arm->faults_len; i++)
        if (!p->sim.fault_hit[i]) {
            char why[96];

            snprintf(why, sizeof why, "the fault in line %u never hit anything", p->arm->faults[i].place.line);
            voided(p, r, why);
            r->unmet = true;
            return;
        }
    for (uint32_t k = 0; k < p->arm->parks_len; k++) {
        enum park_state state = p->parks[k].state;

        if ((state == PARK_ARMED || state == PARK_RELEASED) && !MUTANT(33)) {
            voided(p, r, "nobody ever came to a park: the order that the scenario asks for did not happen");
            r->unmet = true;
            return;
        }
        if (state == PARK_HOLDS && !p->arm->end_parked[k]) {
            voided(p, r, "a park is still closed at the end (release it, or say `end: {parked: [...]}`)");
            return;
        }
    }
}

static uint64_t tokens_digest(const uint32_t *tokens, uint32_t len, uint8_t *scratch)
{
    for (uint32_t i = 0; i < len; i++)
        for (uint32_t byte = 0; byte < 4; byte++)
            scratch[4 * i + byte] = (uint8_t)(tokens[i] >> (8 * byte));
    return XXH3_64bits(scratch, 4u * len);
}

static int collect_request(struct play *p, uint32_t r, struct request_result *out)
{
    uint8_t *scratch = malloc(4u * p->sim.tokens_len[r] + 1u);

    if (!scratch)
        return -ENOMEM;
    *out = p->oracle.requests[r];
    out->submitted = p->submitted_us[r] != UINT64_MAX;
    out->tokens = p->sim.tokens_len[r];
    out->output_digest = tokens_digest(p->sim.tokens[r], out->tokens, scratch);
    free(scratch);
    for (uint32_t w = 0; w < p->config->requests_len; w++) {
        struct foreign_rows *row = &p->oracle.foreign[r * p->config->requests_len + w];

        if (row->rows == 0)
            continue;
        if (!out->foreign)
            out->foreign = calloc(p->config->requests_len, sizeof *out->foreign);
        if (!out->foreign)
            return -ENOMEM;
        row->writer = w;
        out->foreign[out->foreign_len++] = *row;
    }
    if (out->submitted)
        out->waited_us = (out->admitted ? out->admitted_us : p->sim.now_us) - p->submitted_us[r];
    return 0;
}

/* A request that the arm aborts, or whose write a fault makes fail, is no bystander. */
static bool meant(const struct arm *arm, uint32_t request)
{
    for (uint32_t i = 0; i < arm->steps_len; i++)
        if (arm->steps[i].kind == STEP_ABORT && arm->steps[i].request == request)
            return true;
    for (uint32_t i = 0; i < arm->faults_len; i++)
        if (arm->faults[i].is_write && arm->faults[i].request == (int)request)
            return true;
    return false;
}

static int collect(struct play *p, struct played *out)
{
    struct arm_result *r = &out->result;
    uint32_t n = p->config->requests_len;

    oracle_close(&p->oracle, &p->sim);
    r->arm = p->arm;
    r->phase = p->phase;
    r->requests = calloc(n, sizeof *r->requests);
    r->requests_len = n;
    r->holds = calloc(n, sizeof *r->holds);
    out->tokens = calloc(n, sizeof *out->tokens);
    out->tokens_len = calloc(n, sizeof *out->tokens_len);
    out->requests_len = n;
    if (!r->requests || !r->holds || !out->tokens || !out->tokens_len)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        if (collect_request(p, i, &r->requests[i]))
            return -ENOMEM;
        out->tokens_len[i] = p->sim.tokens_len[i];
        out->tokens[i] = p->sim.tokens[i];
        p->sim.tokens[i] = NULL;
    }
    memcpy(r->numbers, p->oracle.numbers, sizeof r->numbers);
    memcpy(r->holds, p->oracle.holds, p->oracle.holds_len * sizeof *r->holds);
    r->holds_len = p->oracle.holds_len;
    for (uint32_t i = 0; i < n; i++)
        r->numbers[EXPECT_COLLATERAL_FAILED] += r->requests[i].finish_reason == FINISH_ERROR && !meant(p->arm, i);
    for (uint32_t i = 0; i < n; i++)
        r->numbers[EXPECT_UNANSWERED] += r->requests[i].submitted && r->requests[i].status == 0;
    r->write_end_us = p->oracle.write_end_us;
    r->first_stale_token = p->oracle.first_stale_us == UINT64_MAX ? UINT32_MAX : p->oracle.first_stale_token;
    r->first_change_seen_us = INT64_MIN;
    if (p->oracle.first_change_us != UINT64_MAX && p->oracle.write_end_us != UINT64_MAX)
        r->first_change_seen_us = (int64_t)p->oracle.first_change_us - (int64_t)p->oracle.write_end_us;
    r->trace_digest = p->oracle.trace;
    out->order_at = p->order_at;
    p->order_at = NULL;
    r->ended_us = p->sim.now_us;
    return 0;
}

static int open_play(struct play *p, uint32_t request, uint32_t prefill)
{
    const struct stage *g = p->stage;
    const struct scenario_world world = { .policy = &p->arm->policy,
                                          .layers = MODEL_ATTN_LAYERS,
                                          .message_spare = p->arm->faults_len + 2 * p->arm->steps_len,
                                          .moved = p->solo ? (int)request : -1,
                                          .prefill = prefill };
    struct sim_input in = { .times = &g->scenario->times,
                            .model = g->model,
                            .work = g->work,
                            .prompts = (const uint32_t *const *)g->prompts,
                            .parks_len = p->arm->parks_len,
                            .decode = g->decode,
                            .model_ns = g->model_ns,
                            .faults = p->arm->faults,
                            .faults_len = p->arm->faults_len,
                            .watcher = { p, landing, landed, passed, forward, answered } };
    int rc;

    p->config = scenario_config(g->scenario, &world);
    p->parks = calloc(p->arm->parks_len + 1, sizeof *p->parks);
    p->latches = calloc(p->arm->steps_len + 1, sizeof *p->latches);
    p->order = calloc(p->arm->expect.order_len + 1, sizeof *p->order);
    p->order_at = calloc(p->arm->expect.order_len + 1, sizeof *p->order_at);
    p->submitted_us = malloc((g->scenario->requests_len + 1) * sizeof *p->submitted_us);
    if (!p->config || !p->parks || !p->latches || !p->order || !p->order_at || !p->submitted_us)
        return -ENOMEM;
    for (uint32_t i = 0; i < p->arm->steps_len; i++) {
        p->latches[i] = calloc(p->arm->steps[i].items_len + 1, sizeof **p->latches);
        if (!p->latches[i])
            return -ENOMEM;
    }
    for (uint32_t r = 0; r < g->scenario->requests_len; r++)
        p->submitted_us[r] = UINT64_MAX;
    if (p->solo) {
        p->source_pages = calloc(p->config->requests[request].prompt_pages, sizeof *p->source_pages);
        if (!p->source_pages)
            return -ENOMEM;
    }
    in.config = p->config;
    in.parks = p->parks;
    rc = sim_init(&p->sim, &in);
    return rc ? rc : oracle_init(&p->oracle, p->config, &g->scenario->watch);
}

static void close_play(struct play *p)
{
    oracle_fini(&p->oracle);
    if (p->sim.c)
        sim_fini(&p->sim);
    for (uint32_t i = 0; p->latches && i < p->arm->steps_len; i++)
        free(p->latches[i]);
    free(p->latches);
    free(p->order);
    free(p->order_at);
    free(p->parks);
    free(p->submitted_us);
    free(p->source_pages);
    config_free(p->config);
}

int play_arm(const struct stage *stage, const struct arm *arm, uint32_t phase, struct played *out)
{
    struct play p = { .stage = stage, .arm = arm, .phase = phase };
    int rc = open_play(&p, 0, 0);

    *out = (struct played){ 0 };
    if (!rc) {
        run(&p, &out->result);
        rc = collect(&p, out);
    }
    close_play(&p);
    if (rc)
        played_free(out);
    return rc;
}

int play_solo(const struct stage *stage, uint32_t request, uint32_t prefill, struct solo *out)
{
    struct step submit = { .kind = STEP_SUBMIT, .request = request };
    struct arm alone = {
        .name = "alone", .policy = stage->scenario->arms[0].policy, .steps = &submit, .steps_len = 1, .phases = 1
    };
    uint32_t *engine = alone.policy.engine;
    struct play p = { .stage = stage, .arm = &alone, .solo = out };
    struct arm_result r = { 0 };
    int rc;

    /* An engine without whims of its own: what an engine does wrong must not get into what is compared with. */
    engine[ENGINE_COMPLETION] = COMPLETION_LANDED;
    engine[ENGINE_TIMEOUT] = 0;
    engine[ENGINE_RETRIES] = 0;
    *out = (struct solo){ 0 };
    rc = open_play(&p, request, prefill);
    if (!rc) {
        run(&p, &r);
        out->answered = p.oracle.requests[request].status == 200;
        out->tokens_len = p.sim.tokens_len[request];
        out->tokens = p.sim.tokens[request];
        p.sim.tokens[request] = NULL;
        if (!out->answered)
            snprintf(out->why, sizeof out->why, "alone on fresh engines, it does not come to an answer");
    }
    free(r.why);
    close_play(&p);
    return rc;
}

void arm_result_free(struct arm_result *r)
{
    for (uint32_t i = 0; i < r->differences_len; i++)
        free(r->differences[i]);
    free(r->differences);
    free(r->why);
    for (uint32_t i = 0; r->requests && i < r->requests_len; i++)
        free(r->requests[i].foreign);
    free(r->requests);
    free(r->holds);
    *r = (struct arm_result){ 0 };
}

void played_free(struct played *p)
{
    for (uint32_t i = 0; p->tokens && i < p->requests_len; i++)
        free(p->tokens[i]);
    free(p->tokens);
    free(p->tokens_len);
    free(p->order_at);
    arm_result_free(&p->result);
    *p = (struct played){ 0 };
}

void solo_free(struct solo *s)
{
    free(s->tokens);
    *s = (struct solo){ 0 };
}
