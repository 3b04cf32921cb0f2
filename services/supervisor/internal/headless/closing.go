package headless

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/fault"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
)

const (
	methodSessionList = "session/list"
	// cancelSettle is how long a turn may take to end before its session is closed all the same.
	cancelSettle = 5 * time.Second
	// maxStored bounds the sessions of a page.
	maxStored = 10_000
)

// CloseSession ends a session; told says whether the agent was.
func (h *Headless) CloseSession(ctx context.Context, r *supervisorv1.CloseSessionRequest) (told bool, err error) {
	s, err := h.session(r.GetAgentId(), r.GetSessionId())
	if err != nil {
		return false, err
	}
	return h.closeSession(ctx, s)
}

func (h *Headless) closeSession(ctx context.Context, s *session) (told bool, err error) {
	r, err := s.agent.runs()
	if err != nil { // it is not resumed then
		h.lose(s, acp.MethodSessionClose)
		return false, nil
	}
	if err := h.end(ctx, s); err != nil {
		return false, err
	}
	defer h.goesOn(s)
	if !r.info.GetCapabilities().GetCloseSession() {
		r.forget(s.id)
		h.lose(s, acp.MethodSessionClose)
		return false, nil
	}
	_, err = r.call(ctx, acp.MethodSessionClose, sessionParams(s.id), callTimeout)
	if unknown(err) { // it is gone all the same
		r.forget(s.id)
		h.lose(s, acp.MethodSessionClose)
		return true, nil
	}
	if err != nil {
		return false, err
	}
	h.drop(s)
	h.settle(ctx)
	return true, nil
}

// DeleteSession has the agent forget a session that it has stored.
func (h *Headless) DeleteSession(ctx context.Context, r *supervisorv1.DeleteSessionRequest) error {
	a, run, err := h.running(r.GetAgentId())
	switch {
	case err != nil:
		return err
	case r.GetSessionId() == "":
		return fault.New(fault.Invalid, "the request names no session")
	case !run.info.GetCapabilities().GetDeleteSession():
		return run.unsupported("to delete sessions (sessionCapabilities.delete)")
	}
	h.mu.Lock()
	s := a.sessions[r.GetSessionId()]
	h.mu.Unlock()
	if s != nil {
		if err := h.end(ctx, s); err != nil {
			return err
		}
		defer h.goesOn(s)
	}
	if _, err := run.call(ctx, acp.MethodSessionDelete, sessionParams(r.GetSessionId()), callTimeout); err != nil {
		return err
	}
	if s != nil {
		h.drop(s)
	}
	h.settle(ctx)
	return nil
}

// end cancels a session's turn, waits a moment for its end, and lets no other one begin until goesOn.
func (h *Headless) end(ctx context.Context, s *session) error {
	h.mu.Lock()
	if s.closing {
		h.mu.Unlock()
		return fault.New(fault.Precondition, "session %q is being closed already", s.id)
	}
	s.closing = true
	t := s.turn
	h.mu.Unlock()
	if t == nil {
		return nil
	}
	h.cancelTurn(s)
	timer := time.NewTimer(cancelSettle)
	defer timer.Stop()
	select {
	case <-t.over:
	case <-timer.C:
	case <-ctx.Done():
		h.goesOn(s)
		return ctx.Err()
	}
	return nil
}

// goesOn says that a session which was to end may be there still.
func (h *Headless) goesOn(s *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.closing = false
}

// forget has the link forget a session that the agent was not told the end of.
func (r *run) forget(sessionID string) {
	if f, ok := r.joint.(Forgetter); ok {
		f.Forget(sessionID)
	}
}

// unknown tells whether the agent says that it does not know the session.
func unknown(err error) bool {
	var e *fault.Error
	return errors.As(err, &e) && e.Agent.GetKind() == supervisorv1.ErrorKind_ERROR_KIND_SESSION_NOT_FOUND
}

// ListStoredSessions lists the sessions that an agent has stored.
func (h *Headless) ListStoredSessions(ctx context.Context, r *supervisorv1.ListStoredSessionsRequest) (*supervisorv1.ListStoredSessionsResponse, error) {
	a, run, err := h.running(r.GetAgentId())
	switch {
	case err != nil:
		return nil, err
	case !run.info.GetCapabilities().GetListSessions():
		return nil, run.unsupported("to list sessions (sessionCapabilities.list)")
	case r.GetCwd() != "" && !filepath.IsAbs(r.GetCwd()):
		return nil, fault.New(fault.Invalid, "list the stored sessions: cwd %q is not an absolute path", r.GetCwd())
	}
	var params []byte
	for _, m := range []struct{ name, value string }{{"cwd", r.GetCwd()}, {"cursor", r.GetCursor()}} {
		if m.value != "" {
			params = jsonrpc.AppendString(append(params, `,"`+m.name+`":`...), m.value)
		}
	}
	if params == nil {
		params = []byte{','}
	}
	params[0] = '{'
	result, err := run.call(ctx, methodSessionList, append(params, '}'), callTimeout)
	if err != nil {
		return nil, err
	}
	out := &supervisorv1.ListStoredSessionsResponse{}
	out.NextCursor, _ = acp.String(acp.Get(result, "nextCursor"))
	if err := acp.Elements(acp.Get(result, "sessions"), func(v []byte) bool {
		if len(out.Sessions) == maxStored {
			h.log.Warn("an agent listed more sessions than are taken at once; the rest was left out", "agent", a.identity.ID, "limit", maxStored)
			return false
		}
		if s := storedSession(v); s != nil {
			out.Sessions = append(out.Sessions, s)
		}
		return true
	}); err != nil {
		return nil, run.misbehaved("%s: its answer has no list of sessions: %v", methodSessionList, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range out.GetSessions() {
		s.Open = a.sessions[s.GetSessionId()] != nil
	}
	return out, nil
}

// storedSession reads an entry of the agent's list; nil: it has no id.
func storedSession(v []byte) *supervisorv1.StoredSession {
	s := &supervisorv1.StoredSession{}
	if err := acp.Members(v, func(name string, v []byte) bool {
		switch name {
		case "sessionId":
			s.SessionId, _ = acp.String(v)
		case "cwd":
			s.Cwd, _ = acp.String(v)
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
