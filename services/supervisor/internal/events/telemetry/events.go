package telemetry

import (
	"context"
	"math"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

const (
	// maxSessions limits the sessions with tracked turns and costs; turns of further sessions are counted and not
	// timed.
	maxSessions = 4096
	// maxTokens and maxCost limit the amount that one report can add: an agent may report anything.
	maxTokens = 1 << 32
	maxCost   = 1e6
	// currencyLength is the length of ISO 4217's codes.
	currencyLength = 3
)

// sessions tracks the state of sessions between two events.
type sessions struct {
	mu    sync.Mutex
	known map[sessionKey]*session // guarded by mu
}

type sessionKey struct{ agent, id string }

type session struct {
	began time.Time // start of its turn; zero: no active turn
	cost  float64   // reported so far
}

func newSessions() sessions { return sessions{known: map[sessionKey]*session{}} }

// at returns a session, and creates it if there is room; nil otherwise. mu is held.
func (ss *sessions) at(key sessionKey) *session {
	s := ss.known[key]
	if s == nil && len(ss.known) < maxSessions {
		s = &session{}
		ss.known[key] = s
	}
	return s
}

// Event counts an event. agent is its agent's name. It ignores history, which an agent repeats.
func (t *Telemetry) Event(agent string, ev *supervisorv1.Event) {
	if t == nil {
		return
	}
	if gap := ev.GetGap(); gap != nil {
		t.measures.dropped.Add(context.Background(), clamp(gap.GetFrames()))
		return
	}
	if ev.GetHistory() {
		return
	}
	key, now := sessionKey{ev.GetAgentId(), ev.GetSessionId()}, ev.GetTime().AsTime()
	switch what := ev.GetEvent().(type) {
	case *supervisorv1.Event_SessionOpened:
		t.measures.opened.Add(context.Background(), 1, with(t.agent(agent)))
	case *supervisorv1.Event_SessionClosed:
		t.sessions.mu.Lock()
		delete(t.sessions.known, key)
		t.sessions.mu.Unlock()
	case *supervisorv1.Event_TurnStarted:
		t.sessions.mu.Lock()
		if s := t.sessions.at(key); s != nil {
			s.began = now
		}
		t.sessions.mu.Unlock()
	case *supervisorv1.Event_TurnEnded:
		t.turnEnded(agent, key, now, what.TurnEnded)
	case *supervisorv1.Event_Usage:
		t.spent(agent, key, what.Usage)
	}
}

func (t *Telemetry) agent(name string) attribute.KeyValue {
	return attribute.String("agent", t.labels.agent.of(name))
}

func (t *Telemetry) turnEnded(agent string, key sessionKey, now time.Time, end *supervisorv1.TurnEnded) {
	ctx, attrs := context.Background(), t.agent(agent)
	outcome := "error"
	if end.GetError() == nil {
		outcome = oneOf(end.GetStopReason(), stops...)
	}
	t.measures.turns.Add(ctx, 1, with(attrs, attribute.String("outcome", outcome)))
	t.sessions.mu.Lock()
	var began time.Time
	if s := t.sessions.known[key]; s != nil {
		began, s.began = s.began, time.Time{}
	}
	t.sessions.mu.Unlock()
	if !began.IsZero() {
		t.measures.turn.Record(ctx, max(0, now.Sub(began)).Seconds(), with(attrs))
	}
	usage := end.GetUsage()
	for kind, n := range map[string]uint64{
		"input": usage.GetInput(), "output": usage.GetOutput(), "thought": usage.GetThought(),
		"cached_read": usage.GetCachedRead(), "cached_write": usage.GetCachedWrite(),
	} {
		if n > 0 {
			t.measures.tokens.Add(ctx, clamp(min(n, maxTokens)), with(attrs, attribute.String("kind", kind)))
		}
	}
}

// spent counts the cost of a session since its last report: agents report the sum.
func (t *Telemetry) spent(agent string, key sessionKey, u *supervisorv1.ContextUsage) {
	if u.Cost == nil || math.IsNaN(u.GetCost()) {
		return
	}
	t.sessions.mu.Lock()
	s, more := t.sessions.at(key), 0.0
	if s != nil && u.GetCost() > s.cost {
		more, s.cost = u.GetCost()-s.cost, u.GetCost()
	}
	t.sessions.mu.Unlock()
	if more > 0 {
		t.measures.cost.Add(context.Background(), min(more, maxCost), with(t.agent(agent), attribute.String("currency", t.currency(u.GetCurrency()))))
	}
}

// currency returns a code of three letters, "none" or "other".
func (t *Telemetry) currency(code string) string {
	if code == "" {
		return none
	}
	for _, c := range []byte(code) {
		if c < 'A' || c > 'Z' || len(code) != currencyLength {
			return other
		}
	}
	return t.labels.currency.of(code)
}
