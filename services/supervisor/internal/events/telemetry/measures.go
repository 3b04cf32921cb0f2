package telemetry

import (
	"context"
	"math"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// Buckets of histograms, in seconds: of calls and decisions, of people, and of turns.
var (
	quick  = []float64{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30}
	people = []float64{0.5, 1, 2, 5, 10, 30, 60, 120, 300, 900, 3600}
	turns  = []float64{0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600}
)

// State is the current state of a supervisor.
type State struct {
	Start            time.Time
	Agents, Sessions int
	// Questions is the number of questions that wait for a person; the oldest has waited for Oldest.
	Questions int
	Oldest    time.Duration
	// QueuedBytes is the number of bytes of frames that are not events yet.
	QueuedBytes int
	Link        *supervisorv1.LinkCounters
	Gate        *supervisorv1.GateCounters
	Handlers    []*supervisorv1.HandlerStatus
	Goroutines  int
	HeapBytes   uint64
	// Certificates are the validity of certificates, by the setting that names their file.
	Certificates map[string]Certificate
}

// Certificate has the expiry of a certificate, and the time from which it should be renewed.
type Certificate struct{ Expires, RenewFrom time.Time }

// Source returns the state of a supervisor. It is called when the metrics are read, concurrently, and must not wait for
// an agent.
type Source func() State

// measures are the instruments for events; the values of Source are observed when the metrics are read.
type measures struct {
	opened, turns, tokens, decisions, dropped metric.Int64Counter
	cost                                      metric.Float64Counter
	turn, decision, person, call              metric.Float64Histogram
}

// make makes all instruments.
func (m *measures) make(meter metric.Meter, source Source, l *labels) error {
	var failed error
	note := func(err error) {
		if failed == nil {
			failed = err
		}
	}
	counter := func(name, unit, what string) metric.Int64Counter {
		c, err := meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(what))
		note(err)
		return c
	}
	histogram := func(name, what string, bounds []float64) metric.Float64Histogram {
		h, err := meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(what), metric.WithExplicitBucketBoundaries(bounds...))
		note(err)
		return h
	}
	m.opened = counter("acphost.sessions.opened", "", "Sessions that were opened, by agent.")
	m.turns = counter("acphost.turns", "", "Turns that ended, by agent and by how they ended.")
	m.tokens = counter("acphost.tokens", "", "Tokens of turns as agents report them, by agent and kind.")
	m.decisions = counter("acphost.decisions", "", "Decisions about actions, by door, verdict, rule and outcome.")
	m.dropped = counter("acphost.dropped_frames", "", "Frames that no event was made of, because too many waited. The agent and its client missed none.")
	var err error
	m.cost, err = meter.Float64Counter("acphost.cost", metric.WithDescription("Cost as agents report it, by agent and currency."))
	note(err)
	m.turn = histogram("acphost.turn.duration", "Time from a prompt to the end of its turn, by agent.", turns)
	m.decision = histogram("acphost.decision.duration", "Time until a policy had decided, without waiting for a person, by door.", quick)
	m.person = histogram("acphost.question.duration", "Time until a question was answered by a person or ended otherwise, by outcome.", people)
	m.call = histogram("acphost.handler.call.duration", "Time of calls to handlers, with the decision about them, by handler, method and outcome.", quick)

	var observed []metric.Observable
	var tell []func(metric.Observer, *State)
	gauge := func(name, unit, what string, value func(*State) float64) {
		g, err := meter.Float64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(what))
		note(err)
		observed = append(observed, g)
		tell = append(tell, func(o metric.Observer, s *State) { o.ObserveFloat64(g, value(s)) })
	}
	total := func(name, unit, what string, each func(*State, func(uint64, ...attribute.KeyValue))) {
		c, err := meter.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(what))
		note(err)
		observed = append(observed, c)
		tell = append(tell, func(o metric.Observer, s *State) {
			each(s, func(n uint64, labels ...attribute.KeyValue) { o.ObserveInt64(c, clamp(n), with(labels...)) })
		})
	}
	gauge("acphost.start_time", "s", "When the supervisor started, in seconds since 1970.", func(s *State) float64 { return float64(s.Start.UnixMilli()) / 1000 })
	gauge("acphost.agents", "", "Agents that there are.", func(s *State) float64 { return float64(s.Agents) })
	gauge("acphost.sessions", "", "Sessions that are open.", func(s *State) float64 { return float64(s.Sessions) })
	gauge("acphost.questions", "", "Questions that wait for a person.", func(s *State) float64 { return float64(s.Questions) })
	gauge("acphost.question.oldest", "s", "How long the oldest question has been waiting; 0 without questions.", func(s *State) float64 { return s.Oldest.Seconds() })
	gauge("acphost.requests.pending", "", "Requests of agents to handlers that are not answered yet, with those that wait in the queue.", func(s *State) float64 { return float64(s.Link.GetPendingRequests()) })
	gauge("acphost.events.queued", "By", "Frames that wait to become events.", func(s *State) float64 { return float64(s.QueuedBytes) })
	gauge("acphost.goroutines", "", "Goroutines of the supervisor.", func(s *State) float64 { return float64(s.Goroutines) })
	gauge("acphost.heap", "By", "Objects in the supervisor's heap.", func(s *State) float64 { return float64(s.HeapBytes) })
	expiry, err := meter.Float64ObservableGauge("acphost.certificate.expiry", metric.WithUnit("s"),
		metric.WithDescription("When a certificate of the configuration expires, in seconds since 1970, by the setting that names its file."))
	note(err)
	renewal, err := meter.Float64ObservableGauge("acphost.certificate.renewal", metric.WithUnit("s"),
		metric.WithDescription("From when on a certificate of the configuration should be renewed, in seconds since 1970, by the setting that names its file."))
	note(err)
	observed = append(observed, expiry, renewal)
	tell = append(tell, func(o metric.Observer, s *State) {
		for setting, c := range s.Certificates {
			of := with(attribute.String("certificate", setting))
			o.ObserveFloat64(expiry, float64(c.Expires.Unix()), of)
			o.ObserveFloat64(renewal, float64(c.RenewFrom.Unix()), of)
		}
	})
	from := func(sender string) attribute.KeyValue { return attribute.String("from", sender) }
	total("acphost.messages", "", "Messages, by who sent them.", func(s *State, count func(uint64, ...attribute.KeyValue)) {
		count(s.Link.GetAgentMessages(), from("agent"))
		count(s.Link.GetFrontMessages(), from("client"))
	})
	total("acphost.message", "By", "Bytes of messages, by who sent them.", func(s *State, count func(uint64, ...attribute.KeyValue)) {
		count(s.Link.GetAgentBytes(), from("agent"))
		count(s.Link.GetFrontBytes(), from("client"))
	})
	total("acphost.refused_messages", "", "Messages that were refused: no JSON, too long, ambiguous, or with a name of acphost's own.", func(s *State, count func(uint64, ...attribute.KeyValue)) {
		count(s.Link.GetRefusedMessages(), attribute.String("reason", "invalid"))
		count(s.Link.GetImitatedMessages(), attribute.String("reason", "imitated"))
	})
	total("acphost.unrecorded_decisions", "", "Decisions that could not be recorded.", func(s *State, count func(uint64, ...attribute.KeyValue)) { count(s.Gate.GetUnrecorded()) })
	total("acphost.undecided_actions", "", "Actions that agents reported as done without a decision, by what the policy says of them.", func(s *State, count func(uint64, ...attribute.KeyValue)) {
		for _, verdict := range verdicts {
			count(s.Gate.GetUnasked()[verdict], attribute.String("verdict", verdict))
		}
	})
	total("acphost.handler.restarts", "", "Restarts of handlers.", func(s *State, count func(uint64, ...attribute.KeyValue)) {
		for _, h := range s.Handlers {
			count(h.GetRestarts(), attribute.String("handler", l.handler.of(h.GetName())))
		}
	})
	ready, err := meter.Float64ObservableGauge("acphost.handler.ready", metric.WithDescription("1 if a handler answers, 0 if it does not."))
	note(err)
	observed = append(observed, ready)
	tell = append(tell, func(o metric.Observer, s *State) {
		for _, h := range s.Handlers {
			value := 0.0
			if h.GetState() == supervisorv1.HandlerState_HANDLER_STATE_READY {
				value = 1
			}
			o.ObserveFloat64(ready, value, with(attribute.String("handler", l.handler.of(h.GetName()))))
		}
	})
	if failed != nil {
		return failed
	}
	m.dropped.Add(context.Background(), 0) // so that the first loss is an increase
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		now := source()
		for _, each := range tell {
			each(o, &now)
		}
		return nil
	}, observed...)
	return err
}

// lost makes the instrument for spans that did not reach the collector.
func (*measures) lost(meter metric.Meter, t *tracing) error {
	_, err := meter.Int64ObservableCounter("acphost.dropped_spans",
		metric.WithDescription("Spans that the collector did not get, by reason: too many waited (queue), or it did not take them (collector)."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			overflowed, failed := t.lost()
			o.Observe(clamp(overflowed), with(attribute.String("reason", "queue")))
			o.Observe(clamp(failed), with(attribute.String("reason", "collector")))
			return nil
		}))
	return err
}

// clamp converts a count to the type of instruments.
func clamp(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

var (
	verdicts = []string{"allow", "ask", "deny"}
	doors    = []string{"request", "call", "kernel", "report"}
	outcomes = []string{"allowed", "denied", "cancelled", "left to the call", "refused, then allowed"}
	stops    = []string{"end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"}
)

// Decided counts a decision, by its record. It does not keep the record.
func (t *Telemetry) Decided(rec *supervisorv1.AuditRecord) {
	if t == nil {
		return
	}
	ctx := context.Background()
	outcome := attribute.String("outcome", oneOf(rec.GetOutcome(), outcomes...))
	door := attribute.String("door", oneOf(rec.GetDoor(), doors...))
	t.measures.decisions.Add(ctx, 1, with(door, outcome,
		attribute.String("verdict", oneOf(rec.GetVerdict(), verdicts...)),
		attribute.String("rule", t.labels.rule.of(rec.GetRule())),
	))
	t.measures.decision.Record(ctx, float64(rec.GetLatencyMicros())/1e6, with(door))
	if rec.GetAskedMillis() > 0 || rec.GetOption() != "" {
		t.measures.person.Record(ctx, float64(rec.GetAskedMillis())/1e3, with(outcome))
	}
}

// Called counts a call of a handler, with an error if it failed. The method is the route's, not the agent's.
func (t *Telemetry) Called(handler, method string, took time.Duration, failed bool) {
	if t == nil {
		return
	}
	outcome := "ok"
	if failed {
		outcome = "error"
	}
	t.measures.call.Record(context.Background(), took.Seconds(), with(
		attribute.String("handler", t.labels.handler.of(handler)),
		attribute.String("method", t.labels.method.of(method)),
		attribute.String("outcome", outcome),
	))
}
