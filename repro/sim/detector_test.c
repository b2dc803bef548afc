#include "detector.h"

#include <criterion/criterion.h>

/* The same a thousand times longer: make soak. */
Test(detector, sees_every_changed_bit_as_its_row_and_nothing_else, .timeout = 60)
{
    const struct detector_input in = { .row_checks = 1000000, .plants = 10000, .seed = 20240607 };
    struct detector_result r;

    cr_assert_eq(detector_run(&in, &r), 0);
    cr_assert_geq(r.row_checks, in.row_checks);
    cr_assert_eq(r.plants, in.plants);
    cr_assert_geq(r.plays, 2);
    cr_assert_eq(r.false_alarms, 0, "%llu rows told that nobody touched", (unsigned long long)r.false_alarms);
    cr_assert_eq(r.missed, 0, "%llu changes not seen at the next look; seed 20240607", (unsigned long long)r.missed);
    cr_assert_eq(r.misplaced, 0, "%llu told as another row or time; seed 20240607", (unsigned long long)r.misplaced);
    cr_assert_eq(r.rows, 128);
    cr_assert_eq(r.rows_hit, r.rows, "%u of %u rows were changed", r.rows_hit, r.rows);
    cr_assert_eq(r.bits_hit, r.bits, "%u of %u places in a row were changed", r.bits_hit, r.bits);
    cr_assert(detector_ok(&r));
}

/* What it must not say when it is not so; that the run itself finds such things is tried with planted faults. */
Test(detector, is_not_ok_with_one_miss_or_one_false_alarm_or_nothing_done)
{
    const struct detector_result good = { .row_checks = 1, .plants = 1 };
    struct detector_result r;

    cr_assert(detector_ok(&good));
    r = good, r.missed = 1;
    cr_assert_not(detector_ok(&r));
    r = good, r.misplaced = 1;
    cr_assert_not(detector_ok(&r));
    r = good, r.false_alarms = 1;
    cr_assert_not(detector_ok(&r));
    r = good, r.plants = 0;
    cr_assert_not(detector_ok(&r));
    r = good, r.row_checks = 0;
    cr_assert_not(detector_ok(&r));
}
