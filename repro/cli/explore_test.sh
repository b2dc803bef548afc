#!/bin/sh
# kvrepro explore as its users meet it, on worlds that take a second. Run at the root of the tree.
set -u

if [ $# -ne 1 ] || [ "$1" = --help ] || [ "$1" = -h ]; then
    printf 'usage: sh repro/cli/explore_test.sh KVREPRO\n\nPrints a line "ok NAME" or "not ok NAME" a test.\n\n'
    printf 'example:\n  sh repro/cli/explore_test.sh build/bin/kvrepro\n'
    [ $# -eq 1 ] && exit 0
    exit 2
fi

bin=$1
shipped=scenarios/explore.yaml
dir=$(mktemp -d) || exit 2
trap 'rm -rf "$dir"' EXIT
trap 'exit 2' HUP INT TERM
out=$dir/out err=$dir/err
failed=0
escape=$(printf '\033')

report() { # NAME STATUS
    if [ "$2" -eq 0 ]; then
        printf 'ok %s\n' "$1"
    else
        printf 'not ok %s\n' "$1"
        sed 's/^/# /' "$out" "$err" | head -n 30
        failed=1
    fi
}

# check NAME STATUS PATTERN ARGUMENT...: this exit status, and a line on stderr (or, for status 0, stdout) with PATTERN.
check() {
    name=$1 status=$2 pattern=$3
    shift 3
    "$bin" "$@" >"$out" 2>"$err"
    got=$?
    if [ "$status" -eq 0 ]; then said=$out; else said=$err; fi
    [ "$got" -eq "$status" ] && grep -q -- "$pattern" "$said"
    report "$name" $?
}

# As the shipped one, but of one chunk each.
cat >"$dir/small.yaml" <<'END'
scenario: small
topology:
  prefill: {instances: 2, pages: 1, page_tokens: 1, chunk_tokens: 1, workers: 1, state_slots: 1, allocator: lowest, slots: lowest}
  decode: {instances: 1, pages: 2, page_tokens: 1, allocator: lowest, slots: lowest, state_slots: 1}
requests:
  A: {prompt: {seed: 1, tokens: 1}, max_tokens: 1, prefill: 0}
  B: {prompt: {seed: 2, tokens: 1}, max_tokens: 2, prefill: 1}
explore:
  events: [{submit: A}, {abort: {request: A, at: decode}}, {submit: B}]
  faults: {stall: A}
  cores: [unpatched, deferred-35360, strict, fenced]
END
small=$dir/small.yaml
sed 's/^  cores: .*/  engines: [mooncake]/; /^  A: /s/max_tokens: 1/max_tokens: 1, room: A/' "$small" >"$dir/bad.yaml"

check help 0 '^examples:' explore --help
check check_says_what_it_is_for 0 "^$shipped: ok, to explore\$" check "$shipped"
check it_cannot_be_played 2 "^$shipped: nothing to play: it is for '.*kvrepro explore'" run "$shipped"
check it_is_left_out_among_others 0 '^lifo: ' run "$shipped" scenarios/lifo.yaml
grep -q "^$shipped: left out: it is for '.*kvrepro explore'" "$err"
report leaving_it_out_is_told $?
check arms_cannot_be_explored 2 "nothing to explore: it is for '.*kvrepro run'" explore scenarios/seed.yaml
check no_file 2 'no scenario file' explore
check two_files 2 'one scenario at a time' explore "$small" "$small"
check missing_file 2 'No such file' explore "$dir/none.yaml"
check bad_file 2 'bad.yaml:[0-9]*:[0-9]*: error' explore "$dir/bad.yaml"
check misspelt_core 2 "did you mean 'unpatched'" explore --core unpached "$small"
check misspelt_engine 2 "did you mean 'nixl'" explore --engine nixel "$small"
check core_not_in_the_file 2 "does not explore the core 'grace'" explore --core grace "$small"
check misspelt_option 2 "did you mean '--story'" explore --stroy "$small"
check states_limit_is_a_number 2 'whole number' explore --states-limit 1M "$small"
check memory_limit_is_a_size 2 'needs a size' explore --memory-limit 8X "$small"
check memory_limit_of_nothing 2 'one state alone takes' explore --memory-limit 1K "$small"
check unwritable_json 2 "can't write" explore --json "$dir/none/x.json" "$small"
check story_and_json_in_one 2 "can't both" explore --story --json - "$small"

# The table: the published story's verdicts.
"$bin" explore "$small" >"$out" 2>"$err"
status=$?
[ $status -eq 0 ] && [ ! -s "$err" ] && ! grep -q "$escape" "$out" &&
    [ "$(grep -c '^ENGINE ' "$out")" -eq 2 ] &&
    [ "$(grep -c '^  unpatched  *corrupts after [0-9]*  *live .* complete$' "$out")" -eq 2 ] &&
    [ "$(grep -c '^  deferred-35360  *corrupts after [0-9]*  *live ' "$out")" -eq 2 ] &&
    [ "$(grep -c '^    timers never  *safe  *pins after [0-9]* ' "$out")" -eq 2 ] &&
    [ "$(grep -c '^  strict  *safe  *pins after [0-9]* ' "$out")" -eq 2 ] &&
    [ "$(grep -c '^  fenced  *safe  *live ' "$out")" -eq 2 ]
report verdicts $?
tr -s '\n ' ' ' <"$out" >"$dir/flat"
grep -q 'safe and live: fenced$' "$out" && grep -q 'safe, but pins memory for ever: strict$' "$out" &&
    grep -q "A's writer may stop for ever" "$dir/flat" && grep -q "bounded is never 'safe' and never 'live'" "$dir/flat" &&
    grep -q -- 'among the orders that are left .* with --no-reduce it is the shortest' "$dir/flat"
report the_table_says_its_scope $?
[ "$(awk 'length > 100' "$out" | wc -l)" -eq 0 ]
report lines_fit_100_columns $?

# Restricted, and as JSON; the same cells each time but for the time they take.
check only_one_cell 0 'safe and live: fenced' explore --core fenced --engine nixl "$small"
[ "$(grep -c '^ENGINE ' "$out")" -eq 1 ] && ! grep -q '^  strict' "$out"
report only_that_cell $?
"$bin" explore --json "$dir/a.json" "$small" >"$out" 2>"$err" && "$bin" explore --json - "$small" >"$dir/b.json" 2>>"$err" &&
    sed '/"seconds"/d' "$dir/a.json" >"$dir/a" && sed '/"seconds"/d' "$dir/b.json" | cmp -s "$dir/a" -
report json_is_repeatable $?
[ "$(grep -c '"core": ' "$dir/a.json")" -eq 8 ] && [ "$(grep -c '"live": false' "$dir/a.json")" -eq 2 ] &&
    [ "$(grep -c '"safe": true' "$dir/a.json")" -eq 4 ] && grep -q '^  "missing": \[\]' "$dir/a.json" &&
    [ -z "$(find "$dir" -name '.kvrepro*')" ]
report json_has_all_cells $?

# Bounded is not safe, and not live.
"$bin" explore --states-limit 100 --core fenced --core unpatched --json "$dir/bounded.json" "$small" >"$out" 2>"$err"
[ $? -eq 1 ] && grep -q '^  fenced  *bounded  *bounded .* bounded$' "$out" && grep -q 'open (bounded): unpatched, fenced' "$out" &&
    grep -q 'safe and live: none' "$out" && ! grep -q '"safe": true' "$dir/bounded.json" &&
    [ "$(grep -c '"safe": null' "$dir/bounded.json")" -eq 4 ]
report bounded_is_never_safe $?
"$bin" explore --memory-limit 64K --core fenced --engine mooncake "$small" >"$out" 2>"$err"
[ $? -eq 1 ] && grep -q 'a search that ended early, after [0-9]* states' "$out"
report memory_limit_bounds $?

# All orders: the same verdicts, more states, no longer ways.
"$bin" explore --no-reduce --engine mooncake --core unpatched --json "$dir/all.json" "$small" >"$out" 2>"$err" &&
    grep -q '^  unpatched  *corrupts after [0-9]*  *live ' "$out" && grep -q 'no order is shorter' "$out"
report all_orders $?
number() { sed -n "s/^      \"$2\": \([0-9]*\),*\$/\1/p" "$1" | head -n 1; } # FILE KEY: of the first cell
[ "$(number "$dir/all.json" states)" -gt "$(number "$dir/a.json" states)" ] &&
    [ "$(number "$dir/all.json" shortest)" -le "$(number "$dir/a.json" shortest)" ]
report reduction_only_leaves_out $?

# Stories: as many lines as transitions, from the first submit to what decode read.
"$bin" explore --story --core unpatched --engine mooncake "$small" >"$out" 2>"$err"
after=$(sed -n 's/^unpatched, mooncake: corrupts after \([0-9]*\) transitions$/\1/p' "$out")
[ -n "$after" ] && grep -q "^ *$after  decode scheduler *runs the model on its batch\$" "$out" &&
    [ "$(grep -c '^.  *[0-9][0-9]*  [a-z]' "$out")" -eq "$after" ] &&
    grep -q '^! .* wire .*A.s .* lands in .*, now B' "$out" &&
    tail -n 1 "$out" | grep -q '^!  *decode reads for B  *\(page\|state slot\) 1, which A wrote' && ! grep -q 'a bug' "$out"
report story_of_a_corruption $?
"$bin" explore --story --core strict --engine nixl "$small" >"$out" 2>"$err"
grep -q '^strict, nixl: pins after [0-9]* transitions$' "$out" &&
    grep -q '^!  *decode owns for A  *1 page and state slot 1, for ever' "$out"
report story_of_a_pin $?
"$bin" explore --story "$small" >"$out" 2>"$err" && ! grep -q 'a bug' "$out" &&
    [ "$(grep -c ': corrupts after .* timers only when nothing else can happen$' "$out")" -eq 2 ] &&
    [ "$(awk 'length > 100' "$out" | wc -l)" -eq 0 ]
report every_story_can_be_told $?

# Ctrl-C: what is finished is shown, the rest named. The first cell takes longer than anybody waits; a busy machine may need
# longer to begin.
sed 's/tokens: 1}/tokens: 6}/g; s/pages: 1,/pages: 6,/; s/pages: 2,/pages: 7,/' "$small" >"$dir/long.yaml"
for seconds in 2 8 30; do
    timeout --preserve-status -s INT $seconds "$bin" explore --no-reduce --states-limit 100000000 --engine nixl \
        --json "$dir/cut.json" "$dir/long.yaml" >"$out" 2>"$err"
    [ $? -eq 1 ] && break
done
grep -q '^  unpatched  *not explored$' "$out" &&
    grep -q 'interrupted; 4 of 4 cells are missing: unpatched with nixl, ' "$err" &&
    [ "$(grep -c '"core": ' "$dir/cut.json")" -eq 4 ] && grep -q '^  "cells": \[\]' "$dir/cut.json"
report interrupted_names_what_is_missing $?

exit $failed
