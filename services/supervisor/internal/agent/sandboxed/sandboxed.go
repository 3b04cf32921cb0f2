// Package sandboxed is the hidden command that starts a program in the sandbox. Like package guard it runs before most of the program
// is initialised. It is not part of package guard, because what the sandbox imports (runtime/debug, whose path sorts late) would have
// Go initialise more of the program before a guard, too.
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
}
