#!/bin/sh
# Installs what kvrepro is built and tested with, from the distribution's own packages; --help says more.
# dpkg is asked first, so when everything is there this prints nothing and needs neither network nor root.
set -u

build_pkgs='make gcc libc6-dev pkg-config libfyaml-dev libjansson-dev libxxhash-dev'
test_pkgs='libcriterion-dev clang libclang-rt-14-dev git libxml2-utils'
aarch64_pkgs='gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user'

usage() {
    cat <<EOF
usage: sh scripts/setup.sh [build|test|aarch64]... [--help]

Installs the missing packages of the named groups (default: build) with apt, as root or through sudo:
  build    $build_pkgs
  test     build, and $test_pkgs
  aarch64  $aarch64_pkgs
Where there is no apt it only looks, and prints what to install. Without root the tree can be built just as well
with tools of your own: make, make test.

exit status: 0 everything is there; 2 something is missing and could not be installed, or wrong usage

examples:
  sh scripts/setup.sh              what 'make' needs
  sh scripts/setup.sh test aarch64 what the tests need, on this machine and for AArch64
EOF
}

say() {
    printf 'setup: %s\n' "$*" >&2
}

# dpkg calls ldconfig and start-stop-daemon by name, and an ordinary user's PATH often lacks the folder they are in.
PATH=${PATH:-/usr/local/bin:/usr/bin:/bin}:/usr/sbin:/sbin
export PATH

groups=
for arg in "$@"; do
    case $arg in
    build | test | aarch64) groups="$groups $arg" ;;
    -h | --help)
        usage
        exit 0
        ;;
    *)
        say "unknown argument: $arg"
        usage >&2
        exit 2
        ;;
    esac
done
groups=${groups:-build}

have() {
    command -v "$1" >/dev/null 2>&1
}

# want WHAT PACKAGES COMMAND...: WHAT is missing unless COMMAND succeeds.
want() {
    what=$1
    pkgs=$2
    shift 2
    "$@" >/dev/null 2>&1 </dev/null && return
    case $missing in *"  $what "*) return ;; esac
    missing="$missing$(printf '  %-40s %s' "$what " "$pkgs")
"
}

probe() {
    missing=
    for group in $groups; do
        case $group in
        build | test)
            want 'a C compiler (cc)' 'gcc libc6-dev' have cc
            want 'GNU make (as make)' make sh -c 'make --version | grep GNU'
            want 'pkg-config' pkg-config have pkg-config
            want 'libfyaml with its headers' libfyaml-dev pkg-config --exists libfyaml
            want 'jansson with its headers' libjansson-dev pkg-config --exists jansson
            want 'xxhash with its headers' libxxhash-dev pkg-config --exists libxxhash
            ;;
        esac
        case $group in
        test)
            want 'Criterion with its headers' libcriterion-dev pkg-config --exists criterion
            want 'clang with its sanitizer runtime' 'clang libclang-rt-14-dev' have clang
            want 'git' git have git
            ;;
        aarch64)
            want 'a C compiler for AArch64 with its libc' 'gcc-aarch64-linux-gnu libc6-dev-arm64-cross' \
                have aarch64-linux-gnu-gcc
            want 'qemu-aarch64 (user mode)' qemu-user have qemu-aarch64
            ;;
        esac
    done
    [ -n "$missing" ] || exit 0
    say 'there is no apt here, so nothing was installed. Missing, each with the name of its Debian package:'
    printf '%s' "$missing" >&2
    say "install these, then try again"
    exit 2
}

if ! have dpkg-query || ! have apt-get; then
    probe
fi

wanted=
for group in $groups; do
    case $group in
    build) more=$build_pkgs ;;
    test) more="$build_pkgs $test_pkgs" ;;
    aarch64) more=$aarch64_pkgs ;;
    esac
    for pkg in $more; do
        case " $wanted " in *" $pkg "*) ;; *) wanted="$wanted${wanted:+ }$pkg" ;; esac
    done
done

# The names below are lists of words without blanks or patterns: they are split on purpose.
# shellcheck disable=SC2016,SC2086
known=$(dpkg-query -W -f='${Package} ${db:Status-Status}\n' $wanted 2>/dev/null)
missing=
for pkg in $wanted; do
    printf '%s\n' "$known" | grep -qxF "$pkg installed" || missing="$missing${missing:+ }$pkg"
done
[ -n "$missing" ] || exit 0

# show_command [sudo ]: what to type, on one line that can be pasted.
show_command() {
    printf '  %sapt-get update && %sapt-get install -y --no-install-recommends %s\n' "$1" "$1" "$missing" >&2
}

sudo=
if [ "$(id -u)" != 0 ]; then
    sudo='sudo '
    if ! have sudo; then
        say 'packages are missing, this is not root, and there is no sudo. Run this as root, then try again:'
        show_command ''
        exit 2
    fi
fi

log=$(mktemp) || exit 2
trap 'rm -f "$log"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# apt VERB...: a password is asked for, if at all, on the terminal; everything else goes to the log.
# LC_ALL: the log is searched for apt's English messages.
apt() {
    # shellcheck disable=SC2086
    ${sudo}env LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@" >>"$log" 2>&1 </dev/null
}

# DPkg::Lock::Timeout does not cover the lock that 'update' takes: wait for another update here.
update() {
    tries=0
    until apt -o APT::Update::Error-Mode=any update; do
        grep -q '^E: Could not get lock' "$log" || return 1
        [ "$tries" -gt 0 ] || say 'another apt is at work, waiting for it'
        tries=$((tries + 1))
        [ "$tries" -le 100 ] || return 1
        sleep 3
        : >"$log"
    done
}

say "installing $missing with apt (once; this may take a minute)"
# A failed update is not the end: one broken third-party source fails it, and Debian's own lists may be fine.
# But if apt itself said nothing, it never ran (sudo refused), and asking once more is no use.
updated=yes
trouble=
if ! update; then
    updated=no
    trouble=$(grep '^[EW]: ' "$log" | tail -n 5)
fi
if [ "$updated" = yes ] || [ -n "$trouble" ]; then
    : >"$log"
    # shellcheck disable=SC2086
    apt -y --no-install-recommends --no-remove install $missing && exit 0
fi

say 'the packages could not be installed; the last lines:'
[ -z "$trouble" ] || printf '%s\n' "$trouble" | sed 's/^/  /' >&2
tail -n 8 "$log" | sed 's/^/  /' >&2
unknown=$(sed -n "s/^E: Unable to locate package //p; s/^E: Package '\([^']*\)' has no installation candidate.*/\1/p" "$log" |
    tr '\n' ' ')
if [ -n "$trouble" ]; then
    say "'apt-get update' had failed: is there a network?"
elif [ -n "$unknown" ]; then
    say "apt does not know: ${unknown% } (on Ubuntu, is 'universe' enabled?)"
fi
say 'to try again:'
show_command "$sudo"
exit 2
