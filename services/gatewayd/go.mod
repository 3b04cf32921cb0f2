module github.com/acphost/acphost/services/gatewayd

go 1.26.0

require (
	connectrpc.com/connect v1.21.1
	github.com/acphost/acphost/internal v0.0.0
	github.com/acphost/acphost/proto v0.0.0
	github.com/acphost/acphost/sdk v0.0.0
	github.com/coder/websocket v1.8.15
	github.com/coreos/go-oidc/v3 v3.21.0
	github.com/go-json-experiment/json v0.0.0-20260820222146-c27c302e5fc3
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3
	go.uber.org/goleak v1.3.0
	golang.org/x/oauth2 v0.38.0
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260817212433-ac3dfec99bb1
	google.golang.org/grpc v1.85.0
	google.golang.org/protobuf v1.36.12
)

require (
	github.com/go-jose/go-jose/v4 v4.1.4 // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.42.0 // indirect
)

replace github.com/acphost/acphost/internal => ../../internal

replace github.com/acphost/acphost/proto => ../../proto

replace github.com/acphost/acphost/sdk => ../../sdk
