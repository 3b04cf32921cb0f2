#!/usr/bin/env bash
# Holds acphost's own daemons to the contract of a handler, as children and as sidecars, and the handlers that people
# copy; and broken ones, which must fail.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=$(mktemp -d)
sidecars=()
cleanup() {
  for pid in "${sidecars[@]}"; do kill "$pid" 2>/dev/null || true; done
  rm -rf "$dir"
}
trap cleanup EXIT

# suite NAME ARGS…: runs the cases, and shows those that failed and the count.
suite() {
  local name=$1
  shift
  printf '%-24s ' "$name"
  if bin/acphost-conformance "$@" >"$dir/out" 2>&1; then
    tail -n 1 "$dir/out"
  else
    echo FAILED
    grep -v '^ok ' "$dir/out" || true
    return 1
  fi
}

# sidecar NAME COMMAND…: starts a sidecar on the socket NAME.sock, and waits until it takes connections.
sidecar() {
  local name=$1
  shift
  "$@" --listen "unix://$dir/$name.sock" 2>"$dir/$name.log" &
  sidecars+=($!)
  for _ in $(seq 200); do
    node -e 'require("net").connect(process.argv[1]).on("error", () => process.exit(1)).on("connect", () => process.exit(0))' "$dir/$name.sock" && return
    kill -0 $! 2>/dev/null || break
    sleep 0.05
  done
  echo "the sidecar $name did not come up:" >&2
  cat "$dir/$name.log" >&2
  return 1
}

(umask 077; head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$dir/secret")
for pair in fs=fsd terminal=termd permission=permd; do
  kind=${pair%%=*} daemon=${pair##*=}
  suite "$daemon as a child" --kind "$kind" -- "bin/$daemon"
  sidecar "$daemon" "bin/$daemon" --secret-file "$dir/secret"
  suite "$daemon as a sidecar" --kind "$kind" --address "unix://$dir/$daemon.sock" --secret-file "$dir/secret"
done
suite "echo as a child" --kind extension -- bin/echo
suite "plainfs as a child" --kind fs -- bin/plainfs
suite "plainterm as a child" --kind terminal --no-tty -- bin/plainterm

# The policies, with settings that let them decide.
printf 'paths: ["%s"]\nfrom: 0\nuntil: 24\n' "$(dirname "$(realpath "$dir")")" >"$dir/businesshours.yaml"
suite "businesshours as a child" --kind permission --settings "$dir/businesshours.yaml" -- bin/businesshours
sidecar businesshours bin/businesshours --secret-file "$dir/secret"
suite "businesshours, a sidecar" --kind permission --address "unix://$dir/businesshours.sock" --secret-file "$dir/secret"

echo 'commands: [git status, ls -la, head -5]' >"$dir/policy-node.yaml"
suite "policy-node as a child" --kind permission --settings "$dir/policy-node.yaml" -- examples/policy-node/main.js

# The templates in Python. Go, Node and a compiler are what acphost needs; a Python with these packages is not.
if python=$(test/python.sh); then
  export PYTHONDONTWRITEBYTECODE=1
  PATH=$PWD/.tools/npm/node_modules/.bin:$PATH examples/python/generate.sh
  (cd examples/python && "$python" -m unittest -q 2>"$dir/out") || { cat "$dir/out"; exit 1; }
  suite "policy.py as a child" --kind permission -- "$python" examples/python/policy.py
  suite "files.py as a child" --kind fs -- "$python" examples/python/files.py
  sidecar files "$python" examples/python/files.py --secret-file "$dir/secret"
  suite "files.py as a sidecar" --kind fs --address "unix://$dir/files.sock" --secret-file "$dir/secret"
  bin/acphost certs sidecar permission "$dir/certs" >/dev/null
  tls() { echo --tls-ca "$dir/certs/$1/ca.crt" --tls-cert "$dir/certs/$1/$2.crt" --tls-key "$dir/certs/$1/$2.key"; }
  sidecar policy "$python" examples/python/policy.py $(tls sidecar server)
  suite "policy.py, a sidecar" --kind permission --address "unix://$dir/policy.sock" $(tls supervisor client)
else
  echo "the templates in Python    skipped: see the line above"
fi

# In the place of OPA's server: one that asks about everything.
node -e '
  require("http").createServer((request, answer) => request.resume().on("end", () => answer.end(`{"result": {"verdict": "ask"}}`)))
    .listen(0, "127.0.0.1", function () {
      require("fs").writeFileSync(process.argv[1], `url: http://127.0.0.1:${this.address().port}/v1/data/acphost/decision\n`);
    });
' "$dir/policy-opa.yaml" &
sidecars+=($!)
for _ in $(seq 200); do
  [ -s "$dir/policy-opa.yaml" ] && break
  sleep 0.05
done
suite "policy-opa as a child" --kind permission --settings "$dir/policy-opa.yaml" -- bin/policy-opa

CGO_ENABLED=0 go build -trimpath -o "$dir/broken" ./test/broken
for kind in fs permission; do
  printf '%-24s ' "a broken $kind handler"
  if bin/acphost-conformance --kind "$kind" -- "$dir/broken" >"$dir/out" 2>&1; then
    echo "PASSED, and must not: the suite proves nothing" >&2
    exit 1
  fi
  echo "fails, as it must: $(tail -n 1 "$dir/out")"
done
