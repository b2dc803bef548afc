/*
 * The oracle of one play: looks on beside the pools and never feeds the machines. It knows who owned each page and slot
 * when bytes landed there, what the row digests of the watched request said and when, how holds ended, and what each
 * client was answered. Memory belongs to the oracle.
 */
#ifndef KVREPRO_ORACLE_H
#define KVREPRO_ORACLE_H

#include "../../checksum/rows.h"
#include "result.h"
#include "sim.h"

struct oracle {
    const struct config *c;
    const struct watch_spec *watch;
    struct request_result *requests; /* [requests] filled as things happen */
    uint64_t numbers[EXPECT_NUMBER_COUNT];
    uint64_t write_end_us, first_change_us, first_stale_us; /* UINT64_MAX: none */
    uint32_t first_stale_token; /* tokens that the watched request had when the first stale byte landed */
    struct hold_result *holds;  /* [holds_len], at most one a request */
    uint32_t holds_len;
    uint64_t *hold_begin_us; /* [requests] UINT64_MAX: not held */
    uint8_t *hold_ends_by;   /* [requests] enum hold_end, by what has been seen so far */
    uint8_t *wire_stale;     /* [wire entries]: some of its bytes landed in somebody else's memory */
    uint8_t **stale_page, **stale_slot, **stale_aux; /* [machines][page]: already counted */
    uint32_t **last_page_owner, **last_slot_owner;   /* [machines][page]: request + 1 */
    uint32_t *noted_pages;                           /* [requests] how many pages of its table have been looked at */
    uint32_t *shared; /* [requests x requests] pages of the second that the first was given later */
    struct foreign_rows *foreign, *foreign_now; /* [requests x requests], [requests]: scratch */
    struct rows rows;
    uint32_t rows_per_token;
    bool watching;
    uint64_t trace; /* running digest of all points passed */
    bool failed;    /* out of memory */
};

int oracle_init(struct oracle *o, const struct config *c, const struct watch_spec *watch);
void oracle_fini(struct oracle *o);
/* The hooks of struct sim_watcher. */
void oracle_landing(struct oracle *o, struct sim *s, uint32_t wire, uint32_t fragment);
void oracle_landed(struct oracle *o, struct sim *s, uint32_t wire);
void oracle_passed(struct oracle *o, struct sim *s, const struct pass *p);
void oracle_forward(struct oracle *o, struct sim *s, uint32_t machine);
void oracle_answered(struct oracle *o, struct sim *s, uint32_t request, enum side side, enum point_status status);
/* At the end of the play: holds that never ended, pinned pages, watched tokens. */
void oracle_close(struct oracle *o, struct sim *s);

#endif
