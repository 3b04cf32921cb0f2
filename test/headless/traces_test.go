package headless_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

// traceID and spanID name a span of the editor's.
const (
	traceID = "0af7651916cd43dd8448eb211c80319c"
	spanID  = "b7ad6b7169203331"
)

// tracesOf is the part of a client's or an agent's _meta about its span.
func tracesOf(trace, span, flags string) map[string]any {
	return map[string]any{"traceparent": "00-" + trace + "-" + span + "-" + flags}
}

// traceCollector is a collector that receives traces, by OTLP.
type traceCollector struct {
	collectorv1.UnimplementedTraceServiceServer
	address string

	mu    sync.Mutex
	spans []*tracev1.Span // guarded by mu
	text  string          // guarded by mu: all that came
}

func (c *traceCollector) Export(_ context.Context, req *collectorv1.ExportTraceServiceRequest) (*collectorv1.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text += req.String()
	for _, r := range req.GetResourceSpans() {
		for _, s := range r.GetScopeSpans() {
			c.spans = append(c.spans, s.GetSpans()...)
		}
	}
	return &collectorv1.ExportTraceServiceResponse{}, nil
}

// collectTraces starts a collector.
func collectTraces(t *testing.T) *traceCollector {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &traceCollector{address: listener.Addr().String()}
	server := grpc.NewServer()
	collectorv1.RegisterTraceServiceServer(server, c)
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Stop(); <-done })
	return c
}

// traced is configuration that sends traces to a collector; more are further settings of the traces.
func (c *traceCollector) traced(more string) string {
	return fmt.Sprintf("telemetry: {otlp: {endpoint: %q, insecure: true, metrics_disabled: true, traces: {%s}}}\n", c.address, more)
}

// all returns the received spans, and all their text.
func (c *traceCollector) all() ([]*tracev1.Span, string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans), c.text
}

// the returns the only span with a name.
func the(t *testing.T, spans []*tracev1.Span, name string) *tracev1.Span {
	t.Helper()
	var found []*tracev1.Span
	var names []string
	for _, s := range spans {
		if names = append(names, s.GetName()); s.GetName() == name {
			found = append(found, s)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d spans are called %q, of %q", len(found), name, names)
	}
	return found[0]
}

func expectParent(t *testing.T, s *tracev1.Span, trace, parent string) {
	t.Helper()
	if got := hex.EncodeToString(s.GetTraceId()); got != trace {
		t.Errorf("%s is in the trace %s, want %s", s.GetName(), got, trace)
	}
	if got := hex.EncodeToString(s.GetParentSpanId()); got != parent {
		t.Errorf("%s is a part of %q, want %q", s.GetName(), got, parent)
	}
}

func idOf(s *tracev1.Span) string { return hex.EncodeToString(s.GetSpanId()) }

// attribute is a span's attribute; empty: it has none.
func attribute(s *tracev1.Span, key string) string {
	for _, a := range s.GetAttributes() {
		if a.GetKey() == key {
			return a.GetValue().GetStringValue()
		}
	}
	return ""
}

func expectAttributes(t *testing.T, s *tracev1.Span, pairs ...string) {
	t.Helper()
	for pair := range slices.Chunk(pairs, 2) {
		if got := attribute(s, pair[0]); got != pair[1] {
			t.Errorf("%s: %s is %q, want %q", s.GetName(), pair[0], got, pair[1])
		}
	}
}

func TestTraces_ContinueEditorTrace(t *testing.T) {
	t.Parallel()
	p, c := e2e.NewPlace(t), collectTraces(t)
	s := p.Fixture(t, p.Policy(t, e2e.GateRules, c.traced("")))
	p.File(t, "hidden-name.txt", "hidden-content\n")
	call, prompt := promptedTurn(s, tracesOf(traceID, spanID, "01"))
	if !strings.Contains(string(prompt.Raw), `"traceparent":"00-`+traceID+"-"+spanID+`-01"`) {
		t.Errorf("the agent got another trace: %s", prompt.Raw)
	}
	s.Read("hidden-name.txt").Result(nil)
	s.WriteFile(".env", "KEY=1").Refused(-32603)
	s.Expect("session/update")
	asking := s.WriteFile("new.txt", "hidden-content")
	q := s.Asked()
	e2e.ExpectContains(t, "the question", string(q.Raw), `"_meta":{"traceparent":"00-`+traceID+"-")
	s.Choose(q, "allow_once")
	s.Status(q, "in_progress")
	asking.Result(nil)
	stopTurn(s, call, prompt)
	if status := s.Finish(); status != 0 {
		t.Errorf("acphost ended with %d", status)
	}

	spans, text := c.all()
	turn := the(t, spans, "session/prompt")
	expectParent(t, turn, traceID, spanID)
	expectAttributes(t, turn, "rpc.system.name", "jsonrpc", "rpc.method", "session/prompt", "gen_ai.agent.name", p.Decisions(t)[0].Agent,
		"gen_ai.conversation.id", "s1", "acphost.turn.stop_reason", "end_turn")
	within := func(parent *tracev1.Span) (of []*tracev1.Span) {
		for _, x := range spans {
			if hex.EncodeToString(x.GetParentSpanId()) == idOf(parent) {
				of = append(of, x)
			}
		}
		return of
	}
	requests := within(turn)
	if len(requests) != 3 {
		t.Fatalf("the turn has %d requests: %v", len(requests), requests)
	}
	read := the(t, requests, "fs/read_text_file")
	expectParent(t, read, traceID, idOf(turn))
	expectAttributes(t, read, "rpc.system.name", "jsonrpc", "jsonrpc.protocol.version", "2.0", "rpc.response.status_code", "")
	if read.GetKind() != tracev1.Span_SPAN_KIND_SERVER || read.GetStatus().GetCode() == tracev1.Status_STATUS_CODE_ERROR {
		t.Errorf("the read is %v", read)
	}
	decided := the(t, within(read), "acphost.decide")
	expectParent(t, decided, traceID, idOf(read))
	expectAttributes(t, decided, "acphost.decision.verdict", "allow", "acphost.decision.rule", "reading", "acphost.decision.by", "policy", "acphost.action", "")
	if !slices.ContainsFunc(p.Decisions(t), func(d e2e.Decision) bool { return d.ID == attribute(decided, "acphost.decision.id") }) {
		t.Error("the audit does not know the decision's id")
	}
	called := the(t, within(read), "acphost.fs.v1.FileSystemService/ReadTextFile")
	expectParent(t, called, traceID, idOf(read))
	expectAttributes(t, called, "rpc.system.name", "grpc", "rpc.method", "acphost.fs.v1.FileSystemService/ReadTextFile",
		"rpc.response.status_code", "OK", "acphost.handler", "fs")
	if called.GetKind() != tracev1.Span_SPAN_KIND_CLIENT || called.GetStartTimeUnixNano() < decided.GetEndTimeUnixNano() ||
		called.GetEndTimeUnixNano() > read.GetEndTimeUnixNano() {
		t.Errorf("the handler was called at another time than between decision and answer: %v", called)
	}
	for _, w := range requests {
		if w.GetName() != "fs/write_text_file" {
			continue
		}
		parts := within(w)
		if attribute(the(t, parts, "acphost.decide"), "acphost.decision.verdict") == "deny" {
			expectAttributes(t, w, "rpc.response.status_code", "-32603", "error.type", "-32603")
			if len(parts) != 1 || w.GetStatus().GetCode() != tracev1.Status_STATUS_CODE_ERROR || w.GetStatus().GetMessage() != "" {
				t.Errorf("the write that was denied: %v, %v", w, parts)
			}
			continue
		}
		expectAttributes(t, the(t, parts, "acphost.question"), "acphost.question.outcome", "allowed")
		the(t, parts, "acphost.fs.v1.FileSystemService/WriteTextFile")
	}
	for _, hidden := range []string{"hidden", "new.txt", ".env", p.Work, "Secrets stay"} {
		if strings.Contains(text, hidden) {
			t.Errorf("the collector got %q", hidden)
		}
	}
}

func TestTraces_BeginWithoutEditorTrace(t *testing.T) {
	t.Parallel()
	for name, meta := range map[string]any{
		"none":    nil,
		"garbage": map[string]any{"traceparent": "garbage\u0000\n", "tracestate": strings.Repeat("ä", 9)},
		"1 MB":    map[string]any{"traceparent": strings.Repeat("0", 1<<20), "tracestate": strings.Repeat("a=1,", 1<<18)},
		"other":   map[string]any{"traceparent": []any{1, map[string]any{"a": nil}}},
		"a half":  tracesOf(traceID, strings.Repeat("0", 16), "01"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, c := e2e.NewPlace(t), collectTraces(t)
			s := p.Fixture(t, p.Config(t, c.traced("actions: true")+"permission: {policy: workspace}\n"))
			p.File(t, "a.txt", "a\n")
			call, prompt := promptedTurn(s, meta)
			s.Agent.Send("fs/read_text_file", e2e.Params("path", s.Path("a.txt"), "_meta", meta)).Result(nil)
			stopTurn(s, call, prompt)
			s.Finish()
			spans, text := c.all()
			turn := the(t, spans, "session/prompt")
			trace := hex.EncodeToString(turn.GetTraceId())
			expectParent(t, turn, trace, "")
			if len(trace) != 32 || trace == traceID {
				t.Errorf("the trace is %q", trace)
			}
			read := the(t, spans, "fs/read_text_file")
			expectParent(t, read, trace, idOf(turn))
			if len(read.GetLinks()) != 0 || len(text) > 64<<10 || strings.Contains(text, "garbage") {
				t.Errorf("an invalid trace is used: %d bytes, %v", len(text), read)
			}
			if got := attribute(the(t, spans, "acphost.decide"), "acphost.action"); !strings.Contains(got, "read") || !strings.Contains(got, "a.txt") {
				t.Errorf("the action is %q", got)
			}
		})
	}
}

// TestTraces_IgnoreAgentTrace: an agent can only choose which of its own spans a request belongs to. Its requests stay
// in the trace of the turn, and are recorded if the turn is.
func TestTraces_IgnoreAgentTrace(t *testing.T) {
	t.Parallel()
	const other, agents = "11111111111111111111111111111111", "2222222222222222"
	for _, sampled := range []bool{true, false} {
		t.Run(fmt.Sprintf("the editor records it: %v", sampled), func(t *testing.T) {
			t.Parallel()
			p, c := e2e.NewPlace(t), collectTraces(t)
			s := p.Fixture(t, p.Config(t, c.traced("sample_ratio: 0.5")))
			p.File(t, "a.txt", "a\n")
			editors, wrong := "01", "00"
			if !sampled {
				editors, wrong = "00", "01"
			}
			call, prompt := promptedTurn(s, tracesOf(traceID, spanID, editors))
			for _, meta := range []any{tracesOf(traceID, agents, wrong), tracesOf(other, agents, wrong)} {
				s.Agent.Send("fs/read_text_file", e2e.Params("path", s.Path("a.txt"), "_meta", meta)).Result(nil)
			}
			stopTurn(s, call, prompt)
			s.Finish()
			spans, _ := c.all()
			if !sampled {
				if len(spans) != 0 {
					t.Errorf("recorded is %v", spans)
				}
				return
			}
			turn := the(t, spans, "session/prompt")
			spans = slices.DeleteFunc(spans, func(x *tracev1.Span) bool { return x.GetName() != "fs/read_text_file" })
			if len(spans) != 2 {
				t.Fatalf("there are %d reads", len(spans))
			}
			expectParent(t, spans[0], traceID, agents)
			expectParent(t, spans[1], traceID, idOf(turn))
			if links := spans[1].GetLinks(); len(links) != 1 || hex.EncodeToString(links[0].GetTraceId()) != other {
				t.Errorf("linked are %v", links)
			}
		})
	}
}

// TestTraces_CollectorDoesNotDelayTurns: a collector that is missing or does not read delays no request, and delays the
// shutdown by two seconds at most.
func TestTraces_CollectorDoesNotDelayTurns(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0") // accepts connections, and sends nothing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	for name, address := range map[string]string{"gone": testkit.FreePort(t), "silent": listener.Addr().String()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := e2e.NewPlace(t)
			s := p.Fixture(t, p.Config(t, (&traceCollector{address: address}).traced("")))
			p.File(t, "a.txt", "a\n")
			for range 300 {
				call, prompt := promptedTurn(s, nil)
				s.Read("a.txt").Result(nil)
				stopTurn(s, call, prompt)
			}
			began := time.Now()
			s.Finish()
			if took := time.Since(began); took > testkit.Scale(10*time.Second) {
				t.Errorf("the end took %v", took)
			}
		})
	}
}

func TestTraces_CountLostSpans(t *testing.T) {
	t.Parallel()
	m := measureWith(t, e2e.NewPlace(t), "telemetry: {prometheus: true, otlp: {endpoint: \""+testkit.FreePort(t)+"\", insecure: true, metrics_disabled: true, traces: {}}}\n")
	id := m.Open(m.Start(m.Demo()).GetId()).GetSessionId()
	m.Prompt(id, "tour").End()
	if !testkit.Poll(func() bool {
		text := m.Scrape()
		return strings.Contains(text, "\nacphost_dropped_spans_total{reason=\"queue\"} 0\n") &&
			strings.Contains(text, "\nacphost_dropped_spans_total{reason=\"collector\"} ") &&
			!strings.Contains(text, "\nacphost_dropped_spans_total{reason=\"collector\"} 0\n")
	}) {
		t.Errorf("no span is counted as lost:\n%s", m.Scrape())
	}
	m.Finish()
}

// promptedTurn sends a prompt with a _meta, and returns it and what the agent got.
func promptedTurn(s *e2e.Fixture, meta any) (*wire.Call, wire.Message) {
	s.T.Helper()
	call := s.Send("session/prompt", e2e.Params("prompt", []any{map[string]any{"type": "text", "text": "Go."}}, "_meta", meta))
	return call, s.Agent.Expect("session/prompt")
}

// stopTurn ends a turn.
func stopTurn(s *e2e.Fixture, call *wire.Call, prompt wire.Message) {
	s.T.Helper()
	s.Agent.Reply(prompt, map[string]any{"stopReason": "end_turn"})
	call.Result(nil)
}
