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
for command in '' run check list explain; do
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
else
    for name in terminal_has_colours_and_progress no_color dumb_terminal; do
        printf 'skip %s: script (util-linux) is not installed\n' "$name"
    done
fi

exit $failed
