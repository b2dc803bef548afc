#include "policy.h"

#include <stdio.h>
#include <string.h>

const struct knob_row core_knobs[CORE_KNOB_COUNT] = {
#define X(id, name, kind, values, what) {name, KNOB_##kind, values, what},
    CORE_KNOB_TABLE(X)
#undef X
};

const struct knob_row engine_knobs[ENGINE_KNOB_COUNT] = {
#define X(id, name, kind, values, what) {name, KNOB_##kind, values, what},
    ENGINE_KNOB_TABLE(X)
#undef X
};

#define SECONDS(n) ((n) * 1000000u)

/*
 * Upstream is SGLang, paths below python/sglang/srt/: #27372 is commit 57909f731b, #35360 is adca19c497 (read in main at
 * 90354326c7); Mooncake is 3b5a594133.
 */
#define SGL_27372 "SGLang 57909f731b (#27372) disaggregation/mooncake/conn.py"
#define SGL_35360 "SGLang adca19c497 (#35360) disaggregation/common/conn.py"

const struct core_row core_rows[] = {
    {
        .name = "unpatched",
        .models = "#27372, the published control build: decode tells the prefill of the abort and is acked on receipt",
        .hole = "a chunk that its worker has already taken still lands, after decode has freed the pages",
        .values =
            {
                [CORE_ABORT_NOTICE] = {true, SGL_27372 " MooncakeKVReceiver.abort: ABORT to every bootstrap_info"},
                [CORE_ABORT_ACK] = {ABORT_ACK_RECEIVED, SGL_27372 " bootstrap_thread: two-frame ABORT_ACK on receipt"},
                [CORE_COUNT_AT] = {COUNT_AT_AFTER_CHECK, SGL_27372 " transfer_worker: nothing is counted for acks"},
                [CORE_ACK_LIVE_ROOM] = {false, SGL_27372 " bootstrap_thread: no drain ack exists"},
                [CORE_ACK_CLEARED_ROOM] = {ACK_CLEARED_NEVER, SGL_27372 " bootstrap_thread: no drain ack exists"},
                [CORE_CLEARED_ROOM_REGISTERS] = {false, SGL_27372 " bootstrap_thread: no ack target exists"},
                [CORE_CLEAR_KEEPS_TARGET] = {CLEAR_KEEPS_NEVER, SGL_27372 " clear: no ack target exists"},
                [CORE_FREE] = {FREE_AT_ABORT,
                               "SGLang 57909f731b disaggregation/decode.py pop_transferred: release_kv_cache at once"},
                [CORE_ARM] = {ARM_AFTER_SEND, SGL_27372 " MooncakeKVReceiver.abort: no tracker exists"},
                [CORE_HOLD_ENDS_BY_ACK] = {false, SGL_27372 " no hold exists"},
                [CORE_HOLD_ENDS_BY_TIMER] = {false, SGL_27372 " no hold exists"},
                [CORE_HOLD_TIMEOUT] = {SECONDS(0), SGL_27372 " no hold exists"},
                [CORE_HOLD_FAILURES] = {false, SGL_27372 " no hold exists"},
                [CORE_RECHECK_KV] = {false, SGL_27372 " transfer_worker: one check, before the send"},
                [CORE_RECHECK_STATE] = {false, SGL_27372 " transfer_worker: maybe_send_extra follows unchecked"},
                [CORE_RECHECK_AUX] = {false, SGL_27372 " transfer_worker: send_aux follows unchecked"},
                [CORE_RECHECK_STATUS] = {false, SGL_27372 " transfer_worker: status follows unchecked"},
                [CORE_AUX_GUARD] = {true, "SGLang 90354326c7 disaggregation/decode.py _commit_transfer_to_req: "
                                          "bootstrap_room compared"},
            },
    },
    {
        .name = "deferred-35360",
        .models = "#35360, the published patched build: decode holds the memory until all drain acks, or 30 s",
        .hole = "the ack's target is dropped when the prefill clears the room, so the timer decides; a write that "
                "outlives the timer lands in the new owner's memory",
        .values =
            {
                [CORE_ABORT_NOTICE] = {true, SGL_35360 " CommonKVReceiver.abort: ABORT to every bootstrap_info"},
                [CORE_ABORT_ACK] = {ABORT_ACK_DRAINED, SGL_35360 " _maybe_ack_drained_abort: three-frame ABORT_ACK"},
                [CORE_COUNT_AT] = {COUNT_AT_DEQUEUE,
                                   "SGLang adca19c497 disaggregation/mooncake/conn.py transfer_worker: "
                                   "_staging_outstanding goes up before the status check"},
                [CORE_ACK_LIVE_ROOM] = {true, SGL_35360 " ABORT handler: one _maybe_ack_drained_abort for a live room"},
                [CORE_ACK_CLEARED_ROOM] = {ACK_CLEARED_WHEN_DRAINED,
                                           SGL_35360 " ABORT handler: unknown room acked only with outstanding == 0"},
                [CORE_CLEARED_ROOM_REGISTERS] = {false, SGL_35360 " ABORT handler: no target for an unknown room"},
                [CORE_CLEAR_KEEPS_TARGET] = {CLEAR_KEEPS_NEVER, SGL_35360 " clear: pops _deferred_ack_targets"},
                [CORE_FREE] = {FREE_HOLD, "SGLang adca19c497 disaggregation/decode.py _defer_release"},
                [CORE_ARM] = {ARM_AFTER_SEND, SGL_35360 " register_deferred_abort_room follows the ABORT"},
                [CORE_HOLD_ENDS_BY_ACK] = {true, "SGLang adca19c497 disaggregation/decode.py "
                                                 "resolve_deferred_releases: distinct ranks == required_acks"},
                [CORE_HOLD_ENDS_BY_TIMER] = {true, "SGLang adca19c497 disaggregation/decode.py "
                                                   "resolve_deferred_releases: deadline passed, releasing anyway"},
                [CORE_HOLD_TIMEOUT] = {SECONDS(30), "SGLang adca19c497 environ.py "
                                                    "SGLANG_DISAGGREGATION_DEFERRED_DECODE_KV_RELEASE_TIMEOUT"},
                [CORE_HOLD_FAILURES] = {false, "SGLang adca19c497 disaggregation/decode.py pop_transferred: deferred "
                                               "only if this decode sent an ABORT"},
                [CORE_RECHECK_KV] = {false, "SGLang adca19c497 disaggregation/mooncake/conn.py transfer_worker: one check"},
                [CORE_RECHECK_STATE] = {false, "SGLang adca19c497 disaggregation/mooncake/conn.py transfer_worker"},
                [CORE_RECHECK_AUX] = {false, "SGLang adca19c497 disaggregation/mooncake/conn.py transfer_worker"},
                [CORE_RECHECK_STATUS] = {false, "SGLang adca19c497 disaggregation/mooncake/conn.py transfer_worker"},
                [CORE_AUX_GUARD] = {true, "SGLang 90354326c7 disaggregation/decode.py _commit_transfer_to_req: "
                                          "bootstrap_room compared"},
            },
    },
};
const unsigned core_rows_len = sizeof core_rows / sizeof core_rows[0];

const struct engine_row engine_rows[] = {
    {
        .name = "mooncake",
        .models = "one blocking batch_transfer_sync_write a chunk, in a worker; decode learns by a status message",
        .values =
            {
                [ENGINE_POSTING] = {POSTING_BLOCKING,
                                    "Mooncake 3b5a594133 mooncake-integration/transfer_engine/transfer_engine_py.cpp "
                                    "batchTransferSync"},
                [ENGINE_TIMEOUT] = {SECONDS(30), "Mooncake 3b5a594133 transfer_engine_py.cpp:631-643: "
                                                 "MC_TRANSFER_TIMEOUT, returns -1 with the work still posted"},
                [ENGINE_FAILED_STICKY] = {false, "SGLang 90354326c7 disaggregation/common/conn.py update_status: "
                                                 "max(old, new) with Failed = 0"},
                [ENGINE_BLACKLIST] = {true, "SGLang 90354326c7 disaggregation/mooncake/conn.py transfer_worker: "
                                            "failed_sessions after the first failure"},
            },
    },
};
const unsigned engine_rows_len = sizeof engine_rows / sizeof engine_rows[0];

int core_by_name(const char *name)
{
    for (unsigned i = 0; i < core_rows_len; i++)
        if (strcmp(core_rows[i].name, name) == 0)
            return (int)i;
    return -1;
}

int engine_by_name(const char *name)
{
    for (unsigned i = 0; i < engine_rows_len; i++)
        if (strcmp(engine_rows[i].name, name) == 0)
            return (int)i;
    return -1;
}

static int knob_by_name(const struct knob_row *knobs, int knobs_len, const char *name)
{
    for (int i = 0; i < knobs_len; i++)
        if (strcmp(knobs[i].name, name) == 0)
            return i;
    return -1;
}

int core_knob_by_name(const char *name) { return knob_by_name(core_knobs, CORE_KNOB_COUNT, name); }

int engine_knob_by_name(const char *name) { return knob_by_name(engine_knobs, ENGINE_KNOB_COUNT, name); }

void policy_set_core(struct policy *p, unsigned core_idx)
{
    for (int k = 0; k < CORE_KNOB_COUNT; k++)
        p->core[k] = core_rows[core_idx].values[k].value;
}

void policy_set_engine(struct policy *p, unsigned engine_idx)
{
    for (int k = 0; k < ENGINE_KNOB_COUNT; k++)
        p->engine[k] = engine_rows[engine_idx].values[k].value;
}

/* The idx-th of names separated by one space, as a length and a start; NULL past the end. */
static const char *choice_at(const char *names, unsigned idx, size_t *len)
{
    while (idx-- > 0) {
        names = strchr(names, ' ');
        if (names == NULL)
            return NULL;
        names++;
    }
    *len = strcspn(names, " ");
    return names;
}

int knob_choice_by_name(const struct knob_row *knob, const char *name)
{
    size_t len = 0;

    for (unsigned i = 0;; i++) {
        const char *at = choice_at(knob->values, i, &len);
        if (at == NULL)
            return -1;
        if (strlen(name) == len && memcmp(at, name, len) == 0)
            return (int)i;
    }
}

const char *knob_value_text(const struct knob_row *knob, uint32_t value, char *buf, unsigned buf_max)
{
    size_t len = 0;
    const char *choice;

    switch (knob->kind) {
    case KNOB_BOOL:
        snprintf(buf, buf_max, "%s", value ? "true" : "false");
        break;
    case KNOB_CHOICE:
        choice = choice_at(knob->values, value, &len);
        snprintf(buf, buf_max, "%.*s", choice ? (int)len : 1, choice ? choice : "?");
        break;
    case KNOB_DURATION:
        if (value % 1000000u == 0)
            snprintf(buf, buf_max, "%us", value / 1000000u);
        else if (value % 1000u == 0)
            snprintf(buf, buf_max, "%ums", value / 1000u);
        else
            snprintf(buf, buf_max, "%uus", value);
        break;
    }
    return buf;
}
