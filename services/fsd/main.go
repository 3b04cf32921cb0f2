// Command fsd answers an agent's fs/* requests: it reads and writes text files below a session's roots.
package main

import (
	"github.com/acphost/acphost/internal/buildinfo"
	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/sdk/handler"

	"github.com/acphost/acphost/services/fsd/internal/files"
	"github.com/acphost/acphost/services/fsd/internal/server"
)

// version is set by the build: -ldflags "-X main.version=…".
var version string

func main() {
	fs := server.New(files.New(), handler.Logger())
	handler.Main(handler.Handler{
		Name:      "fsd",
		Version:   buildinfo.Read(version).Version,
		Register:  fs.Register,
		Configure: fs.Configure,
		Around:    proc.NewPace().Do,
	})
}
