#!/bin/sh
# The machines are pure: their object files import next to nothing and hold nothing that can be written. --help says more.
set -u

usage() {
    cat <<'END'
usage: sh repro/protocol/purity_test.sh DIR SOURCE...

For each SOURCE (repro/protocol/x.c) the object file DIR/repro/protocol/x.o must
  import only what C's own data handling needs (__assert_fail, memcpy, memmove, memset, memcmp) or what another object
  of the list defines: no clock, no randomness, no allocation, no I/O;
  have no section with bytes that can be written (.data, .bss, .data.rel*, thread-local ones), and no common symbol.
Small bad files, compiled here, prove that each rule rejects. Prints a line "ok NAME" or "not ok NAME" a test.

example:
  sh repro/protocol/purity_test.sh build/release repro/protocol/prefill.c repro/protocol/decode.c
END
}

case ${1-} in
-h | --help)
    usage
    exit 0
    ;;
esac
if [ $# -lt 2 ]; then
    usage >&2
    exit 2
fi

LC_ALL=C
export LC_ALL
allowed='__assert_fail memcpy memmove memset memcmp'
dir=$1
shift
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 2' HUP INT TERM
failed=0

# lines WORD...: one a line, sorted
lines() {
    printf '%s\n' "$@" | sort -u
}

# defined OBJECT...: the names that they export, sorted. A failure of nm must not pass for an empty list.
defined() {
    for one in "$@"; do
        nm -g --defined-only "$one" >"$work/nm" 2>&1 || return 1
        awk 'NF == 3 { print $3 }' "$work/nm"
    done | sort -u
}

# impure OBJECT SUPPLIED: what is wrong with the object, a line each; SUPPLIED is a sorted file of names.
impure() {
    if ! nm -u "$1" >"$work/nm" 2>&1 || ! readelf -SW "$1" >"$work/sections" 2>&1 || ! nm "$1" >"$work/symbols" 2>&1 ||
        ! grep -q ' \.text' "$work/sections"; then
        echo "can't be read as an object file"
        return
    fi
    awk '{ print $NF }' "$work/nm" | sort -u | comm -23 - "$2" | sed 's/^/imports /'
    # [ 3] .data PROGBITS address offset size entry flags ...: the number goes, then the size is field 5, the flags 7.
    sed -n 's/^ *\[ *[0-9]*\] //p' "$work/sections" |
        awk '$7 ~ /[WT]/ && $5 !~ /^0+$/ { print "has a writable section " $1 " of 0x" $5 " bytes" }'
    awk 'NF == 3 && $2 ~ /^[Cc]$/ { print "has a common symbol " $3 }' "$work/symbols"
}

report() { # NAME STATUS: details in $work/why
    if [ "$2" -eq 0 ]; then
        printf 'ok %s\n' "$1"
    else
        printf 'not ok %s\n' "$1"
        sed 's/^/#  /' "$work/why"
        failed=1
    fi
}

# --- the machines ---

: >"$work/objects"
for source in "$@"; do
    printf '%s\n' "$dir/${source%.c}.o" >>"$work/objects"
done
# shellcheck disable=SC2086
lines $allowed >"$work/allowed"
{ cat "$work/allowed"; while IFS= read -r object; do defined "$object"; done <"$work/objects"; } | sort -u >"$work/supplied"
while IFS= read -r object; do
    impure "$object" "$work/supplied" >"$work/why"
    name=${object##*/}
    ! [ -s "$work/why" ]
    report "pure_${name%.o}" $?
done <"$work/objects"

# --- controls: small files that break one rule each, and one that breaks none ---

cc=${CC:-gcc}
# compile NAME: from stdin. Position-independent, as distributions compile, so that pointers in tables are relocated.
compile() {
    cat >"$work/$1.c"
    # Unquoted: CC may be 'ccache gcc' or carry options of its own.
    $cc -std=gnu11 -O2 -fPIE -c -o "$work/$1.o" "$work/$1.c" 2>"$work/why"
}

# rejected NAME PATTERN: compiles stdin; the check must say PATTERN of it, and nothing else. (Thread-local data brings
# the linker's own name for the table of addresses along.)
rejected() {
    if ! compile "$1"; then
        report "control_$1_is_rejected" 1
        return
    fi
    impure "$work/$1.o" "$work/allowed" | grep -v '_GLOBAL_OFFSET_TABLE_$' >"$work/why"
    grep -q "$2" "$work/why" && ! grep -v -q "$2" "$work/why"
    status=$?
    printf 'expected: %s\n' "$2" >>"$work/why"
    report "control_$1_is_rejected" $status
}

rejected static_counter 'writable section \.bss' <<'END'
unsigned next(void);
unsigned next(void) { static unsigned counter; return ++counter; }
END
rejected initialised_counter 'writable section \.data ' <<'END'
unsigned next(void);
unsigned next(void) { static unsigned counter = 7; return ++counter; }
END
rejected clock 'imports time' <<'END'
#include <time.h>
long now(void);
long now(void) { return (long)time(0); }
END
rejected allocation 'imports malloc' <<'END'
#include <stdlib.h>
void *more(void);
void *more(void) { return malloc(64); }
END
rejected table_of_names 'writable section \.data\.rel\.ro' <<'END'
extern const char *const names[];
const char *const names[] = { "idle", "sending", "done" };
END
rejected thread_local 'writable section \.tbss' <<'END'
unsigned next(void);
unsigned next(void) { static _Thread_local unsigned counter; return ++counter; }
END
rejected common_symbol 'common symbol counter' <<'END'
unsigned counter __attribute__((common));
END
rejected constructor 'writable section \.init_array' <<'END'
void begin(void);
__attribute__((constructor)) void begin(void) { __asm__ volatile(""); }
END
rejected other_module 'imports elsewhere' <<'END'
int elsewhere(int);
int here(int n);
int here(int n) { return elsewhere(n) + 1; }
END

# The same import is right once the list has an object that defines it.
compile elsewhere <<'END'
#include <assert.h>
#include <string.h>
int elsewhere(int n);
int elsewhere(int n)
{
    static const unsigned char table[256] = { 1, 2, 3 };
    unsigned char copy[256];
    assert(n >= 0 && n < 256);
    memcpy(copy, table, sizeof copy);
    __asm__ volatile("" ::"r"(copy) : "memory");
    return copy[n];
}
END
compiled=$?
{ cat "$work/allowed"; defined "$work/elsewhere.o"; } | sort -u >"$work/supplied"
{ impure "$work/elsewhere.o" "$work/supplied"; impure "$work/other_module.o" "$work/supplied"; } >"$work/why"
[ $compiled -eq 0 ] && ! [ -s "$work/why" ]
report control_pure_pair_is_accepted $?

echo 'no object file' >"$work/broken.o"
impure "$work/broken.o" "$work/allowed" >"$work/why"
grep -q "can't be read" "$work/why"
report control_unreadable_object_is_rejected $?

exit $failed
