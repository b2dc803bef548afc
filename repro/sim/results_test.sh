#!/bin/sh
# Every shipped scenario gives the result that is recorded for it; and what records it, scripts/bless, is tested here too.
set -u

usage() {
    cat <<'END'
usage: sh repro/sim/results_test.sh KVREPRO

Each scenarios/NAME.yaml has a results/NAME.json and the other way round; playing the scenario gives the recorded
result, byte for byte but for the provenance, and it is as the scenario expects. After a change that is meant to give
other results: make bless. Run at the root of the tree. Prints a line "ok NAME" or "not ok NAME" a test.

example:
  sh repro/sim/results_test.sh build/bin/kvrepro
END
}

if [ $# -ne 1 ]; then
    usage >&2
    exit 2
fi
case $1 in
-h | --help)
    usage
    exit 0
    ;;
esac

bin=$1
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 2' HUP INT TERM
failed=0

report() { # NAME STATUS: details in $work/why
    if [ "$2" -eq 0 ]; then
        printf 'ok %s\n' "$1"
    else
        printf 'not ok %s\n' "$1"
        head -n 30 "$work/why" | sed 's/^/#  /'
        failed=1
    fi
}

# digest FILE: its result_digest; nothing, if it has none
digest() {
    sed -n 's/^  "result_digest": "\([0-9a-f]\{16\}\)",\{0,1\}$/\1/p' "$1"
}

# body FILE: all but the provenance object
body() {
    sed '/^  "provenance": {$/,/^  }/d' "$1"
}

# names SCENARIOS RESULTS: of all scenarios and results, sorted
names() {
    # A scenario to explore has no arms, and no recorded result.
    find "$1" -maxdepth 1 -name '*.yaml' -exec grep -L '^explore:' {} + | sed 's|.*/||; s|\.yaml$||' >"$work/names"
    find "$2" -maxdepth 1 -name '*.json' 2>/dev/null | sed 's|.*/||; s|\.json$||' >>"$work/names"
    sort -u "$work/names"
}

# matches NAME SCENARIOS RESULTS: whether the scenario gives the recorded result; $work/why says why not. What a scenario
# gives is kept as now/NAME.json: it is played once.
matches() {
    scenario=$2/$1.yaml
    recorded=$3/$1.json
    now=$work/now/$1.json
    if [ ! -e "$scenario" ]; then
        echo "there is no $scenario for $recorded; remove it, or bring the scenario back" >"$work/why"
        return 1
    fi
    if [ ! -e "$now" ]; then
        "$bin" run --quiet --json "$now" "$scenario" >"$work/why" 2>&1 </dev/null
        status=$?
        if [ $status -ne 0 ] || [ -z "$(digest "$now")" ]; then
            rm -f "$now"
            echo "$scenario could not be played, or is not as it expects: exit status $status" >>"$work/why"
            return 1
        fi
    fi
    if [ ! -e "$recorded" ]; then
        echo "there is no $recorded; record it with: make bless" >"$work/why"
        return 1
    fi
    body "$now" >"$work/now.body"
    body "$recorded" >"$work/recorded.body"
    if [ "$(digest "$now")" = "$(digest "$recorded")" ] && cmp -s "$work/now.body" "$work/recorded.body"; then
        return 0
    fi
    {
        echo "$1 differs: result_digest $(digest "$now"), recorded: $(digest "$recorded")"
        echo "if it is meant to: make bless; recorded <, now >"
        diff "$work/recorded.body" "$work/now.body"
    } >"$work/why"
    return 1
}

# --- the shipped results ---

mkdir "$work/now"
compared=0
names scenarios results >"$work/all"
while IFS= read -r name; do
    matches "$name" scenarios results
    report "result_of_$name" $?
    compared=$((compared + 1))
done <"$work/all"
first=$(find "$work/now" -name '*.json' | sort | sed -n 1p)
echo 'no scenario could be played' >"$work/why"
[ $compared -gt 0 ] && [ -n "$first" ]
report results_were_compared $?
[ -n "$first" ] || exit 1

# --- controls, on the results as they are now ---

said() { # PATTERN: what the last comparison gave as its reason
    grep -q "$1" "$work/why"
}

name=${first##*/}
name=${name%.json}
mkdir "$work/recorded"

cp "$first" "$work/recorded/$name.json"
matches "$name" scenarios "$work/recorded"
report control_right_record_is_accepted $?

# The first digit of the digest becomes another one.
other_digit='s/^\(  "result_digest": "\)[0-7]/\18/
t
s/^\(  "result_digest": "\)./\10/'
sed "$other_digit" "$first" >"$work/recorded/$name.json"
! cmp -s "$first" "$work/recorded/$name.json" && ! matches "$name" scenarios "$work/recorded" && said "^$name differs" &&
    said 'make bless'
report control_changed_digest_is_rejected $?

sed 's/"ended_us": /&1/' "$first" >"$work/recorded/$name.json"
! cmp -s "$first" "$work/recorded/$name.json" && ! matches "$name" scenarios "$work/recorded" && said 'ended_us'
report control_changed_number_is_rejected $?

sed 's/"compiler": "/&other /' "$first" >"$work/recorded/$name.json"
! cmp -s "$first" "$work/recorded/$name.json" && matches "$name" scenarios "$work/recorded"
report control_other_provenance_is_accepted $?

: >"$work/recorded/$name.json"
! matches "$name" scenarios "$work/recorded" && said 'make bless'
report control_empty_record_is_rejected $?
rm "$work/recorded/$name.json"
! matches "$name" scenarios "$work/recorded" && said 'make bless'
report control_missing_record_is_rejected $?
: >"$work/recorded/orphan.json"
names scenarios "$work/recorded" | grep -qx orphan && ! matches orphan scenarios "$work/recorded" && said 'orphan.yaml'
report control_record_without_scenario_is_rejected $?

# --- scripts/bless, into folders of its own ---

mkdir "$work/scenarios" "$work/results"
cp "scenarios/$name.yaml" "$work/scenarios/"
record=$work/results/$name.json

# bless STATUS PATTERN...: exit status and lines that it prints
bless() {
    want=$1
    shift
    sh scripts/bless "$blessed" "$work/scenarios" "$work/results" >"$work/why" 2>&1
    got=$?
    for pattern in "$@"; do
        grep -q -e "$pattern" "$work/why" || got="$got, and no '$pattern'"
    done
    echo "exit status $got" >>"$work/why"
    [ "$got" = "$want" ] && [ -z "$(find "$work/results" -name '.*')" ]
}

blessed=$bin
bless 0 "^$name: new\$" && cmp -s "$record" "$first"
report bless_records_a_new_result $?

sed 's/"compiler": "/&other /' "$first" >"$record"
cp "$record" "$work/before.json"
bless 0 "^$name: unchanged\$" && cmp -s "$record" "$work/before.json"
report bless_leaves_a_file_whose_provenance_alone_would_change $?

# Whoever has the old file open keeps it whole: the new one comes by a rename.
sed "$other_digit" "$first" >"$record"
ln "$record" "$work/linked.json"
bless 0 "^$name: changed\$" '^    \.result_digest: was ".*", now "' &&
    ! grep -q 'provenance\|compiler' "$work/why" && cmp -s "$record" "$first" && ! cmp -s "$record" "$work/linked.json"
report bless_shows_and_records_a_change $?

sed 's/"ended_us": /&1/' "$first" >"$record"
bless 0 "^$name: changed\$" '^    \.arms\[0\].*\.ended_us: was 1[0-9]*, now [0-9]' && cmp -s "$record" "$first"
report bless_shows_paths_with_both_values $?

# A program that writes what it is told and ends as it is told.
cat >"$work/fake" <<'END'
#!/bin/sh
while [ $# -gt 1 ] && [ "$1" != --json ]; do shift; done
cat "$FAKE_JSON" >"$2"
echo 'this is what it said'
exit "$FAKE_STATUS"
END
chmod +x "$work/fake"
blessed=$work/fake
FAKE_JSON=$work/fake.json
export FAKE_JSON FAKE_STATUS

cp "$first" "$FAKE_JSON"
FAKE_STATUS=2
bless 1 "^$name: NOT RECORDED: it could not be played (exit status 2)" 'what it said' && cmp -s "$record" "$first"
report bless_keeps_the_record_when_playing_fails $?

FAKE_STATUS=0
sed '$d' "$first" >"$FAKE_JSON"
bless 1 "^$name: NOT RECORDED" && cmp -s "$record" "$first"
report bless_keeps_the_record_when_the_result_is_cut_short $?
sed '/^  "result_digest"/d' "$first" >"$FAKE_JSON"
bless 1 "^$name: NOT RECORDED" && cmp -s "$record" "$first"
report bless_keeps_the_record_when_there_is_no_digest $?

sed 's/"as_expected": true/"as_expected": false/' "$first" >"$FAKE_JSON"
FAKE_STATUS=1
bless 1 "^$name: NOT RECORDED: it is not as" 'what it said' && cmp -s "$record" "$first"
report bless_does_not_record_what_is_not_expected $?
cp "$FAKE_JSON" "$record"
bless 1 "^$name: NOT RECORDED: it is not as"
report bless_says_so_again_when_that_stands_recorded $?

rm "$record"
head -n 20 "$first" >"$FAKE_JSON"
bless 1 "^$name: NOT RECORDED" && [ -z "$(ls -A "$work/results")" ]
report bless_leaves_nothing_half $?
cp "$first" "$record"

blessed=$bin
: >"$work/results/orphan.json"
bless 1 "^$name: unchanged\$" '^orphan: has no scenario'
report bless_names_a_result_without_scenario $?

exit $failed
