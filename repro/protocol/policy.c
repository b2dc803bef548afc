#include "policy.h"

#include <stdio.h>
#include <string.h>

const struct knob_row core_knobs[CORE_KNOB_COUNT] = {
#define X(id, name, kind, values, what) { name, KNOB_##kind, values, what },
    CORE_KNOB_TABLE(X)
#undef X
};

const struct knob_row engine_knobs[ENGINE_KNOB_COUNT] = {
#define X(id, name, kind, values, what) { name, KNOB_##kind, values, what },
    ENGINE_KNOB_TABLE(X)
#undef X
};

#define SECONDS(n) ((n)*1000000u)

/*
 * Where the values come from: repository, commit, file, lines, function. SGLang's paths are below python/sglang/srt/;
 * KastanDay/sglang is a fork of it. What is said of #40645 and #36610 stands in the text of these pull requests.
 * "Proposed here" has no code upstream.
 */
#define SGL_BEFORE "SGLang 86b9bf5812 (before #27372) "
#define SGL_27372  "SGLang 57909f731b (#27372) "
#define SGL_35049  "SGLang 97dedd1ce9 (#35049) "
#define SGL_35360  "SGLang adca19c497 (#35360) "
#define SGL_MAIN   "SGLang 90354326c7 "
#define FORK_GRACE "KastanDay/sglang 79b87f9f51 "
#define MOONCAKE   "Mooncake 3b5a594133 "
#define NIXL       "NIXL 8770b655a6 "

#define COMMON      "disaggregation/common/conn.py"
#define WORKER      "disaggregation/mooncake/conn.py"
#define NIXL_WORKER "disaggregation/nixl/conn.py"
#define DECODE      "disaggregation/decode.py"
#define SCHEDULER   "managers/scheduler.py"
#define BATCH       "mooncake-integration/transfer_engine/transfer_engine_py.cpp"
#define UCX         "src/plugins/ucx/ucx_backend.cpp"

/* What other rows start from. A row lists one of these and then only what it changes. */
#define AS_27372                                                                                                       \
    [CORE_ABORT_NOTICE] = { true, SGL_27372 COMMON ":1083-1111 CommonKVReceiver.abort: ABORT to every prefill rank" }, \
    [CORE_ABORT_ACK] = { ABORT_ACK_RECEIVED,                                                                           \
                         SGL_27372 WORKER ":1405-1441 bootstrap_thread: a two-frame ABORT_ACK on receipt" },           \
    [CORE_COUNT_AT] = { COUNT_AT_AFTER_CHECK,                                                                          \
                        SGL_27372 WORKER ":1163-1184 transfer_worker: nothing is counted for an ack" },                \
    [CORE_ACK_LIVE_ROOM] = { false, SGL_27372 WORKER ":1405-1441 bootstrap_thread: no drain ack exists" },             \
    [CORE_ACK_CLEARED_ROOM] = { ACK_CLEARED_NEVER,                                                                     \
                                SGL_27372 WORKER ":1405-1441 bootstrap_thread: no drain ack exists" },                 \
    [CORE_CLEARED_ROOM_REGISTERS] = { false, SGL_27372 WORKER ":1405-1441 bootstrap_thread: no ack target exists" },   \
    [CORE_CLEAR_KEEPS_TARGET] = { CLEAR_KEEPS_NEVER,                                                                   \
                                  SGL_27372 COMMON ":846-851 CommonKVSender.clear: no ack target exists" },            \
    [CORE_FREE] = { FREE_AT_ABORT, SGL_27372 DECODE ":1631-1632 pop_transferred: release_kv_cache at once" },          \
    [CORE_FENCE_SCOPE] = { FENCE_ROOM, "proposed here; upstream has no fence, and nothing reads this without one" },   \
    [CORE_ARM] = { ARM_AFTER_SEND, SGL_27372 SCHEDULER ":3646-3649 abort_request: sends, and has no tracker to arm" }, \
    [CORE_HOLD_ENDS_BY_ACK] = { false, SGL_27372 WORKER ":1513-1518 decode_thread: an ABORT_ACK is only logged" },     \
    [CORE_HOLD_ENDS_BY_TIMER] = { false, SGL_27372 DECODE ":1631-1632 pop_transferred: no hold exists" },              \
    [CORE_HOLD_TIMEOUT] = { SECONDS(0), SGL_27372 DECODE ":1631-1632 pop_transferred: no hold exists" },               \
    [CORE_HOLD_FAILURES] = { false, SGL_27372 DECODE ":1631-1632 pop_transferred: no hold exists" },                   \
    [CORE_RECHECK_KV] = { false, SGL_27372 WORKER ":1171-1184 transfer_worker: the only look at the room" },           \
    [CORE_RECHECK_STATE] = { false,                                                                                    \
                             SGL_27372 WORKER ":1312-1319 transfer_worker: maybe_send_extra follows unchecked" },      \
    [CORE_RECHECK_AUX] = { false, SGL_27372 WORKER ":1321-1326 transfer_worker: send_aux follows unchecked" },         \
    [CORE_RECHECK_STATUS] = { false, SGL_27372 WORKER ":1332-1343 transfer_worker: the status follows unchecked" },    \
    [CORE_AUX_GUARD] = { true, SGL_27372 DECODE ":1483-1500 _commit_transfer_to_req: bootstrap_room compared" },       \
    [CORE_AUX_CLEAR] = { true, SGL_27372 DECODE                                                                        \
                         ":1679-1682 pop_transferred: bootstrap_room set to 0 before the slot is freed" }

#define AS_35360                                                                                                       \
    [CORE_ABORT_NOTICE] = { true, SGL_35360 COMMON ":1573-1601 CommonKVReceiver.abort: ABORT to every prefill rank" }, \
    [CORE_ABORT_ACK] = { ABORT_ACK_DRAINED,                                                                            \
                         SGL_35360 COMMON ":378-401 _maybe_ack_drained_abort: a three-frame ABORT_ACK" },              \
    [CORE_COUNT_AT] = { COUNT_AT_DEQUEUE,                                                                              \
                        SGL_35360 WORKER ":1640-1646 transfer_worker: counted before the look at the room" },          \
    [CORE_ACK_LIVE_ROOM] = { true,                                                                                     \
                             SGL_35360 WORKER ":2009-2016 bootstrap_thread: registers the target, then tries once" },  \
    [CORE_ACK_CLEARED_ROOM] = { ACK_CLEARED_WHEN_DRAINED,                                                              \
                                SGL_35360 WORKER ":2021-2027 bootstrap_thread: acked only with nothing outstanding" }, \
    [CORE_CLEARED_ROOM_REGISTERS] = { false,                                                                           \
                                      SGL_35360 WORKER ":2021-2028 bootstrap_thread: else nothing is registered" },    \
    [CORE_CLEAR_KEEPS_TARGET] = { CLEAR_KEEPS_NEVER,                                                                   \
                                  SGL_35360 COMMON ":1313-1316 CommonKVSender.clear: drops the target" },              \
    [CORE_FREE] = { FREE_HOLD, SGL_35360 DECODE ":2156-2166 pop_transferred: _defer_release" },                        \
    [CORE_FENCE_SCOPE] = { FENCE_ROOM, "proposed here; upstream has no fence, and nothing reads this without one" },   \
    [CORE_ARM] = { ARM_AFTER_SEND,                                                                                     \
                   SGL_35360 SCHEDULER ":4600-4613 abort_request: the tracker is made once the ABORT is sent" },       \
    [CORE_HOLD_ENDS_BY_ACK] = { true, SGL_35360 DECODE                                                                 \
                                ":2267-2271 resolve_deferred_releases: as many distinct ranks as were told" },         \
    [CORE_HOLD_ENDS_BY_TIMER] = { true, SGL_35360 DECODE                                                               \
                                  ":2268-2281 resolve_deferred_releases: releasing anyway past the deadline" },        \
    [CORE_HOLD_TIMEOUT] = { SECONDS(30),                                                                               \
                            SGL_35360 "environ.py:629 SGLANG_DISAGGREGATION_DEFERRED_DECODE_KV_RELEASE_TIMEOUT" },     \
    [CORE_HOLD_FAILURES] = { false,                                                                                    \
                             SGL_35360 DECODE ":2156-2170 pop_transferred: held only if this decode sent an ABORT" },  \
    [CORE_RECHECK_KV] = { false, SGL_35360 WORKER ":1648-1665 transfer_worker: the only look at the room" },           \
    [CORE_RECHECK_STATE] = { false,                                                                                    \
                             SGL_35360 WORKER ":1856-1863 transfer_worker: maybe_send_extra follows unchecked" },      \
    [CORE_RECHECK_AUX] = { false, SGL_35360 WORKER ":1887-1892 transfer_worker: send_aux follows unchecked" },         \
    [CORE_RECHECK_STATUS] = { false, SGL_35360 WORKER ":1898-1909 transfer_worker: the status follows unchecked" },    \
    [CORE_AUX_GUARD] = { true, SGL_35360 DECODE ":1955-1970 _commit_transfer_to_req: bootstrap_room compared" },       \
    [CORE_AUX_CLEAR] = { true,                                                                                         \
                         SGL_35360 DECODE ":2221-2224, 2247 pop_transferred, _do_release: bootstrap_room set to 0" }

#define AS_40645                                                                                                  \
    AS_35360,                                                                                                     \
        [CORE_CLEARED_ROOM_REGISTERS] = { true,                                                                   \
                                          "SGLang #40645: a late abort registers while writes are outstanding" }, \
        [CORE_CLEAR_KEEPS_TARGET] = { CLEAR_KEEPS_WHILE_OUTSTANDING,                                              \
                                      "SGLang #40645: the ack's destination is kept until outstanding writes drain" }

#define RECHECK_ALL                                                                                       \
    [CORE_RECHECK_KV] = { true, "proposed with SGLang #36610: drop the write at the point of send" },     \
    [CORE_RECHECK_STATE] = { true, "proposed here: #36610's look, again before the state slot's write" }, \
    [CORE_RECHECK_AUX] = { true, "proposed here: #36610's look, again before the aux slot's write" },     \
    [CORE_RECHECK_STATUS] = { true, "proposed here: #36610's look, again before the status" }

/* Of two initializers the later one counts: that is how a row changes what it starts from. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init"
const struct core_row core_rows[] = {
    {
        .name = "no-notice",
        .models = "before #27372: decode frees an aborted request's memory and tells no prefill",
        .hole = "queued and posted chunks alike still land, after decode has freed the pages",
        .values =
            {
                AS_27372,
                [CORE_ABORT_NOTICE] = {false, SGL_BEFORE COMMON ":1075-1081 CommonKVReceiver.abort: sends nothing"},
                [CORE_ABORT_ACK] = {ABORT_ACK_NONE, SGL_BEFORE WORKER ":1367-1390 bootstrap_thread: knows no ABORT"},
            },
    },
    {
        .name = "unpatched",
        .models = "#27372, the published control build: decode tells the prefill of the abort and is acked on receipt",
        .hole = "a chunk that its worker has already taken still lands, after decode has freed the pages",
        .values =
            {
                AS_27372,
            },
    },
    {
        .name = "grace",
        .models = "a fork's delay: as #27372, but decode frees an aborted request's memory 5 s later",
        .hole = "a write that outlives the delay lands in the new owner's memory",
        .values =
            {
                AS_27372,
                [CORE_FREE] = {FREE_HOLD, FORK_GRACE DECODE ":1996-1998 pop_transferred: _deferred_kv_releases"},
                [CORE_HOLD_ENDS_BY_TIMER] = {true,
                    FORK_GRACE DECODE ":2061-2078 _process_deferred_kv_releases: the only way out"},
                [CORE_HOLD_TIMEOUT] = {SECONDS(5), FORK_GRACE DECODE ":111 KV_RELEASE_GRACE_PERIOD_S"},
                [CORE_HOLD_FAILURES] = {true, FORK_GRACE DECODE ":1985-1999 pop_transferred: every failed transfer"},
            },
    },
    {
        .name = "deferred-35049",
        .models = "#35049, the first drain ack, Mooncake only: decode holds the memory until all drain acks, or 30 s",
        .hole = "clearing the room drops the ack's target, so the timer decides; an abort for a cleared room is "
                "acked while its write still runs",
        .values =
            {
                [CORE_ABORT_NOTICE] = {true,
                    SGL_35049 COMMON ":1529-1557 CommonKVReceiver.abort: ABORT to every prefill rank"},
                [CORE_ABORT_ACK] = {ABORT_ACK_DRAINED,
                                    SGL_35049 WORKER ":1627-1650 _maybe_ack_drained_abort: a three-frame ABORT_ACK"},
                [CORE_COUNT_AT] = {COUNT_AT_AFTER_CHECK,
                                   SGL_35049 WORKER ":1677-1699 transfer_worker: counted after the look at the room"},
                [CORE_ACK_LIVE_ROOM] = {false,
                    SGL_35049 WORKER ":2036-2048 bootstrap_thread: registers the target, the worker acks"},
                [CORE_ACK_CLEARED_ROOM] = {ACK_CLEARED_ALWAYS,
                                           SGL_35049 WORKER ":2053-2057 bootstrap_thread: acked at once"},
                [CORE_CLEARED_ROOM_REGISTERS] = {false, SGL_35049 WORKER ":2053-2057 bootstrap_thread: acked instead"},
                [CORE_CLEAR_KEEPS_TARGET] = {CLEAR_KEEPS_NEVER,
                                             SGL_35049 COMMON ":1269-1272 CommonKVSender.clear: drops the target"},
                [CORE_FREE] = {FREE_HOLD, SGL_35049 DECODE ":2079-2089 pop_transferred: _defer_release"},
                [CORE_FENCE_SCOPE] = {FENCE_ROOM,
                                      "proposed here; upstream has no fence, and nothing reads this without one"},
                [CORE_ARM] = {ARM_AFTER_SEND,
                    SGL_35049 SCHEDULER ":4553-4566 abort_request: the tracker is made once the ABORT is sent"},
                [CORE_HOLD_ENDS_BY_ACK] = {true,
                    SGL_35049 DECODE ":2190-2194 resolve_deferred_releases: as many distinct ranks as were told"},
                [CORE_HOLD_ENDS_BY_TIMER] = {true,
                    SGL_35049 DECODE ":2191-2204 resolve_deferred_releases: releasing anyway past the deadline"},
                [CORE_HOLD_TIMEOUT] = {SECONDS(30),
                    SGL_35049 "environ.py:626 SGLANG_DISAGGREGATION_DEFERRED_DECODE_KV_RELEASE_TIMEOUT"},
                [CORE_HOLD_FAILURES] = {false,
                    SGL_35049 DECODE ":2079-2095 pop_transferred: held only if this decode sent an ABORT"},
                [CORE_RECHECK_KV] = {false, SGL_35049 WORKER ":1677-1694 transfer_worker: the only look at the room"},
                [CORE_RECHECK_STATE] = {false,
                                        SGL_35049 WORKER ":1892 transfer_worker: maybe_send_extra follows unchecked"},
                [CORE_RECHECK_AUX] = {false, SGL_35049 WORKER ":1922 transfer_worker: send_aux follows unchecked"},
                [CORE_RECHECK_STATUS] = {false, SGL_35049 WORKER ":1933 transfer_worker: the status follows unchecked"},
                [CORE_AUX_GUARD] = {true, SGL_35049 DECODE ":1878 _commit_transfer_to_req: bootstrap_room compared"},
                [CORE_AUX_CLEAR] = {true,
                    SGL_35049 DECODE ":2144-2147, 2170 pop_transferred, _do_release: bootstrap_room set to 0"},
            },
    },
    {
        .name = "deferred-35360",
        .models = "#35360, the published patched build: decode holds the memory until all drain acks, or 30 s",
        .hole = "the ack's target is dropped when the prefill clears the room, so the timer decides; a write that "
                "outlives the timer lands in the new owner's memory",
        .values =
            {
                AS_35360,
            },
    },
    {
        .name = "deferred-40645",
        .models = "#40645, the later fix: as #35360, but a cleared room keeps the ack's target until its writes drain",
        .hole = "a write that outlives the timer lands in the new owner's memory; an ack after an engine's error "
                "comes while the bytes may still move",
        .values =
            {
                AS_40645,
            },
    },
    {
        .name = "strict",
        .models = "proposed with #36610: decode frees only after all drain acks, however long they take",
        .hole = "memory stays pinned if a writer never ends; an ack after an engine's error comes while the bytes "
                "may still move; a failure that the prefill reports frees at once",
        .values =
            {
                AS_40645,
                [CORE_CLEAR_KEEPS_TARGET] = {CLEAR_KEEPS_ALWAYS,
                                             "proposed here: only the ack itself takes the target away"},
                [CORE_ARM] = {ARM_BEFORE_SEND,
                              "proposed here: an ack that finds no tracker is dropped, SGLang adca19c497 (#35360) "
                              COMMON ":353-358 note_abort_ack"},
                [CORE_HOLD_ENDS_BY_TIMER] = {false,
                    "proposed with SGLang #36610: block until the ack; as KastanDay/sglang cd19021795 "
                    WORKER ":787-828 release_without_proof at level STRICT"},
            },
    },
    {
        .name = "recheck",
        .models = "proposed with #36610: as #27372, but the worker looks at the room again just before each write",
        .hole = "a write that is already posted still lands, after decode has freed the pages",
        .values =
            {
                AS_27372, RECHECK_ALL,
            },
    },
    {
        .name = "deferred-recheck",
        .models = "both: as #40645, and the worker looks at the room again just before each write",
        .hole = "a posted write lands in the new owner's memory if it outlives the timer, or if an ack follows the engine's error; a "
                "failure that the prefill reports frees at once",
        .values =
            {
                AS_40645, RECHECK_ALL,
            },
    },
    {
        .name = "fenced",
        .models = "proposed here: decode revokes the destination's keys before it frees the memory",
        .hole = "whatever else the revoked keys cover fails too, and the writer's error blacklists the session; a failure that the "
                "prefill reports frees at once, without a fence",
        .values =
            {
                AS_27372,
                [CORE_FREE] = {FREE_FENCE, "proposed here; no upstream code"},
                [CORE_FENCE_SCOPE] = {FENCE_ROOM, "proposed here: the narrowest"},
            },
    },
};
#pragma GCC diagnostic pop
const unsigned core_rows_len = sizeof core_rows / sizeof core_rows[0];

const struct engine_row engine_rows[] = {
    {
        .name = "mooncake",
        .models = "one blocking batch_transfer_sync_write a chunk, in a worker; decode learns by a status message",
        .values =
            {
                [ENGINE_POSTING] = {POSTING_BLOCKING,
                                    MOONCAKE BATCH ":590-645 batchTransferSync: submits, then polls until it is over"},
                [ENGINE_NOTICE] = {NOTICE_STATUS,
                                   SGL_MAIN WORKER ":1900-1911 transfer_worker: sync_status_to_decode_endpoint"},
                [ENGINE_COMPLETION] = {COMPLETION_LANDED,
                                       MOONCAKE BATCH ":619-621 batchTransferSync: returns 0 on COMPLETED only"},
                [ENGINE_TIMEOUT] = {SECONDS(30),
                    MOONCAKE BATCH ":126-130, 631-643 MC_TRANSFER_TIMEOUT: returns -1 with the work still posted"},
                [ENGINE_RETRIES] = {0,
                    MOONCAKE BATCH ":569, 590-645 batchTransferSync: up to numContexts() more submits a call, on "
                    "FAILED or TIMEOUT, never past its own deadline"},
                [ENGINE_UNKNOWN_ROOM] = {UNKNOWN_ROOM_SKIP,
                                         SGL_MAIN WORKER ":1650-1667 transfer_worker: skipped like a failed room"},
                [ENGINE_ERROR_KEEPS_COUNT] = {false,
                    SGL_MAIN WORKER ":1834-1856, 1935-1939 transfer_worker: counts down after an error too"},
                [ENGINE_FAILED_STICKY] = {false,
                                          SGL_MAIN COMMON ":327-342 update_status: max(old, new) with Failed = 0"},
                [ENGINE_BLACKLIST] = {true,
                    SGL_MAIN WORKER ":1834-1842 transfer_worker: failed_sessions after the first failure"},
            },
    },
    {
        .name = "nixl",
        .models = "all writes of a chunk posted, then polled; decode learns by notifications that follow the data",
        .values =
            {
                [ENGINE_POSTING] = {POSTING_ASYNC,
                    SGL_MAIN NIXL_WORKER ":1168-1360 transfer_worker: KV, state and aux posted, then all polled"},
                [ENGINE_NOTICE] = {NOTICE_NOTIFICATION,
                                   NIXL UCX ":1312-1335 checkXfer: the notification is sent once the data is through"},
                [ENGINE_COMPLETION] = {COMPLETION_LANDED,
                                       NIXL UCX ":1254-1262 sendXferRange: not done before the endpoint's flush is"},
                [ENGINE_TIMEOUT] = {SECONDS(0),
                                    SGL_MAIN NIXL_WORKER ":1348-1360 transfer_worker: polls without a deadline"},
                [ENGINE_RETRIES] = {0, SGL_MAIN NIXL_WORKER ":1352-1355 transfer_worker: raises on the first ERR"},
                [ENGINE_UNKNOWN_ROOM] = {UNKNOWN_ROOM_FAIL,
                    SGL_MAIN NIXL_WORKER ":695-696, 1140-1147 transfer_worker: an unknown room fails its assert"},
                [ENGINE_ERROR_KEEPS_COUNT] = {true,
                    SGL_MAIN NIXL_WORKER ":1394-1407 transfer_worker: an error counts nothing down, no ack"},
                [ENGINE_FAILED_STICKY] = {true,
                    SGL_MAIN NIXL_WORKER ":698-702 update_status: Failed stays until the room is cleared"},
                [ENGINE_BLACKLIST] = {false,
                                      SGL_MAIN NIXL_WORKER ":1394-1407 transfer_worker: an error is the room's alone"},
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

int core_knob_by_name(const char *name)
{
    return knob_by_name(core_knobs, CORE_KNOB_COUNT, name);
}

int engine_knob_by_name(const char *name)
{
    return knob_by_name(engine_knobs, ENGINE_KNOB_COUNT, name);
}

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
    case KNOB_NUMBER:
        snprintf(buf, buf_max, "%u", value);
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
