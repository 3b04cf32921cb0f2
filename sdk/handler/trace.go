package handler

import (
	"context"

	"google.golang.org/grpc/metadata"
)

// TraceContext returns the W3C trace context of a call, for a handler that creates spans. traceparent names the
// supervisor's span of the call, and is empty unless the supervisor sends traces. ctx is the context of the service's
// method. Instrumentation of gRPC, such as OpenTelemetry's otelgrpc, reads the same metadata itself.
func TraceContext(ctx context.Context) (traceparent, tracestate string) {
	one := func(key string) string {
		if all := metadata.ValueFromIncomingContext(ctx, key); len(all) == 1 {
			return all[0]
		}
		return ""
	}
	if traceparent = one("traceparent"); traceparent == "" {
		return "", ""
	}
	return traceparent, one("tracestate")
}
