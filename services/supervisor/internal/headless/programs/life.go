package programs

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/acphost/acphost/internal/panics"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/supervise"
	"github.com/acphost/acphost/services/supervisor/internal/headless/acpclient"
)

// Short names of the states.
const (
	starting = supervisorv1.AgentState_AGENT_STATE_STARTING
	running  = supervisorv1.AgentState_AGENT_STATE_RUNNING
	waiting  = supervisorv1.AgentState_AGENT_STATE_BACKOFF
	failed   = supervisorv1.AgentState_AGENT_STATE_FAILED
	stopping = supervisorv1.AgentState_AGENT_STATE_STOPPING
	stopped  = supervisorv1.AgentState_AGENT_STATE_STOPPED
)

const (
	// endWindow is the time during which an unexpected end counts towards the limit of restarts.
	endWindow = 10 * time.Minute
	// stopTimeout limits the time until an agent ends gracefully.
	stopTimeout = 10 * time.Second
)

// instance is an agent: its successive processes and its sessions. One goroutine runs its life, and only that changes
// its state.
type instance struct {
	reg      *Registry
	identity *frame.Agent
	conf     *supervisorv1.StartAgentRequest // as returned by agentspec.Resolver
	since    time.Time

	ctx    context.Context // ends when the agent is to stop
	stop   context.CancelFunc
	orders chan order
	done   chan struct{} // closed when its life has ended

	// Guarded by the Registry's mu.
	state    supervisorv1.AgentState
	changed  chan struct{} // closed when the state changes
	run      *run          // the process that answers; nil: none
	process  *run          // the latest process in any state; nil: none
	info     *supervisorv1.AgentInfo
	failure  *supervisorv1.AgentError
	last     *supervisorv1.AgentError // why the previous run ended; nil: there was none
	restarts uint32
	sessions map[string]*session
	opening  map[string]bool   // ids of sessions that are being loaded or resumed; true: the agent gave the id to another session
	lost     map[string]string // reasons of sessions that ended without being closed, by id

	login sync.Mutex // held during a login
}

// order asks for a restart of an agent. taken is closed when the state shows it.
type order struct {
	taken chan struct{}
	// idle means that the order is ignored if the agent runs by then.
	idle bool
}

// run is one process of an agent with its client.
type run struct {
	agent   *instance
	process Process
	prog    *acpclient.Program
	info    *supervisorv1.AgentInfo // set before it is used
	ctx     context.Context         // ends when the process has ended
	// onPurpose reports that it is being stopped.
	onPurpose atomic.Bool
}

// runLife runs an agent's life.
func (a *instance) runLife() {
	defer close(a.done)
	l := life{instance: a, requested: true}
	for l.runProcess() {
	}
}

// life is the state of an agent's life that outlasts a process.
type life struct {
	*instance
	requested bool // the next start was requested, and its caller gets its error
	ends      supervise.Ends
	failures  int // in a row; a long run resets it
}

// runProcess runs one process to its end, and handles that. It returns false if the life has ended.
func (l *life) runProcess() (goesOn bool) {
	defer panics.Recover(l.reg.log, "running agent "+l.identity.ID, func(err error) {
		goesOn = l.giveUp(l.afterPanic(err))
	})
	r, failure := l.begin()
	if failure == nil && l.ctx.Err() == nil {
		l.answers(r)
		if l.awaitEnd(r) {
			l.reset()
			return true
		}
	}
	if l.ctx.Err() != nil {
		l.end(r)
		return false
	}
	if failure != nil && l.requested {
		return l.giveUp(failure)
	}
	if failure == nil {
		failure = r.ending()
	}
	n := l.ends.Add(time.Now(), endWindow)
	if n > l.reg.opts.MaxRestarts {
		return l.giveUp(tooOften(failure, n))
	}
	if n == 1 {
		l.failures = 0
	}
	l.failures++
	l.requested = false
	return l.pause(supervise.Delay(l.failures-1), failure)
}

// afterPanic ends the agent's process after a panic in its life, and returns the agent's error.
func (l *life) afterPanic(err error) *supervisorv1.AgentError {
	l.reg.mu.Lock()
	r := l.process
	l.reg.mu.Unlock()
	if r != nil {
		r.onPurpose.Store(true)
		r.stop()
	}
	return &supervisorv1.AgentError{Message: fmt.Sprintf("agent %q was stopped: %v", l.identity.Name, err)}
}

// reset resets the counters: the next start was requested.
func (l *life) reset() { l.requested, l.ends, l.failures = true, nil, 0 }

// answers sets the state to running.
func (a *instance) answers(r *run) {
	a.set(running, func() { a.run, a.info, a.last, a.failure = r, r.info, a.failure, nil })
	a.reg.log.Info("agent runs", "agent", a.identity.ID, "name", r.info.GetName(), "version", r.info.GetVersion(), "pid", r.process.PID())
}

// awaitEnd waits until a process has ended. It returns true if it was stopped because a restart was requested.
func (a *instance) awaitEnd(r *run) (ordered bool) {
	for {
		select {
		case <-r.process.Ended():
			return false
		case <-a.ctx.Done():
			return false
		case o := <-a.orders:
			if o.idle {
				close(o.taken)
				continue
			}
			r.onPurpose.Store(true)
			a.set(stopping, func() { a.run = nil })
			close(o.taken)
			r.stop()
			return true
		}
	}
}

// giveUp sets the state of an agent that is not restarted automatically, and waits. It returns true if a restart was
// requested.
func (l *life) giveUp(failure *supervisorv1.AgentError) bool {
	l.reg.log.Error("agent has failed and is not started again", "agent", l.identity.ID, "error", failure.GetMessage())
	l.loseSessions(failure)
	l.set(failed, func() { l.run, l.failure = nil, failure })
	return l.wait(nil)
}

// pause waits before a restart, unless one is requested earlier. It returns false if the agent is to stop.
func (l *life) pause(delay time.Duration, failure *supervisorv1.AgentError) bool {
	l.reg.log.Warn("agent ended: starting it again", "agent", l.identity.ID, "error", failure.GetMessage(), "in", delay)
	l.set(waiting, func() { l.run, l.failure = nil, failure })
	return l.wait(time.After(delay))
}

// wait waits for the time, or for an order. It returns false if the agent has stopped.
func (l *life) wait(until <-chan time.Time) bool {
	select {
	case <-l.ctx.Done():
		l.end(nil)
		return false
	case <-until:
		return true
	case o := <-l.orders:
		l.reg.mu.Lock()
		l.state = starting // begin publishes it
		l.reg.mu.Unlock()
		close(o.taken)
		l.reset()
		return true
	}
}

// end stops the agent after StopAgent or Close.
func (a *instance) end(r *run) {
	a.set(stopping, func() { a.run = nil })
	if r != nil {
		r.onPurpose.Store(true)
		r.stop()
	}
	a.loseSessions(nil)
	a.set(stopped, func() {
		a.failure = a.stoppedError(r)
		a.reg.remove(a)
	})
	a.reg.syncHub(context.Background())
	a.reg.opts.Hub.Forget(a.identity.ID)
	a.reg.log.Info("agent was stopped", "agent", a.identity.ID)
}

// set changes the state, and publishes it. Only the agent's own goroutine calls it.
func (a *instance) set(state supervisorv1.AgentState, also func()) {
	reg := a.reg
	reg.mu.Lock()
	a.state = state
	if also != nil {
		also()
	}
	close(a.changed)
	a.changed = make(chan struct{})
	reg.mu.Unlock()
	reg.publish(&supervisorv1.Event{AgentId: a.identity.ID, Event: &supervisorv1.Event_Agent{Agent: a.show()}})
}

// awaitStart waits for the result of a start.
func (a *instance) awaitStart(ctx context.Context) error {
	for {
		state, failure, changed := a.current()
		switch {
		case state == running:
			return nil
		case state == failed, state == stopped, a.ctx.Err() != nil:
			return a.notRunning(state, failure)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// stop ends a process that still runs, and waits for it.
func (r *run) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := r.process.Stop(ctx); err != nil {
		r.agent.reg.log.Warn("agent could not be stopped cleanly", "agent", r.agent.identity.ID, "error", err)
	}
	r.prog.Close()
	select {
	case <-r.process.Ended():
	case <-ctx.Done():
	}
}
