// Package chat shows a session with an agent on a terminal, and reads the user's input. Finished text moves to the
// terminal's scrollback. Below it are work in progress, open questions, the input, and a status line.
//
// It knows a supervisor's gRPC services, and controls the terminal with Bubble Tea. It must not know how the supervisor
// runs, which agents exist, or the ACP protocol. Package render formats finished text; this package formats work in
// progress. All text of agents is escaped before it is shown.
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
	"github.com/acphost/acphost/services/supervisor/internal/question/confirm"
	"github.com/acphost/acphost/services/supervisor/internal/tui/jobcontrol"
)

// Options configure a chat.
type Options struct {
	// Conn is the connection to the supervisor.
	Conn grpc.ClientConnInterface
	// Agent is the agent to start.
	Agent *supervisorv1.StartAgentRequest
	// Attach is a live session to join, instead of Agent, Session, Mode, Model and Meta. Default: none.
	Attach *Attach
	// Session is the id of a stored session to continue. Default: a new session.
	Session string
	// Cwd is the session's working directory, an absolute path.
	Cwd string
	// Mode and Model are set after the session is open. Default: the agent's.
	Mode, Model string
	// Meta is the _meta of every session that the chat opens, a JSON object. Default: none.
	Meta string
	// Where describes the confinement of the agent in a few words, such as "in the sandbox (enforce)". Default: as the
	// user.
	Where string
	// StateDir is the folder for the history of the input. Default: the history is not stored.
	StateDir string
	// Input and Output are the terminal.
	Input, Output *os.File
	// Env is the environment, "NAME=value".
	Env []string
	// Color allows colours.
	Color bool
	// Stop stops the process until it is continued, and returns false if it cannot be stopped: jobcontrol.Stop.
	// Required.
	Stop func() bool
	// Suspend and Quit send the job the signals of Ctrl-Z and Ctrl-\, which the terminal delivers as keys: those of
	// jobcontrol. Required.
	Suspend, Quit func()
	// Notify selects how a user without focus on the terminal is notified of a question or the end of a turn. Default:
	// not at all.
	Notify string
	// Notes are lines for the user, such as log lines. Default: none.
	Notes <-chan string
	// Export writes a session to a file. Default: /export reports that it is not available.
	Export func(ctx context.Context, session, file string) error

	codes confirm.Codes // set by tests
}

// Result describes the end of a chat.
type Result struct {
	// Session is the latest session, or empty.
	Session string
	// Used reports that the session has a prompt.
	Used bool
	// Reopens reports that the agent can continue the session later.
	Reopens bool
	// Over reports that the session has ended, or that its supervisor does not answer any more.
	Over bool
	// Interrupted reports that Ctrl-C ended the chat.
	Interrupted bool
}

// AgentError is the error of an agent because of which no session was opened.
type AgentError struct {
	Kind supervisorv1.ErrorKind
	text string
}

// Error implements error.
func (e *AgentError) Error() string { return e.text }

// closeGrace limits the time that a terminal which accepts no output can delay the end.
const closeGrace = 3 * time.Second

// Run runs the chat until the user leaves, the context ends, or the terminal is closed. The terminal's settings are
// restored when Run returns, and while the process is stopped. Run does not stop the agent, which belongs to the
// supervisor. It returns an error if the agent did not start, the session did not open, or the terminal does not work.
// The first two were shown to the user.
//
// If the terminal accepts no output when the context ends, Run returns after 3 s and abandons the goroutine that writes
// to it.
func Run(ctx context.Context, o Options) (Result, error) {
	state, err := term.GetState(o.Output.Fd())
	if err != nil {
		return Result{}, fmt.Errorf("read the terminal's settings: %w", err)
	}
	sup := newSupervisor(context.WithoutCancel(ctx), o.Conn)
	m := newModel(o, sup)
	m.loan = newLoan(ctx)
	m.printing, m.framed = true, make(chan struct{}) // print nothing before the first frame

	gone := make(chan struct{})
	p := tea.NewProgram(m,
		tea.WithInput(&input{File: o.Input, gone: sync.OnceFunc(func() { close(gone) })}),
		tea.WithOutput(output{File: o.Output, fd: o.Output.Fd(), drawn: sync.OnceFunc(func() { close(m.framed) })}),
		tea.WithEnvironment(o.Env), tea.WithoutSignalHandler(), tea.WithFPS(30),
		tea.WithFilter(sized(o.Env)))
	r := &running{Program: p, done: make(chan struct{})}
	go r.run()
	job := newJob(ctx, o, r, m.loan)
	defer job.close()
	for again := true; again; {
		again = false
		select {
		case <-r.done:
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
	// the process was continued in order to end; another job has changed the terminal
	if !jobcontrol.Foreground(o.Output) {
		if ctx.Err() != nil {
			return m.result()
		}
		return Result{}, err
	}
	// Bubble Tea restores it, too, unless its goroutine was abandoned.
	if e := term.Restore(o.Output.Fd(), state); e != nil && err == nil {
		err = fmt.Errorf("restore the terminal: %w", e)
	}
	if err != nil {
		return Result{}, err
	}
	return m.result()
}

// running is the running Bubble Tea program.
type running struct {
	*tea.Program
	done chan struct{} // closed when the program has ended
	err  error         // valid after over is closed
}

func (r *running) run() {
	defer close(r.done)
	_, r.err = r.Run()
}

// quit ends the program, and abandons it if it does not end in time.
func (r *running) quit() error {
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		r.Send(awayMsg(true))
		r.Send(tea.QuitMsg{})
	}()
	select {
	case <-r.done:
		<-sent
		return r.err
	case <-time.After(closeGrace):
		return errors.New("the terminal takes no output")
	}
}

// output is the terminal for output. It stores its descriptor: after an editor, Bubble Tea requests it in a goroutine
// that it does not wait for, and the file may be closed meanwhile.
type output struct {
	*os.File
	fd    uintptr
	drawn func() // called after the first frame was written, and perhaps again
}

// firstFrame occurs in Bubble Tea's output with the first frame (cursedRenderer.flush): it enables bracketed paste.
const firstFrame = "\x1b[?2004h"

// Write implements io.Writer.
func (o output) Write(p []byte) (int, error) {
	n, err := o.File.Write(p)
	if bytes.Contains(p, []byte(firstFrame)) {
		o.drawn()
	}
	return n, err
}

// Fd is the method by which Bubble Tea recognizes a terminal.
func (o output) Fd() uintptr { return o.fd }

// input is the terminal for input. It reports its end, which Bubble Tea would ignore.
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
