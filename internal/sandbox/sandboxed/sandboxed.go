// Package sandboxed provides the hidden command that starts a program in the sandbox, to each program that imports the package. The
// command runs before most of the program is initialised. It is not part of package sandbox, because programs that start sandboxes
// import that.
package sandboxed

import (
	"os"

	"github.com/acphost/acphost/internal/sandbox"
	"github.com/acphost/acphost/internal/sandbox/decisions"
)

func init() {
	if len(os.Args) > 1 && os.Args[1] == sandbox.Command {
		os.Exit(sandbox.MainWith(decisions.Dial))
	}
	sandbox.Carry()
}
