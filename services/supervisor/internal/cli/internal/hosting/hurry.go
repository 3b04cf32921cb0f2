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
	// TurnGrace is how long a turn that a signal cancelled may take to end.
	TurnGrace = 500 * time.Millisecond
	// endGrace is how long after a signal what still runs is killed. With the time that killing takes, a command ends
	// within a second.
	endGrace = 850 * time.Millisecond
	// killTime is how long killed processes may take to be gone. Only processes that the kernel holds need more.
	killTime = 2 * time.Second
)

// EndGrace is how long after a signal what still runs is killed: 850 ms, or more if the configuration sets
// agent.stop_grace_ms, which an agent then has twice.
func EndGrace(c *config.Config) time.Duration {
	if c == nil {
		return endGrace
	}
	return endGrace + 2*time.Duration(c.Proto.GetAgent().GetStopGraceMs())*time.Millisecond
}

// Hurry says when the processes of a command that a signal ends are killed: some time after the first signal, and at
// once with the second. Safe for concurrent use.
type Hurry struct {
	ctx    context.Context
	cancel context.CancelFunc

	mu    sync.Mutex
	timer *time.Timer // guarded by mu; nil: no time was set
	at    time.Time   // guarded by mu: when the timer fires
}

// NewHurry watches signals until Stop. ctx ends with the first signal that asks for the end, as a command's context
// does.
func NewHurry(ctx context.Context) *Hurry {
	h := &Hurry{}
	h.ctx, h.cancel = context.WithCancel(context.WithoutCancel(ctx))
	signals := make(chan os.Signal, 8)
	first := ctx.Err() == nil // it is still to come
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

// Context ends when processes are to be killed: it is host.Options.Hurry.
func (h *Hurry) Context() context.Context { return h.ctx }

// After has processes killed after a time, unless an earlier call set an earlier time.
func (h *Hurry) After(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := time.Now().Add(d)
	if h.timer != nil && (h.at.Before(at) || !h.timer.Stop()) {
		return
	}
	h.at, h.timer = at, time.AfterFunc(d, h.cancel)
}

// Stop ends the watching of signals. What still runs is killed.
func (h *Hurry) Stop() {
	h.mu.Lock()
	if h.timer != nil {
		h.timer.Stop()
	}
	h.mu.Unlock()
	h.cancel()
}
