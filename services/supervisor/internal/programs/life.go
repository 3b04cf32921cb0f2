package programs

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/acphost/acphost/internal/panics"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acpclient"
	"github.com/acphost/acphost/services/supervisor/internal/frame"
	"github.com/acphost/acphost/services/supervisor/internal/supervise"
)

// The states, by shorter names.
const (
	starting = supervisorv1.AgentState_AGENT_STATE_STARTING
	running  = supervisorv1.AgentState_AGENT_STATE_RUNNING
	waiting  = supervisorv1.AgentState_AGENT_STATE_BACKOFF
	failed   = supervisorv1.AgentState_AGENT_STATE_FAILED
	stopping = supervisorv1.AgentState_AGENT_STATE_STOPPING
	stopped  = supervisorv1.AgentState_AGENT_STATE_STOPPED
)

const (
	// endWindow is how long an unasked end counts.
	endWindow = 10 * time.Minute
	// stopTimeout is how long an agent may take to end gently.
	stopTimeout = 10 * time.Second
)

// instance is an agent: its processes, one after the other, and its sessions. One goroutine lives its life and alone
// changes its state.
type instance struct {
	reg      *Registry
	identity *frame.Agent
	conf     *supervisorv1.StartAgentRequest // as agentspec.Resolver returns it
	since    time.Time

	ctx    context.Context // ends when the agent is to stop
	stop   context.CancelFunc
	orders chan order
	over   chan struct{} // closed when its life is

	// Guarded by h.mu.
	state    supervisorv1.AgentState
	changed  chan struct{} // closed when the state changes
	run      *run          // the process that answers; nil: none does
	process  *run          // the latest process, whatever it does; nil: there was none
	info     *supervisorv1.AgentInfo
	failure  *supervisorv1.AgentError
	last     *supervisorv1.AgentError // why the run before this one ended; nil: there was none
	restarts uint32
	sessions map[string]*session
	opening  map[string]bool   // by the ids of sessions that are being loaded or resumed: the agent gave it to another one
	lost     map[string]string // why sessions ended that nobody closed, by their ids

	login sync.Mutex // held while one is under way
}

// order has an agent started again. Taken is closed when its state says so.
type order struct {
	taken chan struct{}
	// idle: only one that does not run by then.
	idle bool
}

// run is one process of an agent with its client.
type run struct {
	agent   *instance
	process Process
	prog    *acpclient.Program
	info    *supervisorv1.AgentInfo // set before it runs
	ctx     context.Context         // ends when it has ended
	// onPurpose: it is being stopped.
	onPurpose atomic.Bool
}

// live is an agent's life.
func (a *instance) live() {
	defer close(a.over)
	l := life{instance: a, asked: true}
	for l.once() {
	}
}

// life is what an agent's life remembers from one process to the next.
type life struct {
	*instance
	asked    bool // somebody asked for the next start, and is told if it fails
	ends     supervise.Ends
	failures int // in a row, without a run of some length between them
}

// once has a process run to its end, and what has to come after that happen; false: life is over.
func (l *life) once() (goesOn bool) {
	defer panics.Recover(l.reg.log, "running agent "+l.identity.ID, func(err error) {
		goesOn = l.giveUp(l.broken(err))
	})
	r, failure := l.begin()
	if failure == nil && l.ctx.Err() == nil {
		l.answers(r)
		if l.stay(r) {
			l.afresh()
			return true
		}
	}
	if l.ctx.Err() != nil {
		l.end(r)
		return false
	}
	if failure != nil && l.asked {
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
	l.asked = false
	return l.pause(supervise.Delay(l.failures-1), failure)
}

// broken ends the agent's process after a panic in its life, and says so in the agent's error.
func (l *life) broken(err error) *supervisorv1.AgentError {
	l.reg.mu.Lock()
	r := l.process
	l.reg.mu.Unlock()
	if r != nil {
		r.onPurpose.Store(true)
		r.stop()
	}
	return &supervisorv1.AgentError{Message: fmt.Sprintf("agent %q was stopped: %v", l.identity.Name, err)}
}

// afresh has what was before not count: somebody has ordered the next start.
func (l *life) afresh() { l.asked, l.ends, l.failures = true, nil, 0 }

// answers says that the agent runs.
func (a *instance) answers(r *run) {
	a.set(running, func() { a.run, a.info, a.last, a.failure = r, r.info, a.failure, nil })
	a.reg.log.Info("agent runs", "agent", a.identity.ID, "name", r.info.GetName(), "version", r.info.GetVersion(), "pid", r.process.PID())
}

// stay watches a process until it has ended. True: somebody ordered it to be started again; it was stopped then.
func (a *instance) stay(r *run) (ordered bool) {
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

// giveUp is the state of an agent that is not started again by itself; true: somebody ordered it.
func (l *life) giveUp(failure *supervisorv1.AgentError) bool {
	l.reg.log.Error("agent has failed and is not started again", "agent", l.identity.ID, "error", failure.GetMessage())
	l.loseSessions(failure)
	l.set(failed, func() { l.run, l.failure = nil, failure })
	return l.wait(nil)
}

// pause waits before the agent is started again, unless somebody does not want to wait; false: it is to stop.
func (l *life) pause(delay time.Duration, failure *supervisorv1.AgentError) bool {
	l.reg.log.Warn("agent ended: starting it again", "agent", l.identity.ID, "error", failure.GetMessage(), "in", delay)
	l.set(waiting, func() { l.run, l.failure = nil, failure })
	return l.wait(time.After(delay))
}

// wait waits for the time, or for an order; false: the agent is to stop, and has.
func (l *life) wait(until <-chan time.Time) bool {
	select {
	case <-l.ctx.Done():
		l.end(nil)
		return false
	case <-until:
		return true
	case o := <-l.orders:
		l.reg.mu.Lock()
		l.state = starting // begin tells it
		l.reg.mu.Unlock()
		close(o.taken)
		l.afresh()
		return true
	}
}

// end is the end that StopAgent or Close asked for.
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

// set changes the state, and tells it. Only the agent's own goroutine calls it.
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

// awaitStart waits until it is known how a start ended.
func (a *instance) awaitStart(ctx context.Context) error {
	for {
		state, failure, changed := a.look()
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

// stop ends a process that is still there, and waits for it.
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
