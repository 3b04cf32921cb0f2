#!/bin/sh
# Copies the keys that ../kubernetes/keys.sh has made in the folder FROM to TO, each part for the user that reads it: run as root,
# install-keys.sh FROM TO. After "acphost certs renew", run it again.
set -eu
[ $# = 2 ] || { echo "usage: install-keys.sh FROM TO" >&2; exit 2; }
part() { # FROM TO USER
  install -d -o "$3" -g "$3" -m 0700 "$2"
  for file in "$1"/*; do
    case $file in *.key) mode=0600 ;; *) mode=0644 ;; esac
    install -o "$3" -g "$3" -m $mode "$file" "$2/"
  done
}
install -d -m 0755 "$2"
part "$1/fs/sidecar" "$2/fsd" acphost-work
part "$1/terminal/sidecar" "$2/termd" acphost-work
part "$1/permission/sidecar" "$2/permd" acphost-policy
for handler in fs terminal permission; do part "$1/$handler/supervisor" "$2/$handler" acphost; done
part "$1/callers/server" "$2/server" acphost
