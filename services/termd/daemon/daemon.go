// Package daemon provides the main function of termd, for the command termd and for a program that contains termd:
// cmd/acphost.
package daemon

import (
	"github.com/acphost/acphost/internal/buildinfo"
	"github.com/acphost/acphost/internal/proc"
	_ "github.com/acphost/acphost/internal/sandbox/sandboxed" // the hidden command "sandbox"
	"github.com/acphost/acphost/sdk/handler"

	"github.com/acphost/acphost/services/termd/internal/server"
)

// Main runs termd with the arguments of this process, and ends the process. version is the version set by the build;
// empty: none.
func Main(version string) {
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
