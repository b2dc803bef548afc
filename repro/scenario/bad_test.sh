#!/bin/sh
# Bad scenarios: `PROGRAM check FILE` must end within 10 s with exit 2 and say on stderr where the fault is and what it is.
# The place and the words are in the file's first line, or in NAME.expect where a file can't hold them.
# usage: bad_test.sh PROGRAM [DIRECTORY]
set -u

program=${1:?usage: bad_test.sh PROGRAM [DIRECTORY]}
bad=${2:-$(dirname "$0")/bad}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
count=0
failed=0

# check NAME FILE PLACE TEXT; PLACE may be - for a message about the whole file.
check()
{
    timeout 10 "$program" check "$2" >"$work/out" 2>"$work/err"
    rc=$?
    where="$2:$3: error: "
    [ "$3" = - ] && where="$2: error: "
    count=$((count + 1))
    if [ "$rc" -eq 2 ] && grep -F -e "$where" "$work/err" | grep -q -F -e "$4"; then
        echo "ok $1"
        return
    fi
    failed=$((failed + 1))
    echo "not ok $1"
    echo "#  expected exit 2 and: $where... $4"
    echo "#  exit $rc and:"
    head -n 5 "$work/err" | LC_ALL=C tr -cd '\12\40-\176' | sed 's/^/#  /'
}

for file in "$bad"/*.yaml; do
    name=$(basename "$file" .yaml)
    if [ -f "$bad/$name.expect" ]; then
        expected=$(cat "$bad/$name.expect")
    else
        expected=$(sed -n '1s/^# expect: //p' "$file")
    fi
    place=${expected%% *}
    text=${expected#* }
    if [ -z "$place" ] || [ "$place" = "$expected" ]; then
        count=$((count + 1))
        failed=$((failed + 1))
        echo "not ok $name"
        echo "#  no expectation: write '# expect: LINE:COLUMN TEXT' in its first line"
        continue
    fi
    check "$name" "$file" "$place" "$text"
done

# What is too large to be kept.
repeat() { head -c "$1" /dev/zero | tr '\0' "$2"; }

repeat 1048577 '#' >"$work/over_1_mib.yaml"
check over_1_mib "$work/over_1_mib.yaml" - "longer than 1048576 bytes"
{ echo 'scenario: x'; repeat 1000000 '\n'; repeat 3000000 x; } >"$work/over_3_mib.yaml"
check over_3_mib "$work/over_3_mib.yaml" - "longer than 1048576 bytes"
repeat 1048576 '\n' >"$work/newlines_1_mib.yaml"
check newlines_1_mib "$work/newlines_1_mib.yaml" 1:1 "the file is empty"
repeat 1048576 '[' >"$work/brackets_1_mib.yaml"
check brackets_1_mib "$work/brackets_1_mib.yaml" 1:4097 "a line of more than 4096 bytes"
{ repeat 400000 '['; } | fold -w 1000 >"$work/brackets_in_lines.yaml"
check brackets_in_lines "$work/brackets_in_lines.yaml" 1:25 "nested more than 24 deep"
{ printf 'scenario: !<'; repeat 900000 'A' | sed 's/A/%41/g'; echo '> x'; } | head -c 1048576 >"$work/tag_with_escapes.yaml"
check tag_with_escapes "$work/tag_with_escapes.yaml" 1:4097 "a line of more than 4096 bytes"
{ printf 'scenario: ['; repeat 200000 1 | sed 's/1/ 1,\n/g'; echo ' ]'; } >"$work/many_values.yaml"
check many_values "$work/many_values.yaml" 65534:2 "more than 65536 values"
head -c 300000 /dev/zero >"$work/zeros.yaml"
check zeros "$work/zeros.yaml" 1:1 "character U+0000 is not allowed"
check directory "$work" - "Is a directory"
check missing "$work/none.yaml" - "No such file"

echo "# $count bad scenarios, $failed failed"
[ "$count" -gt 0 ] && [ "$failed" -eq 0 ]
