package programs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/acphost/acphost/internal/panics"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/config/agentspec"
	"github.com/acphost/acphost/services/supervisor/internal/events/event"
	"github.com/acphost/acphost/services/supervisor/internal/headless/acpclient"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/link"
)

const (
	// loadOnRestart is how long a restarted agent may take to load a session.
	loadOnRestart = 5 * time.Minute
	// maxInfo bounds the info in an agent's answer to initialize, in bytes: each change of its state is sent with it.
	maxInfo = 1 << 20
	// maxResuming bounds the sessions of one agent that are resumed concurrently.
	maxResuming = 8
)

// begin starts a process, waits for its answer to initialize, and resumes the open sessions, with their settings. A nil
// failure means that the agent answers.
func (a *instance) begin() (*run, *supervisorv1.AgentError) {
	reg := a.reg
	again := false
	a.set(starting, func() {
		if again = a.process != nil || a.failure != nil; again {
			a.restarts++
		}
	})
	a.remember()
	env, err := agentspec.Environ(reg.opts.Env, a.conf.GetEnv())
	if err != nil {
		return nil, a.spawnError(err)
	}
	r := &run{agent: a, prog: acpclient.NewProgram(acpclient.ProgramOptions{
		Wait:   func(ctx context.Context) error { return reg.opts.Hub.WaitRoom(ctx, a.identity.ID) },
		Logger: reg.log.With("agent", a.identity.ID),
	})}
	r.process, err = reg.opts.Start(a.ctx, Spec{
		Identity: a.identity, Preset: a.conf.GetPreset(), Command: slices.Clone(a.conf.GetCommand()), Env: env, Dir: a.conf.Cwd, Client: link.Client{In: r.prog.In(), Out: r.prog.Out(), Rejected: r.prog.Rejected},
	})
	if err != nil {
		r.prog.Close()
		return nil, a.spawnError(err)
	}
	var ended context.CancelFunc
	r.ctx, ended = context.WithCancel(context.Background())
	reg.wg.Go(func() { // Close waits for the life that calls this, so that it is not too late
		defer panics.Recover(reg.log, "ending the client of agent "+a.identity.ID)
		<-r.process.Ended()
		ended()
		r.prog.Close()
	})
	reg.mu.Lock()
	a.process = r
	reg.mu.Unlock()
	failure := r.initialize()
	if failure == nil {
		r.resumeAll()
		if !r.ended() {
			return r, nil
		}
		failure = r.ending()
	}
	r.onPurpose.Store(true)
	r.stop()
	return nil, failure
}

// initialize sends initialize and reads the answer.
func (r *run) initialize() *supervisorv1.AgentError {
	a := r.agent
	timeout := a.reg.opts.InitializeTimeout
	ctx, cancel := context.WithTimeout(a.ctx, timeout+time.Second) // the link has the same timeout, and a better error
	defer cancel()
	result, err := r.prog.Call(ctx, acp.MethodInitialize, a.hello())
	jerr, answered := errors.AsType[*jsonrpc.Error](err)
	if answered && jerr.Code == acp.CodeUnsupportedVersion {
		result, err = r.prog.Call(ctx, acp.MethodInitialize, a.hello2())
		jerr, answered = errors.AsType[*jsonrpc.Error](err)
	}
	switch {
	case err == nil:
	case a.ctx.Err() != nil:
		return agentError(supervisorv1.ErrorKind_ERROR_KIND_STOPPED, "it was stopped while it started")
	case errors.Is(err, context.DeadlineExceeded):
		return a.handshakeTimeout(r)
	case answered:
		return r.notInitialized(jerr)
	default:
		return r.ending()
	}
	if len(result) > maxInfo {
		return agentError(supervisorv1.ErrorKind_ERROR_KIND_AGENT_ERROR,
			"start agent %q: it answered initialize with %d bytes, more than the %d that are taken", a.identity.Name, len(result), maxInfo)
	}
	info := event.ParseInfo(result)
	if v := info.GetProtocolVersion(); v > acp.LatestVersion {
		return agentError(supervisorv1.ErrorKind_ERROR_KIND_NOT_SUPPORTED,
			"start agent %q: it speaks version %d of ACP, and version %d is the latest that is known here: use another version of the agent", a.identity.Name, v, acp.LatestVersion)
	}
	r.info = info
	return nil
}

// hello returns the params of initialize in ACP v1. Agents are asked for v1 first: only there do handlers serve files
// and terminals. The link adds the capabilities for files and terminals, since it knows the handlers.
func (a *instance) hello() []byte {
	b := append([]byte(nil), `{"protocolVersion":1,"clientCapabilities":{`...)
	if a.conf.Attended {
		b = append(b, `"elicitation":{"form":{},"url":{}},`...)
	}
	b = append(b, `"session":{"notices":{},"compaction":{}`...)
	if a.conf.Attended {
		b = append(b, `,"configOptions":{"boolean":{}}`...)
	}
	b = append(b, `}},"clientInfo":{"name":"acphost","title":"acphost","version":`...)
	return append(jsonrpc.AppendString(b, a.reg.opts.Version), `}}`...)
}

// resumeAll resumes the sessions that were open when the previous process ended, if the agent can. It closes the
// others.
func (r *run) resumeAll() {
	a, reg := r.agent, r.agent.reg
	turn := make(chan struct{}, maxResuming)
	var wg sync.WaitGroup
	for _, s := range a.openSessions() {
		turn <- struct{}{}
		wg.Go(func() {
			defer func() { <-turn }()
			defer panics.Recover(reg.log, "resuming session "+s.id, func(err error) {
				reg.endLostFor(s, "", "The session could not be resumed", fmt.Sprintf("Session %q cannot go on: %v", s.id, err))
			})
			answer, reason, err := r.resume(s)
			switch {
			case r.over(): // tried again by the next process, or lost with all others
			case err != nil:
				reg.log.Warn("a session could not be resumed", "agent", a.identity.ID, "session", s.id, "error", err)
				reg.endLostFor(s, reason, "The session could not be resumed",
					fmt.Sprintf("Agent %q ended and was started again, and session %q cannot go on: %v", a.identity.ID, s.id, err))
			default:
				r.restore(s, answer)
				r.unlessHeld(s)
			}
		})
	}
	wg.Wait()
}

// unlessHeld closes a session at the agent that was closed here while it was resumed.
func (r *run) unlessHeld(s *session) {
	reg := r.agent.reg
	reg.mu.Lock()
	held := s.agent.sessions[s.id] == s
	reg.mu.Unlock()
	if held {
		return
	}
	if r.info.GetCapabilities().GetCloseSession() {
		if _, err := r.call(r.agent.ctx, acp.MethodSessionClose, sessionParams(s.id), callTimeout); err == nil {
			return
		}
	}
	r.process.Forget(s.id)
}

// over reports whether the process has ended, or the agent is to stop.
func (r *run) over() bool { return r.ended() || r.agent.ctx.Err() != nil }

// ended reports whether the process has ended.
func (r *run) ended() bool {
	select {
	case <-r.process.Ended():
		return true
	default:
		return false
	}
}

// resume opens one session again, and returns the agent's answer. If err is not nil, reason is the reason in a few
// words why the session is closed.
func (r *run) resume(s *session) (answer []byte, reason string, err error) {
	reason = "it could not be resumed"
	method, limit := acp.MethodSessionResume, callTimeout
	switch can := r.info.GetCapabilities(); {
	case can.GetResumeSession():
	case can.GetLoadSession():
		method, limit = acp.MethodSessionLoad, loadOnRestart
	default:
		return nil, reason, errors.New("the agent offers neither session/resume nor session/load")
	}
	r.agent.reg.mu.Lock()
	o := s.opening
	r.agent.reg.mu.Unlock()
	if err := r.accepts(method, o); err != nil {
		return nil, reason, err
	}
	answer, err = r.call(r.agent.ctx, method, o.params(s.id), limit)
	if err != nil && !strings.Contains(err.Error(), method) { // otherwise the error names it already
		err = fmt.Errorf("%s failed: %w", method, err)
	}
	return answer, method + " failed", err
}
