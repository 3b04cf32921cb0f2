// Package daemon provides the main function of fsd, for the command fsd and for a program that contains fsd:
// cmd/acphost.
package daemon

import (
	"github.com/acphost/acphost/internal/buildinfo"
	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/sdk/handler"

	"github.com/acphost/acphost/services/fsd/internal/files"
	"github.com/acphost/acphost/services/fsd/internal/server"
)

// Main runs fsd with the arguments of this process, and ends the process. version is the version set by the build;
// empty: none.
func Main(version string) {
	fs := server.New(files.New(), handler.Logger())
	handler.Main(handler.Handler{
		Name:      "fsd",
		Version:   buildinfo.Read(version).Version,
		Register:  fs.Register,
		Configure: fs.Configure,
		Around:    proc.NewPace().Do,
	})
}
