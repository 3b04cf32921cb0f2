// Package telemetry creates metrics and traces of a supervisor, for Prometheus, for an OpenTelemetry collector, or for
// both. It also makes traces of the data path's spans (package span), and sends them to the collector.
//
// It has one set of instruments and two outputs. Callers report events (Decided, Called, Event), and provide a Source
// that is read with the metrics. Session ids, paths, prompts, commands and texts of an agent never become labels, and
// each label has a bounded number of values: see words. A nil *Telemetry measures nothing and costs nothing.
//
// The package knows instruments and their names. It must not know how a supervisor works, and it decides nothing.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/services/supervisor/internal/events/span"
)

const (
	scope = "github.com/acphost/acphost"
	// maxSeries limits the series of one metric, with any labels.
	maxSeries = 2000
	// closeTimeout limits the last report to a collector.
	closeTimeout = 2 * time.Second
)

// Options configure telemetry. Without an output, New returns nil.
type Options struct {
	// Prometheus enables Handler.
	Prometheus bool
	// OTLP is the collector that receives reports. Nil: none.
	OTLP *Collector
	// Source returns the state of the supervisor. Required.
	Source Source
	// Version is acphost's version, Instance identifies this supervisor.
	Version, Instance string
	// Logger logs failures to reach a collector. Nil: nothing is logged.
	Logger *slog.Logger
}

// Telemetry has the instruments. Safe for concurrent use; the methods of a nil one do nothing.
type Telemetry struct {
	provider  *sdkmetric.MeterProvider
	read      *sdkmetric.ManualReader // nil: Prometheus is disabled
	collector *connection             // nil: there is no collector
	tracing   *tracing                // nil: no traces
	measures  measures
	labels    labels
	sessions  sessions
}

// New makes the instruments and, with a collector, begins to report to it. It returns nil if there is no output.
func New(o Options) (*Telemetry, error) {
	if !o.Prometheus && o.OTLP == nil {
		return nil, nil
	}
	t := &Telemetry{labels: newLabels(), sessions: newSessions()}
	res := resource.NewSchemaless(
		attribute.String("service.name", "acphost"),
		attribute.String("service.version", o.Version),
		attribute.String("service.instance.id", o.Instance),
	)
	options := []sdkmetric.Option{
		sdkmetric.WithResource(res),
		sdkmetric.WithCardinalityLimit(maxSeries),
		sdkmetric.WithExemplarFilter(noExemplars),
	}
	if o.Prometheus {
		t.read = sdkmetric.NewManualReader()
		options = append(options, sdkmetric.WithReader(t.read))
	}
	if o.OTLP != nil {
		var err error
		if t.collector, err = connect(o.OTLP, o.Logger); err != nil {
			return nil, err
		}
		if !o.OTLP.NoMetrics {
			reader, err := t.collector.metrics(res)
			if err != nil {
				t.collector.close()
				return nil, fmt.Errorf("report metrics to %s: %w", o.OTLP.Endpoint, err)
			}
			options = append(options, sdkmetric.WithReader(reader))
		}
	}
	t.provider = sdkmetric.NewMeterProvider(options...)
	if err := t.measures.make(t.provider.Meter(scope), o.Source, &t.labels); err != nil {
		t.Close()
		return nil, fmt.Errorf("make the instruments: %w", err)
	}
	if o.OTLP != nil && o.OTLP.Traces != nil {
		var err error
		if t.tracing, err = t.collector.traces(o.OTLP.Traces, res); err == nil {
			err = t.measures.lost(t.provider.Meter(scope), t.tracing)
		}
		if err != nil {
			t.Close()
			return nil, fmt.Errorf("report traces to %s: %w", o.OTLP.Endpoint, err)
		}
	}
	return t, nil
}

// Tracer returns a tracer for the collector. Nil: it gets no traces.
func (t *Telemetry) Tracer() span.Tracer {
	if t == nil || t.tracing == nil {
		return nil // not an interface that contains nil
	}
	return t.tracing
}

// noExemplars disables exemplars.
func noExemplars(context.Context) bool { return false }

// Close sends a last report, within two seconds, and stops reporting.
func (t *Telemetry) Close() { t.CloseBefore(context.Background()) }

// CloseBefore is Close, but gives up the last report when ctx ends.
func (t *Telemetry) CloseBefore(ctx context.Context) {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	var spans sync.WaitGroup
	if t.tracing != nil {
		spans.Go(panics.Guard(nil, "sending the last traces", func() { t.tracing.close(ctx) }))
	}
	err := t.provider.Shutdown(ctx)
	spans.Wait()
	if t.collector != nil {
		if err != nil && !errors.Is(err, sdkmetric.ErrReaderShutdown) {
			t.collector.failed(err)
		}
		t.collector.close()
	}
}

// with returns the labels of one measurement.
func with(labels ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(labels...))
}
