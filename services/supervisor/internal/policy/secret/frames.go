package secret

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/acphost/acphost/internal/secretname"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc/lex"
)

// Names in place of a handler: for a line that was not forwarded because it is invalid or ambiguous, and for a request
// that the gate decides on.
const (
	refused = "refused"
	gate    = "gate"
)

// maxNoise limits the bytes of an invalid line that are searched.
const maxNoise = 64 << 10

// Frames removes secrets from the frames of one agent: the environments and headers of MCP servers and of model
// providers, and values that look like secrets in their arguments and addresses; the params of a login; variables of
// commands and members of _meta whose names look like those of secrets; copies of all these in an error of the agent;
// and answers to questions for a secret. All other bytes are unchanged. A line that cannot be parsed with certainty is
// replaced by its size.
//
// Frames must be passed in their order. Frames is safe for concurrent use.
type Frames struct {
	secret func(variable, value string) bool

	questionsOpen atomic.Bool // questions are open
	handled       atomic.Bool // a handler may answer a question

	mu    sync.Mutex
	scan  acp.Scanner
	forms forms
}

// NewFrames returns a Frames. denied are patterns for names of variables that are always secret. In a pattern, "*"
// matches any characters.
func NewFrames(denied []string) *Frames {
	s := &Frames{secret: secretname.Variable}
	if len(denied) > 0 {
		listed := matching(denied)
		s.secret = func(variable, value string) bool {
			return listed.MatchString(variable) || secretname.Variable(variable, value)
		}
	}
	return s
}

// matching returns an expression that matches whole names by any of the patterns.
func matching(patterns []string) *regexp.Regexp {
	all := make([]string, len(patterns))
	for i, p := range patterns {
		all[i] = strings.ReplaceAll(regexp.QuoteMeta(strings.ToValidUTF8(p, "*")), `\*`, `.*`)
	}
	return regexp.MustCompile(`(?s)\A(?:` + strings.Join(all, "|") + `)\z`)
}

// MayHold reports whether a frame may contain a secret, so that Redact must be called. It is fast, and false for most
// frames.
func (s *Frames) MayHold(f *frame.Frame) bool {
	// updates and permission requests
	if f.Direction == frame.AgentToClient && f.Scanned && len(f.Method) > 0 && f.Method[0] == 's' {
		return false
	}
	return s.mayHold(f)
}

func (s *Frames) mayHold(f *frame.Frame) bool {
	switch f.Direction {
	case frame.ClientToOurs:
		return false
	case frame.HandlerToAgent: // most of these frames are large
		return s.handled.Load()
	case frame.OursToAgent:
		return s.questionsOpen.Load()
	case frame.OursToClient:
		return bytes.Contains(f.Line, shownVariable)
	}
	switch {
	case !f.Scanned:
		return true
	case f.Method == nil && f.Direction == frame.AgentToClient:
		return bytes.Contains(f.Line, errorMember)
	case f.Method == nil:
		return f.Direction == frame.ClientToAgent && s.questionsOpen.Load()
	}
	return kindOf(f.Direction, f.Method) != nothing
}

// errorMember is the usual spelling of the member "error". An agent that escapes the name on purpose avoids the check.
var errorMember = []byte(`"error"`)

// kind is the kind of secrets that a message may contain.
type kind uint8

const (
	nothing kind = iota
	opening      // environments and headers
	turn         // options of the agent below _meta
	login
	command
	form
)

// kinds maps methods to kinds. A method that ends with a slash is a prefix. The first match counts.
type kinds []struct {
	method string
	kind
}

var (
	ofClient = kinds{
		{acp.MethodSessionPrompt, turn}, {acp.MethodSessionCancel, nothing}, {acp.MethodCancelRequest, nothing},
		{acp.MethodInitialize, opening}, {"session/", opening}, {"providers/", opening}, {"authenticate", login}, {"auth/", login},
	}
	ofOthers = kinds{
		{acp.MethodElicitationCreate, form}, {"terminal/output", nothing}, {"terminal/wait_for_exit", nothing},
		{"terminal/kill", nothing}, {"terminal/release", nothing}, {"terminal/", command},
	}
)

func kindOf(d frame.Direction, method []byte) kind {
	of := ofOthers
	if d == frame.ClientToAgent {
		of = ofClient
	}
	for _, k := range of {
		if string(method) == k.method || strings.HasSuffix(k.method, "/") && strings.HasPrefix(string(method), k.method) {
			return k.kind
		}
	}
	return nothing
}

// Redact returns a frame without its secrets, for records and watchers. It does not modify f. The result may share
// bytes with f.
func (s *Frames) Redact(f frame.Frame) frame.Frame {
	line := f.Line
	if len(f.Rest) > 0 {
		line = slices.Concat(append([][]byte{f.Line}, f.Rest...)...)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &walker{line: line}
	switch {
	case f.Handler == refused && (f.Direction == frame.ClientToAgent || f.Direction == frame.AgentToClient):
		if !s.unread(w, f.Direction) {
			return withheld(f, len(line))
		}
	case f.Direction == frame.OursToClient:
		w.shown(s.secret)
	case !s.frame(w, &f):
		if w.cuts = nil; !s.unread(w, f.Direction) {
			return withheld(f, len(line))
		}
	}
	if len(w.cuts) > 0 {
		f.Line, f.Rest = replaced(w.line, w.cuts), nil
	}
	return f
}

// withheld returns a frame whose line, which cannot be parsed with certainty, is replaced by its size.
func withheld(f frame.Frame, size int) frame.Frame {
	f.Line, f.Rest = fmt.Appendf(nil, "\"[redacted: %d bytes that cannot be read for certain]\"\n", size), nil
	f.Scanned, f.Method, f.ID, f.SessionID = false, nil, nil, nil
	return f
}

// frame marks the secrets of a frame. It returns false if the frame cannot be parsed with certainty.
func (s *Frames) frame(w *walker, f *frame.Frame) bool {
	if f.Direction == frame.AgentToHandler && string(f.Method) == acp.MethodElicitationCreate && f.Handler != gate {
		s.handled.Store(true)
	}
	if f.Scanned {
		return s.message(w, f.Direction, 0, about{f.Method, f.ID, f.SessionID})
	}
	each := func(at int) int {
		end := w.skip(at)
		if end < 0 {
			return end
		}
		var m jsonrpc.Message
		if jerr := s.scan.Scan(w.line[at:end], &m); jerr != nil || m.Kind == jsonrpc.KindBatch || !s.message(w, f.Direction, at, about{m.Method, m.ID, m.SessionID}) {
			w.cuts = append(slices.DeleteFunc(w.cuts, func(c cut) bool { return c.from >= at }), cut{at, end, marker})
		}
		return end
	}
	i := lex.SkipSpace(w.line, 0)
	if lex.At(w.line, i) == '[' {
		i = w.array(i, each)
		return i >= 0 && lex.TextEnd(w.line, i) >= 0
	}
	var m jsonrpc.Message
	return s.scan.Scan(w.line, &m) == nil && s.message(w, f.Direction, i, about{m.Method, m.ID, m.SessionID})
}

// about identifies a message: its unescaped method and session, and its raw id.
type about struct{ method, id, session []byte }

// message marks the secrets of the message at an index of the line. It returns false if it is not JSON.
func (s *Frames) message(w *walker, d frame.Direction, at int, m about) bool {
	i := lex.SkipSpace(w.line, at)
	switch {
	case m.method == nil && d == frame.AgentToClient:
		return w.refusal(i) >= 0
	case m.method == nil:
		return s.answer(w, d, i, m.id)
	}
	k := kindOf(d, m.method)
	if d == frame.ClientToAgent && string(m.method) == acp.MethodInitialize { // a new process of the agent begins
		s.forms = forms{}
		s.questionsOpen.Store(false)
		s.handled.Store(false)
	}
	if k == nothing {
		return true
	}
	few := `{"redacted":` + marker
	if m.session != nil {
		few = string(jsonrpc.AppendString([]byte(few+`,"sessionId":`), string(m.session)))
	}
	return w.members(i, "PARAMS", func(at int) int {
		return w.bounded(at, func(at int) int { return s.params(w, k, at, m.id) }, few+"}")
	}) >= 0
}

// params marks the secrets of a message's params.
func (s *Frames) params(w *walker, k kind, at int, id []byte) int {
	switch k {
	case opening:
		return w.named(at)
	case turn: // the text of a prompt is not redacted
		return w.members(at, "_META", w.named)
	case login: // all but the method of the login
		return w.allBut(at, "METHODID", "methodId")
	case command:
		if lex.At(w.line, at) != '{' {
			return w.whole(at)
		}
		return w.members(at, "ENV", func(at int) int { return w.variables(at, s.secret) })
	case form:
		end := w.skip(at)
		if end > 0 && id != nil {
			s.forms.ask(jsonrpc.CanonicalID(id), w.line[at:end])
			s.questionsOpen.Store(true)
		}
		return end
	}
	return w.skip(at)
}

// members calls f for the values of the members of an object with a name, and skips the others. It skips a value that
// is not an object.
func (w *walker) members(i int, upper string, f func(at int) int) int {
	if lex.At(w.line, i) != '{' {
		return w.skip(i)
	}
	return w.object(i, func(n name, at int) int {
		if n.is(upper) {
			return f(at)
		}
		return w.skip(at)
	})
}

// answer marks the secrets in the answer to a question for a secret.
func (s *Frames) answer(w *walker, d frame.Direction, i int, id []byte) bool {
	if !s.questionsOpen.Load() || id == nil || d.Requester(true) != frame.OfAgent {
		return true
	}
	key := jsonrpc.CanonicalID(id)
	plain, known := s.forms.of(key)
	if !known {
		return true
	}
	ended, open := false, false
	end := w.object(i, func(n name, at int) int {
		switch {
		case n.is("RESULT"):
			ended = true
			return w.bounded(at, func(at int) int { return w.answered(at, plain) }, marker)
		case n.is("ERROR"):
			end := w.skip(at)
			if end > 0 {
				ended = string(w.line[at:end]) != "null"
				open = d == frame.OursToAgent && bytes.Contains(w.line[at:end], inFlight)
			}
			return end
		}
		return w.skip(at)
	})
	if ended && !open {
		s.forms.end(key)
		if !s.forms.any() {
			s.questionsOpen.Store(false)
			s.handled.Store(false)
		}
	}
	return end >= 0
}

// refusal marks the secrets of an error. Agents often copy rejected params to the data of an error.
func (w *walker) refusal(i int) int {
	w.repeats = true
	defer func() { w.repeats = false }()
	return w.members(i, "ERROR", func(at int) int {
		return w.members(at, "DATA", func(at int) int { return w.bounded(at, w.named, marker) })
	})
}

// inFlight is the text of the error for a request whose id is in use. The error has the id of the open request, but
// does not answer it.
var inFlight = []byte("is in flight already")

// answered marks the values of a result whose fields are not known to be plain.
func (w *walker) answered(i int, plain map[string]bool) int {
	if lex.At(w.line, i) != '{' {
		return w.whole(i)
	}
	return w.object(i, func(n name, at int) int {
		switch {
		case n.is("CONTENT") && lex.At(w.line, at) == '{':
			return w.object(at, func(n name, at int) int {
				if plain[n.text] {
					return w.skip(at)
				}
				return w.whole(at)
			})
		case n.is("CONTENT"):
			return w.whole(at)
		case n.text == "action" && lex.At(w.line, at) == '"':
			return w.skip(at)
		}
		return w.strings(at)
	})
}

// unread marks the secrets of a line that was not forwarded. It returns false if the line must not be recorded at all.
// Other output of an agent that is not a message is worth recording.
func (s *Frames) unread(w *walker, d frame.Direction) bool {
	if d != frame.AgentToClient {
		return false
	}
	i := lex.SkipSpace(w.line, len(w.line)-len(bytes.TrimPrefix(w.line, []byte("\ufeff"))))
	if c := lex.At(w.line, i); c != '{' && c != '[' {
		if len(w.line) > maxNoise {
			return false
		}
		if was := string(w.line); Text(was) != was {
			w.cuts = append(w.cuts, cut{0, len(w.line), Text(was)})
		}
		return true
	}
	message := false
	end := w.skip(i)
	if end < 0 || lex.TextEnd(w.line, end) < 0 || w.line[i] != '{' {
		return false
	}
	end = w.object(i, func(n name, at int) int {
		message = message || n.is("METHOD") || n.is("PARAMS") || n.is("RESULT") || n.is("ERROR")
		return w.skip(at)
	})
	return end >= 0 && !message && w.named(i) >= 0
}

// shownVariable is the text before a variable of a command in acphost's questions to users; see internal/link.
var shownVariable = []byte(`\n# with `)

// shown marks the values of variables in acphost's questions.
func (w *walker) shown(secret func(name, value string) bool) {
	for at := 0; ; {
		i := bytes.Index(w.line[at:], shownVariable)
		if i < 0 {
			return
		}
		at += i + len(shownVariable)
		end := at
		for end < len(w.line) && w.line[end] != '"' && !bytes.HasPrefix(w.line[end:], []byte(`\n`)) {
			if w.line[end] == '\\' {
				end++
			}
			end++
		}
		end = min(end, len(w.line))
		variable, value, _ := bytes.Cut(w.line[at:end], []byte("="))
		if len(value) > 0 && (bytes.IndexByte(variable, '\\') >= 0 || secret(string(variable), string(value))) {
			w.cuts = append(w.cuts, cut{end - len(value), end, Redacted})
		}
		at = end
	}
}
