// Command acphost hosts coding agents that speak the Agent Client Protocol (ACP). It stands between an agent and everything
// that the agent can touch.
//
// This package handles signals and the exit code. The commands are in internal/cli, and the supervisor that they start is in
// internal/host.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/acphost/acphost/services/supervisor/internal/cli"
)

// version is set by the build: -ldflags "-X main.version=…".
var version string

func main() { os.Exit(realMain()) }

func realMain() int {
	ctx, stop := signal.NotifyContext(context.Background(), cli.StopSignals()...)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once; the guard still ends the agent

	// A client that is gone must be an error of a write, EPIPE, so that there is time to end the agent; by default the
	// signal would end the process. It is caught instead of ignored, since children inherit what is ignored.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)

	return cli.Run(ctx, os.Stdin, os.Stdout, os.Stderr, version, os.Args[1:])
}
