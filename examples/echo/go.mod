module github.com/acphost/acphost/examples/echo

go 1.26.0

require (
	github.com/acphost/acphost/proto v0.0.0
	github.com/acphost/acphost/sdk v0.0.0
	github.com/hashicorp/go-plugin v1.8.0
	golang.org/x/sys v0.49.0
	google.golang.org/grpc v1.85.0
	google.golang.org/protobuf v1.36.12
)

replace github.com/acphost/acphost/proto => ../../proto

replace github.com/acphost/acphost/sdk => ../../sdk
