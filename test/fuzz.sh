#!/usr/bin/env bash
# Fuzzes every target of a package for FUZZTIME each. The package is built once for all of them, and with FUZZBUILD, flags of
# go test: -fuzz=. guides the inputs by what code they reach, for which all that the package imports is compiled anew.
set -euo pipefail
dir=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck disable=SC2086 # flags, perhaps none
go test -c ${FUZZBUILD-} -ldflags='-s -w' -o "$work/fuzz.test" "./$dir"
for target in $(grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$dir"/*_test.go | cut -d' ' -f2 | sort -u); do
  if out=$(cd "$dir" && "$work/fuzz.test" -test.run='^$' -test.fuzz="^$target\$" -test.fuzztime="$FUZZTIME" \
    -test.parallel=1 -test.fuzzcachedir="$work/cache" 2>&1); then
    printf '== %s %s: %s\n' "$dir" "$target" "$(grep -oE 'execs: [0-9]+' <<<"$out" | tail -n 1)"
  # The time that runs out in the wrong moment is reported as a failure; one that counts names its input.
  elif grep -q '^    context deadline exceeded$' <<<"$out" && ! grep -q 'Failing input' <<<"$out"; then
    printf '== %s %s: its time ran out\n' "$dir" "$target"
  else
    printf '== %s %s FAILED\n%s\n' "$dir" "$target" "$out"
    exit 1
  fi
done
