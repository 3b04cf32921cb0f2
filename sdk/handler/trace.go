package handler

import (
	"context"

	"google.golang.org/grpc/metadata"
)

// TraceContext returns the trace context of the W3C that a call came with, for a handler that makes spans of its own: traceparent
// names the supervisor's span of the call, and is empty unless the supervisor sends traces. ctx is the one that the method of the
// service got. Instrumentation of gRPC, such as OpenTelemetry's otelgrpc, reads the same metadata itself.
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
