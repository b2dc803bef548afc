#include "detector.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "oracle.h"

enum { PROMPT = 512, TOKENS = 512, PAGE_TOKENS = 16, PAGES = (PROMPT + TOKENS) / PAGE_TOKENS, WATCHED = 64 };

/* One play, its result so far, and what is still to be done. */
struct detector {
    const struct detector_input *in;
    struct detector_result *out;
    struct config *config;
    struct model *model;
    struct model_work *work;
    struct sim sim;
    struct oracle oracle;
    uint64_t random;
    bool *row_hit, *bit_hit;
    uint64_t looks_per_step, plants_per_step;
};

static const struct watch_spec watch = { .request = 0, .tokens = WATCHED };

/* splitmix64 */
static uint64_t draw(uint64_t *seed)
{
    uint64_t z = *seed += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* --- the oracle looks on as in every play --- */

static void landing(void *ctx, struct sim *s, uint32_t wire, uint32_t fragment)
{
    oracle_landing(&((struct detector *)ctx)->oracle, s, wire, fragment);
}

static void landed(void *ctx, struct sim *s, uint32_t wire)
{
    oracle_landed(&((struct detector *)ctx)->oracle, s, wire);
}
static void passed(void *ctx, struct sim *s, const struct pass *p)
{
    oracle_passed(&((struct detector *)ctx)->oracle, s, p);
}
static void forward(void *ctx, struct sim *s, uint32_t machine)
{
    oracle_forward(&((struct detector *)ctx)->oracle, s, machine);
}

static void answered(void *ctx, struct sim *s, uint32_t request, enum side side, enum point_status status)
{
    oracle_answered(&((struct detector *)ctx)->oracle, s, request, side, status);
}

/* --- looks --- */

/* A landing on this decode is what makes the oracle look. */
static void look(struct detector *d)
{
    oracle_landed(&d->oracle, &d->sim, 0);
}

static uint32_t rows_told(const struct detector *d)
{
    uint32_t told = 0;

    for (uint32_t i = 0; i < d->oracle.rows.len; i++)
        told += d->oracle.rows.changed[i];
    return told;
}

static void forget_told(struct detector *d)
{
    memset(d->oracle.rows.changed, 0, d->oracle.rows.len * sizeof *d->oracle.rows.changed);
    d->oracle.first_change_us = UINT64_MAX;
}

static void clean_looks(struct detector *d, uint64_t looks)
{
    uint32_t told;

    for (uint64_t i = 0; i < looks; i++)
        look(d);
    told = rows_told(d);
    d->out->row_checks += looks * d->oracle.rows.len;
    d->out->false_alarms += told;
    if (told || d->oracle.first_change_us != UINT64_MAX)
        forget_told(d);
}

/* One bit of a watched row, where the row lies in decode's pool by the request's own page table. Rows are drawn; the places
 * in a row take turns (613 is odd, and their number a power of two). */
static void plant(struct detector *d)
{
    uint64_t random = draw(&d->random);
    uint32_t token = (uint32_t)(random % WATCHED), layer = (uint32_t)(random / WATCHED % MODEL_ATTN_LAYERS);
    uint32_t bit = (uint32_t)(d->out->plants * 613 % d->out->bits), row = token * MODEL_ATTN_LAYERS + layer;
    uint32_t page = world_page(d->config, d->sim.world, 0, token / PAGE_TOKENS);
    unsigned char *byte =
        (unsigned char *)memory_row(&d->sim.memory[d->config->requests[0].decode], layer, page, token % PAGE_TOKENS) +
        bit / 8;

    *byte ^= (unsigned char)(1u << bit % 8);
    look(d);
    *byte ^= (unsigned char)(1u << bit % 8);
    if (rows_told(d) == 0)
        d->out->missed++;
    else if (rows_told(d) != 1 || !d->oracle.rows.changed[row] || d->oracle.first_change_us != d->sim.now_us)
        d->out->misplaced++;
    forget_told(d);
    d->row_hit[row] = d->bit_hit[bit] = true;
    d->out->plants++;
}

static void looks_of_step(struct detector *d)
{
    uint64_t checks = d->in->row_checks - d->out->row_checks, looks = (checks + d->out->rows - 1) / d->out->rows;

    if (d->out->row_checks < d->in->row_checks)
        clean_looks(d, looks < d->looks_per_step ? looks : d->looks_per_step);
    for (uint64_t i = 0; i < d->plants_per_step && d->out->plants < d->in->plants; i++)
        plant(d);
    if (d->in->progress)
        d->in->progress(d->in->progress_ctx, d->out->row_checks, d->out->plants);
}

/* --- plays --- */

static struct config *configure(void)
{
    const struct request_input request = { PROMPT, TOKENS, 0, 0, 0 };
    struct config_input in = {
        .page_tokens = PAGE_TOKENS, .layers = MODEL_ATTN_LAYERS, .requests = &request, .requests_len = 1
    };

    policy_set_core(&in.policy, (unsigned)core_by_name("unpatched"));
    policy_set_engine(&in.policy, (unsigned)engine_by_name("mooncake"));
    for (int side = 0; side < SIDE_COUNT; side++)
        in.sides[side] = (struct side_config){ .instances = 1,
                                               .ranks = 1,
                                               .pages = PAGES,
                                               .state_slots = 1,
                                               .aux_slots = 1,
                                               .request_slots = 1,
                                               .workers = side == SIDE_PREFILL,
                                               .allocator = ALLOCATOR_SORTED,
                                               .slot_allocator = ALLOCATOR_FIFO };
    return config_new(&in);
}

static int play(struct detector *d)
{
    static const struct times_spec times = {
        .step_us = 10000, .prefill_token_us = 20, .fragment_us = 50, .message_us = 200
    };
    uint32_t prompt[PROMPT];
    const uint32_t *prompts[] = { prompt };
    struct sim_input in = { .config = d->config,
                            .times = &times,
                            .model = d->model,
                            .work = d->work,
                            .prompts = prompts,
                            .watcher = { d, landing, landed, passed, forward, answered } };
    uint32_t tokens = 0;
    int rc;

    model_prompt(d->in->seed + d->out->plays, PROMPT, prompt);
    rc = sim_init(&d->sim, &in);
    if (!rc)
        rc = oracle_init(&d->oracle, d->config, &watch);
    if (!rc) {
        uint64_t due;

        d->out->rows = d->oracle.rows.len;
        sim_submit(&d->sim, 0, SIDE_PREFILL);
        sim_submit(&d->sim, 0, SIDE_DECODE);
        while (sim_next_due(&d->sim, &due)) {
            sim_step(&d->sim);
            if (!d->oracle.watching || d->sim.tokens_len[0] == tokens)
                continue;
            tokens = d->sim.tokens_len[0];
            looks_of_step(d);
        }
        oracle_close(&d->oracle, &d->sim);
        d->out->false_alarms += d->oracle.numbers[EXPECT_WATCHED_TOKENS_CHANGED];
        d->out->plays++;
        rc = d->sim.failed ? -ENOMEM : 0;
    }
    oracle_fini(&d->oracle);
    sim_fini(&d->sim);
    return rc;
}

static uint32_t count(const bool *hit, uint32_t len)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < len; i++)
        n += hit[i];
    return n;
}

int detector_run(const struct detector_input *in, struct detector_result *out)
{
    struct detector d = { .in = in, .out = out, .random = in->seed };
    int rc = 0;

    *out =
        (struct detector_result){ .rows = WATCHED * MODEL_ATTN_LAYERS, .bits = MODEL_ROW_FLOATS * sizeof(float) * 8 };
    /* At least two plays of TOKENS steps, and not more than it takes to notice a change of the play. */
    d.looks_per_step = in->row_checks / out->rows / TOKENS / 2 + 1;
    d.plants_per_step = in->plants / TOKENS / 2 + 1;
    if (d.looks_per_step > 2000)
        d.looks_per_step = 2000;
    if (d.plants_per_step > 2000)
        d.plants_per_step = 2000;
    d.config = configure();
    d.model = model_new(MODEL_SEED);
    d.work = model_work_new();
    d.row_hit = calloc(out->rows, sizeof *d.row_hit);
    d.bit_hit = calloc(out->bits, sizeof *d.bit_hit);
    if (!d.config || !d.model || !d.work || !d.row_hit || !d.bit_hit)
        rc = -ENOMEM;
    while (!rc && (out->row_checks < in->row_checks || out->plants < in->plants))
        rc = play(&d);
    if (!rc) {
        out->rows_hit = count(d.row_hit, out->rows);
        out->bits_hit = count(d.bit_hit, out->bits);
    }
    free(d.row_hit);
    free(d.bit_hit);
    model_work_free(d.work);
    model_free(d.model);
    config_free(d.config);
    return rc;
}

bool detector_ok(const struct detector_result *r)
{
    return r->row_checks > 0 && r->plants > 0 && r->false_alarms == 0 && r->missed == 0 && r->misplaced == 0;
}
