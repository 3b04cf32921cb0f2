package telemetry_test

import (
	"context"
	"encoding/hex"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/services/supervisor/internal/events/span"
	"github.com/acphost/acphost/services/supervisor/internal/events/telemetry"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// traceCollector receives traces, once the test permits it.
type traceCollector struct {
	collectorv1.UnimplementedTraceServiceServer
	entered chan struct{} // a report has come
	let     chan struct{} // closed: reports are taken
	reports chan *collectorv1.ExportTraceServiceRequest
	headers chan metadata.MD
}

func (c *traceCollector) Export(ctx context.Context, req *collectorv1.ExportTraceServiceRequest) (*collectorv1.ExportTraceServiceResponse, error) {
	select {
	case c.entered <- struct{}{}:
	default:
	}
	select {
	case <-c.let:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	md, _ := metadata.FromIncomingContext(ctx)
	c.headers <- md
	c.reports <- req
	return &collectorv1.ExportTraceServiceResponse{}, nil
}

// collectTraces starts a collector, which receives reports once its channel let is closed.
func collectTraces(t *testing.T) (*traceCollector, string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &traceCollector{
		entered: make(chan struct{}, 1), let: make(chan struct{}),
		reports: make(chan *collectorv1.ExportTraceServiceRequest, 100), headers: make(chan metadata.MD, 100),
	}
	server := grpc.NewServer()
	collectorv1.RegisterTraceServiceServer(server, c)
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Stop(); <-done })
	return c, listener.Addr().String()
}

// spans returns all received spans, after the telemetry was closed.
func (c *traceCollector) spans() (all []*tracev1.Span) {
	for len(c.reports) > 0 {
		for _, r := range (<-c.reports).GetResourceSpans() {
			for _, s := range r.GetScopeSpans() {
				all = append(all, s.GetSpans()...)
			}
		}
	}
	return all
}

func tracing(at string, ratio float64) telemetry.Options {
	return telemetry.Options{OTLP: &telemetry.Collector{
		Endpoint: at, Insecure: true, NoMetrics: true, Traces: &telemetry.Traces{Ratio: ratio},
		Headers: map[string]string{"authorization": "Bearer x"},
	}, Version: "v1", Instance: "i1"}
}

func TestTracer_NilWithoutTraces(t *testing.T) {
	var none *telemetry.Telemetry
	if none.Tracer() != nil {
		t.Error("nothing is measured, and there is a tracer")
	}
	before := runtime.NumGoroutine()
	tel := newTelemetry(t, telemetry.Options{Prometheus: true})
	if tel.Tracer() != nil {
		t.Error("nothing is traced, and there is a tracer")
	}
	if n := runtime.NumGoroutine(); n > before { // those of earlier tests may end meanwhile
		t.Errorf("%d goroutines, and %d before", n, before)
	}
	if _, text := scrape(t, tel); strings.Contains(text, "dropped_spans") {
		t.Error("spans are counted, and there are none")
	}
}

func TestOTLP_SpansIgnoreEnvironment(t *testing.T) {
	stranger, elsewhere := collectTraces(t)
	close(stranger.let)
	for name, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + elsewhere, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://" + elsewhere,
		"OTEL_EXPORTER_OTLP_HEADERS": "x-evil=1", "OTEL_RESOURCE_ATTRIBUTES": "evil=1", "OTEL_SERVICE_NAME": "evil",
		"OTEL_TRACES_SAMPLER": "always_off", "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "0", "OTEL_SPAN_LINK_COUNT_LIMIT": "0",
		"OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT": "1", "OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "none", "HTTPS_PROXY": "http://" + elsewhere,
	} {
		t.Setenv(name, value)
	}
	c, at := collectTraces(t)
	close(c.let)
	tel := newTelemetry(t, tracing(at, 1))
	s := span.Begin(tel.Tracer(), span.Start{Name: "outer", Kind: span.Server, Parent: span.Parse(parent, "a=1"), Link: span.Parse(strings.ReplaceAll(parent, "b", "c"), "")})
	s.Set("key", "value")
	s.Set("long", strings.Repeat("x", 1<<20))
	s.Set("empty", "")
	inner := s.Child("inner", span.Client)
	inner.End("NOT_FOUND")
	inner.End("again")
	s.End("")
	span.Begin(tel.Tracer(), span.Start{Name: "never ends"})
	tel.Close()
	headers, req := <-c.headers, <-c.reports
	if got := headers.Get("authorization"); len(got) != 1 || got[0] != "Bearer x" || len(headers.Get("x-evil")) > 0 {
		t.Errorf("the headers are %v", headers)
	}
	text := req.String()
	if strings.Contains(text, "evil") || len(stranger.reports) > 0 || !strings.Contains(text, "i1") {
		t.Errorf("the environment counts: %s", text)
	}
	spans := req.GetResourceSpans()[0].GetScopeSpans()[0].GetSpans()
	if len(spans) != 2 {
		t.Fatalf("there are %d spans", len(spans))
	}
	in, out := spans[0], spans[1]
	if in.GetName() != "inner" || in.GetKind() != tracev1.Span_SPAN_KIND_CLIENT || in.GetStatus().GetCode() != tracev1.Status_STATUS_CODE_ERROR ||
		in.GetStatus().GetMessage() != "" || string(in.GetParentSpanId()) != string(out.GetSpanId()) || len(in.GetAttributes()) != 1 {
		t.Errorf("the inner span is %v", in)
	}
	if hex.EncodeToString(out.GetTraceId()) != "0af7651916cd43dd8448eb211c80319c" || hex.EncodeToString(out.GetParentSpanId()) != "b7ad6b7169203331" ||
		out.GetTraceState() != "a=1" || out.GetStatus().GetCode() != tracev1.Status_STATUS_CODE_UNSET || len(out.GetLinks()) != 1 || len(out.GetAttributes()) != 2 {
		t.Errorf("the outer span is %v", out)
	}
	for _, a := range out.GetAttributes() {
		if n := len(a.GetValue().GetStringValue()); n > 1024 {
			t.Errorf("%s has %d bytes", a.GetKey(), n)
		}
	}
}

func TestSampling_ClientDecisionBeforeRatio(t *testing.T) {
	c, at := collectTraces(t)
	close(c.let)
	tel := newTelemetry(t, tracing(at, 0))
	span.Begin(tel.Tracer(), span.Start{Name: "ours"}).End("")
	ours := span.Begin(tel.Tracer(), span.Start{Name: "ours too"})
	if context := ours.Context(); !context.Valid() || context.Sampled {
		t.Errorf("an unrecorded span has the name %+v", context)
	}
	ours.Child("a part of ours", span.Internal).End("")
	yes := span.Begin(tel.Tracer(), span.Start{Name: "recorded", Parent: span.Parse(parent, "no state of vendors")})
	yes.Child("a part of it", span.Internal).End("")
	yes.End("")
	span.Begin(tel.Tracer(), span.Start{Name: "not recorded", Parent: span.Parse(strings.TrimSuffix(parent, "1")+"0", "")}).End("")
	tel.Close()
	spans := c.spans()
	if len(spans) != 2 || spans[0].GetName() != "a part of it" || spans[1].GetName() != "recorded" || spans[1].GetTraceState() != "" {
		t.Errorf("recorded are %v", spans)
	}
}

// A collector that does not respond blocks no caller: spans are queued up to a limit, further ones are dropped and
// counted, and the shutdown waits two seconds.
func TestOTLP_SlowCollectorBlocksNothing(t *testing.T) {
	c, at := collectTraces(t)
	o := tracing(at, 1)
	o.Prometheus = true
	tel := newTelemetry(t, o)
	end := func(n int) {
		for range n {
			span.Begin(tel.Tracer(), span.Start{Name: "x"}).End("")
		}
	}
	end(512)
	<-c.entered // which waits from now on
	end(4096 + 1000)
	_, text := scrape(t, tel)
	expectLines(t, text, `acphost_dropped_spans_total{reason="queue"} 1000`, `acphost_dropped_spans_total{reason="collector"} 0`)
	began := time.Now()
	tel.Close()
	if took := time.Since(began); took > testkit.Scale(8*time.Second) { // 2 s, on an idle machine
		t.Errorf("the end took %v", took)
	}
}

func TestOTLP_CountsLostSpans(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := listener.Addr().String()
	_ = listener.Close()
	o := tracing(at, 1)
	o.Prometheus = true
	tel := newTelemetry(t, o)
	for range 512 {
		span.Begin(tel.Tracer(), span.Start{Name: "x"}).End("")
	}
	if !testkit.Poll(func() bool {
		_, text := scrape(t, tel)
		return strings.Contains(text, `acphost_dropped_spans_total{reason="collector"} 512`)
	}) {
		_, text := scrape(t, tel)
		t.Errorf("the spans that were lost are not counted:\n%s", text)
	}
}
