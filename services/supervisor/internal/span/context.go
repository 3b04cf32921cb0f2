package span

import (
	"encoding/hex"
	"strings"
)

// Context names a span to others, as the Trace Context of the W3C does. The zero Context names none.
type Context struct {
	TraceID [16]byte
	SpanID  [8]byte
	// Sampled: whoever began the trace records it.
	Sampled bool
	// State is the tracestate: what vendors add.
	State string
	// Remote: the span is another program's.
	Remote bool
}

// Valid reports whether c names a span.
func (c Context) Valid() bool { return c.TraceID != [16]byte{} && c.SpanID != [8]byte{} }

// Lengths of a traceparent of version 00, and of the longest values that are read. The W3C has a tracestate pass with 512
// characters at least.
const (
	parentLength = 55 // VERSION-TRACE-SPAN-FLAGS, 2, 32, 16 and 2 digits
	maxParent    = 256
	maxState     = 512
)

// Parse reads a trace context that a peer has sent. It is not valid unless the traceparent is one, to the letter: a peer may
// send anything. A tracestate that is too long, or has other characters than printable ASCII, is left out.
func Parse(traceparent, tracestate string) Context {
	var c Context
	p := traceparent
	if len(p) < parentLength || len(p) > maxParent || p[2] != '-' || p[35] != '-' || p[52] != '-' || p[:2] == "ff" ||
		len(p) > parentLength && (p[:2] == "00" || p[parentLength] != '-') { // versions to come may have more
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

// Traceparent is c as the W3C writes it.
func (c Context) Traceparent() string {
	b := make([]byte, 0, parentLength)
	b = hex.AppendEncode(append(b, "00-"...), c.TraceID[:])
	b = hex.AppendEncode(append(b, '-'), c.SpanID[:])
	if c.Sampled {
		return string(append(b, "-01"...))
	}
	return string(append(b, "-00"...))
}
