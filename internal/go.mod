module github.com/acphost/acphost/internal

go 1.26.0

require (
	github.com/acphost/acphost/proto v0.0.0
	github.com/bmatcuk/doublestar/v4 v4.10.4
	go.uber.org/goleak v1.3.0
	go.yaml.in/yaml/v3 v3.0.6
	golang.org/x/net v0.60.0
	golang.org/x/sys v0.49.0
	golang.org/x/text v0.42.0
	google.golang.org/grpc v1.85.0
	google.golang.org/protobuf v1.36.12
	mvdan.cc/sh/v3 v3.14.1
)

require google.golang.org/genproto/googleapis/rpc v0.0.0-20260817212433-ac3dfec99bb1 // indirect

replace github.com/acphost/acphost/proto => ../proto
