// Package daemon provides the main function of permd, for the command permd and for a program that contains permd:
// cmd/acphost.
package daemon

import (
	"github.com/acphost/acphost/internal/buildinfo"
	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/sdk/handler"

	"github.com/acphost/acphost/services/permd/internal/server"
)

// Main runs permd with the arguments of this process, and ends the process. version is the version set by the build;
// empty: none.
func Main(version string) {
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
