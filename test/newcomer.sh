#!/bin/bash
# Does what the README and docs/install.md tell a newcomer to do, in a Debian that has nothing but its essential packages, as an
# ordinary user, without a network: from the archive of a release to a first denied action that is explained. Prints what each step
# took, and with SHOW=1 what it printed. newcomer.sh DIST [ROOT]; ROOT is a root of Debian's that is there already, and is not changed.
#
# Each step is a line of a page: a step that the page does not have fails. Needs root, bubblewrap and, without ROOT, mmdebstrap.
set -euo pipefail
cd "$(dirname "$0")/.."
dist=$(realpath "$1")
for need in bwrap ${2:+true} ${2:-mmdebstrap}; do
  [ -d "$need" ] || command -v "$need" >/dev/null || { echo "$need is not installed: apt-get install mmdebstrap bubblewrap" >&2; exit 1; }
done
[ "$(id -u)" = 0 ] || { echo "a root of another system can only be made by root: run this as root" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=${2:-$work/root}
[ -n "${2:-}" ] || mmdebstrap --quiet --variant=essential bookworm "$root"
mkdir -p "$work/home/empty"
archive=$(basename "$dist"/acphost_*_linux_"$(dpkg --print-architecture)".tar.gz)
cp "$dist/$archive" "$work/home"

# bare runs a line in a shell in the root, as a user there.
bare() {
  bwrap --unshare-all --uid 1000 --gid 1000 --die-with-parent --clearenv --setenv PATH /home/you/.local/bin:/usr/bin:/bin --setenv HOME /home/you \
    --setenv LANG C.UTF-8 --ro-bind "$root" / --tmpfs /home --bind "$work/home" /home/you --tmpfs /tmp --proc /proc --dev /dev --chdir "$dir" \
    sh -c "$1" </dev/null
}

begun=$(date +%s%N) all=0
# step runs a line of a page, and expects texts in what it prints.
step() { # PAGE LINE TEXT...
  local page=$1 line=$2 out status=0 took text
  shift 2
  grep -qF -- "$line" "$page" || { echo "$page does not say: $line" >&2; exit 1; }
  line=${line//acphost_1.2.3_linux_amd64.tar.gz/$archive}
  begun=$(date +%s%N)
  out=$(bare "$line" 2>&1) || status=$?
  took=$((($(date +%s%N) - begun) / 1000000))
  all=$((all + took))
  printf '%6d ms  %-20s %s\n' "$took" "$page" "$line"
  [ -z "${SHOW:-}" ] || printf "%s\n" "$out"
  [ $status = 0 ] || { printf 'exit status %d:\n%s\n' $status "$out" >&2; exit 1; }
  for text in "$@"; do
    grep -qF -- "$text" <<<"$out" || { printf 'it does not say "%s":\n%s\n' "$text" "$out" >&2; exit 1; }
  done
}

dir=/home/you
step docs/install.md 'mkdir -p ~/.local && tar -xzf acphost_1.2.3_linux_amd64.tar.gz --strip-components=1 -C ~/.local'
step docs/install.md 'acphost version' 'acphost '
step docs/install.md 'acphost doctor'
dir=/home/you/empty
step README.md 'acphost demo' 'denied, by rule stay-inside' 'acphost setup'
step README.md 'echo "TOKEN=1" > .env'
step README.md 'acphost prompt --policy workspace "/read $PWD/.env" -- demoagent' '1 action denied: read /home/you/empty/.env' 'rule secrets'
step README.md 'acphost policy why --denied --policy workspace' 'it was denied by rule secrets' 'deny  rule secrets' 'matches **/.env'
step README.md 'acphost audit tail' 'read /home/you/empty/.env' 'secrets'
printf '%6d ms  from the archive to a denied action that is explained\n' $all
