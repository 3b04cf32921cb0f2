package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/acphost/acphost/internal/sandbox"
	"github.com/acphost/acphost/internal/sandbox/decisions"
	"github.com/acphost/acphost/services/supervisor/internal/agent/guard"
)

// Sandbox says how an agent runs in a sandbox (package sandbox of this repository).
type Sandbox struct {
	sandbox.Confinement
	// Judge decides. It is asked from Start on, before Start returns.
	Judge decisions.Judge
	// Generation is that of leases; nil: none are given.
	Generation *decisions.Generation
}

// ErrNoSandbox is wrapped by Start's error if an agent cannot be confined on this system, or in this container. Nothing of the
// agent has run.
var ErrNoSandbox = errors.New("the agent cannot be confined")

// withSandbox says what may have been killed: a sandbox ends as what runs in it does, so its end does not tell.
const withSandbox = "the agent was killed, or its sandbox, without which it cannot be"

// command starts a sandbox by the program that runs guards.
func (s *Sandbox) command(program string) []string {
	return append([]string{program, sandbox.Command}, s.Flags()...)
}

// sandboxed is the sandbox of an agent, as the supervisor sees it.
type sandboxed struct {
	conn   net.Conn
	judge  decisions.Judge
	leases *decisions.Generation
	begun  chan decisions.Began // has room for one
	over   chan struct{}        // closed when the sandbox is gone and nobody is asked any more
	once   sync.Once
}

// newSandboxed opens the socket to a sandbox. theirs is the sandbox's end.
func newSandboxed(s *Sandbox) (ours *sandboxed, theirs *os.File, err error) {
	if err := sandbox.Supported(); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrNoSandbox, err)
	}
	conn, theirs, err := decisions.Pair()
	if err != nil {
		return nil, nil, fmt.Errorf("open a socket for decisions: %w", err)
	}
	return &sandboxed{conn: conn, judge: s.Judge, leases: s.Generation, begun: make(chan decisions.Began, 1), over: make(chan struct{})}, theirs, nil
}

// serve answers the sandbox until it is gone.
func (s *sandboxed) serve(log *slog.Logger) {
	defer close(s.over)
	err := decisions.Serve(s.conn, s.judge, func(b decisions.Began) { s.begun <- b }, s.leases)
	if err != nil {
		log.Error("the sandbox of an agent is not answered any more: what the agent does by itself is refused", "error", err)
	}
}

// abandon is for a sandbox that is not served.
func (s *sandboxed) abandon() { _ = s.conn.Close() }

// end waits until nobody is asked any more. The sandbox is gone.
func (s *sandboxed) end() {
	s.once.Do(func() { _ = s.conn.Close() })
	<-s.over
}

// awaitSandbox waits until the agent runs in its sandbox, if it is to. If it cannot, it is ended.
func (p *Process) awaitSandbox() error {
	if p.sandbox == nil {
		return nil
	}
	var b decisions.Began
	late := time.NewTimer(startTimeout)
	defer late.Stop()
	select {
	case b = <-p.sandbox.begun:
	case <-p.done:
		select {
		case b = <-p.sandbox.begun:
		default:
			b.Failed = "its sandbox ended before it could start it"
		}
	case <-late.C:
		b.Failed = "its sandbox did not start it in time"
	}
	if b.PID != 0 {
		p.walls.Seccomp, p.walls.Landlock = b.Walls.Seccomp, p.walls.Landlock && b.Walls.Landlock
		p.walls.Notes = slices.Concat(p.walls.Notes, b.Walls.Notes)
		return nil
	}
	p.order(guard.KillNow)
	ctx, cancel := context.WithTimeout(context.Background(), 2*slack)
	defer cancel()
	if err := p.Stop(ctx); err != nil {
		return err
	}
	if b.Unsupported {
		return fmt.Errorf("%w: %s", ErrNoSandbox, b.Failed)
	}
	return Exit{Name: p.name, Reason: StartFailed, Code: 126, Detail: b.Failed}
}
