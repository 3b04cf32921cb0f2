package link

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"sync"

	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/acp/transcode"
	"github.com/acphost/acphost/services/supervisor/internal/events/span"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/route"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
	"github.com/acphost/acphost/services/supervisor/internal/policy/secret"
)

// Limits of tracing.
const (
	// maxTurns limits the current turns with a span. Further turns have none.
	maxTurns = 4096
	// maxTracedID limits the bytes of a session's id in a span.
	maxTracedID = 128
)

// Names of spans and attributes. Those without "acphost" are OpenTelemetry conventions.
const (
	spanDecide = "acphost.decide"

	attrSystem  = "rpc.system.name"
	attrMethod  = "rpc.method"
	attrStatus  = "rpc.response.status_code"
	attrJSONRPC = "jsonrpc.protocol.version"
	attrAgent   = "gen_ai.agent.name"
	attrSession = "gen_ai.conversation.id"

	// otherMethod replaces the name of an unknown method, as in the conventions.
	otherMethod = "_OTHER"
)

// Failures without a code.
const (
	failedOver   = "link_over" // the agent or the client is gone, or acphost ends
	failedError  = "error"
	failedGiven  = "cancelled"
	failedClosed = "session_closed"
)

// turns are the spans of the current turns. Safe for concurrent use. The zero value is empty.
type turns struct {
	mu   sync.Mutex
	open []turnSpan // guarded by mu; oldest first
}

type turnSpan struct {
	*span.Span
	prompt, session string // the ids of session/prompt and of its session
	accepted        bool   // the prompt is answered, and the turn continues (ACP v2)
}

// beginTurn begins the span of a turn. If the client's request names a trace, the span is part of it.
func (l *Link) beginTurn(c *clientCall, params []byte) {
	if l.opts.Tracer == nil {
		return
	}
	l.turns.mu.Lock()
	defer l.turns.mu.Unlock()
	if len(l.turns.open) >= maxTurns {
		return
	}
	s := l.beginServer(acp.MethodSessionPrompt, c.sessionID, span.Parse(acp.TraceContext(params)), span.Context{})
	l.turns.open = append(l.turns.open, turnSpan{Span: s, prompt: jsonrpc.CanonicalID(c.id), session: c.sessionID})
}

// endTurns ends the spans of the turns that which selects.
func (l *Link) endTurns(which func(t *turnSpan) bool, stopReason, failure string) {
	if l.opts.Tracer == nil {
		return
	}
	l.turns.mu.Lock()
	defer l.turns.mu.Unlock()
	l.turns.open = slices.DeleteFunc(l.turns.open, func(t turnSpan) bool {
		if !which(&t) {
			return false
		}
		if slices.Contains(stopReasons, stopReason) {
			t.Set("acphost.turn.stop_reason", stopReason)
		}
		t.End(failure)
		return true
	})
}

// endSession ends the spans of a session's turns because the session was closed.
func (l *Link) endSession(sessionID string) {
	l.endTurns(func(t *turnSpan) bool { return t.session == sessionID }, "", failedClosed)
}

// stopReasons are ACP's stop reasons. An agent may send any text.
var stopReasons = []string{"end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"}

// turnAnswered ends the span of a turn whose prompt the agent has answered.
func (l *Link) turnAnswered(prompt, stopReason string, failed bool) {
	failure := ""
	if failed {
		failure = failedError
	}
	l.endTurns(func(t *turnSpan) bool { return t.prompt == prompt && !t.accepted }, stopReason, failure)
}

// turnContinues records that the agent has answered a prompt whose turn continues until its session is idle.
func (l *Link) turnContinues(prompt string) {
	l.turns.mu.Lock()
	defer l.turns.mu.Unlock()
	for i := range l.turns.open {
		l.turns.open[i].accepted = l.turns.open[i].accepted || l.turns.open[i].prompt == prompt
	}
}

// turnsEnded ends the spans of a session's turns. accepted: only those that continue after the answer to their prompt.
func (l *Link) turnsEnded(sessionID, stopReason string, accepted bool) {
	l.endTurns(func(t *turnSpan) bool { return t.session == sessionID && (t.accepted || !accepted) }, stopReason, "")
}

// turn returns the span context of a session's latest turn; it is not valid if there is no current turn.
func (l *Link) turn(sessionID string) span.Context {
	l.turns.mu.Lock()
	defer l.turns.mu.Unlock()
	for _, t := range slices.Backward(l.turns.open) {
		if t.session == sessionID {
			return t.Context()
		}
	}
	return span.Context{}
}

// beginCall begins the span of an agent's request. The span belongs to the turn, whatever trace the agent names: an agent cannot move its
// requests to another trace, nor control whether they are recorded. Within the turn's trace, the agent names the parent span. A span of
// another trace is linked.
func (l *Link) beginCall(c *agentCall, params []byte) {
	if l.opts.Tracer == nil {
		return
	}
	parent, link := l.turn(c.sessionID), span.Context{}
	switch said := span.Parse(acp.TraceContext(params)); {
	case !said.Valid():
	case said.TraceID == parent.TraceID:
		said.Sampled, said.State = parent.Sampled, parent.State
		parent = said
	default:
		link = said
	}
	method := otherMethod
	if r := l.lookup(c.sessionID, []byte(c.method)); r != nil {
		method = cmp.Or(r.Name, method)
	} else if slices.Contains(asked, c.method) {
		method = c.method
	}
	c.span = l.beginServer(method, c.sessionID, parent, link)
}

// asked are the agent's requests that clients answer and that have no route.
var asked = []string{acp.MethodRequestPermission, acp.MethodElicitationCreate}

// beginServer begins the span of a peer's request.
func (l *Link) beginServer(method, sessionID string, parent, link span.Context) *span.Span {
	s := span.Begin(l.opts.Tracer, span.Start{Name: method, Kind: span.Server, Parent: parent, Link: link})
	s.Set(attrSystem, "jsonrpc")
	s.Set(attrJSONRPC, "2.0")
	s.Set(attrMethod, method)
	s.Set(attrAgent, l.opts.AgentName)
	s.Set(attrSession, traced(sessionID))
	return s
}

// traced returns a session's id for a span; empty if it does not have the form of an id, because the agent chooses it.
func traced(sessionID string) string {
	if len(sessionID) > maxTracedID {
		return ""
	}
	for _, b := range []byte(sessionID) {
		if (b < 'a' || b > 'z') && (b < 'A' || b > 'Z') && (b < '0' || b > '9') && b != '-' && b != '_' && b != '.' && b != ':' {
			return ""
		}
	}
	return sessionID
}

// ends ends the span of a call. jerr is the error for the agent; nil: the agent gets a result.
func (c *agentCall) ends(jerr *jsonrpc.Error) {
	if c.span == nil {
		return
	}
	failure := ""
	if jerr != nil {
		failure = strconv.Itoa(jerr.Code)
		c.span.Set(attrStatus, failure)
	}
	c.span.End(failure)
}

// endsBy ends the span of a call that the client has answered.
func (c *agentCall) endsBy(m *jsonrpc.Message) {
	if c.span == nil {
		return
	}
	var jerr *jsonrpc.Error
	if m.Error != nil {
		code, _ := strconv.Atoi(string(acp.Get(m.Error, "code")))
		jerr = &jsonrpc.Error{Code: code}
	}
	c.ends(jerr)
}

// gateDecides asks the gate about a call. Policies are asked within the span of the decision.
func (l *Link) gateDecides(ctx context.Context, c *agentCall, about gate.Request) (*gate.Decision, error) {
	s := c.span.Child(spanDecide, span.Internal)
	d, err := l.opts.Gate.Decide(s.Continue(ctx), about)
	switch {
	case s == nil:
	case err != nil: // the goroutine that gave the call up has answered it
		s.End(failedGiven)
	default:
		s.Set("acphost.decision.id", d.ID())
		s.Set("acphost.decision.verdict", gate.VerdictName(d.Verdict))
		s.Set("acphost.decision.rule", d.Rule)
		s.Set("acphost.decision.by", d.By)
		if l.opts.TraceActions {
			s.Set("acphost.action", secret.Text(d.What()))
		}
		s.End("")
	}
	return d, err
}

// beginHandlerCall begins the span of a handler's RPC.
func (c *agentCall) beginHandlerCall(r *route.Route) *span.Span {
	if c.span == nil {
		return nil
	}
	rpc := r.Method.RPC[1:] // without the slash
	s := c.span.Child(rpc, span.Client)
	s.Set(attrSystem, "grpc")
	s.Set(attrMethod, rpc)
	s.Set("acphost.handler", r.Handler)
	return s
}

// endHandlerCall ends a span of beginHandlerCall.
func endHandlerCall(s *span.Span, err error) {
	if s == nil {
		return
	}
	code, failure := transcode.CodeName(status.Code(err)), ""
	s.Set(attrStatus, code)
	if err != nil {
		failure = code
	}
	s.End(failure)
}
