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
	"github.com/acphost/acphost/services/supervisor/guard"
)

// Sandbox configures the sandbox of an agent (package sandbox of this repository).
type Sandbox struct {
	sandbox.Confinement
	// Judge decides about accesses. It is called from Start on, before Start returns.
	Judge decisions.Judge
	// Generation is the generation of leases. Nil: no leases are granted.
	Generation *decisions.Generation
}

// ErrNoSandbox is wrapped by Start's error if an agent cannot be confined on this system, or in this container. The
// agent did not run.
var ErrNoSandbox = errors.New("the agent cannot be confined")

// withSandbox describes an ambiguous end: a sandbox ends in the same way as the program in it, so either may have been
// killed.
const withSandbox = "the agent was killed, or its sandbox, without which it cannot be"

// command returns the command that starts a sandbox with the guard's program.
func (s *Sandbox) command(program string) []string {
	return append([]string{program, sandbox.Command}, s.Flags()...)
}

// sandboxed is the supervisor's end of an agent's sandbox.
type sandboxed struct {
	conn   net.Conn
	judge  decisions.Judge
	leases *decisions.Generation
	begun  chan decisions.Began // buffer of one
	over   chan struct{}        // closed when the sandbox has ended and no decision is pending
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

// serve answers the sandbox until it ends.
func (s *sandboxed) serve(log *slog.Logger) {
	defer close(s.over)
	err := decisions.Serve(s.conn, s.judge, func(b decisions.Began) { s.begun <- b }, s.leases)
	if err != nil {
		log.Error("the sandbox of an agent is not answered any more: what the agent does by itself is refused", "error", err)
	}
}

// abandon closes the socket of a sandbox that is not served.
func (s *sandboxed) abandon() { _ = s.conn.Close() }

// end waits until no decision is pending. The sandbox has ended.
func (s *sandboxed) end() {
	s.once.Do(func() { _ = s.conn.Close() })
	<-s.over
}

// awaitSandbox waits until the agent runs in its sandbox, if it has one. If that fails, it ends the agent.
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
		p.restrictions.Seccomp, p.restrictions.Landlock = b.Walls.Seccomp, p.restrictions.Landlock && b.Walls.Landlock
		p.restrictions.Notes = slices.Concat(p.restrictions.Notes, b.Walls.Notes)
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
