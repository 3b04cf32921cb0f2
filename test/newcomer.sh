#!/bin/bash
# Does what the README and docs/install.md tell a newcomer to do, in a Debian that has nothing but its essential packages, as an
# ordinary user, without a network: from the archive of a release to a first denied action that is explained, and seen in the
# console. Prints what each step took, and with SHOW=1 what it printed. newcomer.sh DIST [ROOT]; ROOT is a root of Debian's that is
# there already, and is not changed. ACPHOST_PICTURES is a folder for a picture of the console.
#
# Each step is a line of a page: a step that the page does not have fails. The browser is not in the root: it is Chromium of this
# machine, on the root's loopback. Needs root, bubblewrap, chromium and, without ROOT, mmdebstrap.
set -euo pipefail
cd "$(dirname "$0")/.."
dist=$(realpath "$1")
for need in bwrap jq chromium ${2:+true} ${2:-mmdebstrap}; do
  [ -d "$need" ] || command -v "$need" >/dev/null || { echo "$need is not installed: apt-get install mmdebstrap bubblewrap chromium jq" >&2; exit 1; }
done
[ "$(id -u)" = 0 ] || { echo "a root of another system can only be made by root: run this as root" >&2; exit 1; }
work=$(mktemp -d)
machine=
# The first process of the root takes all others along.
trap '[ -z "$machine" ] || kill -9 "$machine" 2>/dev/null || true; wait; rm -rf "$work"' EXIT
root=${2:-$work/root}
[ -n "${2:-}" ] || mmdebstrap --quiet --variant=essential bookworm "$root"
mkdir -p "$work/home/empty"
archive=$(basename "$dist"/acphost_*_linux_"$(dpkg --print-architecture)".tar.gz)
cp "$dist/$archive" "$work/home"

go build -o "$work/browser" ./test/newcomer

# The machine: its first process, and what comes in later as other terminals of the same user.
mkfifo "$work/info"
bwrap --unshare-all --uid 1000 --gid 1000 --die-with-parent --info-fd 3 --ro-bind "$root" / --tmpfs /home --bind "$work/home" /home/you \
  --tmpfs /tmp --proc /proc --dev /dev --chdir /home/you sleep infinity 3>"$work/info" &
machine=$(jq .'"child-pid"' <"$work/info")
inside=(nsenter --target "$machine" --user --net --pid --mount --ipc --uts --preserve-credentials
  env -i PATH=/home/you/.local/bin:/usr/bin:/bin HOME=/home/you LANG=C.UTF-8 TERM=xterm)
# bare runs a line in a shell in the root, as a user there.
bare() { "${inside[@]}" sh -c "cd $dir && $1" </dev/null; }

begun=$(date +%s%N) all=0
says() { grep -qF -- "$2" "$1" || { echo "$1 does not say: $2" >&2; exit 1; }; }
# took says how long a step took that began at $begun.
took() { # PAGE LINE
  local took=$((($(date +%s%N) - begun) / 1000000))
  all=$((all + took))
  printf '%6d ms  %-20s %s\n' "$took" "$1" "$2"
}
# step runs a line of a page, and expects texts in what it prints.
step() { # PAGE LINE TEXT...
  local page=$1 line=$2 out status=0 text
  shift 2
  says "$page" "$line"
  line=${line//acphost_1.2.3_linux_amd64.tar.gz/$archive}
  begun=$(date +%s%N)
  out=$(bare "$line" 2>&1) || status=$?
  took "$page" "$line"
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

# terminal runs a line of a page in a terminal of its own, until it prints a text.
terminal() { # PAGE LINE TEXT
  says "$1" "$2"
  begun=$(date +%s%N)
  bare "$2" >"$work/terminal" 2>&1 &
  wait_for "$3" "$work/terminal" $!
  took "$1" "$2"
}
# wait_for waits until a process has written a text to a file.
wait_for() { # TEXT FILE PID
  touch "$2" # the process may make it only now
  for _ in $(seq 600); do
    grep -qF -- "$1" "$2" && return
    kill -0 "$3" 2>/dev/null || break
    sleep 0.1
  done
  printf 'it does not say "%s":\n' "$1" >&2
  cat "$2" >&2
  exit 1
}
terminal docs/console.md 'acphost serve --policy workspace -- demoagent' 'serving at unix:@'
terminal docs/console.md 'gatewayd' 'http://127.0.0.1:7480/console/'
says docs/console.md '<http://127.0.0.1:7480/console/>'
says docs/console.md 'acphost console CODE'
begun=$(date +%s%N)
# Chromium itself is there already: what it takes to start is not of these steps.
nsenter --target "$machine" --net "$work/browser" ${ACPHOST_PICTURES:+-picture "$ACPHOST_PICTURES/newcomer.png"} -for 'rule secrets' -for '/home/you/empty/.env' \
  "${inside[@]}" acphost console CODE >"$work/seen" 2>&1 &
browser=$!
wait_for 'signed in' "$work/seen" $browser
took docs/console.md 'acphost console CODE   (with the start of a browser)'
step docs/console.md 'acphost sessions prompt "$(acphost sessions new demoagent)" "/read $PWD/.env"' 'rule secrets'
begun=$(date +%s%N)
wait $browser || { cat "$work/seen" >&2; exit 1; }
took docs/console.md 'the session shows the denial and its rule'
[ -z "${SHOW:-}" ] || cat "$work/seen"
printf '%6d ms  from the archive to a denied action that is explained, and seen in the console\n' $all
