// Package attach lets a client of /acp follow any sessions of the supervisor, in addition to those of its own agent:
// session/attach and session/detach, according to ACP's proposal for several clients of a session (RFD 533).
//
// An agent of this package is a layer between a connection and the client's own agent, which is optional. It answers
// messages about attached sessions by the supervisor's services, in the caller's name, and passes all other messages on
// unchanged. The package knows ACP's messages and the services' contracts. It must not know HTTP, nor how a caller is
// authenticated.
package attach

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"

	"google.golang.org/grpc"

	"github.com/acphost/acphost/internal/delegation"
	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/services/gatewayd/internal/apierror"
	"github.com/acphost/acphost/services/gatewayd/internal/auth"
	"github.com/acphost/acphost/services/gatewayd/internal/relay"
)

const (
	// maxAttached is how many sessions a connection may be attached to at once.
	maxAttached = 32
	// maxBusy is how many messages of a client are answered concurrently. Further messages are not read until one is
	// answered.
	maxBusy = 64
	// maxName bounds the name and the version that a client reports, in bytes.
	maxName = 64
)

// Calls makes calls to the supervisor's services for a caller; *services.Handler implements it.
type Calls interface {
	// Begin begins a call. The returned context carries the caller, and ends when the caller loses the permission to
	// call.
	Begin(ctx context.Context, caller auth.Caller) (_ context.Context, done func(), err error)
	// Conn returns the connection for calls.
	Conn() grpc.ClientConnInterface
}

// OpenAgent opens a client's own agent by its name; empty: the only one. ctx bounds only the opening.
type OpenAgent func(ctx context.Context, name string) (relay.Agent, error)

// Hub opens agents whose clients can attach to sessions, and knows the attachments of each session. Safe for concurrent
// use.
type Hub struct {
	open  OpenAgent
	calls Calls
	log   *slog.Logger

	mu sync.Mutex
	at map[string][]*attachment // by the session's agent and id
}

// New returns a Hub that opens clients' own agents with open.
func New(open OpenAgent, calls Calls, log *slog.Logger) *Hub {
	return &Hub{open: open, calls: calls, log: log, at: map[string][]*attachment{}}
}

// Open implements relay.Open. The context carries the caller (auth.From).
func (h *Hub) Open(ctx context.Context, target relay.Target) (relay.Agent, error) {
	a := &agent{
		hub: h, caller: auth.From(ctx), out: make(chan [][]byte), busy: make(chan struct{}, maxBusy), attached: map[string]*attachment{}, questions: map[string]*question{},
	}
	if !target.None {
		own, err := h.open(ctx, target.Name)
		if err != nil {
			return nil, err
		}
		a.own = own
	}
	a.ctx, a.end = context.WithCancelCause(context.Background())
	if a.own != nil {
		go panics.Guard(a.hub.log, "passing on what an agent sends", a.pump, a.end)()
	}
	return a, nil
}

// agent is a relay.Agent: a client's own agent, and the sessions that the client is attached to.
type agent struct {
	hub    *Hub
	caller auth.Caller
	own    relay.Agent // nil: the client has none
	out    chan [][]byte
	busy   chan struct{} // one entry for each message that is being answered
	ctx    context.Context
	end    context.CancelCauseFunc

	mu           sync.Mutex             // guards the fields below
	initializeID string                 // the id of initialize until it is answered
	attached     map[string]*attachment // by session
	questions    map[string]*question   // open questions to the client about attached sessions, by the request's id
	forms        bool                   // the client supports elicitations
}

var errClosed = errors.New("the connection is closed")

// do runs f in a goroutine, once fewer than maxBusy are running.
func (a *agent) do(f func()) {
	select {
	case a.busy <- struct{}{}:
		go func() {
			defer func() { <-a.busy }()
			defer panics.Recover(a.hub.log, "answering a client", a.end)
			f()
		}()
	case <-a.ctx.Done():
	}
}

// pump passes the own agent's frames on, until it ends.
func (a *agent) pump() {
	for {
		frames, err := a.own.Recv()
		if err != nil {
			a.end(err)
			return
		}
		a.mu.Lock()
		initializeID := a.initializeID
		a.mu.Unlock()
		if initializeID != "" {
			a.advertise(frames, initializeID)
		}
		if !a.send(a.ctx, frames...) {
			return
		}
	}
}

// send sends frames to the client. It blocks while the client does not read; false: ctx has ended.
func (a *agent) send(ctx context.Context, frames ...[]byte) bool {
	select {
	case a.out <- frames:
		return true
	case <-ctx.Done():
		return false
	}
}

// Recv implements relay.Agent.
func (a *agent) Recv() ([][]byte, error) {
	select {
	case frames := <-a.out:
		return frames, nil
	case <-a.ctx.Done():
		return nil, context.Cause(a.ctx)
	}
}

// Close implements relay.Agent.
func (a *agent) Close() {
	a.end(errClosed)
	if a.own != nil {
		a.own.Close()
	}
}

// Send implements relay.Agent.
func (a *agent) Send(frame []byte) error {
	if a.ctx.Err() != nil {
		return context.Cause(a.ctx)
	}
	if a.mayConcernAttached(frame) {
		if m, err := relay.Read(frame); err == nil && a.handle(m, frame) {
			return nil
		}
	}
	if a.own == nil { // messages other than requests need no answer
		return nil
	}
	return a.own.Send(frame)
}

// mayConcernAttached reports whether a frame may be about attached sessions. Most frames are not, and are not parsed.
func (a *agent) mayConcernAttached(frame []byte) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.own == nil || len(a.attached) > 0 || len(a.questions) > 0 || bytes.Contains(frame, []byte("initialize")) ||
		bytes.Contains(frame, []byte("tach")) // session/attach and session/detach, also with an escaped slash
}

// attachedMethods are the requests that attached sessions accept, besides session/detach.
var attachedMethods = map[string]bool{"session/prompt": true, "session/set_mode": true}

// handle handles a message about an attached session, or one without an own agent; false: the message is for the own
// agent. It blocks only while too many messages are being answered.
func (a *agent) handle(m relay.Message, frame []byte) bool {
	a.mu.Lock()
	at := a.attached[m.Session]
	q := a.questions[m.ID]
	again := q != nil && q.answering
	if m.Kind == relay.Response && q != nil {
		q.answering = true
	}
	a.mu.Unlock()
	request := m.Kind == relay.Request
	switch {
	case m.Kind == relay.Response && again: // a repeated answer
	case m.Kind == relay.Response && q != nil:
		a.do(func() { q.answer(frame) })
	case request && m.Method == "initialize":
		return a.initialize(m, frame)
	case request && m.Method == "session/attach":
		a.do(func() { a.attach(m, frame) })
	case request && m.Method == "session/detach" && at != nil:
		a.do(func() { a.detach(m, at) })
	case request && at == nil && (m.Method == "session/detach" || a.own == nil && attachedMethods[m.Method]):
		a.do(func() {
			a.fail(m, apierror.NotFound, m.Method+": the connection is not attached to this session", "attach to it first (session/attach)")
		})
	case m.Method == "$/cancel_request":
		return a.cancels(frame)
	case at != nil && !at.own && at.client.Role == observer && (request || m.Method == "session/cancel") && m.Method != "session/detach":
		a.do(func() { at.rejectObserver(m) })
	case at != nil && !at.own && request && m.Method == "session/prompt":
		at.prompt(m, frame)
	case at != nil && !at.own && m.Method == "session/cancel":
		a.do(at.cancelTurn)
	case at != nil && !at.own && request && m.Method == "session/set_mode":
		a.do(func() { at.setMode(m, frame) })
	case at != nil && !at.own && request:
		a.do(func() {
			a.fail(m, apierror.Unsupported, m.Method+" is not for attached sessions", "an attached client can prompt, cancel, set the mode, answer questions and detach")
		})
	case a.own == nil && request:
		a.do(func() {
			a.fail(m, apierror.Unsupported, m.Method+": this connection has no agent of its own", "it can attach to sessions (session/attach)")
		})
	default:
		return a.own == nil
	}
	return true
}

// rejectObserver rejects a request of an observer.
func (at *attachment) rejectObserver(m relay.Message) {
	const why = "an observer only sees the session; attach as a controller, which takes the role approver or operator"
	if m.Kind == relay.Request {
		at.agent.fail(m, apierror.NotAllowed, m.Method+": "+why, "")
		return
	}
	at.agent.send(at.ctx, at.update(map[string]any{"type": "cancel_refused", "reason": why}))
}

// fail answers a request with an error.
func (a *agent) fail(m relay.Message, kind apierror.Kind, message, data string) {
	a.send(a.ctx, relay.Failure(m.RawID, kind.RPC, message, data))
}

// failWithError answers a request with the error of a call.
func (a *agent) failWithError(ctx context.Context, m relay.Message, err error) {
	kind, text := apierror.Of(ctx, err)
	a.fail(m, kind, m.Method+": "+text, m.Session)
}

// answer answers a request.
func (a *agent) answer(m relay.Message, result any) {
	a.send(a.ctx, response(m.RawID, result))
}

// notification, request and response return messages. params and results must be encodable as JSON.
func notification(method string, params any) []byte {
	return encode(struct {
		Version string `json:"jsonrpc"`
		Method  string `json:"method"`
		Params  any    `json:"params"`
	}{"2.0", method, params})
}

func request(id, method string, params any) []byte {
	return encode(struct {
		Version string `json:"jsonrpc"`
		ID      string `json:"id"`
		Method  string `json:"method"`
		Params  any    `json:"params"`
	}{"2.0", id, method, params})
}

func response(id []byte, result any) []byte {
	return encode(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Result  any             `json:"result"`
	}{"2.0", id, result})
}

func encode(message any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // keep the agent's text unchanged
	if err := e.Encode(message); err != nil {
		return relay.Failure(nil, apierror.Failed.RPC, "a message could not be written", err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// params parses a message's params; missing fields are zero.
func params[T any](frame []byte) (T, error) {
	var m struct {
		Params T `json:"params"`
	}
	err := json.Unmarshal(frame, &m)
	return m.Params, err
}

// client is the name and version that a client reports.
type client struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	Role    string `json:"role,omitempty"`
}

func (c client) sanitized(caller auth.Caller) client {
	c.Name, c.Version = delegation.Presentable(c.Name, maxName), delegation.Presentable(c.Version, maxName)
	if c.Name == "" {
		c.Name = delegation.Presentable(caller.Name, maxName)
	}
	if c.Name == "" {
		c.Name = "a client"
	}
	return c
}
