// Command acphost is acphost with its handlers in one program, for "go install": the Go command installs one program at a time,
// and acphost's handlers stand beside it. The handlers are processes of their own here too. acphost starts itself as "acphost
// fsd", "acphost termd" and "acphost permd", unless programs of these names stand beside it.
//
// Everybody else has four programs, which are smaller and start faster.
package main

import (
	"os"

	fsd "github.com/acphost/acphost/services/fsd/daemon"
	permd "github.com/acphost/acphost/services/permd/daemon"
	supervisor "github.com/acphost/acphost/services/supervisor/daemon"
	termd "github.com/acphost/acphost/services/termd/daemon"
)

// version is set by the build: -ldflags "-X main.version=…".
var version string

func main() {
	if len(os.Args) > 1 {
		if handler := handlers()[os.Args[1]]; handler != nil {
			os.Args = os.Args[1:]
			handler(version)
			return
		}
	}
	supervisor.Main(version, true)
}

// handlers are the hidden commands.
func handlers() map[string]func(version string) {
	return map[string]func(string){"fsd": fsd.Main, "termd": termd.Main, "permd": permd.Main}
}
