package programs

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/acphost/acphost/internal/fault"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

const (
	methodSessionList = "session/list"
	// cancelSettle is how long a cancelled turn may take to end before its session is closed anyway.
	cancelSettle = 5 * time.Second
	// drainSettle is the same when the supervisor ends.
	drainSettle = 500 * time.Millisecond
	// maxStored bounds the sessions of a page.
	maxStored = 10_000
)

// CloseSession ends a session.
func (reg *Registry) CloseSession(ctx context.Context, r *supervisorv1.CloseSessionRequest) (*supervisorv1.CloseSessionResponse, error) {
	s, err := reg.session(r.GetAgentId(), r.GetSessionId())
	if err != nil {
		return nil, err
	}
	requested, err := reg.closeSession(ctx, s)
	return &supervisorv1.CloseSessionResponse{Told: requested}, err
}

// closeSession ends a session. requested reports whether the agent was asked to close it.
func (reg *Registry) closeSession(ctx context.Context, s *session) (requested bool, err error) {
	r, err := s.agent.runs()
	if err != nil { // a closed session is not resumed
		reg.endLost(s, acp.MethodSessionClose)
		return false, nil
	}
	if err := reg.end(ctx, s); err != nil {
		return false, err
	}
	defer reg.acceptTurns(s)
	if !r.info.GetCapabilities().GetCloseSession() {
		r.process.Forget(s.id)
		reg.endLost(s, acp.MethodSessionClose)
		return false, nil
	}
	_, err = r.call(ctx, acp.MethodSessionClose, sessionParams(s.id), callTimeout)
	if unknown(err) { // the session is gone in any case
		r.process.Forget(s.id)
		reg.endLost(s, acp.MethodSessionClose)
		return true, nil
	}
	if err != nil {
		return false, err
	}
	reg.drop(s)
	reg.syncHub(ctx)
	return true, nil
}

// DeleteSession asks the agent to delete a stored session.
func (reg *Registry) DeleteSession(ctx context.Context, r *supervisorv1.DeleteSessionRequest) (*supervisorv1.DeleteSessionResponse, error) {
	run, err := reg.running(r.GetAgentId())
	switch {
	case err != nil:
		return nil, err
	case !run.info.GetCapabilities().GetDeleteSession():
		return nil, run.unsupported("to delete sessions (sessionCapabilities.delete)")
	}
	reg.mu.Lock()
	s := run.agent.sessions[r.GetSessionId()]
	reg.mu.Unlock()
	if s != nil {
		if err := reg.end(ctx, s); err != nil {
			return nil, err
		}
		defer reg.acceptTurns(s)
	}
	if _, err := run.call(ctx, acp.MethodSessionDelete, sessionParams(r.GetSessionId()), callTimeout); err != nil {
		return nil, err
	}
	if s != nil {
		reg.drop(s)
	}
	reg.syncHub(ctx)
	return &supervisorv1.DeleteSessionResponse{}, nil
}

// end cancels a session's turn, waits a limited time for its end, and rejects new turns until acceptTurns.
func (reg *Registry) end(ctx context.Context, s *session) error {
	reg.mu.Lock()
	if s.closing {
		reg.mu.Unlock()
		return fault.New(fault.Precondition, "session %q is being closed already", s.id)
	}
	s.closing = true
	t := s.turn
	reg.mu.Unlock()
	if t == nil {
		return nil
	}
	reg.cancelTurn(s)
	select {
	case <-t.done:
	case <-time.After(cancelSettle):
	case <-ctx.Done():
		reg.acceptTurns(s)
		return ctx.Err()
	}
	return nil
}

// acceptTurns accepts turns again in a session whose end failed.
func (reg *Registry) acceptTurns(s *session) {
	reg.mu.Lock()
	defer reg.mu.Unlock()
	s.closing = false
}

// unknown reports whether an error states that the agent does not know the session.
func unknown(err error) bool {
	e, ok := errors.AsType[*fault.Error](err)
	return ok && e.Agent.GetKind() == supervisorv1.ErrorKind_ERROR_KIND_SESSION_NOT_FOUND
}

// ListStoredSessions lists the sessions that an agent has stored.
func (reg *Registry) ListStoredSessions(ctx context.Context, r *supervisorv1.ListStoredSessionsRequest) (*supervisorv1.ListStoredSessionsResponse, error) {
	run, err := reg.running(r.GetAgentId())
	switch {
	case err != nil:
		return nil, err
	case !run.info.GetCapabilities().GetListSessions():
		return nil, run.unsupported("to list sessions (sessionCapabilities.list)")
	}
	params := ""
	if r.GetCwd() != "" {
		params += member("cwd", r.GetCwd())
	}
	if r.GetCursor() != "" {
		params += member("cursor", r.GetCursor())
	}
	result, err := run.call(ctx, methodSessionList, []byte("{"+strings.TrimPrefix(params, ",")+"}"), callTimeout)
	if err != nil {
		return nil, err
	}
	out := &supervisorv1.ListStoredSessionsResponse{}
	out.NextCursor, _ = acp.String(acp.Get(result, "nextCursor"))
	if err := acp.Elements(acp.Get(result, "sessions"), func(v []byte) bool {
		if len(out.Sessions) == maxStored {
			reg.log.Warn("an agent listed more sessions than are taken at once; the rest was left out", "agent", run.agent.identity.ID, "limit", maxStored)
			return false
		}
		if s := storedSession(v); s != nil {
			out.Sessions = append(out.Sessions, s)
		}
		return true
	}); err != nil {
		return nil, run.invalidAnswer("%s: its answer has no list of sessions: %v", methodSessionList, err)
	}
	reg.mu.Lock()
	defer reg.mu.Unlock()
	for _, s := range out.GetSessions() {
		s.Open = run.agent.sessions[s.GetSessionId()] != nil
	}
	return out, nil
}

// storedSession parses an entry of the agent's list. It returns nil if the entry has no id.
func storedSession(v []byte) *supervisorv1.StoredSession {
	s := &supervisorv1.StoredSession{}
	if err := acp.Members(v, func(name string, v []byte) bool {
		switch name {
		case "sessionId":
			s.SessionId, _ = acp.Exact(v)
		case "cwd":
			s.Cwd, _ = acp.Exact(v)
		case "additionalDirectories":
			s.AdditionalDirectories, _ = acp.Strings(v)
		case "title":
			s.Title, _ = acp.String(v)
		case "updatedAt":
			s.UpdatedAt, _ = acp.String(v)
		}
		return true
	}); err != nil || s.GetSessionId() == "" {
		return nil
	}
	return s
}
