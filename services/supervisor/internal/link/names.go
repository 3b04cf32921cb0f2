package link

import (
	"bytes"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc/lex"
)

// ownMethods is the namespace of methods by which acphost says something in its own name. No peer has a word in it.
const ownMethods = "_acphost/"

// Names are the ids that a supervisor gives to what it shows and asks: tool calls and questions of its own. They begin
// alike, with 128 random bits, so that whatever else bears such a name is known for an imitation, and that another
// supervisor's names, as of one that runs below this one, are not mistaken for them. Safe for concurrent use.
type Names struct {
	prefix string
	quoted []byte      // how such an id begins in JSON
	issued atomic.Bool // somebody may know the prefix
}

// NewNames returns names that nobody can guess.
func NewNames() *Names {
	prefix := "acphost-" + jsonrpc.NewID() + "-"
	return &Names{prefix: prefix, quoted: []byte(`"` + prefix)}
}

// next returns an id of acphost's own that ends with about.
func (n *Names) next(about string) string {
	n.issued.Store(true)
	return n.prefix + about
}

// is reports whether a JSON-RPC id is one of ours, however it is spelled.
func (n *Names) is(id []byte) bool {
	return strings.HasPrefix(jsonrpc.CanonicalID(id), string(n.quoted))
}

// in reports whether a line has a string in it that is one of our ids, or that a lenient reader could take for one: with
// escapes, or with characters between that do not show or are no ASCII, which some readers drop. Where the string stands
// does not count, nor how often. scratch is used again.
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

// appendVisible appends the ASCII characters of valid JSON that show, with their escapes resolved. A quote that is escaped
// begins no string; it becomes a NUL.
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

// spentFor reports whether the agent must not use an id for a request with a method. An agent can learn the id of a question
// of acphost's own. If it used the id again after the question has ended, a late answer to that question would count for the
// new one.
func (l *Link) spentFor(method string, id []byte) bool {
	question := method == acp.MethodRequestPermission || method == acp.MethodElicitationCreate
	if question && l.opts.Names.is(id) {
		return true
	}
	return (question || !l.opts.Program) && l.questions.Spent(id)
}

// imitated counts a message of a peer's that used a name of ours, and says so once.
func (l *Link) imitated(peer, what string, line []byte) {
	l.counters.imitated.Add(1)
	if l.saidImitated.CompareAndSwap(false, true) {
		l.log.Warn("the "+peer+" used a name of acphost's own; it was dropped, and so are more like it, which are counted alone",
			"what", what, "bytes", len(line), "begins", excerpt(line))
	}
}

const (
	imitatesCall   = "the id of something that acphost shows or asks"
	imitatesMethod = "a method that begins with " + ownMethods
	// imitatesTerminal: acphost alone tells the client what its terminals write, and how they end.
	imitatesTerminal = "the output of a terminal that acphost shows"
)
