package programs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/acphost/acphost/internal/fault"
	"github.com/acphost/acphost/internal/panics"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/config/agentspec"
	"github.com/acphost/acphost/services/supervisor/internal/events/event"
	"github.com/acphost/acphost/services/supervisor/internal/policy/secret"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/link"
)

// remote is an agent with a remote client. It has one process, which ends with its client's stream. Its client speaks
// ACP with it: this package sends no requests to it.
type remote struct {
	reg       *Registry
	identity  *frame.Agent
	conf      *supervisorv1.StartAgentRequest // as agentspec.Resolver returns it
	promptMux *promptMux
	since     time.Time

	stopRequested atomic.Bool        // it was asked to end
	end           context.CancelFunc // ends the agent
	done          chan struct{}      // closed when all of it has ended
	process       atomic.Pointer[Process]
	last          atomic.Pointer[supervisorv1.AgentError] // why it ended
}

// OpenAgent starts an agent that the configuration names for remote clients, and connects it with a client: it reads
// the client's messages from in and writes the agent's to out, a line each. opened is called when the agent runs; out
// may be written to before. It returns when the agent has ended with all processes that it started, because the client
// (nil), ctx, the agent or the Registry ended. A read of in and a write to out may then still be active: they must end
// with the caller's stream.
func (reg *Registry) OpenAgent(ctx context.Context, open *supervisorv1.GatewayOpen, in io.Reader, out io.Writer, opened func(*supervisorv1.Agent) error) error {
	request, err := reg.gatewayAgent(open.GetAgent())
	if err != nil {
		return err
	}
	conf, err := reg.opts.Agents.Resolve(ctx, request)
	if err != nil {
		return err
	}
	if files := agentspec.KeyFiles(request.GetEnv()); len(files) > 0 && reg.opts.Protect != nil {
		if err := reg.opts.Protect(ctx, files); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a, err := reg.addRemote(conf, newPromptMux(out), cancel)
	if err != nil {
		return err
	}
	defer reg.wg.Done()
	defer a.remove()
	defer context.AfterFunc(reg.ctx, cancel)()
	go panics.Guard(reg.log, "reading the client of agent "+a.identity.ID, func() { a.promptMux.forwardInput(in) }, // ends with the stream
		func(error) { cancel() })()
	defer a.promptMux.close()
	return a.runProcess(ctx, link.Client{In: a.promptMux.from, Out: a.promptMux, Foreign: a.promptMux.foreign}, opened)
}

// gatewayAgent returns an agent for remote clients by its name, which may be empty if there is one agent only.
func (reg *Registry) gatewayAgent(name string) (*supervisorv1.StartAgentRequest, error) {
	names := slices.Sorted(maps.Keys(reg.opts.GatewayAgents))
	if name == "" && len(names) == 1 {
		name = names[0]
	}
	request := reg.opts.GatewayAgents[name]
	switch {
	case request != nil:
		return request, nil
	case len(names) == 0:
		return nil, fault.New(fault.NotFound, "open agent %q: the configuration has no agents for gateways; name some under serve.gateway_agents", name)
	case name == "":
		return nil, fault.New(fault.Invalid, "open an agent: none is named; there are %s", listed(names))
	}
	return nil, fault.New(fault.NotFound, "open agent %q: the configuration has no such agent for gateways; there are %s", name, listed(names))
}

// addRemote adds an agent. On success the caller has an entry in wg, which Close waits for.
func (reg *Registry) addRemote(conf *supervisorv1.StartAgentRequest, promptMux *promptMux, end context.CancelFunc) (*remote, error) {
	reg.mu.Lock()
	defer reg.mu.Unlock()
	if err := reg.open(); err != nil {
		return nil, err
	}
	identity, err := reg.admit(conf.Name)
	if err != nil {
		return nil, err
	}
	a := &remote{reg: reg, identity: identity, conf: conf, promptMux: promptMux, since: time.Now(), end: end, done: make(chan struct{})}
	reg.remotes = append(reg.remotes, a)
	reg.wg.Add(1) // not too late, since open returned nil
	return a, nil
}

// remove removes the agent, when all of it has ended.
func (a *remote) remove() {
	reg := a.reg
	reg.syncHub(context.Background()) // includes the sessions that it opened last
	reg.opts.Hub.CloseSessions(a.identity.ID, goneReason)
	reg.mu.Lock()
	reg.remotes = slices.DeleteFunc(reg.remotes, func(b *remote) bool { return a == b })
	reg.mu.Unlock()
	a.publish(stopped)
	reg.syncHub(context.Background())
	reg.opts.Hub.Forget(a.identity.ID)
	close(a.done)
}

// runProcess runs the agent, and returns why it ended.
func (a *remote) runProcess(ctx context.Context, client link.Client, opened func(*supervisorv1.Agent) error) error {
	reg, log := a.reg, a.reg.log.With("agent", a.identity.ID)
	env, err := agentspec.Environ(reg.opts.Env, a.conf.GetEnv())
	if err != nil {
		return a.failed(spawnError(a.identity.Name, a.conf.GetCommand(), err))
	}
	p, err := reg.opts.Start(ctx, Spec{
		Identity: a.identity, Preset: a.conf.GetPreset(), Command: slices.Clone(a.conf.GetCommand()), Env: env, Dir: a.conf.GetCwd(), Client: client, Remote: true,
	})
	if err != nil {
		return a.failed(spawnError(a.identity.Name, a.conf.GetCommand(), err))
	}
	stop := sync.OnceFunc(func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		if err := p.Stop(stopping); err != nil {
			log.Warn("agent could not be stopped cleanly", "error", err)
		}
		<-p.Ended()
	})
	defer stop() // after a panic, too: nothing else would end the process
	a.process.Store(&p)
	log.Info("agent runs for a client elsewhere", "pid", p.PID())
	a.publish(running)
	unopened := opened(a.show(running))
	if unopened == nil {
		select {
		case <-p.Ended():
		case <-ctx.Done():
		}
	}
	stop()
	err = cmp.Or(unopened, a.ending(ctx, p))
	log.Info("agent for a client elsewhere has ended", "why", err)
	return err
}

// ending returns why the agent has ended; nil: its client closed its side.
func (a *remote) ending(ctx context.Context, p Process) error {
	reason, cause := p.Reason()
	name := a.identity.ID
	switch {
	case a.stopRequested.Load():
		e := exitError(a.conf.GetCommand(), p.Exit(), "")
		e.Kind, e.Message = supervisorv1.ErrorKind_ERROR_KIND_STOPPED, fmt.Sprintf("agent %q was stopped", name)
		return a.failed(e)
	case a.reg.ctx.Err() != nil:
		return fault.New(fault.Stopping, "agent %q was stopped, since the supervisor is stopping", name)
	case reason == link.ClientGone && cause == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case reason == link.ClientGone:
		return cause
	case reason == link.Broken:
		return a.failed(&supervisorv1.AgentError{Message: fmt.Sprintf("agent %q was stopped: %v", name, cause)})
	case reason == link.NotReady:
		return a.failed(&supervisorv1.AgentError{Message: fmt.Sprintf("agent %q: a handler is not ready: %v", name, cause)})
	case reason == link.NoInitialize:
		e := agentError(supervisorv1.ErrorKind_ERROR_KIND_HANDSHAKE_TIMEOUT, "agent %q: it did not answer initialize within %s%s", name, a.reg.opts.InitializeTimeout, secret.Text(p.Dropped()))
		e.StderrTail = secret.Lines(p.StderrTail())
		return a.failed(e)
	}
	e := exitError(a.conf.GetCommand(), p.Exit(), fmt.Sprintf("agent %q: ", name))
	if p.Exit().Stopped { // it closed its output, and was stopped because of that
		e.Kind, e.Message = supervisorv1.ErrorKind_ERROR_KIND_CRASHED, fmt.Sprintf("agent %q: it closed its output", name)
	}
	if cause != nil && !errors.Is(cause, io.EOF) {
		e.Message += fmt.Sprintf(" (%v)", cause)
	}
	e.Message += secret.Text(p.Dropped())
	return a.failed(e)
}

// failed records why the agent ended, and returns it as a fault.
func (a *remote) failed(e *supervisorv1.AgentError) error {
	a.last.Store(e)
	return fault.Agent(e)
}

// stopAgent implements StopAgent.
func (a *remote) stopAgent(ctx context.Context) (*supervisorv1.StopAgentResponse, error) {
	a.stopRequested.Store(true)
	a.end()
	select {
	case <-a.done:
		return &supervisorv1.StopAgentResponse{Agent: a.show(stopped)}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// remote returns the agent with a remote client and an id; nil if none exists.
func (reg *Registry) remote(id string) *remote {
	reg.mu.Lock()
	defer reg.mu.Unlock()
	for _, a := range reg.remotes {
		if a.identity.ID == id {
			return a
		}
	}
	return nil
}

// now returns the agent's state before it is removed.
func (a *remote) now() supervisorv1.AgentState {
	if a.process.Load() == nil {
		return starting
	}
	return running
}

// show returns the agent as a message.
func (a *remote) show(state supervisorv1.AgentState) *supervisorv1.Agent {
	out := &supervisorv1.Agent{
		Id: a.identity.ID, Name: a.identity.Name, Preset: a.conf.GetPreset(), Command: secret.RedactedArgv(a.conf.GetCommand()), Cwd: a.conf.GetCwd(),
		EnvNames: slices.Sorted(maps.Keys(a.conf.GetEnv())), State: state, StartTime: timestamppb.New(a.since), Attended: true,
		Error: a.last.Load(),
	}
	if out.Cwd == "" {
		out.Cwd, _ = os.Getwd()
	}
	p := a.process.Load()
	if p == nil {
		return out
	}
	out.StderrTail = secret.Lines((*p).StderrTail())
	if raw := (*p).Reported().Raw; raw != nil {
		out.Info = event.ParseInfo(raw)
	}
	if state != stopped {
		out.Pid = int64((*p).PID())
		for _, s := range (*p).Sessions() {
			out.SessionIds = append(out.SessionIds, s.GetSessionId())
		}
	}
	return out
}

func (a *remote) publish(state supervisorv1.AgentState) {
	a.reg.publish(&supervisorv1.Event{AgentId: a.identity.ID, Event: &supervisorv1.Event_Agent{Agent: a.show(state)}})
}
