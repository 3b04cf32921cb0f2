package programs

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/acphost/acphost/internal/fault"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/headless/acpclient"
)

const (
	// maxSessionID limits a session id that an agent chooses, in bytes.
	maxSessionID = 1 << 10
	// syncTimeout limits the wait until earlier frames are processed.
	syncTimeout = 10 * time.Second
)

// session is an open session.
type session struct {
	agent  *instance
	id     string
	number uint64 // in the order of opening

	// Guarded by the Registry's mu.
	opening      *opening
	turn         *turn // the active turn; nil: none
	closing      bool
	before       *supervisorv1.Session // the settings to restore; nil: it has the chosen ones
	rejectReason string                // why prompts are rejected; empty: they are accepted
	early        []*supervisorv1.Event // events before the first prompt, which returns them
}

// NewSession opens a session.
func (reg *Registry) NewSession(ctx context.Context, r *supervisorv1.NewSessionRequest) (*supervisorv1.NewSessionResponse, error) {
	s, err := reg.openSession(ctx, r.GetAgentId(), acp.MethodSessionNew, "", r.GetCwd(), r)
	return &supervisorv1.NewSessionResponse{Session: s}, err
}

// LoadSession opens a session that the agent has stored, with its history.
func (reg *Registry) LoadSession(ctx context.Context, r *supervisorv1.LoadSessionRequest) (*supervisorv1.LoadSessionResponse, error) {
	s, err := reg.openSession(ctx, r.GetAgentId(), acp.MethodSessionLoad, r.GetSessionId(), r.GetCwd(), r)
	return &supervisorv1.LoadSessionResponse{Session: s}, err
}

// ResumeSession opens a session that the agent has stored, without its history. A session that is already open with the
// same parameters is returned as it is.
func (reg *Registry) ResumeSession(ctx context.Context, r *supervisorv1.ResumeSessionRequest) (*supervisorv1.ResumeSessionResponse, error) {
	s, err := reg.openSession(ctx, r.GetAgentId(), acp.MethodSessionResume, r.GetSessionId(), r.GetCwd(), r)
	return &supervisorv1.ResumeSessionResponse{Session: s}, err
}

// ForkSession opens a session that starts from the state of another one.
func (reg *Registry) ForkSession(ctx context.Context, r *supervisorv1.ForkSessionRequest) (*supervisorv1.ForkSessionResponse, error) {
	cwd, agentID := r.GetCwd(), r.GetAgentId()
	from, err := reg.session(agentID, r.GetSessionId())
	switch {
	case err == nil:
		reg.mu.Lock()
		agentID, cwd = from.agent.identity.ID, cmp.Or(cwd, from.opening.cwd)
		reg.mu.Unlock()
	case agentID == "" || cwd == "": // a stored session can be forked too, if its folder is given
		return nil, err
	}
	s, err := reg.openSession(ctx, agentID, acp.MethodSessionFork, r.GetSessionId(), cwd, r)
	return &supervisorv1.ForkSessionResponse{Session: s}, err
}

// openSession sends a request that opens a session, and holds the session from the answer on. id is the session to
// load, resume or fork.
func (reg *Registry) openSession(ctx context.Context, agentID, method, id, cwd string, req openRequest) (*supervisorv1.Session, error) {
	o, err := newOpening(cwd, req)
	if err != nil {
		return nil, err
	}
	r, err := reg.started(ctx, agentID)
	if err != nil {
		return nil, err
	}
	if err := r.accepts(method, o); err != nil {
		return nil, err
	}
	a := r.agent
	if method == acp.MethodSessionResume {
		reg.mu.Lock()
		s := a.sessions[id]
		alike := s != nil && s.opening.like(o)
		reg.mu.Unlock()
		if alike {
			return reg.show(ctx, s), nil
		}
	}
	known := "" // the id of the session that will be open
	if method == acp.MethodSessionLoad || method == acp.MethodSessionResume {
		if known = id; len(id) > maxSessionID {
			return nil, fault.New(fault.Invalid, "the session's id has %d bytes, more than the %d that are taken", len(id), maxSessionID)
		}
	}
	if err := reg.reserve(a, known); err != nil {
		return nil, err
	}
	opened := &opened{run: r, method: method, known: known, opening: o}
	limit := callTimeout
	if method == acp.MethodSessionLoad {
		limit = 0
	}
	early := reg.watchEarly(a.identity.ID)
	defer early.drop()
	spoken, params := r.spoken(method, o.params(id))
	call, err := r.prog.Send(ctx, spoken, params)
	if err != nil {
		reg.release(a, known)
		return nil, r.explain(ctx, method, limit, err)
	}
	limited, cancel := within(ctx, limit)
	defer cancel()
	result, err := call.Wait(limited)
	if err != nil && limited.Err() != nil {
		reg.abandon(opened, call)
		return nil, r.explain(ctx, method, limit, err)
	}
	var s *session
	if err == nil {
		s, err = reg.opened(opened, result)
	} else {
		err = r.explain(ctx, method, limit, err)
	}
	reg.release(a, known)
	if err != nil {
		return nil, err
	}
	shown := reg.show(ctx, s)
	updates := early.take(s.id)
	reg.mu.Lock()
	s.early = updates
	reg.mu.Unlock()
	return shown, nil
}

// opened is the state of a session that is being opened.
type opened struct {
	run     *run
	method  string
	known   string // its id; empty: the answer has it
	opening *opening
}

// reserve takes a place for a session, and makes sure that the session is not opened twice.
func (reg *Registry) reserve(a *instance, known string) error {
	reg.mu.Lock()
	defer reg.mu.Unlock()
	_, opening := a.opening[known]
	switch {
	case reg.draining:
		return reg.open()
	case reg.sessions >= reg.opts.MaxSessions:
		return fault.New(fault.Exhausted, "%d sessions are open already (serve.max_sessions); close one", reg.sessions)
	case opening:
		return fault.New(fault.Precondition, "session %q is being opened already", known)
	case known != "" && a.sessions[known] != nil:
		return fault.New(fault.Precondition, "session %q is open already; go on with it, or close it first", known)
	}
	reg.sessions++
	if known != "" {
		a.opening[known] = false
	}
	return nil
}

// release frees the place: the session counts as open now, or could not be opened.
func (reg *Registry) release(a *instance, known string) {
	reg.mu.Lock()
	defer reg.mu.Unlock()
	reg.sessions--
	delete(a.opening, known)
}

// opened adds a session that the agent has opened.
func (reg *Registry) opened(o *opened, result []byte) (*session, error) {
	id := o.known
	if id == "" {
		var ok bool
		if id, ok = acp.Exact(acp.Get(result, "sessionId")); !ok || id == "" || len(id) > maxSessionID || strings.ContainsRune(id, 0) {
			return nil, o.run.invalidAnswer("%s: it answered without a session id that can be used", o.method)
		}
	}
	a := o.run.agent
	reg.mu.Lock()
	if a.run != o.run {
		reg.mu.Unlock()
		return nil, fault.Agent(o.run.ending())
	}
	if twin, clash := o.clash(id); clash { // both sessions would now have the same roots, and their updates could not be distinguished
		reg.mu.Unlock()
		if twin != nil {
			reg.endLost(twin, "the agent gave its id to another session")
		}
		o.run.process.Forget(id)
		return nil, o.run.invalidAnswer("%s: two sessions got the id %q; both are closed", o.method, id)
	}
	reg.numbered++
	s := &session{agent: a, id: id, number: reg.numbered, opening: o.opening}
	a.sessions[id] = s
	delete(a.lost, id)
	reg.sessions++
	reg.mu.Unlock()
	return s, nil
}

// clash reports whether an id already belongs to another session: twin is open; a session that is being loaded is
// marked instead. The Registry's mu is held.
func (o *opened) clash(id string) (twin *session, clash bool) {
	a := o.run.agent
	given, loading := a.opening[id]
	if o.known != "" {
		return nil, given
	}
	if loading {
		a.opening[id] = true
	}
	return a.sessions[id], loading || a.sessions[id] != nil
}

// abandon waits, for a limited time, for the answer to a request that opens a session and whose caller has left, and
// closes the session.
func (reg *Registry) abandon(o *opened, call *acpclient.Pending) {
	if err := call.RequestCancel(); err != nil {
		reg.log.Debug("a call could not be given up", "method", o.method, "error", err)
	}
	reg.mu.Lock()
	defer reg.mu.Unlock()
	late := func() {
		defer reg.release(o.run.agent, o.known)
		ctx, cancel := context.WithTimeout(o.run.ctx, callTimeout)
		defer cancel()
		result, err := call.Wait(ctx)
		if err != nil {
			call.Abandon()
			return
		}
		s, err := reg.opened(o, result)
		if err == nil {
			_, err = reg.closeSession(ctx, s)
		}
		if err != nil {
			reg.log.Warn("a session without a caller could not be closed", "agent", o.run.agent.identity.ID, "error", err)
		}
	}
	if !reg.spawn(late) {
		reg.sessions--
		delete(o.run.agent.opening, o.known)
	}
}

// running returns the process of an agent that answers.
func (reg *Registry) running(agentID string) (*run, error) {
	a, err := reg.agent(agentID)
	if err != nil {
		return nil, err
	}
	return a.runs()
}

// started is running, but waits for an agent that is starting, at most as long as the start may take.
func (reg *Registry) started(ctx context.Context, agentID string) (*run, error) {
	a, err := reg.agent(agentID)
	if err != nil {
		return nil, err
	}
	var late <-chan time.Time
	for {
		state, _, changed := a.current()
		if state != starting {
			return a.runs()
		}
		if late == nil {
			late = time.After(reg.opts.InitializeTimeout + time.Second) // as in initialize, so that the error of the start is returned
		}
		select {
		case <-changed:
		case <-late:
			return a.runs()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// runs returns the process that answers.
func (a *instance) runs() (*run, error) {
	a.reg.mu.Lock()
	r, state, failure := a.run, a.state, a.failure
	a.reg.mu.Unlock()
	if r == nil {
		return nil, a.notRunning(state, failure)
	}
	return r, nil
}

// session returns an open session, of any agent if agentID is empty.
func (reg *Registry) session(agentID, id string) (*session, error) {
	var only *instance
	if agentID != "" {
		var err error
		if only, err = reg.agent(agentID); err != nil {
			return nil, err
		}
	}
	reg.mu.Lock()
	defer reg.mu.Unlock()
	var found []*session
	var agents []string
	for _, a := range reg.agents {
		if s := a.sessions[id]; s != nil && (only == nil || only == a) {
			found, agents = append(found, s), append(agents, a.identity.ID)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		e := fault.New(fault.NotFound, "no session %q is open here%s; open it with LoadSession or ResumeSession if the agent has stored it", excerpt(id), reg.lostReason(only, id))
		e.Agent = &supervisorv1.AgentError{Kind: supervisorv1.ErrorKind_ERROR_KIND_SESSION_NOT_FOUND, Message: e.Message}
		return nil, e
	}
	return nil, fault.New(fault.Precondition, "several agents have a session %q; select one by agent_id: %s", excerpt(id), listed(agents))
}

// openSessions returns an agent's sessions, oldest first.
func (a *instance) openSessions() []*session {
	a.reg.mu.Lock()
	defer a.reg.mu.Unlock()
	return slices.SortedFunc(maps.Values(a.sessions), func(s, t *session) int { return cmp.Compare(s.number, t.number) })
}

// show returns a session as a message, after all earlier frames are processed.
func (reg *Registry) show(ctx context.Context, s *session) *supervisorv1.Session {
	reg.syncHub(ctx)
	reg.mu.Lock()
	out := &supervisorv1.Session{SessionId: s.id, Roots: append([]string{s.opening.cwd}, s.opening.dirs...)}
	r := s.agent.run
	reg.mu.Unlock()
	if r != nil {
		for _, known := range r.process.Sessions() {
			if known.GetSessionId() == s.id {
				out = known
			}
		}
	}
	out.AgentId = s.agent.identity.ID
	reg.opts.Hub.Show(out.GetAgentId(), out)
	return out
}

// awaitTurnEnd waits until the end of an answered turn is published.
func (reg *Registry) awaitTurnEnd(ctx context.Context, agentID, sessionID string) {
	if err := reg.opts.Hub.AwaitTurnEnd(ctx, agentID, sessionID); err != nil {
		reg.log.Debug("the end of a turn is not known yet", "session", sessionID, "error", err)
	}
}

// syncHub waits until all earlier frames are processed.
func (reg *Registry) syncHub(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	if err := reg.opts.Hub.Sync(ctx); err != nil {
		reg.log.Debug("what passed is not known yet", "error", err)
	}
}
