#!/bin/sh
# Makes the keys by which the parts of the Pod, and those who call it, know each other: keys.sh [FOLDER], by default ./keys. Each
# sidecar has an authority of its own. Nothing that is there is replaced; "acphost certs renew" does that before they expire.
set -eu
keys=${1:-$(dirname "$0")/keys}
acphost=${ACPHOST:-acphost}
umask 077
mkdir -p "$keys"
for handler in fs terminal permission; do
  [ -e "$keys/$handler" ] || "$acphost" certs sidecar "$handler" "$keys/$handler"
done
[ -e "$keys/callers" ] || "$acphost" certs init "$keys/callers" --host agent --host localhost
