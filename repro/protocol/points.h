/*
 * Points: the named instants of a transfer at which an actor (or, on the wire, one transfer) can be held.
 *
 * A point names what has just been done; to stop before X, park at its predecessor. One row per point: who passes it
 * and in one sentence what has just happened. The machines use only the enumerators; the table of names is in points.c,
 * outside the machines, because its pointers would be relocated data.
 */
#ifndef KVREPRO_POINTS_H
#define KVREPRO_POINTS_H

/* X(enumerator, name, side, actor, what has just been done); order: the life of a transfer. */
#define POINT_TABLE(X)                                                                                                 \
    X(CHUNK_ENQUEUE, "chunk.enqueue", PREFILL, SCHEDULER, "a computed chunk was put into its transfer queue")          \
    X(FAILURE_SEE, "failure.see", PREFILL, SCHEDULER, "the scheduler saw that the room has failed")                    \
    X(ROOM_CLEAR, "room.clear", PREFILL, SCHEDULER, "the room's status and destinations were dropped")                 \
    X(SOURCE_RELEASE, "source.release", PREFILL, SCHEDULER, "the source pages and state slot were freed")              \
    X(CHUNK_DEQUEUE, "chunk.dequeue", PREFILL, WORKER, "a transfer worker took a chunk from its queue")                \
    X(CHUNK_COUNT, "chunk.count", PREFILL, WORKER, "the room's count of outstanding chunks went up")                   \
    X(CHUNK_CHECK, "chunk.check", PREFILL, WORKER, "the worker looked at the room, for the only time")                 \
    X(SEND_BEGIN, "send.begin", PREFILL, WORKER, "the send was entered, nothing is posted yet")                        \
    X(KV_RECHECK, "kv.recheck", PREFILL, WORKER, "the worker looked at the room once more (cores that do)")            \
    X(KV_POST, "kv.post", PREFILL, WORKER, "the KV write was posted")                                                  \
    X(KV_COMPLETE, "kv.complete", PREFILL, WORKER, "the engine reported the KV write's end")                           \
    X(STATE_POST, "state.post", PREFILL, WORKER, "the state slot's write was posted")                                  \
    X(AUX_POST, "aux.post", PREFILL, WORKER, "the aux slot's write was posted")                                        \
    X(STATUS_SEND, "status.send", PREFILL, WORKER, "the transfer's status was sent to decode")                         \
    X(CHUNK_DONE, "chunk.done", PREFILL, WORKER, "the count of outstanding chunks went down, ack not yet tried")       \
    X(ABORT_RECEIVE, "abort.receive", PREFILL, RECEIVER, "the room was marked failed, ack target not yet registered")  \
    X(ACK_SEND, "ack.send", PREFILL, RECEIVER_OR_WORKER, "an ack for an abort was sent to decode")                     \
    X(KV_FRAGMENT, "kv.fragment", WIRE, TRANSFER, "one fragment of a KV write has landed, the next has not left")      \
    X(KV_LANDED, "kv.landed", WIRE, TRANSFER, "the last byte of a KV write has landed, completion not yet visible")    \
    X(STATE_LANDED, "state.landed", WIRE, TRANSFER, "a state slot's write has landed, completion not yet visible")     \
    X(AUX_LANDED, "aux.landed", WIRE, TRANSFER, "an aux slot's write has landed, completion not yet visible")          \
    X(PAGES_ALLOC, "pages.alloc", DECODE, SCHEDULER, "a request was given pages, a state slot and an aux slot")        \
    X(METADATA_SEND, "metadata.send", DECODE, SCHEDULER, "the destination was published to the prefill")               \
    X(ABORT_ACCEPT, "abort.accept", DECODE, SCHEDULER, "an abort was accepted, the prefill not yet told")              \
    X(ABORT_SEND, "abort.send", DECODE, SCHEDULER, "the prefill was told of an abort")                                 \
    X(HOLD_ARM, "hold.arm", DECODE, SCHEDULER, "the ack tracker is ready to count")                                    \
    X(HOLD_BEGIN, "hold.begin", DECODE, SCHEDULER, "an aborted request's memory is held instead of freed")             \
    X(ACK_RECEIVE, "ack.receive", DECODE, RECEIVER, "an ack has arrived (status: counted, dropped)")                   \
    X(HOLD_EXPIRE, "hold.expire", DECODE, SCHEDULER, "the scheduler saw that a hold's timer has run out")              \
    X(FENCE, "fence", DECODE, SCHEDULER, "the keys of the destination are revoked: no write that has them can land")   \
    X(PAGES_FREE, "pages.free", DECODE, SCHEDULER, "a request's pages and slots were freed")                           \
    X(STATUS_RECEIVE, "status.receive", DECODE, RECEIVER, "a transfer's status has arrived (status: success, failed)") \
    X(AUX_CONSUME, "aux.consume", DECODE, SCHEDULER, "the aux record was compared (status: own, foreign)")             \
    X(TRANSFER_COMMIT, "transfer.commit", DECODE, SCHEDULER, "decode accepted the transfer and will decode from it")   \
    X(TOKEN, "token", DECODE, SCHEDULER, "token n (0-based) was chosen")                                               \
    X(REQUEST_FINISH, "request.finish", DECODE, SCHEDULER, "the last token was chosen, memory not yet freed")          \
    X(CLIENT_ANSWER, "client.answer", EITHER, SCHEDULER,                                                               \
      "the client of this side was answered (status: ok, abort, error)")

enum point {
#define X(id, name, side, actor, what) POINT_##id,
    POINT_TABLE(X)
#undef X
        POINT_COUNT
};

/* Details that some points carry; the word after the point in a trace, and the key `status` of a match. */
#define POINT_STATUS_TABLE(X) \
    X(NONE, "none")           \
    X(OK, "ok")               \
    X(SKIP, "skip")           \
    X(ERROR, "error")         \
    X(REFUSED, "refused")     \
    X(ABORT, "abort")         \
    X(SUCCESS, "success")     \
    X(FAILED, "failed")       \
    X(RECEIVED, "received")   \
    X(DRAINED, "drained")     \
    X(COUNTED, "counted")     \
    X(DROPPED, "dropped")     \
    X(OWN, "own")             \
    X(FOREIGN, "foreign")

enum point_status {
#define X(id, name) POINT_STATUS_##id,
    POINT_STATUS_TABLE(X)
#undef X
        POINT_STATUS_COUNT
};

enum side { SIDE_PREFILL, SIDE_DECODE, SIDE_COUNT };

/* Actors of a machine. Transfer worker k is ACTOR_WORKER + k; a wire point's actor is the transfer itself. */
enum actor { ACTOR_SCHEDULER, ACTOR_RECEIVER, ACTOR_WORKER };

#endif
