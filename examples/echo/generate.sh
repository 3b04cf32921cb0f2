#!/bin/sh
# Makes echov1/ and echo.binpb from echo.proto.
set -eu
cd "$(dirname "$0")/../.."
config='{"version":"v2","modules":[{"path":"proto"},{"path":"examples/echo"}]}'
.tools/bin/buf generate --config "$config" --template examples/echo/buf.gen.yaml --path examples/echo/echo.proto
.tools/bin/buf build --config "$config" --path examples/echo/echo.proto \
	--as-file-descriptor-set --exclude-source-info -o examples/echo/echo.binpb
