// Package chat shows a session with an agent on a terminal, and takes the user's input. Finished text scrolls by in the
// terminal's own scrollback. Below it stand the work under way, the questions that wait, the input, and a status line.
//
// It knows a supervisor's gRPC services, and terminals by Bubble Tea. It must not know how the supervisor runs, which agents
// exist, or how ACP is spoken. Package render makes the text that scrolls by; this package shows the work under way. No text
// of an agent reaches the terminal unchanged.
package chat

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/term"
	"google.golang.org/grpc"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/confirm"
	"github.com/acphost/acphost/services/supervisor/internal/jobcontrol"
)

// Options say what a chat is with.
type Options struct {
	// Conn is the supervisor.
	Conn grpc.ClientConnInterface
	// Agent is what to start.
	Agent *supervisorv1.StartAgentRequest
	// Attach is a live session to join, in the place of Agent, Session, Mode, Model and Meta. Default: none.
	Attach *Attach
	// Session is the id of a stored session to go on with. Default: a new one.
	Session string
	// Cwd is the session's working directory, an absolute path.
	Cwd string
	// Mode and Model are chosen once the session is open. Default: the agent's.
	Mode, Model string
	// Meta is what every session of the chat is opened with as _meta, a JSON object. Default: none.
	Meta string
	// Where says in a few words where the agent runs, "in the sandbox (enforce)". Default: as you.
	Where string
	// StateDir is the folder for what was typed. Default: it is not kept.
	StateDir string
	// Input and Output are the terminal.
	Input, Output *os.File
	// Env is the environment, "NAME=value".
	Env []string
	// Color allows colours.
	Color bool
	// Stop stops the process until it goes on, and returns false if it cannot be stopped: jobcontrol.Stop. Required.
	Stop func() bool
	// Suspend and Quit send the job the signals of Ctrl-Z and Ctrl-\, which are no more than keys to this terminal: those
	// of jobcontrol. Required.
	Suspend, Quit func()
	// Notify is how a person is called who looks elsewhere when a question waits or a turn ends. Default: not at all.
	Notify string
	// Notes are lines that a person should see, as the log's. Default: none.
	Notes <-chan string
	// Export writes a session to a file. Default: /export says that it cannot.
	Export func(ctx context.Context, session, file string) error

	codes confirm.Codes // set by tests
}

// Result is how a chat ended.
type Result struct {
	// Session is the session that was open last. Empty: none was.
	Session string
	// Used: something was said in it.
	Used bool
	// Reopens: the agent can go on with the session another time.
	Reopens bool
	// Over: the session has ended, or whoever has it does not answer any more.
	Over bool
	// Interrupted: Ctrl-C ended the chat.
	Interrupted bool
}

// AgentError is why there never was a session, where it was the agent's doing.
type AgentError struct {
	Kind supervisorv1.ErrorKind
	text string
}

// Error implements error.
func (e *AgentError) Error() string { return e.text }

// closeGrace is how long a terminal that takes nothing can hold up the end.
const closeGrace = 3 * time.Second

// Run holds the chat until the person leaves, the context ends, or the terminal is gone. The terminal is as it was when it
// returns, and while the process is stopped. The agent is not stopped: whoever runs the supervisor does that. An error is an
// agent that did not start, a session that did not open, or a terminal that does not work; the person was told of the first
// two.
//
// A terminal that takes no output when the context ends is given up after 3 s, with the goroutine that writes to it.
func Run(ctx context.Context, o Options) (Result, error) {
	state, err := term.GetState(o.Output.Fd())
	if err != nil {
		return Result{}, fmt.Errorf("read the terminal's settings: %w", err)
	}
	sup := newSupervisor(context.WithoutCancel(ctx), o.Conn)
	m := newModel(o, sup)
	m.loan = newLoan(ctx)
	m.printing, m.framed = true, make(chan struct{}) // nothing is printed before the first frame

	gone := make(chan struct{})
	p := tea.NewProgram(m,
		tea.WithInput(&input{File: o.Input, gone: sync.OnceFunc(func() { close(gone) })}),
		tea.WithOutput(output{File: o.Output, fd: o.Output.Fd(), drawn: sync.OnceFunc(func() { close(m.framed) })}),
		tea.WithEnvironment(o.Env), tea.WithoutSignalHandler(), tea.WithFPS(30),
		tea.WithFilter(sized(o.Env)))
	r := &running{Program: p, over: make(chan struct{})}
	go r.run()
	job := newJob(ctx, o, r, m.loan)
	defer job.close()
	for again := true; again; {
		again = false
		select {
		case <-r.over:
			err = r.err
		case <-ctx.Done():
			err = r.quit()
		case <-gone:
			err = cmp.Or(r.quit(), errors.New("the terminal is gone"))
		case err = <-m.loan.lost:
		case s := <-job.signals:
			err = job.signalled(s)
			again = err == nil
		}
	}
	sup.close()
	if !jobcontrol.Foreground(o.Output) { // the process was let go on to end; another job has set it
		if ctx.Err() != nil {
			return m.result()
		}
		return Result{}, err
	}
	// Bubble Tea does this too, but not where it was given up on.
	if e := term.Restore(o.Output.Fd(), state); e != nil && err == nil {
		err = fmt.Errorf("restore the terminal: %w", e)
	}
	if err != nil {
		return Result{}, err
	}
	return m.result()
}

// running is the program while it runs.
type running struct {
	*tea.Program
	over chan struct{} // closed
	err  error         // after that
}

func (r *running) run() {
	defer close(r.over)
	_, r.err = r.Run()
}

// quit ends the program from outside, and gives up on it if it does not end.
func (r *running) quit() error {
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		r.Send(awayMsg(true))
		r.Send(tea.QuitMsg{})
	}()
	select {
	case <-r.over:
		<-sent
		return r.err
	case <-time.After(closeGrace):
		return errors.New("the terminal takes no output")
	}
}

// output is the terminal to write to. It has its descriptor at hand: when an editor has ended, Bubble Tea asks for it in a goroutine
// that it does not wait for, and the file may be closed meanwhile.
type output struct {
	*os.File
	fd    uintptr
	drawn func() // is called when the first frame was written, and perhaps again
}

// firstFrame is in what Bubble Tea writes with its first frame (cursedRenderer.flush): it turns bracketed paste on.
const firstFrame = "\x1b[?2004h"

// Write implements io.Writer.
func (o output) Write(p []byte) (int, error) {
	n, err := o.File.Write(p)
	if bytes.Contains(p, []byte(firstFrame)) {
		o.drawn()
	}
	return n, err
}

// Fd implements what Bubble Tea knows a terminal by.
func (o output) Fd() uintptr { return o.fd }

// input is the terminal's input, which tells when there will be no more. Bubble Tea would wait for ever.
type input struct {
	*os.File
	gone func()
}

// Read implements io.Reader.
func (i *input) Read(p []byte) (int, error) {
	n, err := i.File.Read(p)
	if n == 0 && err != nil {
		i.gone()
		err = io.EOF
	}
	return n, err
}
