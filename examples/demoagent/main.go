// Command demoagent is a scripted agent: it speaks the Agent Client Protocol on standard input and output, and plays a
// fixed turn in place of a model. "acphost demo" runs it; tests use its scenes, which the first word of a prompt names,
// and its commands, which a prompt names with a slash. "demoagent -help" lists both.
//
// It uses only github.com/coder/acp-go-sdk and nothing of acphost, so it tests acphost with an independent
// implementation of the protocol. JSON is written by hand where that library has no type.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/coder/acp-go-sdk"
)

// stateVariable names the folder where sessions and the login are kept, so that another process finds them. Unset: they
// end with the process.
const stateVariable = "DEMOAGENT_STATE"

// behaviour is how an agent differs from the plain one.
type behaviour struct {
	hangInitialize bool
	exitInitialize int
	ignoreEnd      bool
	complain       string
	auth           bool
	without        features
	state          string // a folder; empty: nothing is kept
}

// features are names of what an agent can do, so that it can be switched off.
type features []string

func allFeatures() features {
	return features{
		"load", "resume", "list", "close", "delete", "fork", "directories", // sessions
		"modes", "config", "logout",
		"settings",                   // kept with a session
		"image", "audio", "embedded", // in prompts
		"mcp",
	}
}

// String implements flag.Value.
func (f *features) String() string { return strings.Join(*f, ",") }

// Set implements flag.Value.
func (f *features) Set(list string) error {
	*f = strings.Split(list, ",")
	for _, name := range *f {
		if !slices.Contains(allFeatures(), name) {
			return fmt.Errorf("there is no %q, only %s", name, strings.Join(allFeatures(), ", "))
		}
	}
	return nil
}

func main() {
	b := behaviour{state: os.Getenv(stateVariable)}
	login := flag.Bool("login", false, "log in, as a person does on a terminal, and exit")
	flag.BoolVar(&b.hangInitialize, "hang-initialize", false, "never answer initialize")
	flag.IntVar(&b.exitInitialize, "exit-on-initialize", -1, "exit with this status when initialize comes; -1: answer it")
	flag.BoolVar(&b.ignoreEnd, "ignore-end", false, "live on when standard input ends, and ignore TERM, INT and HUP")
	flag.StringVar(&b.complain, "complain", "", "write this line to standard error at the start")
	flag.BoolVar(&b.auth, "auth", false, "open sessions only for somebody who has logged in")
	flag.Var(&b.without, "without", "do without these, separated by commas: "+strings.Join(allFeatures(), ", "))
	flag.Usage = usage
	flag.Parse()

	if *login {
		if err := logIn(b.state); err != nil {
			fmt.Fprintln(os.Stderr, "demoagent:", err)
			os.Exit(1)
		}
		return
	}
	// Standard output belongs to the protocol alone, so the connection's own log stays off unless something is wrong.
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	ends := make(chan os.Signal, 1)
	if b.ignoreEnd {
		signal.Notify(ends, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	}
	if b.complain != "" {
		fmt.Fprintln(os.Stderr, b.complain)
	}
	conn, lines := serveLines(os.Stdin, os.Stdout, b, logger)
	<-conn.Done()
	for b.ignoreEnd { // only KILL ends this
		<-ends
	}
	if err := lines.ended(); !errors.Is(err, io.EOF) {
		fmt.Fprintln(os.Stderr, "demoagent: the connection ended before standard input did; the last error of a read:", err)
		os.Exit(1)
	}
}

// serve speaks ACP as an agent over in and out until in ends.
func serve(in io.Reader, out io.Writer, b behaviour, logger *slog.Logger) *acp.Connection {
	conn, _ := serveLines(in, out, b, logger)
	return conn
}

// serveLines is serve, and returns what reads in.
func serveLines(in io.Reader, out io.Writer, b behaviour, logger *slog.Logger) (*acp.Connection, *longLines) {
	a := newAgent(b)
	a.wire.in, a.wire.out = in, out
	lines := newLongLines(a.wire, logger)
	conn := acp.NewConnection(lines.handle(a.handle), a.wire, lines)
	conn.SetLogger(logger)
	a.conn = conn
	close(a.ready)
	return conn, lines
}

// logIn performs a login on a terminal.
func logIn(state string) error {
	if state == "" {
		return errors.New("a login is kept in the folder that " + stateVariable + " names, and it names none")
	}
	fmt.Println("You are logged in.")
	return store(state).setLogin(true)
}

func usage() {
	fmt.Fprint(os.Stderr, `demoagent speaks the Agent Client Protocol on standard input and output.

A prompt whose first word is the name of a scene plays that scene. A prompt that begins with a slash is a command. Any
other prompt plays the demo's turn, which corrects a spelling in the file notes.md. The scenes:

`+listed(scenes(), "")+`
The commands, which report in the agent's message:

`+listed(commands(), "/")+`
Sessions and the login are kept in the folder that `+stateVariable+` names; without one they end with the process.

Flags:
`)
	flag.PrintDefaults()
}
