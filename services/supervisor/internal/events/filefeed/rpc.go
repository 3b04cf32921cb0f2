package filefeed

import (
	"cmp"
	"context"
	"crypto/subtle"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// null is the id in an answer to a line without a valid id.
var null = jsontext.Value("null")

// failed returns the answer to an invalid line without an id.
func failed(code int, format string, args ...any) *errorLine {
	return &errorLine{"rpc_error", null, wrong(code, format, args...)}
}

func wrong(code int, format string, args ...any) *rpcError {
	return &rpcError{Code: code, Message: fmt.Sprintf(format, args...)}
}

// rpcParams are the params of all methods.
type rpcParams struct {
	AgentID     string `json:"agent_id"`
	SessionID   string `json:"session_id"`
	SessionMode string `json:"session_mode"` // of create_session
	Cwd         string `json:"cwd"`          // of create_session
}

// modelState is a session's model.
type modelState struct {
	ModelID string  `json:"model_id"`
	Name    *string `json:"name"`
}

// contextItem is a file in the agent's context.
type contextItem struct {
	Path string `json:"path"`
}

// sessionState is the state of a session. The client keeps history and providers, so they are empty here.
type sessionState struct {
	AgentID   string        `json:"agent_id"`
	SessionID string        `json:"session_id"`
	Mode      string        `json:"mode"`
	Active    bool          `json:"active"`
	Model     *modelState   `json:"model"`
	Summary   *string       `json:"summary"`
	History   []any         `json:"history"`
	Context   []contextItem `json:"context"`
	Providers []any         `json:"providers"`
}

// Methods that change something, and the alternative for each; empty: the method is supported.
var changes = map[string]string{
	"set_active_session":         "",
	"create_session":             `sessions are opened by the editor, or with SessionService.NewSession of "acphost serve"`,
	"close_session":              `sessions are closed by the editor, or with SessionService.CloseSession of "acphost serve"`,
	"add_context_items":          "ACP cannot add to an agent's context: put it into a prompt",
	"set_orchestrator_providers": "each session is of a single agent: there are no orchestrators",
}

// isToken reports whether a text is the token.
func (s *Server) isToken(text string) bool {
	return subtle.ConstantTimeCompare([]byte(text), []byte(s.token)) == 1
}

// call processes an rpc. trusted: the reader has sent the token.
func (s *Server) call(method string, trusted bool, params jsontext.Value) (any, *rpcError) {
	instead, isChange := changes[method]
	switch {
	case !isChange && method != "list_sessions" && method != "get_session_state":
		return nil, wrong(404, "the method %q is not known", method)
	case isChange && !trusted:
		return nil, wrong(400, `%s changes something, and needs the "token" beside "id" that acphost printed on its standard error`, method)
	case instead != "" && (s.opener == nil || !opens(method)):
		return nil, wrong(400, "%s cannot be done here: %s", method, instead)
	}
	var p rpcParams
	if len(params) > 0 && params.Kind() != 'n' {
		if err := json.Unmarshal(params, &p); err != nil {
			return nil, wrong(400, `the params of %s are no JSON object, or "agent_id", "session_id", "session_mode" or "cwd" is no text`, method)
		}
	}
	if p.SessionMode != "" && p.SessionMode != singleAgent {
		return nil, wrong(400, "session_mode %q: each session here is of a single agent (%q)", p.SessionMode, singleAgent)
	}
	s.mu.Lock()
	var found []sessionKey
	for _, key := range s.inOrder() {
		if (p.AgentID == "" || p.AgentID == key.agent) && (p.SessionID == "" || p.SessionID == key.session) {
			found = append(found, key)
		}
	}
	active := s.active
	if method == "set_active_session" && len(found) > 0 && p.SessionID != "" {
		active, s.active = found[0], found[0]
	}
	s.mu.Unlock()
	if opens(method) {
		return s.change(method, &p, found)
	}
	if method == "list_sessions" {
		states := []*sessionState{}
		for _, key := range found {
			states = append(states, s.state(key, active))
		}
		return map[string]any{"sessions": states}, nil
	}
	switch {
	case p.SessionID == "":
		return nil, wrong(400, "%s needs session_id", method)
	case len(found) == 0:
		return nil, wrong(404, "session %q is not known: list_sessions has those that are", p.SessionID)
	case method == "set_active_session":
		return map[string]any{"active": map[string]string{"agent_id": active.agent, "session_id": active.session}}, nil
	}
	return s.state(found[0], active), nil
}

// opens reports whether a method opens or closes a session.
func opens(method string) bool { return method == "create_session" || method == "close_session" }

// changeTimeout limits the time for an agent to open or close a session.
const changeTimeout = time.Minute

// change opens a session, or closes the session in found. It opens sessions only in folders in which agents work
// already, because the token is less protected than the credentials for other calls.
func (s *Server) change(method string, p *rpcParams, found []sessionKey) (any, *rpcError) {
	ctx, cancel := context.WithTimeout(s.ctx, changeTimeout)
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

// worksIn reports whether agents already work in a folder.
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

// state returns the state of a session.
func (s *Server) state(key, active sessionKey) *sessionState {
	is := &supervisorv1.Session{SessionId: key.session}
	s.source.Show(key.agent, is)
	state := &sessionState{
		AgentID: key.agent, SessionID: key.session, Mode: singleAgent, Active: key == active,
		History: []any{}, Context: s.context(key), Providers: []any{},
	}
	if title := is.GetTitle(); title != "" {
		state.Summary = &title
	}
	if id := is.GetModel(); id != "" {
		state.Model = &modelState{ModelID: id}
	}
	return state
}

// context returns the files in the context of a session's agent, by name.
func (s *Server) context(key sessionKey) []contextItem {
	items := []contextItem{}
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.sessions[key]; known != nil {
		for _, path := range slices.Sorted(maps.Keys(known.nodes)) {
			if known.nodes[path].InContext {
				items = append(items, contextItem{path})
			}
		}
	}
	return items
}
