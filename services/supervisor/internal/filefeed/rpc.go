package filefeed

import (
	"cmp"
	"context"
	"crypto/subtle"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// failed is the answer to what cannot be done. Where no id was said, or none that can be read, it is null.
func failed(id jsontext.Value, code int, format string, args ...any) *errorLine {
	if id == nil {
		id = jsontext.Value("null")
	}
	return &errorLine{"rpc_error", id, wrong(code, format, args...)}
}

func wrong(code int, format string, args ...any) *rpcError {
	return &rpcError{Code: code, Message: fmt.Sprintf(format, args...)}
}

// rpcParams are those of all methods.
type rpcParams struct {
	AgentID   string `json:"agent_id"`
	SessionID string `json:"session_id"`
	Cwd       string `json:"cwd"` // of create_session
}

// modelState is a session's model.
type modelState struct {
	ModelID string  `json:"model_id"`
	Name    *string `json:"name"`
}

// sessionState is what is said of a session. History, context and providers are kept by the client, and empty here.
type sessionState struct {
	AgentID   string      `json:"agent_id"`
	SessionID string      `json:"session_id"`
	Mode      string      `json:"mode"`
	Active    bool        `json:"active"`
	Model     *modelState `json:"model"`
	Summary   *string     `json:"summary"`
	History   []any       `json:"history"`
	Context   []any       `json:"context"`
	Providers []any       `json:"providers"`
}

// What changes something, and who can do it instead; empty: it is done here.
var changes = map[string]string{
	"set_active_session":         "",
	"create_session":             `sessions are opened by the editor, or with SessionService.NewSession of "acphost serve"`,
	"close_session":              `sessions are closed by the editor, or with SessionService.CloseSession of "acphost serve"`,
	"add_context_items":          "ACP cannot add to an agent's context: put it into a prompt",
	"set_orchestrator_providers": "each session is of a single agent: there are no orchestrators",
}

// call does what an rpc asks for.
func (s *Server) call(q request) (any, *rpcError) {
	instead, isChange := changes[q.Method]
	switch {
	case !isChange && q.Method != "list_sessions" && q.Method != "get_session_state":
		return nil, wrong(404, "the method %q is not known", q.Method)
	case isChange && subtle.ConstantTimeCompare([]byte(q.Token), []byte(s.token)) != 1:
		return nil, wrong(400, `%s changes something, and needs the "token" beside "id" that acphost said on its standard error`, q.Method)
	case instead != "" && (s.opener == nil || !opens(q.Method)):
		return nil, wrong(400, "%s cannot be done here: %s", q.Method, instead)
	}
	var p rpcParams
	if len(q.Params) > 0 && q.Params.Kind() != 'n' {
		if err := json.Unmarshal(q.Params, &p); err != nil {
			return nil, wrong(400, "the params of %s are no JSON object with known types of fields: %v", q.Method, err)
		}
	}
	s.mu.Lock()
	var found []sessionKey
	for _, key := range s.inOrder() {
		if (p.AgentID == "" || p.AgentID == key.agent) && (p.SessionID == "" || p.SessionID == key.session) {
			found = append(found, key)
		}
	}
	active := s.active
	if q.Method == "set_active_session" && len(found) > 0 && p.SessionID != "" {
		active, s.active = found[0], found[0]
	}
	s.mu.Unlock()
	if opens(q.Method) {
		return s.change(q.Method, &p, found)
	}
	if q.Method == "list_sessions" {
		states := []*sessionState{}
		for _, key := range found {
			states = append(states, s.state(key, active))
		}
		return map[string]any{"sessions": states}, nil
	}
	switch {
	case p.SessionID == "":
		return nil, wrong(400, "%s needs session_id", q.Method)
	case len(found) == 0:
		return nil, wrong(404, "session %q is not known: list_sessions has those that are", p.SessionID)
	case q.Method == "set_active_session":
		return map[string]any{"active": map[string]string{"agent_id": active.agent, "session_id": active.session}}, nil
	}
	return s.state(found[0], active), nil
}

// opens reports whether a method opens or closes a session.
func opens(method string) bool { return method == "create_session" || method == "close_session" }

// patience is how long an agent may take to open or close a session.
const patience = time.Minute

// change opens a session, or closes that of found. A session is opened only where agents work already: the token is less well kept
// than what lets others call acphost.
func (s *Server) change(method string, p *rpcParams, found []sessionKey) (any, *rpcError) {
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	if method == "close_session" {
		switch {
		case p.SessionID == "":
			return nil, wrong(400, "close_session needs session_id")
		case len(found) == 0:
			return nil, wrong(404, "session %q is not known: list_sessions has those that are", p.SessionID)
		}
		if _, err := s.opener.CloseSession(ctx, &supervisorv1.CloseSessionRequest{AgentId: found[0].agent, SessionId: found[0].session}); err != nil {
			return nil, wrong(500, "close session %q: %v", found[0].session, err)
		}
		return map[string]string{"agent_id": found[0].agent, "session_id": found[0].session}, nil
	}
	cwd := cmp.Or(p.Cwd, s.folder)
	if !s.worksIn(cwd) {
		return nil, wrong(400, `a session cannot be opened in %q here, only where one is open already, or where acphost was started: open it with SessionService.NewSession`, cwd)
	}
	agent := cmp.Or(p.AgentID, s.agentID)
	if agent == "" {
		return nil, wrong(400, "create_session needs agent_id")
	}
	made, err := s.opener.NewSession(ctx, &supervisorv1.NewSessionRequest{AgentId: agent, Cwd: cwd})
	if err != nil {
		return nil, wrong(500, "open a session with agent %q: %v", agent, err)
	}
	return map[string]string{"agent_id": made.GetSession().GetAgentId(), "session_id": made.GetSession().GetSessionId()}, nil
}

// worksIn reports whether a folder is one where agents work already.
func (s *Server) worksIn(folder string) bool {
	if folder == "" {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, known := range s.sessions {
		if known.root == folder {
			return true
		}
	}
	return folder == s.folder
}

// state is what is known of a session.
func (s *Server) state(key, active sessionKey) *sessionState {
	is := &supervisorv1.Session{SessionId: key.session}
	s.source.Show(key.agent, is)
	state := &sessionState{
		AgentID: key.agent, SessionID: key.session, Mode: singleAgent, Active: key == active,
		History: []any{}, Context: []any{}, Providers: []any{},
	}
	if title := is.GetTitle(); title != "" {
		state.Summary = &title
	}
	if id := is.GetModel(); id != "" {
		state.Model = &modelState{ModelID: id}
	}
	return state
}
