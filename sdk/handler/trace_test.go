package handler_test

import (
	"testing"

	"google.golang.org/grpc/metadata"

	"github.com/acphost/acphost/sdk/handler"
)

func TestTrace_HandlerReadsContextOfCall(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		md            metadata.MD
		parent, state string
	}{
		"none":                  {nil, "", ""},
		"both":                  {metadata.Pairs("traceparent", "00-1", "tracestate", "a=1"), "00-1", "a=1"},
		"a state alone":         {metadata.Pairs("tracestate", "a=1"), "", ""},
		"two, so that none is":  {metadata.Pairs("traceparent", "00-1", "traceparent", "00-2"), "", ""},
		"one, and no state":     {metadata.Pairs("Traceparent", "00-1"), "00-1", ""},
		"other keys altogether": {metadata.Pairs("x", "y"), "", ""},
	} {
		parent, state := handler.TraceContext(metadata.NewIncomingContext(t.Context(), c.md))
		if parent != c.parent || state != c.state {
			t.Errorf("%s: got %q, %q", name, parent, state)
		}
	}
	if parent, _ := handler.TraceContext(t.Context()); parent != "" {
		t.Errorf("without a call: got %q", parent)
	}
}
