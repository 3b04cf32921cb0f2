#!/bin/sh
# Makes the keys by which the parts of a deployment, and its callers, know each other:
#
#   keys.sh [--agent NAME] [--namespace NAMESPACE] [--host HOST]... [FOLDER]
#
# FOLDER is by default ./keys beside this script. The certificate of the supervisor is good for localhost, for the names of the
# Service NAME (default: agent) in NAMESPACE (default: default), and for each HOST by which callers reach the supervisor besides.
# Each sidecar has an authority of its own. The callers are viewer, approver, operator, metrics (for Prometheus) and gateway (for
# gatewayd). Existing keys are not replaced: "acphost certs renew" does that before they expire. callers/hosts has the names that
# the certificate was made for; a call that asks for another one fails.
set -euf
usage='usage: keys.sh [--agent NAME] [--namespace NAMESPACE] [--host HOST]... [FOLDER]'
agent=agent namespace=default keys= hosts= asked=
while [ $# -gt 0 ]; do
  case $1 in
    --agent | --namespace | --host)
      [ $# -ge 2 ] || { echo "keys.sh: $1 needs a value" >&2; exit 2; }
      case $2 in
        '' | *[[:space:]]*) echo "keys.sh: $1: expected one name without spaces, got \"$2\"" >&2; exit 2 ;;
      esac
      case $1 in
        --agent) agent=$2 asked=names ;;
        --namespace) namespace=$2 asked=names ;;
        --host) hosts="$hosts $2" ;;
      esac
      shift 2 ;;
    -h | --help)
      cat <<EOF
$usage

Makes the keys of a deployment in FOLDER (default: keys beside this script). Existing keys are not replaced.

  --agent NAME           the name of the supervisor's Service (default: agent)
  --namespace NAMESPACE  the namespace of the Service (default: default)
  --host HOST            a further name or address of the supervisor for its certificate; may be repeated
EOF
      exit 0 ;;
    -*) echo "keys.sh: unknown flag $1; $usage" >&2; exit 2 ;;
    *)
      [ -z "$keys" ] || { echo "keys.sh: more than one folder: $keys and $1" >&2; exit 2; }
      keys=$1
      shift ;;
  esac
done
keys=${keys:-$(dirname "$0")/keys}
acphost=${ACPHOST:-acphost}
command -v "$acphost" >/dev/null || { echo "keys.sh: $acphost is not found: install acphost, or name the program in ACPHOST" >&2; exit 1; }
names=
for suffix in "" ".$namespace" ".$namespace.svc" ".$namespace.svc.cluster.local"; do names="$names $agent$suffix"; done
umask 077
if [ -e "$keys/callers" ]; then
  [ -z "$asked" ] || hosts="$names $hosts"
  for host in $hosts; do
    grep -qsFx -e "$host" "$keys/callers/hosts" || {
      echo "keys.sh: $keys/callers is there already, and its certificate was not made for $host: remove that folder, call keys.sh" \
        "again with every --host, and give the supervisor and its callers their new keys" >&2
      exit 1
    }
  done
else
  made=
  [ -d "$keys" ] || made=yes
  mkdir -p "$keys"
  flags=
  for host in $names $hosts; do flags="$flags --host $host"; done
  # These are made first: if a host is wrong, nothing is made.
  # shellcheck disable=SC2086 # $flags is a list of words
  "$acphost" certs init "$keys/callers" $flags \
    --client viewer:viewer --client approver:approver --client operator:operator --client metrics:metrics || {
    status=$?
    [ -z "$made" ] || rmdir "$keys"
    exit $status
  }
  for host in $names $hosts; do echo "$host"; done > "$keys/callers/hosts"
fi
[ -e "$keys/callers/gateway" ] || "$acphost" certs gateway "$keys/callers" --acts-as operator
for handler in fs terminal permission; do
  [ -e "$keys/$handler" ] || "$acphost" certs sidecar "$handler" "$keys/$handler"
done
