#!/bin/sh
# Makes the keys by which the parts of a deployment, and its callers, know each other:
#
#   keys.sh [--agent NAME] [--namespace NAMESPACE] [--host HOST]... [FOLDER]
#
# FOLDER is by default ./keys beside this script. The certificate of the supervisor is good for localhost, for the names of the
# Service NAME (default: agent) in NAMESPACE (default: default), and for each HOST by which callers reach the supervisor besides.
# Each sidecar has an authority of its own. The callers are viewer, approver, operator, metrics (for Prometheus) and gateway (for
# gatewayd). Existing keys are not replaced: "acphost certs renew" does that before they expire.
set -eu
agent=agent namespace=default keys= hosts=
while [ $# -gt 0 ]; do
  case $1 in
    --agent | --namespace | --host)
      [ $# -ge 2 ] || { echo "keys.sh: $1 needs a value" >&2; exit 2; }
      case $1 in --agent) agent=$2 ;; --namespace) namespace=$2 ;; --host) hosts="$hosts --host $2" ;; esac
      shift 2 ;;
    -*) echo "keys.sh: unknown flag $1; usage: keys.sh [--agent NAME] [--namespace NAMESPACE] [--host HOST]... [FOLDER]" >&2; exit 2 ;;
    *)
      [ -z "$keys" ] || { echo "keys.sh: more than one folder: $keys and $1" >&2; exit 2; }
      keys=$1
      shift ;;
  esac
done
keys=${keys:-$(dirname "$0")/keys}
acphost=${ACPHOST:-acphost}
command -v "$acphost" >/dev/null || { echo "keys.sh: $acphost is not found: install acphost, or name the program in ACPHOST" >&2; exit 1; }
umask 077
mkdir -p "$keys"
for handler in fs terminal permission; do
  [ -e "$keys/$handler" ] || "$acphost" certs sidecar "$handler" "$keys/$handler"
done
for suffix in "" ".$namespace" ".$namespace.svc" ".$namespace.svc.cluster.local"; do hosts="--host $agent$suffix $hosts"; done
# shellcheck disable=SC2086 # $hosts is a list of words
[ -e "$keys/callers" ] || "$acphost" certs init "$keys/callers" $hosts \
  --client viewer:viewer --client approver:approver --client operator:operator --client metrics:metrics
[ -e "$keys/callers/gateway" ] || "$acphost" certs gateway "$keys/callers" --acts-as operator
