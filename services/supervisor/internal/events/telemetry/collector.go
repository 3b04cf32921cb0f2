package telemetry

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	defaultInterval = time.Minute
	exportTimeout   = 10 * time.Second
	// logInterval is the minimum time between two logged failures.
	logInterval = 10 * time.Minute
)

// Collector is an OpenTelemetry collector that accepts OTLP over gRPC.
type Collector struct {
	// Endpoint is its "HOST:PORT". Required.
	Endpoint string
	// Insecure disables TLS.
	Insecure bool
	// CA is the authority of its certificate, in PEM. Empty: the system's authorities.
	CA []byte
	// Headers are sent with each call.
	Headers map[string]string
	// Interval is the time between two reports of the metrics. Default: a minute.
	Interval time.Duration
	// NoMetrics disables sending metrics.
	NoMetrics bool
	// Traces configures the traces that are sent. Nil: none.
	Traces *Traces
}

// connection is a connection to a collector. The environment (OTEL_*) has no effect: all values that the exporters
// would read there are set, or belong to the connection.
type connection struct {
	*Collector
	conn   *grpc.ClientConn
	logger *slog.Logger

	mu   sync.Mutex
	said time.Time // guarded by mu: time of the last log entry
}

// connect makes the connection, which is dialled with the first report.
func connect(c *Collector, logger *slog.Logger) (*connection, error) {
	secure := insecure.NewCredentials()
	if !c.Insecure {
		config := &tls.Config{MinVersion: tls.VersionTLS12}
		if len(c.CA) > 0 {
			config.RootCAs = x509.NewCertPool()
			if !config.RootCAs.AppendCertsFromPEM(c.CA) {
				return nil, fmt.Errorf("report to %s: the authority's file holds no certificate in PEM", c.Endpoint)
			}
		}
		secure = credentials.NewTLS(config)
	}
	conn, err := grpc.NewClient("dns:///"+c.Endpoint, grpc.WithTransportCredentials(secure), grpc.WithNoProxy())
	if err != nil {
		return nil, fmt.Errorf("report to %s: %w", c.Endpoint, err)
	}
	return &connection{Collector: c, conn: conn, logger: cmp.Or(logger, slog.New(slog.DiscardHandler))}, nil
}

// metrics returns a reader that sends the metrics at intervals.
func (c *connection) metrics(res *resource.Resource) (sdkmetric.Reader, error) {
	headers := map[string]string{} // not nil, because nil would use the environment's
	maps.Copy(headers, c.Headers)
	exporter, err := otlpmetricgrpc.New(context.Background(),
		otlpmetricgrpc.WithGRPCConn(c.conn), otlpmetricgrpc.WithHeaders(headers), otlpmetricgrpc.WithTimeout(exportTimeout),
		otlpmetricgrpc.WithTemporalitySelector(sdkmetric.DefaultTemporalitySelector),
		otlpmetricgrpc.WithRetry(otlpmetricgrpc.RetryConfig{Enabled: false})) // the next report has all data
	if err != nil {
		return nil, err
	}
	return sdkmetric.NewPeriodicReader(metricsExporter{exporter, c, res}, sdkmetric.WithInterval(cmp.Or(c.Interval, defaultInterval)), sdkmetric.WithTimeout(exportTimeout)), nil
}

// failed logs that a report did not arrive, at most once per logInterval.
func (c *connection) failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.said.IsZero() || time.Since(c.said) >= logInterval {
		c.said = time.Now()
		c.logger.Warn("the collector (telemetry.otlp) did not take a report; further failures within ten minutes are not logged", "endpoint", c.Endpoint, "error", err)
	}
}

func (c *connection) close() { _ = c.conn.Close() }

// metricsExporter is an exporter with a fixed resource, whose failures acphost logs.
type metricsExporter struct {
	sdkmetric.Exporter
	to  *connection
	who *resource.Resource
}

// Export implements sdkmetric.Exporter. It replaces the resource, because the provider has added the environment's
// attributes. It logs a failure, and the next report contains the data of this one.
func (t metricsExporter) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	m.Resource = t.who
	if err := t.Exporter.Export(ctx, m); err != nil {
		t.to.failed(err)
	}
	return nil
}
