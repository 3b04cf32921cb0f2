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
	// sayAgain is how long after a failure was logged another one is.
	sayAgain = 10 * time.Minute
)

// Collector is a collector of OpenTelemetry, reached by OTLP over gRPC.
type Collector struct {
	// Endpoint is its "HOST:PORT". Required.
	Endpoint string
	// Insecure: without TLS.
	Insecure bool
	// CA is the PEM of the authority of its certificate. Empty: the system's authorities.
	CA []byte
	// Headers go with each call.
	Headers map[string]string
	// Interval is the time between two reports of the metrics. Default: a minute.
	Interval time.Duration
	// NoMetrics: it gets no metrics.
	NoMetrics bool
	// Traces are those that it gets. Nil: none.
	Traces *Traces
}

// connection is a connection to a collector. What the environment says (OTEL_*) does not count: all that the exporters would
// read there is set, or belongs to the connection.
type connection struct {
	*Collector
	conn   *grpc.ClientConn
	logger *slog.Logger

	mu   sync.Mutex
	said time.Time // guarded by mu: when a failure was logged
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

// metrics returns what reports the metrics from time to time.
func (c *connection) metrics(who *resource.Resource) (sdkmetric.Reader, error) {
	headers := map[string]string{} // not nil, or the environment's would count
	maps.Copy(headers, c.Headers)
	exporter, err := otlpmetricgrpc.New(context.Background(),
		otlpmetricgrpc.WithGRPCConn(c.conn), otlpmetricgrpc.WithHeaders(headers), otlpmetricgrpc.WithTimeout(exportTimeout),
		otlpmetricgrpc.WithTemporalitySelector(sdkmetric.DefaultTemporalitySelector),
		otlpmetricgrpc.WithRetry(otlpmetricgrpc.RetryConfig{Enabled: false})) // the next report has it all
	if err != nil {
		return nil, err
	}
	return sdkmetric.NewPeriodicReader(told{exporter, c, who}, sdkmetric.WithInterval(cmp.Or(c.Interval, defaultInterval)), sdkmetric.WithTimeout(exportTimeout)), nil
}

// failed logs that a report did not arrive, once in a while.
func (c *connection) failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.said.IsZero() || time.Since(c.said) >= sayAgain {
		c.said = time.Now()
		c.logger.Warn("the collector (telemetry.otlp) did not take a report; further failures within ten minutes are not logged", "endpoint", c.Endpoint, "error", err)
	}
}

func (c *connection) close() { _ = c.conn.Close() }

// told is an exporter of who reports, whose failures are logged as acphost logs.
type told struct {
	sdkmetric.Exporter
	to  *connection
	who *resource.Resource
}

// Export implements sdkmetric.Exporter. The provider has put the environment's attributes into the resource: they do not count. A failure is logged here, and the next report has what this one had.
func (t told) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	m.Resource = t.who
	if err := t.Exporter.Export(ctx, m); err != nil {
		t.to.failed(err)
	}
	return nil
}
