#!/bin/sh
# The program as its users meet it: help, messages, exit statuses, files. Run at the root of the tree.
set -u

if [ $# -ne 1 ] || [ "$1" = --help ] || [ "$1" = -h ]; then
    printf 'usage: sh repro/cli/cli_test.sh KVREPRO\n\nPrints a line "ok NAME", "not ok NAME" or "skip NAME: reason" a test.\n\n'
    printf 'example:\n  sh repro/cli/cli_test.sh build/bin/kvrepro\n'
    [ $# -eq 1 ] && exit 0
    exit 2
fi

bin=$1
seed=scenarios/seed.yaml
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
        sed 's/^/# /' "$out" "$err" | head -n 20
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

no_leftovers() { # no temporary in DIR
    [ -z "$(find "$1" -name '.kvrepro*')" ]
}

# Help and versions.
for command in '' run compare gate verify diff check list explain; do
    # shellcheck disable=SC2086
    "$bin" $command --help >"$out" 2>"$err" && grep -q '^examples:' "$out" && grep -q '^exit status' "$out" &&
        grep -q "^  kvrepro ${command:-run}" "$out" && [ ! -s "$err" ]
    report "help_has_examples_${command:-kvrepro}" $?
done
check help_command 0 '^usage: kvrepro run' help run
check version 0 'compiler' --version
"$bin" >"$out" 2>"$err"
[ $? -eq 2 ] && grep -q '^usage' "$err" && [ ! -s "$out" ]
report no_command_is_usage $?

# Misspelt words name the nearest right one.
check misspelt_command 2 "did you mean 'run'" rnu "$seed"
check file_as_command 2 "run $seed" "$seed"
check misspelt_option 2 "did you mean '--json'" run --jsn x "$seed"
check misspelt_option_of_list 2 "did you mean '--dir'" list --dri x scenarios
check misspelt_core 2 "did you mean 'unpatched'" run --core unpached "$seed"
check misspelt_core_of_check 2 "did you mean 'unpatched'" check --core unpached "$seed"
check misspelt_core_of_explain 2 "did you mean 'unpatched'" explain unpachted
check misspelt_arm 2 "did you mean 'without the fix'" run --arm 'without a fix' "$seed"
check unknown_arm_lists_them 2 "'without the fix'" run --arm zzz "$seed"
check misspelt_list 2 "did you mean 'cores'" list coers
check misspelt_set 2 "did you mean 'pages'" run --set topology.decode.pags=66 "$seed"
check option_without_value 2 'needs a value' run "$seed" --json
check option_with_needless_value 2 'takes no value' run --quiet=yes "$seed"
check repeat_is_a_number 2 'whole number' run --repeat 1x "$seed"
check repeat_is_at_least_1 2 'whole number' run --repeat 0 "$seed"
check no_file 2 'no scenario file' run
check missing_file 2 'No such file' run "$dir/none.yaml"

# check reads all files, and fails if any is bad.
printf 'scenario: bad\nstepz: []\n' >"$dir/bad.yaml"
"$bin" check "$dir/bad.yaml" "$seed" >"$out" 2>"$err"
[ $? -eq 2 ] && grep -q "$dir/bad.yaml:2:1: error: .*did you mean 'steps'" "$err" &&
    grep -q "^$seed: ok, [0-9]* arms\$" "$out"
report check_reads_all_files $?
check check_good_file 0 "^$seed: ok, " check "$seed"
check bad_file_is_not_played 2 'bad.yaml:2:1: error' run "$dir/bad.yaml"

# Lists.
check list_scenarios 0 '^seed ' list scenarios
check list_cores 0 '^unpatched ' list cores
check list_points 0 '^send.begin ' list points
check list_engines 0 '^mooncake ' list engines
check list_knobs 0 'hold_timeout ' list knobs
mkdir "$dir/empty"
check list_empty_folder 2 "no \*.yaml" list --dir "$dir/empty" scenarios
check list_missing_folder 2 "No such file" list --dir "$dir/none" scenarios
check explain_core 0 'known hole' explain unpatched
check explain_engine 0 'transfer engine' explain mooncake

# Files are found unwritable before anything is played: the trace beside them is not even begun.
check unwritable_json 2 "can't write" run --json "$dir/none/x.json" --trace "$dir/early.trace" "$seed"
[ ! -e "$dir/early.trace" ] && [ ! -s "$out" ] && no_leftovers "$dir"
report unwritable_json_is_found_before_playing $?
check json_on_a_folder 2 "can't write" run --json "$dir" "$seed"
check out_below_a_file 2 "can't write" run --out "$dir/bad.yaml/x" "$seed"
check json_and_trace_in_one 2 "can't both" run --json - --trace - "$seed"
check json_of_several 2 'use --out' run --json "$dir/x.json" "$seed" "$seed"
check out_would_overwrite 2 "both named 'seed'" run --out "$dir/twice" "$seed" "$seed"
[ ! -e "$dir/twice" ]
report out_would_overwrite_writes_nothing $?

# Files appear whole.
"$bin" run --json "$dir/seed.json" --trace "$dir/seed.trace" "$seed" >"$out" 2>"$err"
played=$?
[ $played -le 1 ] && grep -q '^  "scenario": "seed"' "$dir/seed.json" && [ "$(tail -n 1 "$dir/seed.json")" = '}' ] &&
    [ -s "$dir/seed.trace" ] && no_leftovers "$dir"
report files_appear_whole $?
! grep -q "$escape" "$out" "$err" && [ ! -s "$err" ]
report pipes_have_no_escapes_and_no_progress $?
grep -q '^IN SHORT' "$out" && grep -q '^next:' "$out"
report table_has_its_parts $?
! LC_ALL=C grep -q '[^ -~]' "$out" && ! LC_ALL=C sed '/^      /d' "$out" | grep -q '.\{101\}'
report table_is_ascii_and_narrow $?
"$bin" run --json - "$seed" >"$out" 2>"$err"
[ $? -eq $played ] && cmp -s "$out" "$dir/seed.json"
report json_to_stdout_is_the_same_and_alone $?
"$bin" run --quiet --out "$dir/deep/er" "$seed" >"$out" 2>"$err"
[ $? -eq $played ] && cmp -s "$dir/deep/er/seed.json" "$dir/seed.json" && cmp -s "$dir/deep/er/seed.trace" "$dir/seed.trace"
report out_makes_its_folder $?
ln -s seed.json "$dir/link.json"
"$bin" run --quiet --json "$dir/link.json" "$seed" >"$out" 2>"$err"
[ $? -eq $played ] && [ -L "$dir/link.json" ] && [ ! -L "$dir/seed.json" ]
report links_are_followed $?
"$bin" run --quiet --json /dev/null "$seed" >"$out" 2>"$err"
[ $? -eq $played ] && [ -c /dev/null ]
report devices_are_not_replaced $?
"$bin" run "$seed" "$seed" >"$out" 2>"$err"
[ $? -eq $played ] && tail -n 1 "$out" | grep -q '^2 scenarios: '
report several_files_are_summed_up $?

# --- gate ---

mkdir "$dir/scenarios" "$dir/results"
cp "$seed" "$dir/scenarios/seed.yaml"
cp "$dir/seed.json" "$dir/results/seed.json"
digit='s/^\(  "result_digest": "\)[0-7]/\18/
t
s/^\(  "result_digest": "\)./\10/'

# gate STATUS ARGUMENT...
gate() {
    status=$1
    shift
    "$bin" gate "$@" "$dir/scenarios" >"$out" 2>"$err"
    [ $? -eq "$status" ] && no_leftovers "$dir"
}

# Whether the file is well-formed, by whichever strict reader there is; 77: there is none.
well_formed() {
    if command -v xmllint >/dev/null 2>&1; then
        xmllint --noout "$1" 2>>"$err"
    elif command -v python3 >/dev/null 2>&1; then
        python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$1" 2>>"$err"
    else
        return 77
    fi
}

gate 0 --junit "$dir/gate.xml" && grep -q '^ok  *seed  *3 arms$' "$out" && [ ! -s "$err" ] &&
    grep -q '^1 scenario, 3 arms: 1 as expected and as recorded$' "$out" &&
    grep -q '<testsuite name="seed" tests="3" failures="0" errors="0"' "$dir/gate.xml" &&
    grep -q '<testcase classname="seed" name="without the fix"/>' "$dir/gate.xml"
report gate_green $?
cmp -s "$dir/results/seed.json" "$dir/seed.json" && [ "$(ls "$dir/results")" = seed.json ]
report gate_records_nothing $?

sed "$digit; s/\"ended_us\": /&1/; s/\"compiler\": \"/&other /" "$dir/seed.json" >"$dir/results/seed.json"
gate 1 && grep -q '^DIFFERS  seed ' "$out" && grep -q '\.arms\[0\]\.ended_us: recorded 1[0-9]*, now [0-9]' "$out" &&
    grep -q "run $dir/scenarios/seed.yaml" "$out" && grep -q 'make bless' "$out" &&
    [ "$(grep -c 'recorded 1[0-9]*, now' "$out")" -le 6 ] && ! grep -q 'compiler' "$out"
report gate_differing_record $?
sed "$digit" "$dir/seed.json" >"$dir/results/seed.json"
gate 1 && grep -q '\.result_digest: recorded ".*", now "' "$out"
report gate_differing_digest $?
sed 's/"compiler": "/&other /' "$dir/seed.json" >"$dir/results/seed.json"
gate 0
report gate_other_provenance_is_no_difference $?
: >"$dir/results/seed.json"
gate 1 && grep -q 'no JSON' "$out"
report gate_empty_record $?
rm "$dir/results/seed.json"
gate 1 && grep -q 'no recorded result .*; make bless' "$out" && [ -z "$(ls "$dir/results")" ]
report gate_missing_record $?
cp "$dir/seed.json" "$dir/results/seed.json"
cp "$dir/seed.json" "$dir/results/orphan.json"
gate 1 && grep -q '^DIFFERS  orphan .*has no scenario' "$out" && grep -q '^ok  *seed' "$out"
report gate_record_without_scenario $?
rm "$dir/results/orphan.json"

# Another expectation, a void arm, a file that is no scenario: each its own word; all others are played all the same.
sed 's/finish_reason: length/finish_reason: error/' "$seed" >"$dir/scenarios/differs.yaml"
cp "$dir/seed.json" "$dir/results/differs.json"
sed 's/^scenario: seed/scenario: void/; /- release: victim/d' "$seed" >"$dir/scenarios/void.yaml"
gate 1 --junit "$dir/gate.xml" && grep -q '^DIFFERS  differs *3 arms   without the fix: .*finish_reason' "$out" &&
    grep -q '^VOID     void *3 arms   without the fix: void: ' "$out" && grep -q '^ok  *seed' "$out" &&
    ! grep -q 'as_expected\|results/differs.json in' "$out" &&
    grep -q '<failure type="differs" message="request B: finish_reason: ' "$dir/gate.xml" &&
    grep -q '<error type="void" message="void: ' "$dir/gate.xml"
report gate_differing_expectation_and_void_arm $?
cp "$dir/bad.yaml" "$dir/scenarios/bad.yaml"
gate 2 --jobs 1 --junit "$dir/gate1.xml" && grep -q "^ERROR  *bad  *-  *$dir/scenarios/bad.yaml:2:1: error" "$out" &&
    grep -q '^ok  *seed' "$out" && grep -q '^4 scenarios, 9 arms: 1 as expected and as recorded, 1 differs, 1 void, 1 ' "$out" &&
    grep -q "did you mean 'steps'" "$out" && grep -q 'did you mean &apos;steps&apos;' "$dir/gate1.xml"
report gate_unreadable_scenario $?
sed 's/ --jobs [0-9]* / /; s/gate1\.xml/gate3.xml/' "$out" >"$dir/gate1.out"
gate 2 --jobs 3 --junit "$dir/gate3.xml" && cmp -s "$dir/gate1.xml" "$dir/gate3.xml" &&
    sed 's/ --jobs [0-9]* / /' "$out" | cmp -s - "$dir/gate1.out"
report gate_says_the_same_whatever_runs_beside $?
gate 2 --junit - && cmp -s "$out" "$dir/gate1.xml"
report gate_junit_to_stdout_is_the_same_and_alone $?
printf '<testsuites>&</testsuites>\n' >"$dir/wrong.xml"
well_formed "$dir/gate1.xml"
strict=$?
if [ $strict -eq 77 ]; then
    for name in gate_junit_is_well_formed control_xml_that_is_not_well_formed_is_found; do
        printf 'skip %s: neither xmllint nor python3 is installed\n' $name
    done
else
    report gate_junit_is_well_formed $strict
    ! well_formed "$dir/wrong.xml"
    report control_xml_that_is_not_well_formed_is_found $?
fi

# A play that crashes: here at a limit of processor time, which those beside it and the program itself keep.
mkdir "$dir/crash"
cp "$seed" "$dir/crash/seed.yaml"
sed 's/^scenario: seed/scenario: long/; s/- wait: 5s/- wait: {from: 1s, to: 20s, phases: 1000}/' "$seed" >"$dir/crash/long.yaml"
# shellcheck disable=SC3045
(ulimit -t 2 && "$bin" gate --results "$dir/results" --junit "$dir/crash.xml" "$dir/crash") >"$out" 2>"$err"
[ $? -eq 1 ] && grep -q '^ERROR  *long  *-  *playing it ended by signal' "$out" && grep -q '^ok  *seed' "$out" &&
    grep -q '<error type="error" message="playing it ended by signal' "$dir/crash.xml"
report gate_crash_is_that_scenarios_error $?

check gate_missing_folder 2 'No such file' gate "$dir/none"
check gate_missing_results 2 'name another with --results' gate --results "$dir/none" "$dir/scenarios"
check gate_empty_folder 2 'no \*.yaml' gate "$dir/empty"
check gate_unwritable_junit 2 "can't write" gate --junit "$dir/none/x.xml" "$dir/scenarios"
check gate_jobs_is_a_number 2 'whole number' gate --jobs 0 "$dir/scenarios"
check gate_one_folder 2 'one folder' gate "$dir/scenarios" "$dir/scenarios"

# --- verify ---

# verify STATUS PATTERN ARGUMENT...: status 1 is told on stdout
verify() {
    status=$1 pattern=$2
    shift 2
    "$bin" verify "$@" >"$out" 2>"$err"
    [ $? -eq "$status" ] && grep -q -e "$pattern" "$out" && { [ "$status" -eq 0 ] || grep -q '^NOT CONFIRMED' "$out"; }
}

# Built without git there is no tree to be confirmed.
if "$bin" --version | grep -q 'tree *unknown'; then tree=1; else tree=0; fi
verify $tree 'CONFIRMED' "$dir/seed.json"
report verify_confirms $?
verify 0 '^CONFIRMED' --any-tree "$dir/seed.json" && grep -q 'as it was written' "$out" &&
    grep -q 'is the file that the result was made from' "$out" && grep -q 'the same weights' "$out" &&
    grep -q '3 arms: every output' "$out"
report verify_says_what_is_confirmed $?
sed "$digit" "$dir/seed.json" >"$dir/changed.json"
verify 1 'CHANGED since it was written' --any-tree "$dir/changed.json"
report verify_tampered_digest $?
sed 's/"first": 269/"first": 270/' "$dir/seed.json" >"$dir/changed.json"
verify 1 'CHANGED since' --any-tree "$dir/changed.json" && grep -q 'requests\.B\.first: recorded 270, now 269' "$out"
report verify_tampered_value $?
sed 's/"tree": "[0-9a-z]*"/"tree": "0123456789012345678901234567890123456789"/' "$dir/seed.json" >"$dir/changed.json"
verify 1 '0123456789012345678901234567890123456789' "$dir/changed.json" && grep -q '3 arms: every output' "$out" &&
    verify 0 '^CONFIRMED' --any-tree "$dir/changed.json"
report verify_other_tree_is_told_and_played $?
sed 's/"tree": "[0-9a-z]*"/"tree": "unknown"/' "$dir/seed.json" >"$dir/changed.json"
verify 1 'UNKNOWN' "$dir/changed.json"
report verify_unknown_tree $?
sed 's/"model_digest": "./&f/; s/\("model_digest": ".\{16\}\)./\1/' "$dir/seed.json" >"$dir/changed.json"
verify 1 'OTHER weights' --any-tree "$dir/changed.json"
report verify_other_model $?
{ cat "$seed" && echo '# and a comment'; } >"$dir/commented.yaml"
verify 1 'is NOT the file' --any-tree --scenario "$dir/commented.yaml" "$dir/seed.json" &&
    grep -q '3 arms: every output' "$out"
report verify_changed_scenario $?
sed 's/^scenario: seed/scenario: other/' "$seed" >"$dir/other.yaml"
verify 1 "ANOTHER scenario: it is named 'other'" --any-tree --scenario "$dir/other.yaml" "$dir/seed.json"
report verify_other_scenario $?
sed 's|"scenario": "seed"|"scenario": "../seed"|' "$dir/seed.json" >"$dir/changed.json"
check verify_name_is_no_path 2 'name is none' verify "$dir/changed.json"
sed 's|"scenario": "seed"|"scenario": "nowhere"|' "$dir/seed.json" >"$dir/changed.json"
check verify_names_the_way_out 2 'name it with --scenario' verify "$dir/changed.json"
check verify_no_result 2 'no JSON' verify "$seed"
check verify_missing_file 2 'No such file' verify "$dir/none.json"
check verify_no_file 2 'no result file' verify

# --- diff ---

check diff_same 0 'no value differs' diff "$dir/seed.json" "$dir/results/seed.json"
sed 's/"ended_us": /&1/' "$dir/seed.json" >"$dir/changed.json"
"$bin" diff --max 2 "$dir/seed.json" "$dir/changed.json" >"$out" 2>"$err"
[ $? -eq 1 ] && sed -n 1p "$out" | grep -q '^\.arms\[0\]\.ended_us: was [0-9]*, now 1[0-9]*$' &&
    [ "$(tail -n 1 "$out")" = 'and 1 more' ]
report diff_paths_and_both_values $?
check diff_no_result 2 'no JSON' diff "$dir/seed.json" "$seed"
check diff_two_files 2 'two results' diff "$dir/seed.json"

# --- compare ---

"$bin" compare --json "$dir/compare.json" "$seed" >"$out" 2>"$err" &&
    [ ! -s "$err" ] && no_leftovers "$dir" && [ "$(grep -c '^arm: ' "$out")" -eq 3 ]
all=$?
for core in $("$bin" list cores | sed 's/ .*//'); do
    [ "$(grep -c "^  $core  " "$out")" -ge 3 ] && grep -q "\"core\": \"$core\"" "$dir/compare.json" || all=1
done
for engine in $("$bin" list engines | sed 's/ .*//'); do
    grep -q "^  core .* $engine " "$out" || all=1
done
report compare_shows_all_cores_and_engines $all
grep -q '^  unpatched  *corrupts 269 [0-9]*/512 silent  *corrupts 269 [0-9]*/512 silent  *-  *0  *0$' "$out" &&
    grep -q '^  strict  *not admitted (prevented at step 7)  .*never  *-  *0$' "$out" &&
    grep -q '^  deferred-35360  *identical .* timer 30 s ' "$out" && grep -q '^IN SHORT' "$out"
report compare_cells $?
"$bin" compare --jobs 1 --json - "$seed" >"$out" 2>"$err" &&
    cmp -s "$out" "$dir/compare.json"
report compare_json_to_stdout_is_the_same_and_alone $?
"$bin" compare --arm 'without the fix' --core unpatched --core strict --engine mooncake "$seed" >"$out" 2>"$err" &&
    [ "$(grep -c '^arm: without the fix$' "$out")" -eq 1 ] && [ "$(grep -c '^arm: ' "$out")" -eq 1 ] &&
    ! grep -q 'nixl\|grace' "$out" && grep -q '^  unpatched  *corrupts' "$out"
report compare_restricted $?
sed 's/core: deferred-35360/core: {base: deferred-35360, hold_timeout: 60s}/' "$seed" >"$dir/own.yaml"
"$bin" compare --engine mooncake --core deferred-35360 "$dir/own.yaml" >"$out" 2>"$err" &&
    [ "$(grep -c '^  deferred-35360+ ' "$out")" -ge 2 ] && grep -q '^  deferred-35360+ .* timer 60 s ' "$out" &&
    grep -q 'deferred-35360+ is the file.s own: hold_timeout=60s' "$out"
report compare_has_the_files_own_core $?
sed 's/core: unpatched/cores: [unpatched, grace]/' "$seed" >"$dir/cores.yaml"
"$bin" compare --engine mooncake --core unpatched "$dir/cores.yaml" >"$out" 2>"$err" &&
    [ "$(grep -c '^arm: ' "$out")" -eq 3 ] && grep -q '^arm: without the fix$' "$out"
report compare_arms_that_differ_in_their_core_are_one $?
"$bin" compare --core unpatched "$dir/scenarios/void.yaml" >"$out" 2>"$err"
[ $? -eq 1 ] && grep -q '^  unpatched  *void ' "$out" && grep -q '  unpatched void: ' "$out"
report compare_void $?
check compare_unreadable 2 'bad.yaml:2:1: error' compare "$dir/bad.yaml"
check compare_misspelt_core 2 "did you mean 'unpatched'" compare --core unpached "$seed"
check compare_misspelt_engine 2 "did you mean 'nixl'" compare --engine nixel "$seed"
check compare_misspelt_arm 2 "did you mean 'without the fix'" compare --arm 'without a fix' "$seed"
check compare_no_file 2 'no scenario file' compare
check compare_unwritable_json 2 "can't write" compare --json "$dir/none/x.json" "$seed"

# A failure leaves nothing. The limit of file sizes stands in for a full disk; messages go through a pipe, which has none.
mkdir "$dir/full"
# shellcheck disable=SC3045
{ (ulimit -f 0 && "$bin" run --quiet --json "$dir/full/x.json" "$seed" 2>&1; echo "status $?") | cat; } >"$out" 2>"$err"
grep -q 'status 2' "$out" && grep -q "can't write" "$out" && [ -z "$(ls -A "$dir/full")" ]
report full_disk_leaves_no_file $?
if [ -e /dev/full ]; then
    "$bin" list cores >/dev/full 2>"$err"
    [ $? -eq 2 ] && grep -q "can't write" "$err"
    report full_stdout_is_an_error $?
else
    printf 'skip full_stdout_is_an_error: no /dev/full\n'
fi
mkdir "$dir/killed"
"$bin" run --quiet --repeat 100000 --json "$dir/killed/x.json" --trace "$dir/killed/x.trace" "$seed" >"$out" 2>"$err" &
pid=$!
tries=0
while no_leftovers "$dir/killed" && [ $tries -lt 100 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
begun=0
no_leftovers "$dir/killed" || begun=1
kill "$pid"
wait "$pid" 2>/dev/null
[ $? -eq 143 ] && [ $begun -eq 1 ] && [ -z "$(ls -A "$dir/killed")" ]
report killed_leaves_no_file $?

# On a terminal: progress and colours, unless NO_COLOR says otherwise.
if script --version 2>/dev/null | grep -q util-linux; then
    TERM=xterm NO_COLOR='' script -qec "'$bin' run '$seed'" /dev/null >"$out" 2>"$err" </dev/null
    grep -q "$escape\[" "$out" && grep -q 'seed: 0 of ' "$out"
    report terminal_has_colours_and_progress $?
    TERM=xterm NO_COLOR=1 script -qec "'$bin' run '$seed'" /dev/null >"$out" 2>"$err" </dev/null
    ! grep -q "$escape" "$out" && grep -q 'seed: 0 of ' "$out"
    report no_color $?
    TERM=dumb NO_COLOR='' script -qec "'$bin' run '$seed'" /dev/null >"$out" 2>"$err" </dev/null
    ! grep -q "$escape" "$out"
    report dumb_terminal $?
    TERM=xterm NO_COLOR='' script -qec "'$bin' gate '$dir/scenarios' --results '$dir/results' --jobs 1" /dev/null >"$out" 2>"$err" </dev/null
    grep -q "$escape\[" "$out" && grep -q '0 of 4 scenarios played' "$out" && grep -q '3 of 4 scenarios played' "$out"
    report gate_has_colours_and_progress $?
else
    for name in terminal_has_colours_and_progress no_color dumb_terminal gate_has_colours_and_progress; do
        printf 'skip %s: script (util-linux) is not installed\n' "$name"
    done
fi

exit $failed
