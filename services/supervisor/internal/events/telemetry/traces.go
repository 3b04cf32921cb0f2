package telemetry

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/services/supervisor/internal/events/span"
)

const (
	// maxSpans is the limit of queued spans. Further ones are dropped, and counted.
	maxSpans = 4096
	// maxBatch is the limit of spans in one report, batchWait the time to wait for more.
	maxBatch  = 512
	batchWait = 2 * time.Second
	// maxAttributes and maxAttribute limit the attributes of one span; the latter is the length of one, in bytes.
	maxAttributes = 32
	maxAttribute  = 1024
)

// Traces configures the traces for a collector.
type Traces struct {
	// Ratio is the recorded fraction of the traces that acphost begins, 0 to 1. A trace that a client began is recorded
	// if the client records it.
	Ratio float64
}

// tracing makes spans and sends them. It implements span.Tracer. Ended spans wait in a bounded queue for one goroutine,
// which sends them, so that ending a span does not block.
type tracing struct {
	tracer   trace.Tracer
	exporter *otlptrace.Exporter
	to       *connection
	who      *resource.Resource

	queue  chan sdktrace.ReadOnlySpan
	ending chan struct{} // closed by close: queued spans are sent, and further ones dropped
	ended  chan struct{} // closed after the last report
	cut    context.CancelFunc
	once   sync.Once

	overflowed, failed atomic.Uint64 // spans that were lost: the queue was full, or the collector did not accept them
}

// traces makes the sender of spans.
func (c *connection) traces(o *Traces, res *resource.Resource) (*tracing, error) {
	headers := map[string]string{} // not nil, because nil would use the environment's
	maps.Copy(headers, c.Headers)
	exporter, err := otlptracegrpc.New(context.Background(),
		otlptracegrpc.WithGRPCConn(c.conn), otlptracegrpc.WithHeaders(headers), otlptracegrpc.WithTimeout(exportTimeout),
		// The spans queued behind them would be lost.
		otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{Enabled: false}))
	if err != nil {
		return nil, err
	}
	ctx, cut := context.WithCancel(context.Background())
	t := &tracing{
		exporter: exporter, to: c, who: res, cut: cut,
		queue: make(chan sdktrace.ReadOnlySpan, maxSpans), ending: make(chan struct{}), ended: make(chan struct{}),
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(o.Ratio))),
		sdktrace.WithRawSpanLimits(sdktrace.SpanLimits{
			AttributeCountLimit: maxAttributes, AttributeValueLengthLimit: maxAttribute, LinkCountLimit: 1, AttributePerLinkCountLimit: 1,
		}),
		sdktrace.WithSpanProcessor(processor{t}),
	)
	t.tracer = provider.Tracer(scope)
	go panics.Guard(nil, "sending traces", func() { t.run(ctx) })()
	return t, nil
}

// run sends spans until close.
func (t *tracing) run(ctx context.Context) {
	defer close(t.ended)
	var batch []sdktrace.ReadOnlySpan
	soon := time.NewTimer(batchWait)
	defer soon.Stop()
	for {
		select {
		case s := <-t.queue:
			if batch = append(batch, s); len(batch) == 1 {
				soon.Reset(batchWait)
			}
			if len(batch) < maxBatch {
				continue
			}
		case <-soon.C:
		case <-t.ending:
			for len(t.queue) > 0 {
				if batch = append(batch, <-t.queue); len(batch) == maxBatch {
					batch = t.send(ctx, batch)
				}
			}
			t.send(ctx, batch)
			return
		}
		batch = t.send(ctx, batch)
	}
}

// send sends spans, and returns an empty batch.
func (t *tracing) send(ctx context.Context, batch []sdktrace.ReadOnlySpan) []sdktrace.ReadOnlySpan {
	if len(batch) == 0 {
		return nil
	}
	if err := t.exporter.ExportSpans(ctx, batch); err != nil {
		t.failed.Add(uint64(len(batch)))
		t.to.failed(err)
	}
	clear(batch)
	return batch[:0]
}

// close sends the queued spans, until ctx ends, and stops the goroutine.
func (t *tracing) close(ctx context.Context) {
	t.once.Do(func() { close(t.ending) })
	stop := context.AfterFunc(ctx, t.cut)
	<-t.ended
	stop()
	t.cut()
	_ = t.exporter.Shutdown(ctx)
}

// lost returns the number of spans that did not reach the collector, by reason.
func (t *tracing) lost() (overflowed, failed uint64) {
	return t.overflowed.Load(), t.failed.Load()
}

// processor puts ended spans into the queue. It implements sdktrace.SpanProcessor.
type processor struct{ *tracing }

func (processor) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

func (p processor) OnEnd(s sdktrace.ReadOnlySpan) {
	select {
	case p.queue <- resourceSpan{s, p.who}:
	default:
		p.overflowed.Add(1)
	}
}

func (processor) Shutdown(context.Context) error   { return nil }
func (processor) ForceFlush(context.Context) error { return nil }

// resourceSpan is a span with a fixed resource, because the provider has added the environment's attributes.
type resourceSpan struct {
	sdktrace.ReadOnlySpan
	who *resource.Resource
}

func (w resourceSpan) Resource() *resource.Resource { return w.who }

// Start implements span.Tracer.
func (t *tracing) Start(s span.Start) span.Recorder {
	ctx := context.Background()
	if s.Parent.Valid() {
		ctx = trace.ContextWithSpanContext(ctx, named(s.Parent))
	}
	options := []trace.SpanStartOption{trace.WithSpanKind([...]trace.SpanKind{
		span.Internal: trace.SpanKindInternal, span.Server: trace.SpanKindServer, span.Client: trace.SpanKindClient,
	}[s.Kind])}
	if s.Link.Valid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: named(s.Link)}))
	}
	_, made := t.tracer.Start(ctx, s.Name, options...)
	return recording{made}
}

// named converts a span's context to OpenTelemetry's. It drops an invalid tracestate.
func named(c span.Context) trace.SpanContext {
	config := trace.SpanContextConfig{TraceID: c.TraceID, SpanID: c.SpanID, Remote: c.Remote}
	if c.Sampled {
		config.TraceFlags = trace.FlagsSampled
	}
	config.TraceState, _ = trace.ParseTraceState(c.State)
	return trace.NewSpanContext(config)
}

// recording is a span that is recorded, or one that is not sampled. It implements span.Recorder.
type recording struct{ span trace.Span }

func (r recording) Context() span.Context {
	c := r.span.SpanContext()
	return span.Context{TraceID: c.TraceID(), SpanID: c.SpanID(), Sampled: c.IsSampled(), State: c.TraceState().String()}
}

func (r recording) Set(key, value string) { r.span.SetAttributes(attribute.String(key, value)) }

// End implements span.Recorder. The attribute is that of OpenTelemetry's conventions. It contains no error text, which
// may contain paths and contents.
func (r recording) End(failure string) {
	if failure != "" {
		r.span.SetAttributes(attribute.String("error.type", failure))
		r.span.SetStatus(codes.Error, "")
	}
	r.span.End()
}
