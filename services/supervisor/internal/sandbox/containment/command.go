package containment

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/internal/sandbox/decisions"
	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
	"github.com/acphost/acphost/services/supervisor/internal/policy/leaveout"
)

// confineTimeout is how long a handler may take to report whether it can confine a command.
const confineTimeout = 10 * time.Second

// confineStream carries the requests of a sandbox to the supervisor.
type confineStream = grpc.BidiStreamingClient[terminalv1.ConfineRequest, terminalv1.ConfineResponse]

// openConfinement opens a stream for the sandbox of a command. If the handler cannot confine commands, why is the
// reason in words. The stream ends with ctx.
func openConfinement(ctx context.Context, conn grpc.ClientConnInterface, how *terminalv1.Confinement) (stream confineStream, why string, err error) {
	if _, mapped := conn.(interface{ OtherPaths() }); mapped {
		return nil, "its files have other paths than they have here, and a sandbox knows only those of the handler", nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	late := time.AfterFunc(confineTimeout, func() { cancel(fmt.Errorf("no answer within %v", confineTimeout)) })
	defer func() {
		if !late.Stop() || err != nil || why != "" {
			cancel(nil)
		}
	}()
	stream, err = terminalv1.NewTerminalServiceClient(conn).Confine(ctx)
	if err == nil {
		err = stream.Send(&terminalv1.ConfineRequest{What: &terminalv1.ConfineRequest_Begin{Begin: how}})
	}
	var first *terminalv1.ConfineResponse
	if err == nil || errors.Is(err, io.EOF) {
		first, err = stream.Recv()
	}
	switch {
	case status.Code(err) == codes.Unimplemented:
		return nil, "the handler does not know how: it lacks TerminalService.Confine", nil
	case err != nil:
		return nil, "", err
	}
	return stream, first.GetReady().GetUnsupported(), nil
}

// newConfinement returns a confinement like the agent's, for one command.
func (s *Sandbox) newConfinement() *terminalv1.Confinement {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return &terminalv1.Confinement{
		Id: hex.EncodeToString(id[:]), Observe: s.How.Observe, Reads: s.How.Reads, Closed: s.How.Closed,
		Proxy: s.How.Proxy, Env: s.Env, MaxProcesses: uint32(s.MaxProcesses), Group: s.Group,
	}
}

// Confines asks a handler whether it can run commands in the sandbox. If it cannot, why is the reason in words.
func (s *Sandbox) Confines(ctx context.Context, conn grpc.ClientConnInterface) (why string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	_, why, err = openConfinement(ctx, conn, s.newConfinement())
	return why, err
}

// command is a command of a terminal that runs in a sandbox. It implements decisions.Judge.
type command struct {
	decider   *Decider
	sessionID string
	// line is the command's line; nil: the line was not judged, so its processes have no other rights than the agent's.
	line *line
	// rewritten are the programs whose arguments acphost has changed, so that they leave out files.
	rewritten []leaveout.Rewrite
	environ   []string
}

var _ decisions.Judge = (*command)(nil)

// Judge implements decisions.Judge.
func (c *command) Judge(ctx context.Context, asked decisions.Asked) decisions.Answer {
	return c.decider.judge(ctx, &event{Asked: asked, sessions: []string{c.sessionID}, command: c})
}

// Started implements decisions.Judge.
func (*command) Started(int, uint64) {}

// Refused implements decisions.Judge.
func (c *command) Refused(pid int, program, what string) {
	c.decider.refusedIn([]string{c.sessionID}, pid, program, what)
}

// CannotConfine is the error of Confine if a handler cannot run commands in the sandbox, and Sandbox.Require or
// Sandbox.Terminals is set.
type CannotConfine struct {
	// Why is the reason in words.
	Why string
}

func (e *CannotConfine) Error() string {
	return "it cannot run commands in the sandbox, and sandbox.require is set, or the handlers could when the agent started: " + e.Why
}

// Confine opens the stream for the sandbox of a session's command, if commands run in a sandbox. id names the
// confinement for the handler. An empty id means that the command runs without a sandbox. allowed is the decision about
// the command; nil: it was not decided. The caller calls settle once, and reports whether the command has started. The
// error is a *CannotConfine, or the error of a call to the handler.
func (d *Decider) Confine(
	handler string, conn grpc.ClientConnInterface, sessionID string, allowed *gate.Decision,
) (id string, settle func(started bool), err error) {
	if d.sandbox == nil {
		return "", func(bool) {}, nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	how := d.sandbox.newConfinement()
	stream, why, err := openConfinement(ctx, conn, how)
	switch {
	case err != nil:
		cancel()
		return "", nil, err
	case why != "" && (d.sandbox.Require || d.sandbox.Terminals):
		cancel()
		return "", nil, &CannotConfine{Why: why}
	case why != "":
		cancel()
		d.opts.Logger.Warn("a command runs without the sandbox: what it does by itself is not decided", "handler", handler, "why", why)
		return "", func(bool) {}, nil
	}
	c := d.newCommand(sessionID, allowed)
	d.link.Spawn(func() {
		defer cancel()
		d.serveCommand(stream, c, processOf(conn))
	})
	d.link.Spawn(func() {
		select {
		case <-d.link.Ended():
			cancel()
		case <-ctx.Done():
		}
	})
	return how.GetId(), func(started bool) {
		if !started {
			cancel()
		}
	}, nil
}

// processOf returns the process of the handler behind a connection; 0: acphost has not started it.
func processOf(conn grpc.ClientConnInterface) int {
	if c, ok := conn.(interface{ PID() int }); ok {
		return c.PID()
	}
	return 0
}

// newCommand returns the command of a terminal. allowed is as in Confine.
func (d *Decider) newCommand(sessionID string, allowed *gate.Decision) *command {
	c := &command{decider: d, sessionID: sessionID}
	if allowed == nil {
		c.line = &line{}
		return c
	}
	c.rewritten = allowed.Rewritten()
	if !allowed.Contained() {
		c.line = d.lineOf(allowed.Action())
	}
	return c
}

// original returns the arguments that a program of the command had before acphost changed them; nil: acphost did not
// change them.
func (c *command) original(args []string) []string {
	if c == nil || len(args) == 0 {
		return nil
	}
	for _, r := range c.rewritten {
		if n, ok := startsAs(r.Told, args); ok && len(r.Argv) > 0 {
			return append(slices.Clone(args[:n]), r.Argv[1:]...)
		}
	}
	return nil
}

// startsAs reports whether arguments are those of a program, which may be called by a path. The command line has its
// folders ("git -C DIR") apart from argv. n is the number of arguments before argv[1].
func startsAs(argv, args []string) (n int, ok bool) {
	n = len(args) - len(argv) + 1
	if len(argv) == 0 || n < 1 || filepath.Base(argv[0]) != filepath.Base(args[0]) || !slices.Equal(argv[1:], args[n:]) {
		return 0, false
	}
	for i := 1; i < n; i += 2 {
		if filepath.Base(args[0]) != "git" || args[i] != "-C" || i+1 == n {
			return 0, false
		}
	}
	return n, true
}

// serveCommand answers the requests of a command's sandbox until the sandbox ends.
// handler is the handler's process; 0: it is not known.
func (d *Decider) serveCommand(stream confineStream, c *command, handler int) {
	ours, theirs := net.Pipe()
	remove := func() {}
	served := make(chan error, 1)
	go func() {
		defer func() { _ = ours.Close() }()
		served <- panics.Catch(d.opts.Logger, "answering the sandbox of a command", func() error {
			defer func() { remove() }()
			return decisions.Serve(ours, c, func(b decisions.Began) {
				c.environ, remove = b.Env, d.roots.add(handler, b.PID, c.sessionID)
			}, nil)
		})
	}()
	go func() {
		defer panics.Recover(d.opts.Logger, "sending answers to the sandbox of a command", func(error) { _ = theirs.Close() })
		_ = decisions.Up(theirs, func(p []byte) error {
			return stream.Send(&terminalv1.ConfineRequest{What: &terminalv1.ConfineRequest_Answers{Answers: p}})
		})
		_ = theirs.Close()
	}()
	decisions.Down(theirs, func() ([]byte, error) {
		m, err := stream.Recv()
		return m.GetQuestions(), err
	})
	if err := <-served; err != nil {
		d.opts.Logger.Error("the sandbox of a command is not answered any more: what the command does by itself is refused", "error", err)
	}
}
