module github.com/acphost/acphost/sdk

go 1.26.0

require (
	github.com/acphost/acphost/proto v0.0.0
	github.com/hashicorp/go-plugin v1.8.0
	github.com/spf13/cobra v1.10.2
	go.uber.org/goleak v1.3.0
	go.yaml.in/yaml/v3 v3.0.6
	golang.org/x/sys v0.49.0
	google.golang.org/grpc v1.85.0
	google.golang.org/protobuf v1.36.12
	mvdan.cc/sh/v3 v3.14.1
)

replace github.com/acphost/acphost/proto => ../proto
