package telemetry_test

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	collectorv1 "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/events/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// still is a supervisor in which nothing changes.
func still() telemetry.State {
	return telemetry.State{
		Start: time.Unix(1000, 0), Agents: 2, Sessions: 3, Questions: 1, Oldest: 90 * time.Second,
		Certificates: map[string]telemetry.Certificate{"admin.tls.cert": {Expires: time.Unix(5000, 0), RenewFrom: time.Unix(4000, 0)}},
		Link:         &supervisorv1.LinkCounters{AgentMessages: 7, PendingRequests: 4},
		Gate:         &supervisorv1.GateCounters{Unrecorded: 1, Unasked: map[string]uint64{"deny": 2}},
		Handlers:     []*supervisorv1.HandlerStatus{{Name: "fs", Restarts: 5, State: supervisorv1.HandlerState_HANDLER_STATE_READY}, {Name: "terminal"}},
	}
}

func newTelemetry(t *testing.T, o telemetry.Options) *telemetry.Telemetry {
	t.Helper()
	o.Source = still
	tel, err := telemetry.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tel.Close)
	return tel
}

// scrape reads the metrics as Prometheus does.
func scrape(t *testing.T, tel *telemetry.Telemetry) (families map[string]*dto.MetricFamily, text string) {
	t.Helper()
	w := httptest.NewRecorder()
	tel.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, telemetry.Path, nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	text = w.Body.String()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	return families, text
}

func expectLines(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains("\n"+text, "\n"+line+"\n") {
			t.Errorf("there is no line %q in:\n%s", line, text)
		}
	}
}

func TestNew_NilWithoutExporter(t *testing.T) {
	tel, err := telemetry.New(telemetry.Options{Source: still})
	if tel != nil || err != nil {
		t.Fatalf("got %v, %v", tel, err)
	}
	if tel.Handler() != nil {
		t.Error("there is a handler")
	}
	rec, ev := &supervisorv1.AuditRecord{}, &supervisorv1.Event{}
	if n := testing.AllocsPerRun(100, func() {
		tel.Decided(rec)
		tel.Called("fs", "fs/read_text_file", time.Millisecond, false)
		tel.Event("claude", ev)
	}); n != 0 {
		t.Errorf("to measure nothing takes %v allocations", n)
	}
	tel.Close()
}

func TestMetrics_PrometheusFormat(t *testing.T) {
	tel := newTelemetry(t, telemetry.Options{Prometheus: true})
	tel.Decided(&supervisorv1.AuditRecord{Door: "call", Verdict: "ask", Rule: "edits \"here\"", Outcome: "allowed", LatencyMicros: 300, AskedMillis: 4000})
	tel.Called("fs", "fs/read_text_file", 3*time.Millisecond, false)
	tel.Called("fs", "fs/read_text_file", 2*time.Second, true)
	at := func(s int64, e *supervisorv1.Event) *supervisorv1.Event {
		e.AgentId, e.SessionId, e.Time = "claude-1", "s1", timestamppb.New(time.Unix(s, 0))
		return e
	}
	cost := func(sum float64) *supervisorv1.Event {
		return at(1, &supervisorv1.Event{Event: &supervisorv1.Event_Usage{Usage: &supervisorv1.ContextUsage{Cost: &sum, Currency: "USD"}}})
	}
	tel.Event("claude", at(1, &supervisorv1.Event{Event: &supervisorv1.Event_SessionOpened{SessionOpened: &supervisorv1.SessionOpened{}}}))
	tel.Event("claude", at(2, &supervisorv1.Event{Event: &supervisorv1.Event_TurnStarted{TurnStarted: &supervisorv1.TurnStarted{}}}))
	for _, sum := range []float64{0.5, 0.75, 0.75, 0.5, math.NaN()} { // a sum grows
		tel.Event("claude", cost(sum))
	}
	ended := at(9, &supervisorv1.Event{Event: &supervisorv1.Event_TurnEnded{TurnEnded: &supervisorv1.TurnEnded{StopReason: "end_turn", Usage: &supervisorv1.TokenUsage{Input: 100, Output: 20}}}})
	tel.Event("claude", ended)
	repeated := proto.CloneOf(ended)
	repeated.History = true
	tel.Event("claude", repeated)
	tel.Event("claude", &supervisorv1.Event{Event: &supervisorv1.Event_Gap{Gap: &supervisorv1.Gap{Frames: 12}}})
	_, text := scrape(t, tel)
	expectLines(t, text,
		`acphost_decisions_total{door="call",outcome="allowed",rule="edits \"here\"",verdict="ask"} 1`,
		`acphost_decision_duration_seconds_sum{door="call"} 0.0003`,
		`acphost_question_duration_seconds_bucket{outcome="allowed",le="5"} 1`,
		`acphost_handler_call_duration_seconds_bucket{handler="fs",method="fs/read_text_file",outcome="ok",le="0.0025"} 0`,
		`acphost_handler_call_duration_seconds_bucket{handler="fs",method="fs/read_text_file",outcome="ok",le="0.005"} 1`,
		`acphost_handler_call_duration_seconds_count{handler="fs",method="fs/read_text_file",outcome="error"} 1`,
		`acphost_sessions_opened_total{agent="claude"} 1`,
		`acphost_turns_total{agent="claude",outcome="end_turn"} 1`,
		`acphost_turn_duration_seconds_sum{agent="claude"} 7`,
		`acphost_tokens_total{agent="claude",kind="input"} 100`,
		`acphost_cost_total{agent="claude",currency="USD"} 0.75`,
		`acphost_dropped_frames_total 12`,
		`acphost_agents 2`, `acphost_sessions 3`, `acphost_questions 1`, `acphost_question_oldest_seconds 90`,
		`acphost_requests_pending 4`, `acphost_messages_total{from="agent"} 7`, `acphost_unrecorded_decisions_total 1`,
		`acphost_undecided_actions_total{verdict="deny"} 2`, `acphost_handler_restarts_total{handler="fs"} 5`,
		`acphost_handler_ready{handler="fs"} 1`, `acphost_handler_ready{handler="terminal"} 0`, `acphost_start_time_seconds 1000`,
		`acphost_certificate_expiry_seconds{certificate="admin.tls.cert"} 5000`, `acphost_certificate_renewal_seconds{certificate="admin.tls.cert"} 4000`,
		`# TYPE acphost_turns_total counter`,
	)
	if strings.Contains(text, "s1") || strings.Contains(text, "claude-1") {
		t.Errorf("the id of a session or an agent is a label:\n%s", text)
	}
}

// The number of series and the memory are limited for any names that agents, programs and repositories choose.
func TestMetrics_LimitsSeries(t *testing.T) {
	tel := newTelemetry(t, telemetry.Options{Prometheus: true})
	tel.Called("fs", "fs/read_text_file", time.Millisecond, false)
	for i := range 20000 {
		name := fmt.Sprintf("_evil\n\xff/%d", i)
		if i%2 == 0 {
			name = fmt.Sprintf("evil-%d%s", i, strings.Repeat("x", i%200))
		}
		tel.Decided(&supervisorv1.AuditRecord{Door: name, Verdict: name, Rule: name, Outcome: name, Agent: name, SessionId: name, LatencyMicros: uint32(i)})
		tel.Called(name, name, time.Duration(i), i%2 == 0)
		sum := float64(i) * 1e300
		for _, e := range []*supervisorv1.Event{
			{Event: &supervisorv1.Event_SessionOpened{SessionOpened: &supervisorv1.SessionOpened{}}},
			{Event: &supervisorv1.Event_TurnStarted{TurnStarted: &supervisorv1.TurnStarted{}}},
			{Event: &supervisorv1.Event_Usage{Usage: &supervisorv1.ContextUsage{Cost: &sum, Currency: name}}},
			{Event: &supervisorv1.Event_TurnEnded{TurnEnded: &supervisorv1.TurnEnded{StopReason: name, Usage: &supervisorv1.TokenUsage{Input: math.MaxUint64}}}},
		} {
			e.AgentId, e.SessionId = name, name
			tel.Event(name, e)
		}
	}
	tel.Called("fs", "fs/read_text_file", time.Millisecond, false)
	families, text := scrape(t, tel)
	series := 0
	for _, f := range families {
		series += len(f.GetMetric())
		if len(f.GetMetric()) > 2000 {
			t.Errorf("%s has %d series", f.GetName(), len(f.GetMetric()))
		}
	}
	if series > 5000 || len(text) > 8<<20 {
		t.Errorf("there are %d series, %d bytes", series, len(text))
	}
	expectLines(t, text, `acphost_handler_call_duration_seconds_count{handler="fs",method="fs/read_text_file",outcome="ok"} 2`)
	for _, m := range families["acphost_tokens_total"].GetMetric() {
		if v := m.GetCounter().GetValue(); v < 0 || math.IsInf(v, 0) {
			t.Errorf("so many tokens: %v", v)
		}
	}
	for _, m := range families["acphost_cost_total"].GetMetric() {
		if v := m.GetCounter().GetValue(); v < 0 || math.IsInf(v, 0) {
			t.Errorf("so high a cost: %v", v)
		}
	}
}

func TestMetrics_ServesOnlyGET(t *testing.T) {
	tel := newTelemetry(t, telemetry.Options{Prometheus: true})
	for _, c := range []struct {
		method, path string
		want         int
	}{
		{http.MethodGet, "/", http.StatusNotFound},
		{http.MethodPost, telemetry.Path, http.StatusMethodNotAllowed},
		{http.MethodHead, telemetry.Path, http.StatusOK},
	} {
		w := httptest.NewRecorder()
		tel.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), c.method, c.path, nil))
		if w.Code != c.want {
			t.Errorf("%s %s: got %d, want %d", c.method, c.path, w.Code, c.want)
		}
	}
}

// collector receives reports.
type collector struct {
	collectorv1.UnimplementedMetricsServiceServer
	reports chan *collectorv1.ExportMetricsServiceRequest
	headers chan metadata.MD
}

func (c *collector) Export(ctx context.Context, req *collectorv1.ExportMetricsServiceRequest) (*collectorv1.ExportMetricsServiceResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	select {
	case c.headers <- md:
		c.reports <- req
	default: // one is enough
	}
	return &collectorv1.ExportMetricsServiceResponse{}, nil
}

func collect(t *testing.T) (*collector, string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &collector{reports: make(chan *collectorv1.ExportMetricsServiceRequest, 1), headers: make(chan metadata.MD, 1)}
	server := grpc.NewServer()
	collectorv1.RegisterMetricsServiceServer(server, c)
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Stop(); <-done })
	return c, listener.Addr().String()
}

// Programs of a project may set OTEL_* for whatever runs in its folder: that must not lead reports elsewhere.
func TestOTLP_MetricsIgnoreEnvironment(t *testing.T) {
	stranger, elsewhere := collect(t)
	for name, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + elsewhere, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://" + elsewhere,
		"OTEL_EXPORTER_OTLP_HEADERS": "x-evil=1", "OTEL_RESOURCE_ATTRIBUTES": "evil=1", "OTEL_SERVICE_NAME": "evil",
		"HTTPS_PROXY": "http://" + elsewhere,
	} {
		t.Setenv(name, value)
	}
	c, at := collect(t)
	tel := newTelemetry(t, telemetry.Options{
		OTLP: &telemetry.Collector{Endpoint: at, Insecure: true, Headers: map[string]string{"authorization": "Bearer x"}, Interval: time.Hour}, Version: "v1", Instance: "i1",
	})
	tel.Called("fs", "fs/read_text_file", time.Millisecond, false)
	tel.Close() // reports a last time
	headers, req := <-c.headers, <-c.reports
	if got := headers.Get("authorization"); len(got) != 1 || got[0] != "Bearer x" || len(headers.Get("x-evil")) > 0 {
		t.Errorf("the headers are %v", headers)
	}
	text := req.String()
	for _, part := range []string{"acphost.handler.call.duration", "acphost.agents", "service.instance.id"} {
		if !strings.Contains(text, part) {
			t.Errorf("there is no %q in %s", part, text)
		}
	}
	if strings.Contains(text, "evil") || len(stranger.reports) > 0 {
		t.Errorf("the environment counts: %s", text)
	}
}
