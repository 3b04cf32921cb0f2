package handler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/sdk/internal/wire"
)

// Main runs the handler as a child or as a sidecar, depending on how the process was started, and exits. A main
// function calls only Main, before any output to stdout.
//
// A child ends at once when its stdin ends; both end on SIGTERM, after the active calls. The exit status is 0 for a
// requested end, 1 for a failure and 2 for an invalid command line.
func Main(h Handler) {
	os.Exit(run(h, parseArgs(os.Args[1:])))
}

func run(h Handler, o options) int {
	proc.SetName()
	unprotected := proc.Undumpable()
	program, err := os.Executable()
	if err != nil {
		program = filepath.Base(os.Args[0])
	}
	child := os.Getenv(wire.CookieKey) == wire.CookieValue
	switch {
	case o.help:
		_, _ = io.WriteString(os.Stdout, about(h, program))
		return 0
	case o.version:
		_, _ = io.WriteString(os.Stdout, versionText(h))
		return 0
	case o.err != nil && !child:
		_, _ = fmt.Fprintf(os.Stderr, "%s: %v (see %s --help)\n", h.Name, o.err, program)
		return 2
	case o.probe && !child:
		if err := o.tryAddress(); err != nil {
			_, _ = fmt.Fprintf(os.Stderr, "%s: no sidecar listens at %s: %v\n", h.Name, o.listen, err)
			return 1
		}
		return 0
	case o.listen == "" && !child:
		_, _ = io.WriteString(os.Stderr, about(h, program))
		return 2
	}

	if h.Logger == nil {
		h.Logger = newLogger(stderr{}, o, os.Getenv)
	}
	if unprotected != nil {
		h.Logger.Warn("other processes of this user can read this one's memory", "error", unprotected)
	}
	// No code reads this channel. It makes a write to a stderr that the host has closed return an error. Without it,
	// SIGPIPE would kill the process before it has released its resources. Unlike an ignored signal, it is not
	// inherited by child processes.
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)

	serve := serveChild
	if o.listen != "" {
		serve = serveSidecar
	}
	if err := serve(h, o); err != nil {
		h.Logger.Error(h.Name+" ends", "error", err)
		return 1
	}
	return 0
}

// errSecondSignal ends a drain after a second signal.
var errSecondSignal = errors.New("asked to end again")

// endSignals returns a context that is done at the first SIGTERM (or another request to end), and one that is done at
// the second. The caller calls release when both are no longer needed.
func endSignals(more ...os.Signal) (first, second context.Context, release func()) {
	got := make(chan os.Signal, 4)
	signal.Notify(got, append([]os.Signal{syscall.SIGTERM}, more...)...)
	first, once := context.WithCancel(context.Background())
	second, twice := context.WithCancelCause(context.Background())
	stop := make(chan struct{})
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		for _, then := range []func(){once, func() { twice(errSecondSignal) }} {
			select {
			case <-got:
				then()
			case <-stop:
				return
			}
		}
	}()
	return first, second, func() {
		signal.Stop(got)
		close(stop)
		<-finished
		once()
		twice(nil)
	}
}
