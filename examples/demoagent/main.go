// Command demoagent is a scripted agent: it speaks the Agent Client Protocol on standard input and output, and plays a
// fixed turn in place of a model. "acphost demo" runs it; tests use its commands, which a prompt names with a slash.
//
// It stands on github.com/coder/acp-go-sdk and on nothing of acphost's, so that what it proves is proved from the other
// side of the wire.
package main

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/coder/acp-go-sdk"
)

// faults are ways to misbehave that begin before the first prompt.
type faults struct {
	hangInitialize bool
	exitInitialize int
	ignoreEnd      bool
	complain       string
}

func main() {
	var f faults
	flag.BoolVar(&f.hangInitialize, "hang-initialize", false, "never answer initialize")
	flag.IntVar(&f.exitInitialize, "exit-on-initialize", -1, "exit with this status when initialize comes; -1: answer it")
	flag.BoolVar(&f.ignoreEnd, "ignore-end", false, "live on when standard input ends, and ignore TERM, INT and HUP")
	flag.StringVar(&f.complain, "complain", "", "write this line to standard error at the start")
	flag.Usage = usage
	flag.Parse()

	// Standard output belongs to the protocol alone, so the connection's own log stays off unless something is wrong.
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	ends := make(chan os.Signal, 1)
	if f.ignoreEnd {
		signal.Notify(ends, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	}
	if f.complain != "" {
		fmt.Fprintln(os.Stderr, f.complain)
	}
	<-serve(os.Stdin, os.Stdout, f, logger).Done()
	for f.ignoreEnd { // only KILL ends this
		<-ends
	}
}

// serve speaks ACP as an agent over in and out until in ends.
func serve(in io.Reader, out io.Writer, f faults, logger *slog.Logger) *acp.AgentSideConnection {
	a := &agent{faults: f, sessions: map[acp.SessionId]session{}, ready: make(chan struct{})}
	conn := acp.NewAgentSideConnection(a, out, in)
	conn.SetLogger(logger)
	a.conn = conn
	close(a.ready)
	return conn
}

func usage() {
	fmt.Fprint(os.Stderr, `demoagent speaks the Agent Client Protocol on standard input and output.

A prompt that begins with a slash is a command; any other prompt plays the demo's turn, which corrects a spelling in
the file notes.md. The commands:

`+commandList()+`
Flags:
`)
	flag.PrintDefaults()
}
