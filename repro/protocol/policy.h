/*
 * The policy table: a transfer core is a row of knobs, and so is an engine. The machines read knobs and nothing else: no
 * code branches on a core's name. Adding a core is adding a row in policy.c; a scenario may start from a row and
 * override knobs.
 *
 * Every knob is one uint32_t: a bool, one of its named values, or a duration in microseconds.
 */
#ifndef KVREPRO_POLICY_H
#define KVREPRO_POLICY_H

#include <stdbool.h>
#include <stdint.h>

/* X(enumerator, name, kind, values, what it decides) */
#define CORE_KNOB_TABLE(X)                                                                                         \
    X(ABORT_NOTICE, "abort_notice", BOOL, "", "decode tells the prefill of an abort")                              \
    X(ABORT_ACK, "abort_ack", CHOICE, "none received drained",                                                     \
      "what the prefill acknowledges: nothing, the notice's receipt, or that no write of the room is outstanding") \
    X(COUNT_AT, "count_at", CHOICE, "dequeue after_check", "when a chunk starts to count as outstanding")          \
    X(ACK_LIVE_ROOM, "ack_live_room", BOOL, "", "an abort for a known room tries the ack at once")                 \
    X(ACK_CLEARED_ROOM, "ack_cleared_room", CHOICE, "never always when_drained",                                   \
      "whether an abort for a cleared room is acked at once")                                                      \
    X(CLEARED_ROOM_REGISTERS, "cleared_room_registers", BOOL, "",                                                  \
      "an abort for a cleared room with outstanding chunks registers the ack's target")                            \
    X(CLEAR_KEEPS_TARGET, "clear_keeps_target", CHOICE, "never while_outstanding always",                          \
      "whether clearing a room keeps the ack's target")                                                            \
    X(FREE, "free", CHOICE, "at_abort hold fence", "when decode frees an aborted request's memory")                \
    X(FENCE_SCOPE, "fence_scope", CHOICE, "room session pool",                                                     \
      "whose destination keys a fence revokes: the room's, its prefill rank's, or all of this decode rank")        \
    X(ARM, "arm", CHOICE, "before_send after_send", "whether the ack tracker is ready before the abort is sent")   \
    X(HOLD_ENDS_BY_ACK, "hold_ends_by_ack", BOOL, "", "drain acks of all prefill ranks end a hold")                \
    X(HOLD_ENDS_BY_TIMER, "hold_ends_by_timer", BOOL, "", "a timer ends a hold")                                   \
    X(HOLD_TIMEOUT, "hold_timeout", DURATION, "", "that timer, from the hold's begin")                             \
    X(HOLD_FAILURES, "hold_failures", BOOL, "", "a failure that the prefill reports is held like an abort")        \
    X(RECHECK_KV, "recheck_kv", BOOL, "", "the worker looks at the room again just before the KV write")           \
    X(RECHECK_STATE, "recheck_state", BOOL, "", "the same before the state slot's write")                          \
    X(RECHECK_AUX, "recheck_aux", BOOL, "", "the same before the aux slot's write")                                \
    X(RECHECK_STATUS, "recheck_status", BOOL, "", "the same before the success status")                            \
    X(AUX_GUARD, "aux_guard", BOOL, "", "decode compares the aux record's room id before it commits")              \
    X(AUX_CLEAR, "aux_clear", BOOL, "", "a freed aux slot's room id is set to 0, which means not yet written")

enum core_knob {
#define X(id, name, kind, values, what) CORE_##id,
    CORE_KNOB_TABLE(X)
#undef X
        CORE_KNOB_COUNT
};

/* X(enumerator, name, kind, values, what it decides): what an engine means by its words. */
#define ENGINE_KNOB_TABLE(X)                                                                                         \
    X(POSTING, "posting", CHOICE, "blocking async",                                                                  \
      "one blocking call for a chunk's KV, then state, then aux; or all posted at once and then polled")             \
    X(NOTICE, "notice", CHOICE, "status notification",                                                               \
      "decode learns of a transfer's end by a message of the worker, or by notifications that follow the data")      \
    X(COMPLETION, "completion", CHOICE, "landed posted",                                                             \
      "what a completion means: the bytes are there, or only that they were handed over")                            \
    X(TIMEOUT, "timeout", DURATION, "",                                                                              \
      "the engine gives up a write this long after its post, without stopping the bytes; 0: never")                  \
    X(RETRIES, "retries", NUMBER, "",                                                                                \
      "how often the engine sends a failed write again, each try with its own time-out")                             \
    X(UNKNOWN_ROOM, "unknown_room", CHOICE, "skip fail", "what a worker does with a chunk whose room is not known")  \
    X(ERROR_KEEPS_COUNT, "error_keeps_count", BOOL, "", "after an error the chunk stays counted, so no ack follows") \
    X(FAILED_STICKY, "failed_sticky", BOOL, "", "a room that has failed stays failed when a success follows")        \
    X(BLACKLIST, "blacklist", BOOL, "", "a session's first failed write makes the worker skip it from then on")

enum engine_knob {
#define X(id, name, kind, values, what) ENGINE_##id,
    ENGINE_KNOB_TABLE(X)
#undef X
        ENGINE_KNOB_COUNT
};

/* Values of the knobs of kind CHOICE, in the order of their names above. */
enum { ABORT_ACK_NONE, ABORT_ACK_RECEIVED, ABORT_ACK_DRAINED };
enum { COUNT_AT_DEQUEUE, COUNT_AT_AFTER_CHECK };
enum { ACK_CLEARED_NEVER, ACK_CLEARED_ALWAYS, ACK_CLEARED_WHEN_DRAINED };
enum { CLEAR_KEEPS_NEVER, CLEAR_KEEPS_WHILE_OUTSTANDING, CLEAR_KEEPS_ALWAYS };
enum { FREE_AT_ABORT, FREE_HOLD, FREE_FENCE };
enum { FENCE_ROOM, FENCE_SESSION, FENCE_POOL };
enum { ARM_BEFORE_SEND, ARM_AFTER_SEND };
enum { POSTING_BLOCKING, POSTING_ASYNC };
enum { NOTICE_STATUS, NOTICE_NOTIFICATION };
enum { COMPLETION_LANDED, COMPLETION_POSTED };
enum { UNKNOWN_ROOM_SKIP, UNKNOWN_ROOM_FAIL };
/* At most this many retries: each is a wire entry of its own. */
enum { RETRIES_MAX = 3 };

struct policy {
    uint32_t core[CORE_KNOB_COUNT];
    uint32_t engine[ENGINE_KNOB_COUNT];
};

enum knob_kind { KNOB_BOOL, KNOB_CHOICE, KNOB_DURATION, KNOB_NUMBER };

struct knob_row {
    const char *name;
    enum knob_kind kind;
    const char *values; /* KNOB_CHOICE: the names, separated by one space */
    const char *what;
};

extern const struct knob_row core_knobs[CORE_KNOB_COUNT];
extern const struct knob_row engine_knobs[ENGINE_KNOB_COUNT];

/* One knob of one core, with the place upstream that the value is taken from. */
struct core_value {
    uint32_t value;
    const char *source;
};

struct core_row {
    const char *name;
    const char *models; /* what it stands for, one clause */
    const char *hole;   /* what is known to get through */
    struct core_value values[CORE_KNOB_COUNT];
};

struct engine_row {
    const char *name;
    const char *models;
    struct core_value values[ENGINE_KNOB_COUNT];
};

extern const struct core_row core_rows[];
extern const unsigned core_rows_len;
extern const struct engine_row engine_rows[];
extern const unsigned engine_rows_len;

/* Index of the row, or -1. */
int core_by_name(const char *name);
int engine_by_name(const char *name);
int core_knob_by_name(const char *name);
int engine_knob_by_name(const char *name);

void policy_set_core(struct policy *p, unsigned core_idx);
void policy_set_engine(struct policy *p, unsigned engine_idx);

/* The value's index in a CHOICE knob's names, or -1. */
int knob_choice_by_name(const struct knob_row *knob, const char *name);
/* Writes a value as a scenario would spell it ("yes", "after_send", "30s"); buf of 32 bytes is enough. Returns buf. */
const char *knob_value_text(const struct knob_row *knob, uint32_t value, char *buf, unsigned buf_max);

#endif
