/*
 * Inside of the scenario reader: what its parts share. Everything is allocated from the YAML document's arena, which the scenario
 * takes over at the end. A part that finds an error has reported it and goes on, so that one run shows many.
 */
#ifndef KVREPRO_SCENARIO_READ_H
#define KVREPRO_SCENARIO_READ_H

#include "scenario.h"
#include "yaml_fields.h"

struct reader {
    struct yaml *y;
    struct scenario *s;
    struct choices requests;    /* the names read so far */
    bool topology_ok;           /* else nothing is said about what fits into it */
    const struct fault *faults; /* of the scenario: every arm begins with them */
    uint32_t faults_len;
    int core_override; /* row of `--core`, or -1 */
};

struct park_state {
    struct park_spec spec;
    const struct point_match *match; /* NULL: it could not be read */
    bool released;
};

/* The steps of an arm while they are read: the common ones, then its own. */
struct sequence {
    struct step *steps;
    uint32_t steps_len;
    struct park_state *parks;
    uint32_t parks_len;
    bool submitted[SCENARIO_REQUESTS_MAX];
    bool stopped[SIDE_COUNT * SCENARIO_RANKS_MAX]; /* by machine */
    const struct step *phased;
    uint32_t phases;
    bool park_lost; /* a park whose name could not be read: say nothing about unknown ones */
    bool unsure;    /* a step could not be read: say nothing about what is missing before the later ones */
};

extern const struct choices point_choices, status_choices, side_choices, allocator_choices, output_choices,
    finish_choices, hold_end_choices;
struct choices core_choices(void);
struct choices engine_choices(void);

/* `base` may be NULL. Continues after base's steps with those of `list` (which may be NULL). */
void read_steps(struct reader *r, const struct sequence *base, const struct ynode *list, struct sequence *out);
/* A match without `as` or `within`. */
bool read_match(struct reader *r, const struct ynode *n, struct point_match *out);
/* Index of the request that n names. */
bool read_request_name(struct reader *r, const struct ynode *n, int *out);
/* Index of the park that n names, or -1 after a message. */
int read_park_name(struct reader *r, const struct ynode *n, const struct sequence *seq);
/* The faults of `list` (which may be NULL) after those of the scenario; returns how many.
 * `seq` is the arm's, NULL for the scenario's own. */
uint32_t read_faults(struct reader *r, const struct ynode *list, const struct sequence *seq, struct fault **out);
void read_arms(struct reader *r, const struct ynode *list, const struct sequence *common);
void read_explore(struct reader *r, const struct ynode *n);

void check_topology(struct reader *r, const struct ynode *prefill, const struct ynode *decode);
void check_request(struct reader *r, const struct request_spec *q, const struct ynode *n);
/* Reports a match that no transfer of this scenario can ever satisfy. `n` is its mapping. */
bool check_match(struct reader *r, const struct ynode *n, const struct point_match *m);
/* Whether a passing by this request could satisfy it. */
bool match_allows(const struct scenario *s, const struct point_match *m, uint32_t request);
uint32_t request_chunks(const struct scenario *s, const struct request_spec *q);

#endif
