/*
 * What playing costs beside the model: wall time of a scenario with pre-flight, baselines and all arms, over the time of
 * the model tokens that it computes, in the same run. Medians of several plays.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "runner.h"

enum { PLAYS = 15 };

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    double wall_ms[PLAYS], model_ms[PLAYS], ratio[PLAYS];
    struct runner_options o = { .repeat = 1 };
    struct scenario *s;

    if (argc != 2) {
        fprintf(stderr, "usage: runner-bench SCENARIO.yaml\n");
        return 2;
    }
    if (scenario_load(argv[1], NULL, &s, stderr))
        return 2;
    for (int i = 0; i < PLAYS; i++) {
        struct run_result *r;

        if (runner_run(s, &o, &r, stderr)) {
            scenario_free(s);
            return 1;
        }
        wall_ms[i] = (double)r->wall_us / 1e3;
        model_ms[i] = (double)r->model_us / 1e3;
        ratio[i] = wall_ms[i] / model_ms[i];
        run_result_free(r);
    }
    qsort(wall_ms, PLAYS, sizeof *wall_ms, by_value);
    qsort(model_ms, PLAYS, sizeof *model_ms, by_value);
    qsort(ratio, PLAYS, sizeof *ratio, by_value);
    printf("play %s: wall %.1f ms, its model tokens alone %.1f ms, ratio %.3f (least %.3f, most %.3f; medians of %d)\n",
           argv[1], wall_ms[PLAYS / 2], model_ms[PLAYS / 2], ratio[PLAYS / 2], ratio[0], ratio[PLAYS - 1], PLAYS);
    scenario_free(s);
    return 0;
}
