// Package sandboxed is the hidden command that starts a program in the sandbox, for each program that imports the
// package. It runs before most of the program is initialised. It is not part of package sandbox, which programs
// import that start sandboxes.
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
