module github.com/acphost/acphost/test

go 1.26.0

require (
	github.com/acphost/acphost/proto v0.0.0
	github.com/acphost/acphost/sdk v0.0.0
	github.com/coder/acp-go-sdk v0.13.0
	github.com/creack/pty v1.1.24
	github.com/hashicorp/go-plugin v1.8.0
	go.uber.org/goleak v1.3.0
	golang.org/x/sys v0.49.0
	google.golang.org/grpc v1.85.0
	google.golang.org/protobuf v1.36.12
)

replace github.com/acphost/acphost/proto => ../proto

replace github.com/acphost/acphost/sdk => ../sdk
