package programs

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/acphost/acphost/internal/fault"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/config/agentspec"
	"github.com/acphost/acphost/services/supervisor/internal/policy/secret"
)

// StartAgent starts an agent and waits for its answer to initialize, or returns the one that was started with the same
// request.
func (reg *Registry) StartAgent(ctx context.Context, r *supervisorv1.StartAgentRequest) (*supervisorv1.StartAgentResponse, error) {
	conf, err := reg.opts.Agents.Resolve(ctx, r)
	if err != nil {
		return nil, err
	}
	if files := agentspec.KeyFiles(r.GetEnv()); len(files) > 0 && reg.opts.Protect != nil {
		if err := reg.opts.Protect(ctx, files); err != nil {
			return nil, err
		}
	}
	a, reused, err := reg.find(conf)
	if err != nil {
		return nil, err
	}
	if state, _, _ := a.current(); reused && state == failed {
		reused = false
		if err := a.restart(ctx, true); err != nil {
			return nil, err
		}
	}
	if err := a.awaitStart(ctx); err != nil {
		return nil, err
	}
	return &supervisorv1.StartAgentResponse{Agent: a.show(), Reused: reused}, nil
}

// StopAgent ends an agent, its turns and its sessions, and removes it.
func (reg *Registry) StopAgent(ctx context.Context, r *supervisorv1.StopAgentRequest) (*supervisorv1.StopAgentResponse, error) {
	if a := reg.remote(r.GetAgentId()); a != nil {
		return a.stopAgent(ctx)
	}
	a, err := reg.agent(r.GetAgentId())
	if err != nil {
		return nil, err
	}
	a.stop()
	select {
	case <-a.done:
		return &supervisorv1.StopAgentResponse{Agent: a.show()}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// RestartAgent starts an agent again, without a pause if it is in backoff, and resumes its sessions where it can.
func (reg *Registry) RestartAgent(ctx context.Context, r *supervisorv1.RestartAgentRequest) (*supervisorv1.RestartAgentResponse, error) {
	a, err := reg.agent(r.GetAgentId())
	if err != nil {
		return nil, err
	}
	reg.mu.Lock()
	err = reg.open()
	reg.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if err := a.restart(ctx, false); err != nil {
		return nil, err
	}
	if err := a.awaitStart(ctx); err != nil {
		return nil, err
	}
	return &supervisorv1.RestartAgentResponse{Agent: a.show()}, nil
}

// ListAgents returns the agents, oldest first.
func (reg *Registry) ListAgents(context.Context, *supervisorv1.ListAgentsRequest) (*supervisorv1.ListAgentsResponse, error) {
	reg.mu.Lock()
	all, remotes := slices.Clone(reg.agents), slices.Clone(reg.remotes)
	reg.mu.Unlock()
	out := &supervisorv1.ListAgentsResponse{}
	for _, a := range all {
		out.Agents = append(out.Agents, a.show())
	}
	for _, a := range remotes {
		out.Agents = append(out.Agents, a.show(a.now()))
	}
	slices.SortStableFunc(out.Agents, func(a, b *supervisorv1.Agent) int {
		return a.GetStartTime().AsTime().Compare(b.GetStartTime().AsTime())
	})
	return out, nil
}

// GetAgent returns an agent.
func (reg *Registry) GetAgent(_ context.Context, r *supervisorv1.GetAgentRequest) (*supervisorv1.GetAgentResponse, error) {
	if a := reg.remote(r.GetAgentId()); a != nil {
		return &supervisorv1.GetAgentResponse{Agent: a.show(a.now())}, nil
	}
	a, err := reg.agent(r.GetAgentId())
	if err != nil {
		return nil, err
	}
	return &supervisorv1.GetAgentResponse{Agent: a.show()}, nil
}

// find returns the agent that was started with the same request, or a new one that is starting.
func (reg *Registry) find(conf *supervisorv1.StartAgentRequest) (a *instance, reused bool, err error) {
	reg.mu.Lock()
	defer reg.mu.Unlock()
	if err := reg.open(); err != nil {
		return nil, false, err
	}
	if !conf.GetSeparate() {
		for _, a := range reg.agents {
			if proto.Equal(a.conf, conf) && a.ctx.Err() == nil {
				return a, true, nil
			}
		}
	}
	identity, err := reg.admit(conf.Name)
	if err != nil {
		return nil, false, err
	}
	a = &instance{
		reg: reg, identity: identity,
		conf: conf, since: time.Now(),
		orders: make(chan order), done: make(chan struct{}), changed: make(chan struct{}),
		state: starting, sessions: map[string]*session{}, opening: map[string]bool{}, lost: map[string]string{},
	}
	a.ctx, a.stop = context.WithCancel(reg.ctx)
	reg.agents = append(reg.agents, a)
	reg.spawn(a.runLife) // cannot fail, since open returned nil
	return a, false, nil
}

// admit makes room for one more agent, and returns its identity; mu is held.
func (reg *Registry) admit(name string) (*frame.Agent, error) {
	if n := len(reg.agents) + len(reg.remotes); n >= reg.opts.MaxAgents && !reg.evict() {
		return nil, fault.New(fault.Exhausted, "start agent %q: %d agents are there already (serve.max_agents); stop one", name, n)
	}
	plain := agentspec.PlainName(name)
	reg.counts[plain]++
	return &frame.Agent{ID: fmt.Sprintf("%s-%d", plain, reg.counts[plain]), Name: name}, nil
}

// evict removes the oldest failed agent; mu is held.
func (reg *Registry) evict() bool {
	for _, a := range reg.agents {
		if a.state == failed {
			a.stop()
			reg.remove(a)
			return true
		}
	}
	return false
}

// agent returns the agent with an id, or with a name if that is unique.
func (reg *Registry) agent(id string) (*instance, error) {
	reg.mu.Lock()
	defer reg.mu.Unlock()
	for _, a := range reg.remotes {
		if a.identity.ID == id {
			return nil, fault.New(fault.Precondition, "agent %q belongs to the client that opened it through a gateway; you can watch and stop it", id)
		}
	}
	var named []*instance
	for _, a := range reg.agents {
		if a.identity.ID == id {
			return a, nil
		}
		if a.identity.Name == id {
			named = append(named, a)
		}
	}
	switch {
	case len(named) == 1:
		return named[0], nil
	case len(named) > 1:
		return nil, fault.New(fault.Precondition, "several agents have the name %q; select one by its id: %s", id, idsOf(named))
	case id == "" && len(reg.agents) == 0:
		return nil, fault.New(fault.Invalid, "no agent is named, and none runs: start one")
	case id == "":
		return nil, fault.New(fault.Invalid, "no agent is named; there are %s", idsOf(reg.agents))
	case len(reg.agents) == 0:
		return nil, fault.New(fault.NotFound, "there is no agent %q, and no other one", id)
	}
	return nil, fault.New(fault.NotFound, "there is no agent %q; there are %s", id, idsOf(reg.agents))
}

func idsOf(agents []*instance) string {
	var ids []string
	for _, a := range agents {
		ids = append(ids, a.identity.ID)
	}
	return listed(ids)
}

// listed returns the first of many names.
func listed(all []string) string {
	const limit = 20
	if len(all) > limit {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:limit], ", "), len(all)-limit)
	}
	return strings.Join(all, ", ")
}

// current returns an agent's state, why it does not run, and a channel that is closed when the state changes.
func (a *instance) current() (state supervisorv1.AgentState, failure *supervisorv1.AgentError, changed <-chan struct{}) {
	a.reg.mu.Lock()
	defer a.reg.mu.Unlock()
	return a.state, a.failure, a.changed
}

// restart starts the agent again, and returns when its state shows that. It does nothing for an agent that is starting
// and, if idle is set, for one that runs.
func (a *instance) restart(ctx context.Context, idle bool) error {
	for {
		state, _, changed := a.current()
		if state == starting {
			return nil
		}
		o := order{taken: make(chan struct{}), idle: idle}
		select {
		case a.orders <- o:
			<-o.taken
			return nil
		case <-changed:
		case <-a.done:
			return fault.New(fault.Precondition, "agent %q is being stopped", a.identity.ID)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// show returns the agent as a message.
func (a *instance) show() *supervisorv1.Agent {
	sessions := a.openSessions()
	a.reg.mu.Lock()
	out := &supervisorv1.Agent{
		Id: a.identity.ID, Name: a.identity.Name, Preset: a.conf.GetPreset(), Command: secret.RedactedArgv(a.conf.GetCommand()),
		EnvNames: slices.Sorted(maps.Keys(a.conf.GetEnv())), State: a.state, StartTime: timestamppb.New(a.since), Restarts: a.restarts,
		Attended: a.conf.Attended,
	}
	if a.info != nil {
		out.Info = proto.CloneOf(a.info)
	}
	if why := cmp.Or(a.failure, a.last); why != nil {
		out.Error = proto.CloneOf(why)
	}
	for _, s := range sessions {
		out.SessionIds = append(out.SessionIds, s.id)
	}
	r := a.process
	a.reg.mu.Unlock()
	if out.Cwd = a.conf.GetCwd(); out.Cwd == "" {
		out.Cwd, _ = os.Getwd()
	}
	if r != nil {
		out.StderrTail = secret.Lines(r.process.StderrTail())
		if !r.ended() {
			out.Pid = int64(r.process.PID())
		}
	}
	return out
}

// publish publishes an event without a frame.
func (reg *Registry) publish(e *supervisorv1.Event) {
	e.Time = timestamppb.Now()
	reg.opts.Hub.Publish(e)
}
