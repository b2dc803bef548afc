# kvrepro: one Makefile, no recursion. Each variant builds in a directory of its own under build/; programs are in build/bin/.
#
#   make            the programs (release variant)
#   make run        plays the published experiment
#   make test       every test that needs no special hardware; last line: N passed, N failed, N skipped
#   make bench      speeds and ratios
#   make soak       the detector of changed rows, for long
#   make bless      rewrites the recorded results under results/ and shows what changed
#   make fuzz       libFuzzer on the scenario reader (FUZZ_RUNS inputs)
#   make test-aarch64   the model's bits on AArch64, under qemu-user
#   make help       this list
#
# Nothing here installs anything: sh scripts/setup.sh does.

.SUFFIXES:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

ifeq ($(origin CC),default)
CC := gcc
endif
CLANG ?= clang
AARCH64_CC ?= aarch64-linux-gnu-gcc
WERROR ?=
FUZZ_RUNS ?= 1000000
TEST_FUZZ_RUNS ?= 30000

# --- what it stands on -------------------------------------------------------------------------------------------------

no_tools_goals := clean help
ifneq ($(filter-out $(no_tools_goals),$(or $(MAKECMDGOALS),all)),)
PKGS := libfyaml jansson libxxhash
missing := $(shell command -v pkg-config >/dev/null || echo pkg-config) \
	$(foreach p,$(PKGS),$(shell pkg-config --exists $(p) 2>/dev/null || echo $(p)))
ifneq ($(strip $(missing)),)
$(error missing: $(strip $(missing)); install what the build needs with: sh scripts/setup.sh build)
endif
PKG_CFLAGS := $(shell pkg-config --cflags $(PKGS))
PKG_LIBS := $(shell pkg-config --libs $(PKGS))
endif
ifneq ($(filter test build-tests,$(MAKECMDGOALS)),)
ifneq ($(shell pkg-config --exists criterion 2>/dev/null || echo no),)
$(error missing: criterion; install what the tests need with: sh scripts/setup.sh test)
endif
endif
HAVE_CLANG := $(shell command -v $(CLANG) 2>/dev/null)

# --- sources -------------------------------------------------------------------------------------------------------------

# The machines: pure. The test run checks their object files.
PURE_SRC := repro/protocol/allocator.c repro/protocol/prefill.c repro/protocol/prefill_room.c \
	repro/protocol/transfer_worker.c repro/protocol/decode.c repro/protocol/machine.c \
	repro/protocol/world.c
LIB_SRC := $(PURE_SRC) repro/protocol/config.c repro/protocol/names.c repro/protocol/policy.c repro/explore/search.c \
	repro/explore/explore.c repro/scenario/scenario_config.c \
	repro/model/model.c \
	repro/scenario/arena.c repro/scenario/scenario.c repro/scenario/scenario_arms.c repro/scenario/scenario_check.c \
	repro/scenario/scenario_explore.c \
	repro/scenario/scenario_steps.c repro/scenario/yaml_fields.c repro/scenario/yaml_report.c repro/scenario/yaml_tree.c \
	repro/sim/memory.c repro/sim/sim.c repro/sim/oracle.c repro/sim/play.c repro/sim/expect.c repro/sim/runner.c \
	repro/report/text.c repro/report/shown.c repro/report/table.c repro/report/json.c repro/report/provenance.c \
	repro/report/recorded.c repro/report/compare_json.c repro/report/gate.c repro/report/matrix.c repro/report/explored.c \
	checksum/rows.c barrier/park.c
CLI_SRC := repro/cli/main.c repro/cli/cli.c repro/cli/outfile.c repro/cli/jobs.c repro/cli/progress.c \
	repro/cli/cmd_gate.c repro/cli/cmd_verify.c repro/cli/cmd_compare.c repro/cli/cmd_diff.c repro/cli/cmd_explore.c \
	 repro/cli/cmd_run.c repro/cli/cmd_check.c repro/cli/cmd_list.c repro/cli/cmd_explain.c
REPRO_TEST_SRC := repro/model/model_test.c repro/protocol/allocator_test.c repro/protocol/policy_test.c repro/explore/search_test.c \
	repro/scenario/scenario_test.c repro/sim/sim_test.c repro/sim/mutant_test.c repro/sim/detector.c \
	repro/sim/detector_test.c repro/report/report_test.c
CHECKSUM_TEST_SRC := checksum/rows_test.c
BARRIER_TEST_SRC := barrier/park_test.c

# --- variants ------------------------------------------------------------------------------------------------------------

WARNINGS := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla $(WERROR)
# No FMA contraction: the model's bits must not depend on the target (repro/model/model.h).
BASE := -std=gnu11 -D_GNU_SOURCE -ffp-contract=off -pthread

CC_release := $(CC)
CFLAGS_release := -O2 -g
CC_debug := $(CC)
CFLAGS_debug := -O0 -g3
CC_san := $(CC)
CFLAGS_san := -O2 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
CC_clang := $(CLANG)
CFLAGS_clang := -O2 -g
CC_native := $(CC)
CFLAGS_native := -O3 -march=native -g
CC_clangnative := $(CLANG)
CFLAGS_clangnative := -O3 -march=native -g
CC_fuzz := $(CLANG)
CFLAGS_fuzz := -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined
GCC_VARIANTS := release debug san native
CLANG_VARIANTS := clang clangnative fuzz
VARIANTS := $(GCC_VARIANTS) $(CLANG_VARIANTS)

objects = $(patsubst %.c,build/$(1)/%.o,$(2))

# $(call variant,NAME): rules of one variant. The flags file changes when compiler or flags do, and only then.
define variant
build/$(1)/flags: FORCE
	@mkdir -p $$(@D)
	@{ $$(CC_$(1)) --version | sed -n 1p; echo '$$(BASE) $$(CFLAGS_$(1)) $$(WARNINGS)'; } > $$@.new
	@cmp -s $$@.new $$@ && rm $$@.new || mv $$@.new $$@

build/$(1)/provenance_build.h: FORCE
	@mkdir -p $$(@D)
	@sh scripts/provenance '$$(CC_$(1))' '$$(BASE) $$(CFLAGS_$(1))' > $$@.new
	@cmp -s $$@.new $$@ && rm $$@.new || mv $$@.new $$@

build/$(1)/repro/report/provenance.o: build/$(1)/provenance_build.h

build/$(1)/%_test.o: %_test.c build/$(1)/flags Makefile
	@mkdir -p $$(@D)
	$$(CC_$(1)) $$(BASE) $$(CFLAGS_$(1)) $$(WARNINGS) $$(PKG_CFLAGS) -Ibuild/$(1) -MMD -MP -c -o $$@ $$<

build/$(1)/%.o: %.c build/$(1)/flags Makefile
	@mkdir -p $$(@D)
	$$(CC_$(1)) $$(BASE) $$(CFLAGS_$(1)) $$(WARNINGS) -Wconversion $$(PKG_CFLAGS) -Ibuild/$(1) -MMD -MP -c -o $$@ $$<

build/$(1)/kvrepro: $$(call objects,$(1),$$(LIB_SRC) $$(CLI_SRC))
	$$(CC_$(1)) $$(CFLAGS_$(1)) -pthread -o $$@ $$^ $$(PKG_LIBS) -lm

build/$(1)/model-digest: $$(call objects,$(1),repro/model/model.c repro/model/model_digest_main.c)
	$$(CC_$(1)) $$(CFLAGS_$(1)) -o $$@ $$^ -lxxhash -lm

build/$(1)/repro_test: $$(call objects,$(1),$$(LIB_SRC) $$(REPRO_TEST_SRC))
	$$(CC_$(1)) $$(CFLAGS_$(1)) -pthread -o $$@ $$^ $$(PKG_LIBS) -lcriterion -lm
	@echo '$$^ $$(PKG_LIBS) -lcriterion -lm' > $$@.link

build/$(1)/checksum_test: $$(call objects,$(1),checksum/rows.c $$(CHECKSUM_TEST_SRC))
	$$(CC_$(1)) $$(CFLAGS_$(1)) -o $$@ $$^ -lxxhash -lcriterion
	@echo '$$^ -lxxhash -lcriterion' > $$@.link

build/$(1)/barrier_test: $$(call objects,$(1),barrier/park.c $$(BARRIER_TEST_SRC))
	$$(CC_$(1)) $$(CFLAGS_$(1)) -o $$@ $$^ -lcriterion
	@echo '$$^ -lcriterion' > $$@.link
endef
$(foreach v,$(VARIANTS),$(eval $(call variant,$(v))))

-include $(wildcard build/*/*/*.d build/*/*/*/*.d)

# --- programs ------------------------------------------------------------------------------------------------------------

.PHONY: all run test build-tests bench soak bless fuzz test-aarch64 clean help FORCE
FORCE:

all: build/bin/kvrepro

build/bin/%: build/release/%
	@mkdir -p $(@D)
	cp -f $< $@

run: all
	@build/bin/kvrepro run scenarios/seed.yaml

help:
	@sed -n '2,/^$$/s/^# \{0,1\}//p' Makefile

clean:
	rm -rf build

# --- tests -----------------------------------------------------------------------------------------------------------------

BUILD_TESTS := $(foreach v,release san,build/$(v)/repro_test build/$(v)/checksum_test build/$(v)/barrier_test) \
	$(foreach v,$(GCC_VARIANTS),build/$(v)/model-digest) build/debug/kvrepro build/san/kvrepro \
	build/release/knob-walk \
	$(if $(HAVE_CLANG),build/clang/kvrepro build/clang/model-digest build/clangnative/model-digest build/fuzz/scenario_fuzz)
build-tests: all $(BUILD_TESTS)

SAN_DIR := $(CURDIR)/build/test/san
SAN_ENV := ASAN_OPTIONS=log_path=$(SAN_DIR)/asan:detect_leaks=1 \
	UBSAN_OPTIONS=log_path=$(SAN_DIR)/ubsan:print_stacktrace=1
# $(call suite,NAME,COMMAND): what the command prints becomes build/test/NAME.log.
suite = @$(2) > build/test/$(1).log 2>&1 || echo "exit status $$?" >> build/test/$(1).log

test: build-tests
	@rm -rf build/test && mkdir -p $(SAN_DIR)
	$(call suite,repro,build/release/repro_test --verbose)
	$(call suite,checksum,build/release/checksum_test --verbose)
	$(call suite,barrier,build/release/barrier_test --verbose)
	$(call suite,repro-san,$(SAN_ENV) build/san/repro_test --verbose)
	$(call suite,checksum-san,$(SAN_ENV) build/san/checksum_test --verbose)
	$(call suite,barrier-san,$(SAN_ENV) build/san/barrier_test --verbose)
	$(call suite,scenario-bad,sh repro/scenario/bad_test.sh build/bin/kvrepro)
	$(call suite,scenario-bad-san,$(SAN_ENV) sh repro/scenario/bad_test.sh build/san/kvrepro)
	$(call suite,cli,sh repro/cli/cli_test.sh build/bin/kvrepro)
	$(call suite,explore,sh repro/cli/explore_test.sh build/bin/kvrepro)
	$(call suite,purity,sh repro/protocol/purity_test.sh build/release $(PURE_SRC))
	$(call suite,determinism,$(SAN_ENV) sh repro/sim/determinism_test.sh build)
	$(call suite,results,sh repro/sim/results_test.sh build/bin/kvrepro)
	$(call suite,fuzz,$(SAN_ENV) sh repro/scenario/fuzz_test.sh build/fuzz/scenario_fuzz $(TEST_FUZZ_RUNS))
	$(call suite,mutants,CC='$(CC)' sh repro/mutants_test.sh build)
	$(call suite,knobs,build/release/knob-walk scenarios/*.yaml)
	$(call suite,summary,sh scripts/summary_test)
	$(call suite,setup,sh scripts/setup_test)
	@sh scripts/summary --san $(SAN_DIR) build/test/*.log

# --- benchmarks, recorded results, fuzzing, AArch64 ----------------------------------------------------------------------

build/release/model-bench: $(call objects,release,repro/model/model.c repro/model/model_bench.c)
	$(CC) $(CFLAGS_release) -o $@ $^ -lxxhash -lm

build/release/runner-bench: $(call objects,release,$(LIB_SRC) repro/sim/runner_bench.c)
	$(CC) $(CFLAGS_release) -o $@ $^ $(PKG_LIBS) -lm

bench: build/release/model-bench build/release/runner-bench
	@build/release/model-bench
	@build/release/runner-bench scenarios/seed.yaml

build/release/knob-walk: $(call objects,release,$(LIB_SRC) repro/sim/knob_walk.c)
	$(CC) $(CFLAGS_release) -pthread -o $@ $^ $(PKG_LIBS) -lm

build/release/detector-soak: $(call objects,release,$(LIB_SRC) repro/sim/detector.c repro/sim/detector_soak.c)
	$(CC) $(CFLAGS_release) -pthread -o $@ $^ $(PKG_LIBS) -lm

soak: build/release/detector-soak
	@build/release/detector-soak

bless: all
	@sh scripts/bless build/bin/kvrepro

build/fuzz/scenario_fuzz: $(call objects,fuzz,$(LIB_SRC) repro/scenario/scenario_fuzz.c)
	$(CLANG) $(CFLAGS_fuzz) -fsanitize=fuzzer -o $@ $^ $(PKG_LIBS) -lm

fuzz: build/fuzz/scenario_fuzz
	@sh repro/scenario/fuzz_test.sh build/fuzz/scenario_fuzz $(FUZZ_RUNS) verbose

build/aarch64/model-digest: repro/model/model.c repro/model/model_digest_main.c repro/model/model.h repro/model/fmath.h Makefile
	@command -v $(AARCH64_CC) >/dev/null && command -v qemu-aarch64 >/dev/null || \
		{ echo 'missing: $(AARCH64_CC) or qemu-aarch64; install them with: sh scripts/setup.sh aarch64' >&2; exit 2; }
	@mkdir -p $(@D)
	$(AARCH64_CC) $(BASE) -O2 -static -idirafter /usr/include -o $@ $(filter %.c,$^) -lm

test-aarch64: build/aarch64/model-digest build/release/model-digest
	@a=$$(qemu-aarch64 build/aarch64/model-digest); b=$$(build/release/model-digest); \
	echo "model digest: aarch64 $$a, here $$b"; \
	if [ "$$a" = "$$b" ]; then echo '1 passed, 0 failed, 0 skipped'; else echo '0 passed, 1 failed, 0 skipped'; exit 1; fi
