// Package daemon is the main function of fsd, for fsd itself and for a program that carries fsd: cmd/acphost.
package daemon

import (
	"github.com/acphost/acphost/internal/buildinfo"
	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/sdk/handler"

	"github.com/acphost/acphost/services/fsd/internal/files"
	"github.com/acphost/acphost/services/fsd/internal/server"
)

// Main runs fsd with the arguments of this process, and ends the process. version is what the build says that the program is;
// empty: nothing.
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
