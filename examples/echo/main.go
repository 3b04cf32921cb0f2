// Command echo is a handler that answers its own method, _test.acphost/echo. It is the shortest complete example of a
// handler in Go: a .proto whose RPC declares the method that it answers, an implementation, and this file.
//
// The supervisor learns of it from its configuration alone:
//
//	handlers:
//	  echo: {command: [/path/to/echo], settings: {prefix: "> "}}
//
// With ECHO_REFLECTION=1 in the entry's env it keeps its descriptors to itself, and the supervisor asks gRPC reflection.
package main

import (
	_ "embed"
	"os"

	"google.golang.org/grpc"

	"github.com/acphost/acphost/examples/echo/echov1"
	"github.com/acphost/acphost/sdk/handler"
)

//go:embed echo.binpb
var descriptors []byte

func main() {
	service := &echo{}
	h := handler.Handler{
		Name:          "echo",
		Version:       "1.0.0",
		Register:      func(s grpc.ServiceRegistrar) { echov1.RegisterEchoServiceServer(s, service) },
		Configure:     service.configure,
		DescriptorSet: descriptors,
	}
	if os.Getenv("ECHO_REFLECTION") != "" {
		h.DescriptorSet = nil
	}
	handler.Main(h)
}
