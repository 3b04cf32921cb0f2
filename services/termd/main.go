// Command termd answers an agent's terminal/* requests: it runs commands on pseudo-terminals.
package main

import (
	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/sdk/handler"

	"github.com/acphost/acphost/services/termd/internal/server"
)

// version is set by the linker.
var version = "dev"

func main() {
	terminals := server.New(handler.Logger(), true)
	handler.Main(handler.Handler{
		Name:      "termd",
		Version:   version,
		Register:  terminals.Register,
		Configure: terminals.Configure,
		Release:   terminals.ReleaseScope,
		Close:     terminals.Close,
		Around:    proc.NewPace().Do,
	})
}
