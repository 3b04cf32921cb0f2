// Command termd answers an agent's terminal/* requests: it runs commands on pseudo-terminals.
package main

import (
	"github.com/acphost/acphost/internal/buildinfo"
	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/sdk/handler"

	"github.com/acphost/acphost/services/termd/internal/server"
)

// version is set by the build: -ldflags "-X main.version=…".
var version string

func main() {
	terminals := server.New(handler.Logger(), true)
	handler.Main(handler.Handler{
		Name:      "termd",
		Version:   buildinfo.Read(version).Version,
		Register:  terminals.Register,
		Configure: terminals.Configure,
		Release:   terminals.ReleaseScope,
		Close:     terminals.Close,
		Around:    proc.NewPace().Do,
	})
}
