#!/bin/sh
# Tests of the tests: each planted fault of repro/mutants.txt is built into its test program, and the test that the list
# names has to fail.
set -u

usage() {
    cat <<'EOF'
usage: sh repro/mutants_test.sh BUILDDIR [NUMBER...]

Each fault is compiled into its one file, with the flags in BUILDDIR/release/flags and the compiler $CC (gcc), and linked with
the release objects of its test program, which are listed in BUILDDIR/release/PROGRAM.link as the linker's arguments. The
named test must pass in the program as it is, and fail with the fault. NUMBER...: only these faults. $JOBS (as many as
there are processors) at a time. Run at the root of the tree. Prints a line "ok NAME" or "not ok NAME" a fault.

examples:
  sh repro/mutants_test.sh build
  sh repro/mutants_test.sh build 9 10     while writing a test for them
EOF
}

case ${1-} in
'')
    usage >&2
    exit 2
    ;;
-h | --help)
    usage
    exit 0
    ;;
esac

list=repro/mutants.txt
control=999 # no fault has this number

# The list without comments, a fault a line: NUMBER|FILE|WHAT|PROGRAM|FILTER
faults() { sed -e '/^ *#/d' -e '/^ *$/d' -e 's/^ *//' -e 's/ *$//' -e 's/ *| */|/g' "$list"; }

# run PROGRAM FILTER LOG: passed or failed, as Criterion's closing line says; broken if it says nothing or ran no test
run() {
    timeout 60 "$1" --filter "$2" >"$3" 2>&1
    sed -n 's/.*Synthesis: Tested: \([0-9]*\) | Passing: \([0-9]*\) .*/\1 \2/p' "$3" >"$3.count"
    read -r tested passing <"$3.count" || tested=0
    if [ "$tested" -eq 0 ]; then
        echo broken
    elif [ "$tested" -eq "$passing" ]; then
        echo passed
    else
        echo failed
    fi
}

# build NUMBER FILE PROGRAM: the program with that fault, as $work/NUMBER; the rest as in the release build
build_mutant() {
    ordinary=$build/release/${2%.c}.o
    if ! [ -e "$ordinary" ] || ! [ -e "$build/release/$3.link" ]; then
        echo "no $ordinary or no $build/release/$3.link: build the tests first"
        return 1
    fi
    # shellcheck disable=SC2046,SC2086 # flags and objects are words
    $cc $(sed -n 2p "$build/release/flags") -w -I"$build/release" -include repro/mutant.h -DKVREPRO_MUTANT="$1" -c \
        -o "$work/$1.o" "$2" &&
        $cc -pthread -o "$work/$1" $(tr ' ' '\n' <"$build/release/$3.link" | sed "s|^$ordinary\$|$work/$1.o|")
}

# one LINE: plays one fault; what is to be shown goes to $work/NUMBER.out, a failure leaves $work/NUMBER.failed
one() {
    IFS='|' read -r n file what program filter <<EOF
$1
EOF
    exec >"$work/$n.out"
    if ! build_mutant "$n" "$file" "$program" >"$work/$n.log" 2>&1; then
        result='does not build'
    else
        result=$(run "$work/$n" "$filter" "$work/$n.log")
    fi
    if [ "$n" = $control ]; then
        right=passed
    else
        right=failed
    fi
    before=$(run "$build/release/$program" "$filter" "$work/$n.before")
    if [ "$result" = $right ] && [ "$before" = passed ]; then
        if [ "$n" = $control ]; then
            echo "ok control_without_a_fault_the_rebuilt_program_passes"
        else
            echo "ok mutant $n: $what: caught by $filter"
        fi
    else
        if [ "$n" = $control ]; then
            echo "not ok control_without_a_fault_the_rebuilt_program_passes"
        else
            echo "not ok mutant $n: $what: not caught by $filter"
        fi
        echo "#  $program: without the fault: $before; with it: $result"
        [ "$result" != $right ] && tail -n 8 "$work/$n.log" | sed 's/^/#  /'
        [ "$before" != passed ] && tail -n 8 "$work/$n.before" | sed 's/^/#  /'
        : >"$work/$n.failed"
    fi
    rm -f "$work/$n" "$work/$n.o"
}

cc=${CC:-gcc}
if [ "$1" = --one ]; then # for xargs, below
    build=$2
    work=$3
    one "$4"
    exit 0
fi

build=$1
shift
self=$0
if ! [ -r "$list" ] || ! [ -r "$build/release/flags" ]; then
    echo "mutants_test: no $list or no $build/release/flags: build the tests, and run at the root of the tree" >&2
    exit 2
fi
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 2' HUP INT TERM
failed=0

if [ $# -gt 0 ]; then
    for n; do
        faults | grep "^$n|" || { echo "mutants_test: $list has no fault $n" >&2 && exit 2; }
    done >"$work/faults" || exit 2
else
    # Last the control: that a program was rebuilt is not what fails a test.
    { faults && faults | sed -n "1s/^[0-9]*/$control/p"; } >"$work/faults"
fi

tr '\n' '\0' <"$work/faults" | xargs -0 -n 1 -P "${JOBS:-$(nproc 2>/dev/null || echo 1)}" sh "$self" --one "$build" "$work"

while IFS='|' read -r n _; do
    if [ -s "$work/$n.out" ]; then
        cat "$work/$n.out"
        [ ! -e "$work/$n.failed" ] || failed=1
    else
        echo "not ok mutant $n: was not played"
        failed=1
    fi
done <"$work/faults"
[ $# -eq 0 ] || exit $failed

# --- list and sources agree, each number once ---

faults | sed 's/^\([0-9]*\)|\([^|]*\)|.*/\1 \2/' | sort >"$work/listed"
find repro barrier checksum -name '*.c' -exec grep -o -H 'MUTANT([0-9][0-9]*)' {} + |
    sed 's/^\([^:]*\):MUTANT(\([0-9]*\))$/\2 \1/' | sort >"$work/planted"
if [ -s "$work/listed" ] && cmp -s "$work/listed" "$work/planted" && [ "$(sort -u "$work/listed" | wc -l)" -eq "$(wc -l <"$work/listed")" ]; then
    echo 'ok mutants_are_listed_as_they_are_planted'
else
    echo 'not ok mutants_are_listed_as_they_are_planted'
    diff "$work/listed" "$work/planted" | sed 's/^/#  /'
    failed=1
fi

exit $failed
