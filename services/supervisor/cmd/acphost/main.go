// Command acphost hosts coding agents that speak the Agent Client Protocol (ACP) and stands between an agent and
// everything that it can touch.
//
// This package is flags, signals and exit codes. What they set in motion is in internal/host.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(realMain()) }

func realMain() int {
	ctx, stop := signal.NotifyContext(context.Background(), stopSignals()...)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once; the guard still ends the agent

	// A front that is gone must be an error of a write, EPIPE, so that there is time to end the agent; by default the
	// signal would end the process. It is caught instead of ignored, since children inherit what is ignored.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)

	a := &app{
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		env: os.Getenv, programs: realPrograms(),
	}
	return a.run(ctx, os.Args[1:])
}

// stopSignals are what ends acphost in order. SIGHUP stays ignored where nohup has it ignored.
func stopSignals() []os.Signal {
	signals := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}
