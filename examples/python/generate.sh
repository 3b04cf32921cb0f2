#!/bin/sh
# Makes acphost.binpb of acphost's .proto files, which are in the folder that is named, by default the repository's: with buf, or
# with protoc (Debian: protobuf-compiler; pip install grpcio-tools: python3 -m grpc_tools.protoc).
set -eu
cd "$(dirname "$0")"
protos=${1:-../../proto}
if command -v buf >/dev/null; then
  buf build "$protos" -o acphost.binpb
else
  protoc=protoc
  command -v protoc >/dev/null || protoc='python3 -m grpc_tools.protoc'
  (cd "$protos" && find acphost -name '*.proto') | xargs $protoc -I "$protos" --include_imports -o acphost.binpb
fi
