#!/usr/bin/env bash
# Prints the folder with prometheus and promtool: where they are installed, or .tools/prometheus, where it unpacks Debian's
# package. The package is not installed, because that would start a service. Fails, and says why, if there is neither.
set -euo pipefail
if command -v prometheus >/dev/null && command -v promtool >/dev/null; then
  dirname "$(command -v promtool)"
  exit
fi
into=$(cd "$(dirname "$0")/.." && pwd)/.tools/prometheus
if [ ! -x "$into/usr/bin/prometheus" ] || [ ! -x "$into/usr/bin/promtool" ]; then
  if ! command -v apt-get >/dev/null || ! command -v dpkg >/dev/null; then
    echo "prometheus and promtool are not installed, and there is no apt-get to download them: install them from https://prometheus.io/download/" >&2
    exit 1
  fi
  at=$(mktemp -d)
  chmod 755 "$at" # apt-get downloads as a user of its own
  trap 'rm -rf "$at"' EXIT
  cd "$at"
  if ! apt-get download -qq prometheus >&2; then # a new machine has no lists of packages
    root=(); [ "$(id -u)" = 0 ] || root=(sudo)
    "${root[@]}" apt-get update -qq >&2
    apt-get download -qq prometheus >&2
  fi
  rm -rf "$into"
  mkdir -p "$into"
  dpkg -x ./prometheus_*.deb "$into"
fi
"$into/usr/bin/promtool" --version >/dev/null
echo "$into/usr/bin"
