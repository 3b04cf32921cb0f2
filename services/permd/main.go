// Command permd decides about agents' actions by rule files, and helps users to write rule files.
package main

import (
	"github.com/acphost/acphost/internal/buildinfo"
	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/sdk/handler"

	"github.com/acphost/acphost/services/permd/internal/server"
)

// version is set by the build: -ldflags "-X main.version=…".
var version string

func main() {
	permissions := server.New(handler.Logger())
	handler.Main(handler.Handler{
		Name:      "permd",
		Version:   buildinfo.Read(version).Version,
		Register:  permissions.Register,
		Configure: permissions.Configure,
		Keep:      permissions.Keep,
		Around:    proc.NewPace().Do,
	})
}
