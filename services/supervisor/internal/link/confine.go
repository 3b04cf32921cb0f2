package link

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/internal/sandbox/decisions"
	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/route"
	"github.com/acphost/acphost/services/supervisor/internal/transcode"
)

// confineTimeout is how long a handler may take to say that it can confine a command.
const confineTimeout = 10 * time.Second

// confineStream carries the questions of a sandbox to here.
type confineStream = grpc.BidiStreamingClient[terminalv1.ConfineRequest, terminalv1.ConfineResponse]

// openConfinement opens a stream for the sandbox of a command. why says in words that the handler cannot confine
// commands. The end of ctx ends the stream.
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

// newConfinement is a confinement as the agent's, for one command.
func (k *Kernel) newConfinement() *terminalv1.Confinement {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return &terminalv1.Confinement{
		Id: hex.EncodeToString(id[:]), Observe: k.How.Observe, Reads: k.How.Reads, Closed: k.How.Closed,
		Proxy: k.How.Proxy, Env: k.Env,
	}
}

// Confines asks a handler whether it can run commands in the sandbox. why says in words that it cannot.
func (k *Kernel) Confines(ctx context.Context, conn grpc.ClientConnInterface) (why string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	_, why, err = openConfinement(ctx, conn, k.newConfinement())
	return why, err
}

// confinedCommand is a command of a terminal that runs in a sandbox. It is a decisions.Judge.
type confinedCommand struct {
	link      *Link
	sessionID string
	environ   []string
}

var _ decisions.Judge = (*confinedCommand)(nil)

// Judge implements decisions.Judge. The command was allowed: what it and its descendants do is held to what is denied.
func (c *confinedCommand) Judge(ctx context.Context, asked decisions.Asked) decisions.Answer {
	return c.link.judgeEvent(ctx, &kernelEvent{Asked: asked, sessions: []string{c.sessionID}, command: c})
}

// Started implements decisions.Judge.
func (*confinedCommand) Started(int, uint64) {}

// Refused implements decisions.Judge.
func (c *confinedCommand) Refused(pid int, program, what string) {
	c.link.refusedIn([]string{c.sessionID}, pid, program, what)
}

// confine has the command that a call starts run in a sandbox, if commands have to: the call then names the stream by
// which the sandbox asks. settle says whether the call has succeeded.
func (l *Link) confine(r *route.Route, c *agentCall, cc *acpv1.CallContext, conn grpc.ClientConnInterface) (settle func(started bool), jerr *jsonrpc.Error) {
	k := l.opts.Kernel
	if k == nil || r.Action != "terminal.create" {
		return func(bool) {}, nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	how := k.newConfinement()
	stream, why, err := openConfinement(ctx, conn, how)
	switch {
	case err != nil:
		cancel()
		return nil, transcode.ErrorFrom(err, r.Handler)
	case why != "" && k.Require:
		cancel()
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: fmt.Sprintf("%s: handler %s cannot run commands in the sandbox, and sandbox.require is set: %s", c.method, r.Handler, why)}
	case why != "":
		cancel()
		l.log.Warn("a command runs without the sandbox: what it does by itself is not decided", "handler", r.Handler, "why", why)
		return func(bool) {}, nil
	}
	cc.Confinement = how.GetId()
	l.spawn(func() {
		defer cancel()
		l.serveConfined(stream, c.sessionID)
	})
	l.spawn(func() {
		select {
		case <-l.ended:
			cancel()
		case <-ctx.Done():
		}
	})
	return func(started bool) {
		if !started {
			cancel()
		}
	}, nil
}

// serveConfined answers the sandbox of a command until it is gone.
func (l *Link) serveConfined(stream confineStream, sessionID string) {
	ours, theirs := net.Pipe()
	command := &confinedCommand{link: l, sessionID: sessionID}
	served := make(chan error, 1)
	go func() {
		defer func() { _ = ours.Close() }()
		served <- panics.Catch(l.log, "answering the sandbox of a command", func() error {
			return decisions.Serve(ours, command, func(b decisions.Began) { command.environ = b.Env }, nil)
		})
	}()
	go func() {
		defer panics.Recover(l.log, "sending answers to the sandbox of a command", func(error) { _ = theirs.Close() })
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
		l.log.Error("the sandbox of a command is not answered any more: what the command does by itself is refused", "error", err)
	}
}
