// Package span has the types of trace spans that the data path reports to a tracer. It also parses and formats the
// W3C's trace context, with which peers identify a span.
//
// A nil *Span is work that is not traced; its methods do nothing, and cost nothing. Attributes are constant or
// validated text: the caller ensures that they contain no content, no path and no text of an agent.
//
// The package holds types. It must not know who collects spans.
package span

import (
	"context"

	"google.golang.org/grpc/metadata"
)

// Kind is the kind of the peers in a span's work.
type Kind uint8

// The kinds, as in OpenTelemetry.
const (
	Internal Kind = iota // within acphost
	Server               // a peer calls acphost
	Client               // acphost calls a peer
)

// Start has the initial properties of a span.
type Start struct {
	Name string
	Kind Kind
	// Parent is the parent span. If it is not valid, a new trace begins.
	Parent Context
	// Link is another span that caused this one, in another trace. If it is not valid, there is none.
	Link Context
}

// Tracer makes spans. It is called concurrently and must not block.
type Tracer interface {
	Start(s Start) Recorder
}

// Recorder records one span. It is called concurrently and must not block.
type Recorder interface {
	// Context identifies the span to peers.
	Context() Context
	// Set sets an attribute.
	Set(key, value string)
	// End ends the span. failure describes a failure in one word, such as a code; empty: success. A second call does
	// nothing.
	End(failure string)
}

// Span is traced work. Safe for concurrent use. Nil: the work is not traced.
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

// Child begins a child span of s.
func (s *Span) Child(name string, kind Kind) *Span {
	if s == nil {
		return nil
	}
	return Begin(s.tracer, Start{Name: name, Kind: kind, Parent: s.rec.Context()})
}

// Context identifies the span to peers. It is not valid if s is nil.
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

// End ends the span. failure describes a failure in one word; empty: success. Only the first call has an effect.
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

// Continue returns ctx with metadata with which the callees of gRPC calls continue the trace.
func (s *Span) Continue(ctx context.Context) context.Context {
	if s == nil {
		return ctx
	}
	c := s.rec.Context()
	md, _ := metadata.FromOutgoingContext(ctx) // it is a copy
	if md == nil {
		md = metadata.MD{}
	}
	md.Set(Traceparent, c.Traceparent())
	if delete(md, Tracestate); c.State != "" {
		md.Set(Tracestate, c.State)
	}
	return metadata.NewOutgoingContext(ctx, md)
}
