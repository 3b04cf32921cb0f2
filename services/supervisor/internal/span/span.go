// Package span has the types of trace spans that the data path reports to a tracer. It also reads and writes the trace
// context of the W3C, by which peers name a span.
//
// A nil *Span stands for work that is not traced; its methods do nothing, and cost nothing. Attributes are text that acphost
// chose, or that was checked: whoever sets one sees to it that it has no content, no path and no text of an agent.
//
// The package holds types. It must not know who collects spans.
package span

import (
	"context"

	"google.golang.org/grpc/metadata"
)

// Kind says between whom a span's work is done.
type Kind uint8

// The kinds, as OpenTelemetry has them.
const (
	Internal Kind = iota // within acphost
	Server               // a peer asked acphost
	Client               // acphost asks a peer
)

// Start says what a span begins with.
type Start struct {
	Name string
	Kind Kind
	// Parent is the span that it is a part of. If it is not valid, a new trace begins.
	Parent Context
	// Link is another span that caused it, of a trace that it does not belong to. If it is not valid, there is none.
	Link Context
}

// Tracer makes spans. It is called concurrently and must not wait.
type Tracer interface {
	Start(s Start) Recorder
}

// Recorder takes what is told of one span. It is called concurrently and must not wait.
type Recorder interface {
	// Context names the span to others.
	Context() Context
	// Set sets an attribute.
	Set(key, value string)
	// End ends the span. failure says in one word, such as a code, how the work failed; empty: it did not. A second call does
	// nothing.
	End(failure string)
}

// Span is a piece of work that is traced. Safe for concurrent use. Nil: the work is not traced.
type Span struct {
	tracer Tracer
	rec    Recorder
}

// Begin begins a span; nil if there is no tracer.
func Begin(t Tracer, s Start) *Span {
	if t == nil {
		return nil
	}
	return &Span{tracer: t, rec: t.Start(s)}
}

// Child begins a span that is a part of s.
func (s *Span) Child(name string, kind Kind) *Span {
	if s == nil {
		return nil
	}
	return Begin(s.tracer, Start{Name: name, Kind: kind, Parent: s.rec.Context()})
}

// Context names the span to others. It is not valid if s is nil.
func (s *Span) Context() Context {
	if s == nil {
		return Context{}
	}
	return s.rec.Context()
}

// Set sets an attribute, unless the value is empty.
func (s *Span) Set(key, value string) {
	if s != nil && value != "" {
		s.rec.Set(key, value)
	}
}

// End ends the span. failure says in one word how the work failed; empty: it did not. Only the first call counts.
func (s *Span) End(failure string) {
	if s != nil {
		s.rec.End(failure)
	}
}

// The names of the trace context: members of ACP's _meta, and keys of gRPC's metadata.
const (
	Traceparent = "traceparent"
	Tracestate  = "tracestate"
)

// Continue returns ctx with metadata by which those who are called through gRPC continue the trace.
func (s *Span) Continue(ctx context.Context) context.Context {
	if s == nil {
		return ctx
	}
	c := s.rec.Context()
	md, _ := metadata.FromOutgoingContext(ctx) // which is a copy
	if md == nil {
		md = metadata.MD{}
	}
	md.Set(Traceparent, c.Traceparent())
	if delete(md, Tracestate); c.State != "" {
		md.Set(Tracestate, c.State)
	}
	return metadata.NewOutgoingContext(ctx, md)
}
