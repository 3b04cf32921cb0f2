package link

import (
	"bytes"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc/lex"
)

// ownMethods is the prefix of acphost's own methods. Peers must not use it.
const ownMethods = "_acphost/"

// Names creates the ids of acphost's own tool calls and questions. All ids of a supervisor begin with the same 128 random bits. So any
// other message with such an id is an imitation, and ids of another supervisor, such as one that runs below this one, are not mistaken for
// them. Safe for concurrent use.
type Names struct {
	prefix string
	quoted []byte      // the start of such an id in JSON
	issued atomic.Bool // a peer may know the prefix
}

// NewNames returns Names with a new random prefix.
func NewNames() *Names {
	prefix := "acphost-" + jsonrpc.NewID() + "-"
	return &Names{prefix: prefix, quoted: []byte(`"` + prefix)}
}

// next returns an id that ends with about.
func (n *Names) next(about string) string {
	n.issued.Store(true)
	return n.prefix + about
}

// is reports whether a JSON-RPC id is one of these names, in any spelling.
func (n *Names) is(id []byte) bool {
	return strings.HasPrefix(jsonrpc.CanonicalID(id), string(n.quoted))
}

// in reports whether a line contains a string that is one of these names, or that a lenient reader could take for one: with escapes, or
// with invisible or non-ASCII characters in between, which some readers drop. The position and the number of such strings do not matter.
// scratch is a buffer for reuse.
func (n *Names) in(line []byte, scratch *[]byte) bool {
	if !n.issued.Load() {
		return false
	}
	if lex.VisibleEnd(line, 0) >= len(line)-1 { // all but the line feed
		return bytes.Contains(line, n.quoted)
	}
	*scratch = appendVisible((*scratch)[:0], line)
	return bytes.Contains(*scratch, n.quoted)
}

// appendVisible appends the visible ASCII characters of valid JSON, with their escapes resolved. An escaped quote begins no string; it
// becomes a NUL.
func appendVisible(dst, line []byte) []byte {
	for i := 0; i < len(line); i++ {
		plain := lex.VisibleEnd(line, i)
		dst = append(dst, line[i:plain]...)
		if i = plain; i+1 >= len(line) || line[i] != '\\' {
			continue
		}
		i++
		c := line[i]
		switch c {
		case 'u':
			digits := line[min(i+1, len(line)):min(i+5, len(line))]
			r, err := strconv.ParseUint(string(digits), 16, 16)
			if i += len(digits); err != nil || r < ' ' || r >= 0x7f {
				continue
			}
			c = byte(r)
		case 'b', 'f', 'n', 'r', 't':
			continue
		}
		if c == '"' {
			c = 0
		}
		dst = append(dst, c)
	}
	return dst
}

// spentFor reports whether the agent must not use an id for a request with a method. An agent can learn the id of acphost's own question.
// If it reused the id after the question has ended, a late answer to that question would count for the new one.
func (l *Link) spentFor(method string, id []byte) bool {
	question := method == acp.MethodRequestPermission || method == acp.MethodElicitationCreate
	if question && l.opts.Names.is(id) {
		return true
	}
	return (question || !l.opts.Program) && l.questions.Spent(id)
}

// imitated counts a peer's message that used one of these names, and logs the first one.
func (l *Link) imitated(peer, what string, line []byte) {
	l.counters.imitated.Add(1)
	if l.loggedImitated.CompareAndSwap(false, true) {
		l.log.Warn("the "+peer+" used a name of acphost's own; it was dropped, and so are more like it, which are counted alone",
			"what", what, "bytes", len(line), "begins", excerpt(line))
	}
}

const (
	imitatesCall   = "the id of something that acphost shows or asks"
	imitatesMethod = "a method that begins with " + ownMethods
	// imitatesTerminal: only acphost sends the client the output and the exit of its terminals.
	imitatesTerminal = "the output of a terminal that acphost shows"
)
