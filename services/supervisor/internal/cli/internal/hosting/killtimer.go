package hosting

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/config"
)

const (
	// TurnGrace limits the time until a turn that a signal cancelled ends.
	TurnGrace = 500 * time.Millisecond
	// endGrace is the time between a signal and the kill of remaining processes. Together with the kill, a command ends
	// within a second.
	endGrace = 850 * time.Millisecond
	// killTime limits the time until killed processes are gone. Only processes that are blocked in the kernel need
	// more.
	killTime = 2 * time.Second
)

// EndGrace returns the time between a signal and the kill of remaining processes: 850 ms, or more if the configuration
// sets agent.stop_grace_ms, which applies twice to an agent.
func EndGrace(c *config.Config) time.Duration {
	if c == nil {
		return endGrace
	}
	return endGrace + 2*time.Duration(c.Proto.GetAgent().GetStopGraceMs())*time.Millisecond
}

// KillTimer determines when the processes of a command are killed after a signal: some time after the first signal, and
// at once after the second. It is safe for concurrent use.
type KillTimer struct {
	ctx    context.Context
	cancel context.CancelFunc

	mu    sync.Mutex
	timer *time.Timer // guarded by mu; nil: no time was set
	at    time.Time   // guarded by mu: when the timer fires
}

// NewKillTimer watches signals until Stop. ctx is the context of the command, which ends with the first signal.
func NewKillTimer(ctx context.Context) *KillTimer {
	h := &KillTimer{}
	h.ctx, h.cancel = context.WithCancel(context.WithoutCancel(ctx))
	signals := make(chan os.Signal, 8)
	first := ctx.Err() == nil // it has not arrived yet
	signal.Notify(signals, command.StopSignals()...)
	go func() {
		defer signal.Stop(signals)
		for {
			select {
			case <-signals:
				if first {
					first = false
					continue
				}
				h.cancel()
			case <-h.ctx.Done():
				return
			}
		}
	}()
	return h
}

// Context returns a context that ends when processes are to be killed, for host.Options.Kill.
func (h *KillTimer) Context() context.Context { return h.ctx }

// After kills processes after a time, unless an earlier call set an earlier time.
func (h *KillTimer) After(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := time.Now().Add(d)
	if h.timer != nil && (h.at.Before(at) || !h.timer.Stop()) {
		return
	}
	h.at, h.timer = at, time.AfterFunc(d, h.cancel)
}

// Stop stops watching signals. Remaining processes are killed.
func (h *KillTimer) Stop() {
	h.mu.Lock()
	if h.timer != nil {
		h.timer.Stop()
	}
	h.mu.Unlock()
	h.cancel()
}
