// Package daemon has the main function of acphost, for acphost itself and for cmd/acphost, which also contains the
// handlers. It handles signals and the exit code. The commands are in internal/cli, and the supervisor that they start
// is in internal/host.
package daemon

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	_ "github.com/acphost/acphost/internal/sandbox/sandboxed" // the hidden command "sandbox"
	"github.com/acphost/acphost/services/supervisor/internal/cli"
)

// Main runs acphost with the arguments of this process, and ends the process. version is what the build says that the program
// is; empty: nothing. carries says that the program has acphost's own handlers in it, as commands of their names: they are
// started so if they do not stand beside it.
func Main(version string, carries bool) { os.Exit(run(version, carries)) }

func run(version string, carries bool) int {
	launched, leave := withLauncher(context.Background())
	defer leave()
	ctx, stop := cli.WithStopSignals(launched) // a second signal ends the process at once; the guard still ends the agent
	defer stop()

	// A client that is gone must be an error of a write, EPIPE, so that there is time to end the agent; by default the
	// signal would end the process. It is caught instead of ignored, since children inherit what is ignored.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)

	return cli.Run(ctx, os.Stdin, os.Stdout, os.Stderr, version, carries, os.Args[1:])
}
