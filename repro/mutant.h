/*
 * Planted faults, for tests of the tests: MUTANT(n) is 0 in every ordinary build. repro/mutants_test.sh compiles one file
 * at a time with -DKVREPRO_MUTANT=n, and the test that repro/mutants.txt names for n has to fail then. A fault is a slip
 * that a maintainer could really make. To add one: plant MUTANT(n) where it goes wrong, and give it a line in the list.
 *
 * checksum/ and barrier/ include nothing of repro/: what they plant is defined there as 0, and by this file when the suite
 * includes it in front of them.
 */
#ifndef KVREPRO_MUTANT_H
#define KVREPRO_MUTANT_H

#ifdef KVREPRO_MUTANT
#define MUTANT(n) (KVREPRO_MUTANT == (n))
#else
#define MUTANT(n) 0
#endif

#endif
