package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/coder/acp-go-sdk"
)

// agent answers what a client asks. Safe for concurrent use, as the library calls it.
type agent struct {
	how     behaviour
	wire    *wire
	ready   chan struct{} // closed when conn is set: the connection reads before its maker has it
	conn    *acp.Connection
	methods map[string]method
	kept    store

	mu       sync.Mutex
	client   capabilities
	loggedIn bool
	sessions map[acp.SessionId]*session
}

// capabilities are the client's capabilities that the agent uses.
type capabilities struct {
	Terminal    bool `json:"terminal"`
	Elicitation struct {
		Form *struct{} `json:"form"`
		URL  *struct{} `json:"url"`
	} `json:"elicitation"`
	Session struct {
		Compaction    *struct{} `json:"compaction"`
		Notices       *struct{} `json:"notices"`
		ConfigOptions struct {
			Boolean *struct{} `json:"boolean"`
		} `json:"configOptions"`
	} `json:"session"`
}

// method answers a request, or handles a notification.
type method func(ctx context.Context, params json.RawMessage) (any, error)

// typed makes a method of a function that knows its params.
func typed[P any](f func(context.Context, P) (any, error)) method {
	return func(ctx context.Context, raw json.RawMessage) (any, error) {
		var p P
		if err := json.Unmarshal(raw, &p); err != nil {
			return nil, acp.NewInvalidParams(object{"error": err.Error()})
		}
		return f(ctx, p)
	}
}

func newAgent(b behaviour) *agent {
	a := &agent{
		how: b, wire: newWire(), ready: make(chan struct{}), kept: store(b.state), sessions: map[acp.SessionId]*session{},
	}
	a.loggedIn = a.kept.login()
	a.methods = map[string]method{
		acp.AgentMethodInitialize:    typed(a.initialize),
		acp.AgentMethodAuthenticate:  typed(a.authenticate),
		acp.AgentMethodSessionNew:    typed(a.newSession),
		acp.AgentMethodSessionPrompt: typed(a.prompt),
		acp.AgentMethodSessionCancel: typed(a.cancel),
	}
	for _, m := range []struct {
		feature, name string
		method        method
	}{
		{"load", acp.AgentMethodSessionLoad, typed(a.loadSession)},
		{"resume", acp.AgentMethodSessionResume, typed(a.resumeSession)},
		{"fork", acp.AgentMethodSessionFork, typed(a.forkSession)},
		{"list", acp.AgentMethodSessionList, typed(a.listSessions)},
		{"close", acp.AgentMethodSessionClose, typed(a.closeSession)},
		{"delete", "session/delete", typed(a.deleteSession)},
		{"modes", acp.AgentMethodSessionSetMode, typed(a.setMode)},
		{"config", acp.AgentMethodSessionSetConfigOption, typed(a.setConfigOption)},
		{"logout", acp.AgentMethodLogout, typed(a.logout)},
	} {
		if a.can(m.feature) {
			a.methods[m.name] = m.method
		}
	}
	if !a.can("config") { // as agents did before there were options
		a.methods[acp.AgentMethodSessionSetModel] = typed(a.setModel)
	}
	return a
}

// handle is an acp.MethodHandler.
func (a *agent) handle(ctx context.Context, name string, params json.RawMessage) (any, *acp.RequestError) {
	<-a.ready
	m, ok := a.methods[name]
	if !ok {
		return nil, acp.NewMethodNotFound(name)
	}
	result, err := m(ctx, params)
	if err == nil {
		return result, nil
	}
	if refused, ok := errors.AsType[*acp.RequestError](err); ok {
		return nil, refused
	}
	return nil, acp.NewInternalError(object{"error": err.Error()})
}

// can reports whether a feature is enabled.
func (a *agent) can(feature string) bool {
	return !slices.Contains(a.how.without, feature)
}

func (a *agent) clientCan() capabilities {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.client
}

type object = map[string]any

func (a *agent) initialize(ctx context.Context, p struct {
	ClientCapabilities json.RawMessage `json:"clientCapabilities"`
}) (any, error) {
	if a.how.hangInitialize {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if a.how.exitInitialize >= 0 {
		fmt.Fprintln(os.Stderr, "demoagent: exiting, as told")
		os.Exit(a.how.exitInitialize)
	}
	if len(p.ClientCapabilities) > 0 {
		a.mu.Lock()
		err := json.Unmarshal(p.ClientCapabilities, &a.client)
		a.mu.Unlock()
		if err != nil {
			return nil, acp.NewInvalidParams(object{"clientCapabilities": err.Error()})
		}
	}
	sessions := object{}
	for feature, name := range map[string]string{
		"list": "list", "close": "close", "delete": "delete", "resume": "resume", "fork": "fork", "directories": "additionalDirectories",
	} {
		if a.can(feature) {
			sessions[name] = object{}
		}
	}
	can := object{
		"loadSession":         a.can("load"),
		"promptCapabilities":  object{"image": a.can("image"), "audio": a.can("audio"), "embeddedContext": a.can("embedded")},
		"mcpCapabilities":     object{"http": a.can("mcp"), "sse": a.can("mcp")},
		"sessionCapabilities": sessions,
	}
	if a.can("logout") {
		can["auth"] = object{"logout": object{}}
	}
	if len(p.ClientCapabilities) > 0 { // so that the answer shows the client's offer
		can["_meta"] = object{"clientCapabilities": p.ClientCapabilities}
	}
	return object{
		"protocolVersion":   acp.ProtocolVersionNumber,
		"agentInfo":         object{"name": "demoagent", "title": "Demo agent", "version": "1.0.0"},
		"agentCapabilities": can,
		"authMethods":       a.authMethods(),
	}, nil
}

// prompt plays the scene or command that the prompt names, or the demo's turn.
func (a *agent) prompt(ctx context.Context, p struct {
	SessionID acp.SessionId     `json:"sessionId"`
	Prompt    []json.RawMessage `json:"prompt"`
	Meta      json.RawMessage   `json:"_meta"`
}) (any, error) {
	s, err := a.session(p.SessionID)
	if err != nil {
		return nil, err
	}
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	text, err := s.asked(p.Prompt)
	if err != nil {
		return nil, err
	}
	if err := a.kept.save(s); err != nil { // before it is played: it may end with the process
		return nil, err
	}
	t := &turn{agent: a, session: s, prompt: p.Prompt, meta: p.Meta, reason: acp.StopReasonEndTurn}
	err = t.play(ctx, text)
	if saved := a.kept.save(s); err == nil {
		err = saved
	}
	if ctx.Err() != nil {
		return object{"stopReason": acp.StopReasonCancelled}, nil // a cancelled turn is no error
	}
	if err != nil {
		return nil, err
	}
	answer := object{"stopReason": t.reason}
	if t.usage != nil {
		answer["usage"] = t.usage
	}
	return answer, nil
}

// cancel ends the session's turn.
func (a *agent) cancel(_ context.Context, p sessionParams) (any, error) {
	if s, err := a.session(p.SessionID); err == nil {
		s.stop(a.wire.prompted(s.id))
	}
	return nil, nil
}
