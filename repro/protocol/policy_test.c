#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "policy.h"

enum { DURATION_MAX_US = 3600 * 1000000u };

static uint32_t choices_len(const struct knob_row *knob)
{
    uint32_t len = 1;

    for (const char *c = knob->values; *c; c++)
        len += *c == ' ';
    return len;
}

static bool valid(const struct knob_row *knob, uint32_t value)
{
    switch (knob->kind) {
    case KNOB_BOOL:
        return value <= 1;
    case KNOB_CHOICE:
        return value < choices_len(knob);
    case KNOB_DURATION:
        return value <= DURATION_MAX_US;
    case KNOB_NUMBER:
        return value <= RETRIES_MAX;
    }
    return false;
}

/* A source opens with the repository and the commit or thread, or says that there is none. */
static bool names_its_origin(const char *source)
{
    static const char *const origins[] = {
        "SGLang 86b9bf5812 ",
        "SGLang 57909f731b ",
        "SGLang 97dedd1ce9 ",
        "SGLang adca19c497 ",
        "SGLang 90354326c7 ",
        "SGLang #40645: ",
        "KastanDay/sglang 79b87f9f51 ",
        "Mooncake 3b5a594133 ",
        "NIXL 8770b655a6 ",
        "proposed here",
        "proposed with SGLang #36610: ",
    };

    for (unsigned i = 0; i < sizeof origins / sizeof origins[0]; i++)
        if (strncmp(source, origins[i], strlen(origins[i])) == 0)
            return true;
    return false;
}

static void check_values(const char *row, const struct knob_row *knobs, const struct core_value *values, unsigned len)
{
    for (unsigned k = 0; k < len; k++) {
        cr_assert(valid(&knobs[k], values[k].value), "%s: %s = %u", row, knobs[k].name, values[k].value);
        cr_assert_not_null(values[k].source, "%s: %s has no source", row, knobs[k].name);
        cr_assert(names_its_origin(values[k].source), "%s: %s: %s", row, knobs[k].name, values[k].source);
    }
}

Test(policy, every_knob_has_a_valid_value_and_a_source)
{
    for (unsigned i = 0; i < core_rows_len; i++)
        check_values(core_rows[i].name, core_knobs, core_rows[i].values, CORE_KNOB_COUNT);
    for (unsigned i = 0; i < engine_rows_len; i++)
        check_values(engine_rows[i].name, engine_knobs, engine_rows[i].values, ENGINE_KNOB_COUNT);
}

Test(policy, the_rows_stand_in_the_order_of_the_design)
{
    static const char *const cores[] = {
        "no-notice",      "unpatched", "grace",   "deferred-35049",   "deferred-35360",
        "deferred-40645", "strict",    "recheck", "deferred-recheck", "fenced",
    };
    static const char *const engines[] = { "mooncake", "nixl" };

    cr_assert_eq(core_rows_len, sizeof cores / sizeof cores[0]);
    for (unsigned i = 0; i < core_rows_len; i++)
        cr_assert_str_eq(core_rows[i].name, cores[i]);
    cr_assert_eq(engine_rows_len, sizeof engines / sizeof engines[0]);
    for (unsigned i = 0; i < engine_rows_len; i++)
        cr_assert_str_eq(engine_rows[i].name, engines[i]);
}

/* A name finds its own row, so no two rows share one. 'explain' looks a name up among cores and engines alike. */
Test(policy, names_are_unique)
{
    for (unsigned i = 0; i < core_rows_len; i++) {
        cr_assert_eq(core_by_name(core_rows[i].name), (int)i);
        cr_assert_eq(engine_by_name(core_rows[i].name), -1);
    }
    for (unsigned i = 0; i < engine_rows_len; i++)
        cr_assert_eq(engine_by_name(engine_rows[i].name), (int)i);
    for (int k = 0; k < CORE_KNOB_COUNT; k++) {
        cr_assert_eq(core_knob_by_name(core_knobs[k].name), k);
        cr_assert_eq(engine_knob_by_name(core_knobs[k].name), -1);
    }
    for (int k = 0; k < ENGINE_KNOB_COUNT; k++)
        cr_assert_eq(engine_knob_by_name(engine_knobs[k].name), k);
    cr_assert_eq(core_by_name("nobody"), -1);
}

Test(policy, every_row_says_what_it_models_and_lets_through)
{
    for (unsigned i = 0; i < core_rows_len; i++)
        cr_assert(core_rows[i].models && *core_rows[i].models && core_rows[i].hole && *core_rows[i].hole, "%s",
                  core_rows[i].name);
    for (unsigned i = 0; i < engine_rows_len; i++)
        cr_assert(engine_rows[i].models && *engine_rows[i].models, "%s", engine_rows[i].name);
}

static const struct core_value *core(const char *name)
{
    int idx = core_by_name(name);

    cr_assert_geq(idx, 0, "no core '%s'", name);
    return core_rows[idx].values;
}

/* Exactly these knobs of the row differ from its base's, and have these values: "knob=value knob=value". */
static void differs(const char *name, const char *base, const char *by)
{
    char is[512] = "", value[32];
    size_t len = 0;

    for (unsigned k = 0; k < CORE_KNOB_COUNT; k++)
        if (core(name)[k].value != core(base)[k].value)
            len += (size_t)snprintf(is + len, sizeof is - len, "%s%s=%s", len ? " " : "", core_knobs[k].name,
                                    knob_value_text(&core_knobs[k], core(name)[k].value, value, sizeof value));
    cr_assert_str_eq(is, by, "%s differs from %s by: %s", name, base, is);
}

Test(policy, a_derived_row_differs_only_where_it_should)
{
    differs("no-notice", "unpatched", "abort_notice=false abort_ack=none");
    differs("grace", "unpatched", "free=hold hold_ends_by_timer=true hold_timeout=5s hold_failures=true");
    differs("recheck", "unpatched", "recheck_kv=true recheck_state=true recheck_aux=true recheck_status=true");
    differs("fenced", "unpatched", "free=fence");
    differs("deferred-35360", "deferred-35049", "count_at=dequeue ack_live_room=true ack_cleared_room=when_drained");
    differs("deferred-40645", "deferred-35360", "cleared_room_registers=true clear_keeps_target=while_outstanding");
    differs("strict", "deferred-40645", "clear_keeps_target=always arm=before_send hold_ends_by_timer=false");
    differs("deferred-recheck", "deferred-40645",
            "recheck_kv=true recheck_state=true recheck_aux=true recheck_status=true");
}

/* The two rows that the others start from, knob by knob. */
Test(policy, the_rows_that_others_start_from)
{
    static const uint32_t unpatched[CORE_KNOB_COUNT] = {
        [CORE_ABORT_NOTICE] = true,
        [CORE_ABORT_ACK] = ABORT_ACK_RECEIVED,
        [CORE_COUNT_AT] = COUNT_AT_AFTER_CHECK,
        [CORE_ACK_CLEARED_ROOM] = ACK_CLEARED_NEVER,
        [CORE_CLEAR_KEEPS_TARGET] = CLEAR_KEEPS_NEVER,
        [CORE_FREE] = FREE_AT_ABORT,
        [CORE_FENCE_SCOPE] = FENCE_ROOM,
        [CORE_ARM] = ARM_AFTER_SEND,
        [CORE_AUX_GUARD] = true,
        [CORE_AUX_CLEAR] = true,
    };
    static const uint32_t deferred[CORE_KNOB_COUNT] = {
        [CORE_ABORT_NOTICE] = true,
        [CORE_ABORT_ACK] = ABORT_ACK_DRAINED,
        [CORE_COUNT_AT] = COUNT_AT_DEQUEUE,
        [CORE_ACK_LIVE_ROOM] = true,
        [CORE_ACK_CLEARED_ROOM] = ACK_CLEARED_WHEN_DRAINED,
        [CORE_CLEAR_KEEPS_TARGET] = CLEAR_KEEPS_NEVER,
        [CORE_FREE] = FREE_HOLD,
        [CORE_FENCE_SCOPE] = FENCE_ROOM,
        [CORE_ARM] = ARM_AFTER_SEND,
        [CORE_HOLD_ENDS_BY_ACK] = true,
        [CORE_HOLD_ENDS_BY_TIMER] = true,
        [CORE_HOLD_TIMEOUT] = 30000000,
        [CORE_AUX_GUARD] = true,
        [CORE_AUX_CLEAR] = true,
    };

    for (unsigned k = 0; k < CORE_KNOB_COUNT; k++) {
        cr_assert_eq(core("unpatched")[k].value, unpatched[k], "unpatched: %s", core_knobs[k].name);
        cr_assert_eq(core("deferred-35360")[k].value, deferred[k], "deferred-35360: %s", core_knobs[k].name);
    }
}

Test(policy, the_engines_knob_by_knob)
{
    static const uint32_t rows[][ENGINE_KNOB_COUNT] = {
        {
            [ENGINE_POSTING] = POSTING_BLOCKING,
            [ENGINE_NOTICE] = NOTICE_STATUS,
            [ENGINE_COMPLETION] = COMPLETION_LANDED,
            [ENGINE_TIMEOUT] = 30000000,
            [ENGINE_UNKNOWN_ROOM] = UNKNOWN_ROOM_SKIP,
            [ENGINE_BLACKLIST] = true,
        },
        {
            [ENGINE_POSTING] = POSTING_ASYNC,
            [ENGINE_NOTICE] = NOTICE_NOTIFICATION,
            [ENGINE_COMPLETION] = COMPLETION_LANDED,
            [ENGINE_UNKNOWN_ROOM] = UNKNOWN_ROOM_FAIL,
            [ENGINE_ERROR_KEEPS_COUNT] = true,
            [ENGINE_FAILED_STICKY] = true,
        },
    };

    cr_assert_eq(engine_rows_len, sizeof rows / sizeof rows[0]);
    for (unsigned i = 0; i < engine_rows_len; i++)
        for (unsigned k = 0; k < ENGINE_KNOB_COUNT; k++)
            cr_assert_eq(engine_rows[i].values[k].value, rows[i][k], "%s: %s", engine_rows[i].name,
                         engine_knobs[k].name);
}

Test(policy, a_policy_is_a_row_of_each)
{
    struct policy p;

    memset(&p, 0xff, sizeof p);
    for (unsigned i = 0; i < core_rows_len; i++) {
        policy_set_core(&p, i);
        for (unsigned k = 0; k < CORE_KNOB_COUNT; k++)
            cr_assert_eq(p.core[k], core_rows[i].values[k].value, "%s: %s", core_rows[i].name, core_knobs[k].name);
    }
    for (unsigned i = 0; i < engine_rows_len; i++) {
        policy_set_engine(&p, i);
        for (unsigned k = 0; k < ENGINE_KNOB_COUNT; k++)
            cr_assert_eq(p.engine[k], engine_rows[i].values[k].value, "%s: %s", engine_rows[i].name,
                         engine_knobs[k].name);
    }
}

static void check_choices(const struct knob_row *knobs, unsigned len)
{
    char text[32];

    for (unsigned k = 0; k < len; k++) {
        if (knobs[k].kind != KNOB_CHOICE)
            continue;
        cr_assert_gt(choices_len(&knobs[k]), 1, "%s", knobs[k].name);
        for (uint32_t v = 0; v < choices_len(&knobs[k]); v++)
            cr_assert_eq(knob_choice_by_name(&knobs[k], knob_value_text(&knobs[k], v, text, sizeof text)), (int)v,
                         "%s: %s", knobs[k].name, text);
        cr_assert_eq(knob_choice_by_name(&knobs[k], ""), -1);
        cr_assert_eq(knob_choice_by_name(&knobs[k], knobs[k].values), -1, "%s", knobs[k].name);
        cr_assert_str_eq(knob_value_text(&knobs[k], choices_len(&knobs[k]), text, sizeof text), "?");
    }
}

Test(policy, a_choice_is_spelled_as_it_is_read)
{
    check_choices(core_knobs, CORE_KNOB_COUNT);
    check_choices(engine_knobs, ENGINE_KNOB_COUNT);
    cr_assert_eq(knob_choice_by_name(&core_knobs[CORE_FREE], "fence"), FREE_FENCE);
    cr_assert_eq(knob_choice_by_name(&core_knobs[CORE_FREE], "fenc"), -1);
    cr_assert_eq(knob_choice_by_name(&core_knobs[CORE_CLEAR_KEEPS_TARGET], "while_outstanding"),
                 CLEAR_KEEPS_WHILE_OUTSTANDING);
    cr_assert_eq(knob_choice_by_name(&engine_knobs[ENGINE_NOTICE], "notification"), NOTICE_NOTIFICATION);
}

Test(policy, the_other_kinds_are_spelled_as_a_scenario_would)
{
    static const struct {
        enum knob_kind kind;
        uint32_t value;
        const char *text;
    } cases[] = {
        { KNOB_BOOL, false, "false" },
        { KNOB_BOOL, true, "true" },
        { KNOB_NUMBER, 0, "0" },
        { KNOB_NUMBER, 3, "3" },
        { KNOB_NUMBER, UINT32_MAX, "4294967295" },
        { KNOB_DURATION, 0, "0s" },
        { KNOB_DURATION, 30000000, "30s" },
        { KNOB_DURATION, 1500000, "1500ms" },
        { KNOB_DURATION, 1, "1us" },
        { KNOB_DURATION, 1000001, "1000001us" },
    };
    char text[32];

    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct knob_row knob = { .name = "knob", .kind = cases[i].kind, .values = "" };
        cr_assert_str_eq(knob_value_text(&knob, cases[i].value, text, sizeof text), cases[i].text);
    }
}
