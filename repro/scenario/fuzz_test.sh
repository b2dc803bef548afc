#!/bin/sh
# A short run of the scenario reader's fuzzer; --help says more.
set -u

usage() {
    cat <<'END'
usage: sh repro/scenario/fuzz_test.sh PROGRAM RUNS [verbose]

Runs PROGRAM, repro/scenario/scenario_fuzz.c built with clang's libFuzzer, on RUNS inputs that grow out of scenarios/*.yaml
and repro/scenario/bad/*. It must end without a crash, a leak, an input that takes 10 s or a sanitizer's report. An input
that makes it fail is kept and shown. verbose: also what libFuzzer prints.

Prints "ok fuzz", "not ok fuzz" or "skip fuzz: reason", and first how far it came.

example:
  sh repro/scenario/fuzz_test.sh build/fuzz/scenario_fuzz 30000
END
}

case ${1-} in
-h | --help)
    usage
    exit 0
    ;;
esac
wrong=0
[ $# -eq 2 ] || [ $# -eq 3 ] || wrong=1
case ${2-} in
'' | 0 | *[!0-9]*) wrong=1 ;;
esac
case ${3-verbose} in
verbose) ;;
*) wrong=1 ;;
esac
if [ $wrong -eq 1 ]; then
    usage >&2
    exit 2
fi

program=$1
runs=$2
here=$(dirname "$0")
if [ ! -e "$program" ]; then
    echo 'skip fuzz: clang with libFuzzer is not installed (sh scripts/setup.sh test)'
    exit 0
fi
case $program in
*/*) ;;
*) program=./$program ;;
esac

# Failing inputs are kept where they are told to be; the rest goes.
work=$(mktemp -d) || exit 2
kept=$(mktemp -d) || exit 2
trap 'rm -rf "$work"; rmdir "$kept" 2>/dev/null' EXIT
trap 'exit 2' HUP INT TERM

mkdir "$work/corpus"
seeds=0
for file in "$here"/../../scenarios/*.yaml "$here"/bad/*; do
    case $file in
    *.expect) continue ;;
    esac
    [ -f "$file" ] || continue
    seeds=$((seeds + 1))
    cp "$file" "$work/corpus/$seeds-${file##*/}" || exit 2
done

fuzz() {
    "$program" -runs="$runs" -seed=1 -timeout=10 -max_len=4096 -dict="$here/scenario.dict" -artifact_prefix="$kept/" \
        "$work/corpus" </dev/null 2>&1
    echo $? >"$work/status"
}
if [ "${3-}" = verbose ]; then
    fuzz | tee "$work/log"
else
    fuzz >"$work/log"
fi
status=$(cat "$work/status")

# #30000  DONE   cov: 1820 ft: 7346 corp: 842/201Kb lim: 4096 exec/s: 3000 rss: 61Mb
done_line=$(LC_ALL=C sed -n 's/^#\([0-9][0-9]*\)[[:space:]]*DONE[[:space:]]/\1 /p' "$work/log" | tail -n 1)
executed=${done_line%% *}
LC_ALL=C sed -n 's/^#[0-9]*[[:space:]]*DONE[[:space:]].*\(cov: [0-9]*\).*\(ft: [0-9]*\).*\(exec\/s: [0-9]*\).*/# \1 \2 \3/p' "$work/log"

failing=$(find "$kept" -type f | sort)
if [ "$status" -eq 0 ] && [ "${executed:-0}" -ge "$runs" ] && [ -z "$failing" ] && [ $seeds -gt 0 ]; then
    echo 'ok fuzz'
    exit 0
fi
echo 'not ok fuzz'
echo "#  exit status $status; ${executed:-0} of $runs runs; $seeds seeds"
printf '%s\n' "$failing" | while IFS= read -r file; do
    [ -n "$file" ] || continue
    echo "#  failing input: $file"
    od -A x -t x1z -N 256 "$file" | sed 's/^/#    /'
done
[ "${3-}" = verbose ] || tail -n 30 "$work/log" | LC_ALL=C tr -cd '\11\12\40-\176' | sed 's/^/#  /'
exit 1
