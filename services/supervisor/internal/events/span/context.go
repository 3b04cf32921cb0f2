package span

import (
	"encoding/hex"
	"strings"
)

// Context identifies a span to peers, as in the W3C's Trace Context. The zero Context identifies none.
type Context struct {
	TraceID [16]byte
	SpanID  [8]byte
	// Sampled reports whether the peer that began the trace records it.
	Sampled bool
	// State is the tracestate: additions of vendors.
	State string
	// Remote reports whether the span belongs to another program.
	Remote bool
}

// Valid reports whether c identifies a span.
func (c Context) Valid() bool { return c.TraceID != [16]byte{} && c.SpanID != [8]byte{} }

// Lengths of a traceparent of version 00, and the limits of accepted values. The W3C requires support for a tracestate
// of at least 512 characters.
const (
	parentLength = 55 // VERSION-TRACE-SPAN-FLAGS, 2, 32, 16 and 2 digits
	maxParent    = 256
	maxState     = 512
)

// Parse parses a trace context from a peer. The result is invalid unless the traceparent is strictly valid. A
// tracestate that is too long, or contains other characters than printable ASCII, is dropped.
func Parse(traceparent, tracestate string) Context {
	var c Context
	p := traceparent
	if len(p) < parentLength || len(p) > maxParent || p[2] != '-' || p[35] != '-' || p[52] != '-' || p[:2] == "ff" ||
		len(p) > parentLength && (p[:2] == "00" || p[parentLength] != '-') { // future versions may have more members
		return Context{}
	}
	var version, flags [1]byte
	for _, field := range []struct {
		into []byte
		text string
	}{{version[:], p[:2]}, {c.TraceID[:], p[3:35]}, {c.SpanID[:], p[36:52]}, {flags[:], p[53:55]}} {
		if strings.ToLower(field.text) != field.text {
			return Context{}
		}
		if _, err := hex.Decode(field.into, []byte(field.text)); err != nil {
			return Context{}
		}
	}
	if !c.Valid() {
		return Context{}
	}
	c.Sampled, c.Remote = flags[0]&1 != 0, true
	if len(tracestate) <= maxState && !strings.ContainsFunc(tracestate, func(r rune) bool { return r < ' ' || r > '~' }) {
		c.State = tracestate
	}
	return c
}

// Traceparent returns c in the form of the W3C.
func (c Context) Traceparent() string {
	b := make([]byte, 0, parentLength)
	b = hex.AppendEncode(append(b, "00-"...), c.TraceID[:])
	b = hex.AppendEncode(append(b, '-'), c.SpanID[:])
	if c.Sampled {
		return string(append(b, "-01"...))
	}
	return string(append(b, "-00"...))
}
