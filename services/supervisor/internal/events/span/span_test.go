package span_test

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"

	"github.com/acphost/acphost/services/supervisor/internal/events/span"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestParse_TraceContext(t *testing.T) {
	t.Parallel()
	c := span.Parse(parent, "a=1")
	if !c.Valid() || !c.Sampled || c.State != "a=1" || c.Traceparent() != parent {
		t.Errorf("%s became %+v, %s", parent, c, c.Traceparent())
	}
	if c := span.Parse(strings.TrimSuffix(parent, "1")+"0", ""); !c.Valid() || c.Sampled {
		t.Errorf("not sampled: %+v", c)
	}
	if c := span.Parse("01"+parent[2:]+"-what-comes", ""); !c.Valid() || c.Traceparent() != parent {
		t.Errorf("a version to come: %+v", c)
	}
	for name, p := range map[string]string{
		"none":                    "",
		"garbage":                 "garbage",
		"1 MB":                    strings.Repeat("0", 1<<20),
		"1 MB that begins well":   "01" + parent[2:] + "-" + strings.Repeat("0", 1<<20),
		"a version that is none":  "ff" + parent[2:],
		"more than version 00":    parent + "-00",
		"no dash before the rest": "01" + parent[2:] + "x",
		"capitals":                strings.ToUpper(parent),
		"no hexadecimal":          strings.Replace(parent, "b7ad", "b7ag", 1),
		"no trace":                "00-00000000000000000000000000000000-b7ad6b7169203331-01",
		"no span":                 "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
		"a line break":            parent + "\n",
		"a space":                 " " + parent[1:],
	} {
		if c := span.Parse(p, ""); c.Valid() || c != (span.Context{}) {
			t.Errorf("%s: got %+v", name, c)
		}
	}
	for _, state := range []string{strings.Repeat("a", 513), "a=\x00", "ä=1"} {
		if c := span.Parse(parent, state); !c.Valid() || c.State != "" {
			t.Errorf("with the state %.20q: got %+v", state, c)
		}
	}
}

func TestBegin_UntracedAllocatesNothing(t *testing.T) {
	ctx := context.Background()
	if n := testing.AllocsPerRun(100, func() {
		s := span.Begin(nil, span.Start{Name: "x", Parent: span.Context{Sampled: true}})
		child := s.Child("y", span.Client)
		child.Set("a", "b")
		if child != nil || child.Continue(ctx) != ctx || child.Context().Valid() {
			t.Error("there is a span")
		}
		child.End("")
		s.End("x")
	}); n != 0 {
		t.Errorf("to trace nothing takes %v allocations", n)
	}
}

// fixed is a tracer whose spans all have one context.
type fixed struct{ Context span.Context }

func (f fixed) Start(span.Start) span.Recorder { return recorder{f.Context} }

type recorder struct{ c span.Context }

func (r recorder) Context() span.Context { return r.c }
func (recorder) Set(string, string)      {}
func (recorder) End(string)              {}

func TestContinue_MetadataNamesSpan(t *testing.T) {
	t.Parallel()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "other", "kept", span.Traceparent, "an outer one", span.Tracestate, "an outer one")
	s := span.Begin(fixed{span.Parse(parent, "")}, span.Start{Name: "x"})
	md, _ := metadata.FromOutgoingContext(s.Continue(ctx))
	if got := md.Get(span.Traceparent); len(got) != 1 || got[0] != parent {
		t.Errorf("traceparent: %q", got)
	}
	if len(md.Get(span.Tracestate)) != 0 || len(md.Get("other")) != 1 {
		t.Errorf("metadata: %v", md)
	}
	if outer, _ := metadata.FromOutgoingContext(ctx); outer.Get(span.Traceparent)[0] != "an outer one" {
		t.Error("the outer context was changed")
	}
}
