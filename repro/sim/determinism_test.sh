#!/bin/sh
# The same scenario gives the same bits: in every build variant, and in fresh processes in all sorts of surroundings.
set -u

usage() {
    cat <<'END'
usage: sh repro/sim/determinism_test.sh BUILDDIR

Compares what BUILDDIR/VARIANT/model-digest and BUILDDIR/VARIANT/kvrepro print, for the variants release, debug, san
and clang (native and clangnative: the model alone): the digest of the model, and the result of scenarios/seed.yaml byte for byte, but for the
provenance. Then plays the seed scenario in 20 fresh processes whose surroundings differ. Run at the root of the tree.
Prints a line "ok NAME", "not ok NAME" or "skip NAME: reason" a test.

example:
  sh repro/sim/determinism_test.sh build
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

build=$(readlink -f "$1") || exit 2
root=$(pwd)
seed=$root/scenarios/seed.yaml
bin=$build/release/kvrepro
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 2' HUP INT TERM
failed=0
played=0

report() { # NAME STATUS: details in $work/why
    if [ "$2" -eq 0 ]; then
        printf 'ok %s\n' "$1"
    else
        printf 'not ok %s\n' "$1"
        head -n 20 "$work/why" | sed 's/^/#  /'
        failed=1
    fi
}

skip() { # NAME REASON
    printf 'skip %s: %s\n' "$1" "$2"
}

# digest FILE: its result_digest; nothing, if it has none or several
digest() {
    set -- "$(sed -n 's/^  "result_digest": "\([0-9a-f]\{16\}\)",\{0,1\}$/\1/p' "$1")"
    [ ${#1} -eq 16 ] && printf '%s\n' "$1"
}

# body FILE: all but the provenance object
body() {
    sed '/^  "provenance": {$/,/^  }/d' "$1"
}

# same NAME: whether NAME.json is the result in reference.json; $work/why says what differs.
same() {
    want=$(digest "$work/reference.json")
    got=$(digest "$work/$1.json" 2>/dev/null)
    body "$work/reference.json" >"$work/reference.body"
    body "$work/$1.json" >"$work/$1.body" 2>/dev/null
    if [ -n "$got" ] && [ "$got" = "$want" ] && cmp -s "$work/$1.body" "$work/reference.body"; then
        return 0
    fi
    {
        printf 'result_digest: %s, in the reference: %s\n' "${got:-none}" "${want:-none}"
        diff "$work/reference.body" "$work/$1.body"
        cat "$work/$1.err"
    } >"$work/why" 2>&1
    return 1
}

# play NAME COMMAND...: runs COMMAND, which is to write NAME.json; a scenario that is not as expected is played all the same
play() {
    name=$1
    shift
    "$@" >"$work/$name.out" 2>"$work/$name.err"
    status=$?
    [ $status -le 1 ] && [ -s "$work/$name.json" ] && return 0
    printf 'exit status %s\n' $status >>"$work/$name.err"
    : >>"$work/$name.json"
    return 1
}

# --- build variants ---

model=
for variant in release debug san native clang clangnative; do
    case $variant in
    clang*)
        if [ ! -e "$build/$variant/model-digest" ] && ! command -v clang >/dev/null; then
            skip "model_digest_of_$variant" 'clang is not installed (sh scripts/setup.sh test)'
            [ "$variant" = clangnative ] ||
                skip "result_of_$variant" 'clang is not installed (sh scripts/setup.sh test)'
            continue
        fi
        ;;
    esac

    line=$("$build/$variant/model-digest" 2>"$work/why")
    status=$?
    model=${model:-$line}
    printf '%s, in the first variant %s\n' "${line:-nothing}" "${model:-nothing}" >>"$work/why"
    [ $status -eq 0 ] && [ -n "$line" ] && [ "$line" = "$model" ]
    report "model_digest_of_$variant" $?

    # The processor's own instructions could only matter to the model.
    case $variant in native | clangnative) continue ;; esac
    play "$variant" "$build/$variant/kvrepro" run --quiet --json "$work/$variant.json" "$seed"
    [ -e "$work/reference.json" ] || cp "$work/$variant.json" "$work/reference.json"
    same "$variant"
    report "result_of_$variant" $?
done

# The comparison looks away from the provenance, which must differ here, and from nothing else.
grep -q '"provenance"' "$work/release.json" && ! grep -q '"provenance"' "$work/reference.body" &&
    [ "$(wc -l <"$work/release.json")" -le $(($(wc -l <"$work/reference.body") + 10)) ] &&
    ! cmp -s "$work/release.json" "$work/debug.json"
status=$?
echo 'what was compared is not the file without its provenance' >"$work/why"
report only_provenance_is_left_out $status

# --- fresh processes ---

# fresh NAME COMMAND...: the seed scenario, played by COMMAND... BIN run ...
fresh() {
    name=$1
    shift
    played=$((played + 1))
    play "$name" "$@" "$bin" run --quiet --json "$work/$name.json" "$seed"
    same "$name"
    report "fresh_process_$name" $?
}

# Longer than a page, and of an odd length: it moves the stack.
big=$(head -c 100001 /dev/zero | tr '\0' x)
cpu=$(taskset -cp $$ 2>/dev/null | sed -n 's/.*: *\([0-9]*\).*/\1/p')

fresh plain env
fresh empty_environment env -i
fresh lang_c env LANG=C LC_ALL=C
fresh lang_de env LANG=de_DE.UTF-8 LC_ALL=de_DE.UTF-8
fresh lang_utf8 env LANG=tr_TR.UTF-8 LC_ALL=C.UTF-8
fresh tz_east env TZ=Pacific/Kiritimati
fresh tz_posix env TZ=XXX+11:30YYY
fresh home_unset env -u HOME -u USER -u PATH
fresh big_environment env BIG="$big" BIGGER="$big"
fresh malloc_perturb_1 env MALLOC_PERTURB_=1
fresh malloc_perturb_255 env MALLOC_PERTURB_=255
fresh malloc_arenas env MALLOC_ARENA_MAX=1 MALLOC_MMAP_THRESHOLD_=4096 MALLOC_TOP_PAD_=1
fresh no_malloc_cache env GLIBC_TUNABLES=glibc.malloc.tcache_count=0:glibc.malloc.mxfast=0
# libm and the string functions pick their variants by what the processor can.
fresh other_libc_variants env GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX,-AVX512F,-ERMS,-SSE4_2

cd / || exit 2
fresh in_root env
cd "$work" || exit 2
fresh in_temporary_folder env
cd "$root" || exit 2

played=$((played + 1))
play stdin_closed "$bin" run --quiet --json "$work/stdin_closed.json" "$seed" <&-
same stdin_closed
report fresh_process_stdin_closed $?

# Only the surroundings may be missing, so these are tried on something harmless first.
if setarch -R true 2>/dev/null; then
    fresh addresses_fixed setarch -R
else
    skip fresh_process_addresses_fixed 'setarch -R is not permitted or not installed here'
fi
if nice -n 5 true 2>/dev/null; then
    fresh nice nice -n 5
else
    skip fresh_process_nice 'nice does not work here'
fi
if [ -n "$cpu" ] && taskset -c "$cpu" true 2>/dev/null; then
    fresh one_cpu taskset -c "$cpu"
else
    skip fresh_process_one_cpu 'taskset is not permitted or not installed here'
fi

printf 'only %s were played\n' "$played" >"$work/why"
[ "$played" -ge 17 ]
report fresh_processes_were_played $?

# --- controls: another prompt for B is another result, and one changed digit is seen ---

play other_prompt "$bin" run --quiet --set requests.B.prompt.seed=3 --json "$work/other_prompt.json" "$seed"
status=$?
! same other_prompt
differs=$?
other=$(digest "$work/other_prompt.json")
printf 'result_digest %s with another prompt\n' "${other:-none}" >"$work/why"
[ $status -eq 0 ] && [ $differs -eq 0 ] && [ -n "$other" ] && [ "$other" != "$(digest "$work/reference.json")" ]
report control_other_prompt_differs $?

sed 's/"ended_us": \([0-9]*\)[0-8],/"ended_us": \19,/' "$work/reference.json" >"$work/one_digit.json"
: >"$work/one_digit.err"
! cmp -s "$work/one_digit.json" "$work/reference.json" && ! same one_digit
report control_one_digit_is_seen $?

: >"$work/empty.json"
: >"$work/empty.err"
! same empty
report control_empty_result_is_seen $?

exit $failed
