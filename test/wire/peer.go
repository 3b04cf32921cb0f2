// Package wire plays either end of an ACP connection, byte for byte: it writes exactly the bytes that a test passes,
// keeps received bytes unchanged, and prints the whole conversation when the test fails.
//
// It also has the other parts that suites need: places to run programs in, processes that a test plays, and a check for
// processes that are left behind. It knows JSON-RPC's envelope and nothing of ACP or acphost.
package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/testkit"
)

// Message is a received line.
type Message struct {
	Raw    []byte          `json:"-"` // the line without its newline
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *Error          `json:"error"`
}

// Error is a JSON-RPC error.
type Error struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func (e *Error) Error() string { return fmt.Sprintf("%d: %s", e.Code, e.Message) }

// Decode reads the params of a request or notification, or the result of a response, into v.
func (m Message) Decode(t testing.TB, v any) {
	t.Helper()
	data := m.Result
	if m.Method != "" {
		data = m.Params
	}
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatalf("decode %s: %v", m.Raw[:min(300, len(m.Raw))], err)
	}
}

// Peer is one end of a connection. Its methods fail the test and belong to the test's goroutine, but for Handle's
// functions, which run on separate goroutines.
type Peer struct {
	t    testing.TB
	name string
	w    io.WriteCloser

	writing sync.Mutex // held while a line is written

	mu       sync.Mutex
	changed  chan struct{} // closed and renewed when any of the below changes
	inbox    []Message     // unread messages
	handlers map[string]func(Message) (any, error)
	ended    error         // why reading ended
	gate     chan struct{} // closed when reading may go on; nil: it may
	script   []string
	nextID   int
	working  sync.WaitGroup
}

// NewPeer starts to read from r. name is the name of this end in the conversation.
func NewPeer(t testing.TB, name string, w io.WriteCloser, r io.Reader) *Peer {
	p := &Peer{t: t, name: name, w: w, changed: make(chan struct{}), handlers: map[string]func(Message) (any, error){}}
	p.working.Go(func() { p.read(r) })
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the conversation of the %s:\n%s", name, p.Conversation())
		}
	})
	return p
}

// Handle answers every request of that method with the result of f, in a separate goroutine for each, and passes it
// every notification of that method. An error that is an *Error is answered as such, any other as -32603.
func (p *Peer) Handle(method string, f func(Message) (any, error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.handlers[method] = f
}

// Write writes one line unchanged, and a newline.
func (p *Peer) Write(line string) {
	p.t.Helper()
	if err := p.write([]byte(line)); err != nil {
		p.t.Fatalf("%s: write: %v", p.name, err)
	}
}

// Notify sends a notification.
func (p *Peer) Notify(method string, params any) {
	p.t.Helper()
	p.Write(fmt.Sprintf(`{"jsonrpc":"2.0","method":%s,"params":%s}`, quote(method), marshal(p.t, params)))
}

// Call is a request that was sent.
type Call struct {
	p      *Peer
	id     string
	method string
}

// ID is the request's id as it is written on the wire.
func (c *Call) ID() string { return c.id }

// Send sends a request and does not wait. Ids count from 0.
func (p *Peer) Send(method string, params any) *Call {
	p.t.Helper()
	p.mu.Lock()
	id := strconv.Itoa(p.nextID)
	p.nextID++
	p.mu.Unlock()
	return p.SendAs(id, method, params)
}

// SendAs sends a request under an id that is written unchanged: `"a"`, `1.0`, `null`.
func (p *Peer) SendAs(id, method string, params any) *Call {
	p.t.Helper()
	p.Write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%s,"params":%s}`, id, quote(method), marshal(p.t, params)))
	return &Call{p: p, id: id, method: method}
}

// Answer waits for the response, whatever it is.
func (c *Call) Answer() Message {
	c.p.t.Helper()
	m, err := c.p.take(func(m Message) bool { return m.Method == "" && string(m.ID) == c.id })
	if err != nil {
		c.p.t.Fatalf("%s: no answer to %s with id %s: %v", c.p.name, c.method, c.id, err)
	}
	return m
}

// Result waits for the response, which must be a result, and decodes it into v unless v is nil.
func (c *Call) Result(v any) Message {
	c.p.t.Helper()
	m := c.Answer()
	if m.Error != nil {
		c.p.t.Fatalf("%s: %s was answered with the error %v", c.p.name, c.method, m.Error)
	}
	if v != nil {
		m.Decode(c.p.t, v)
	}
	return m
}

// Refused waits for the response, which must be an error of that code.
func (c *Call) Refused(code int) *Error {
	c.p.t.Helper()
	m := c.Answer()
	if m.Error == nil {
		c.p.t.Fatalf("%s: %s was answered with %.300s, want the error %d", c.p.name, c.method, m.Raw, code)
	}
	if m.Error.Code != code {
		c.p.t.Fatalf("%s: %s was refused with %v, want the error %d", c.p.name, c.method, m.Error, code)
	}
	return m.Error
}

// Request sends a request and waits for its result, which is decoded into v unless v is nil.
func (p *Peer) Request(method string, params, v any) Message {
	p.t.Helper()
	return p.Send(method, params).Result(v)
}

// Expect waits for a request or notification of that method, and removes and returns the oldest one.
func (p *Peer) Expect(method string) Message {
	p.t.Helper()
	m, err := p.take(func(m Message) bool { return m.Method == method })
	if err != nil {
		p.t.Fatalf("%s: no %s arrived: %v", p.name, method, err)
	}
	return m
}

// ExpectWhere waits for a message that f accepts, and removes and returns the oldest one. what names it in the failure.
func (p *Peer) ExpectWhere(what string, f func(Message) bool) Message {
	p.t.Helper()
	m, err := p.take(f)
	if err != nil {
		p.t.Fatalf("%s: %s did not come: %v", p.name, what, err)
	}
	return m
}

// Next removes and returns the oldest queued message.
func (p *Peer) Next() Message {
	p.t.Helper()
	return p.ExpectWhere("a message", func(Message) bool { return true })
}

// Settled waits for a message that f accepts, and removes and returns all messages up to it.
func (p *Peer) Settled(f func(Message) bool) []Message {
	p.t.Helper()
	var all []Message
	for {
		m := p.ExpectWhere("the last of some messages", func(Message) bool { return true })
		all = append(all, m)
		if f(m) {
			return all
		}
	}
}

// Waiting returns the queued messages, and keeps them queued.
func (p *Peer) Waiting() []Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Message(nil), p.inbox...)
}

// Reply answers a request with a result.
func (p *Peer) Reply(m Message, result any) {
	p.t.Helper()
	p.Write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, marshal(p.t, result)))
}

// Refuse answers a request with an error.
func (p *Peer) Refuse(m Message, e *Error) {
	p.t.Helper()
	p.Write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":%s}`, m.ID, marshal(p.t, e)))
}

// Hold stops reading, as a busy agent does, until release is called. An active read completes.
func (p *Peer) Hold() (release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	gate := make(chan struct{})
	p.gate = gate
	release = sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.gate = nil
		close(gate)
	})
	p.t.Cleanup(release) // a test that fails meanwhile must end
	return release
}

// Close closes the writing side and waits for nothing.
func (p *Peer) Close() { _ = p.w.Close() }

// ExpectEnd waits until the other side has closed its output.
func (p *Peer) ExpectEnd() {
	p.t.Helper()
	deadline := time.NewTimer(testkit.Timeout())
	defer deadline.Stop()
	for {
		p.mu.Lock()
		ended, changed := p.ended, p.changed
		p.mu.Unlock()
		if ended != nil {
			p.working.Wait()
			return
		}
		select {
		case <-changed:
		case <-deadline.C:
			p.t.Fatalf("%s: the other side did not close its output within %s", p.name, testkit.Timeout())
		}
	}
}

// Conversation is every line that was written and read, long ones shortened.
func (p *Peer) Conversation() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.script, "\n")
}

func (p *Peer) take(f func(Message) bool) (Message, error) {
	deadline := time.NewTimer(testkit.Timeout())
	defer deadline.Stop()
	for {
		p.mu.Lock()
		for i, m := range p.inbox {
			if f(m) {
				p.inbox = append(p.inbox[:i:i], p.inbox[i+1:]...)
				p.mu.Unlock()
				return m, nil
			}
		}
		ended, changed := p.ended, p.changed
		p.mu.Unlock()
		if ended != nil {
			return Message{}, ended
		}
		select {
		case <-changed:
		case <-deadline.C:
			return Message{}, fmt.Errorf("not within %s", testkit.Timeout())
		}
	}
}

func (p *Peer) write(line []byte) error {
	p.note(">", line)
	p.writing.Lock()
	defer p.writing.Unlock()
	if limited, ok := p.w.(interface{ SetWriteDeadline(t time.Time) error }); ok {
		_ = limited.SetWriteDeadline(time.Now().Add(2 * testkit.Timeout())) // a pipe of another system may have none
	}
	_, err := p.w.Write(append(line, '\n'))
	return err
}

func (p *Peer) read(r io.Reader) {
	lines := bufio.NewReaderSize(heldReader{p, r}, 64<<10)
	for {
		line, err := lines.ReadBytes('\n')
		if line = bytes.TrimSuffix(line, []byte("\n")); len(line) > 0 || err == nil {
			p.received(line)
		}
		if err != nil {
			p.mu.Lock()
			p.ended = fmt.Errorf("the other side closed its output: %w", err)
			if !errors.Is(err, io.EOF) {
				p.ended = err
			}
			p.signal()
			p.mu.Unlock()
			return
		}
	}
}

// heldReader reads while the peer is not held.
type heldReader struct {
	p *Peer
	r io.Reader
}

func (h heldReader) Read(b []byte) (int, error) {
	h.p.mu.Lock()
	gate := h.p.gate
	h.p.mu.Unlock()
	if gate != nil {
		<-gate
	}
	return h.r.Read(b)
}

func (p *Peer) received(line []byte) {
	p.note("<", line)
	m := Message{Raw: line}
	if err := json.Unmarshal(line, &m); err != nil {
		m.Method = "" // kept for Next: a test may well expect it
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if f := p.handlers[m.Method]; f != nil && m.Method != "" {
		p.working.Go(func() { p.serve(m, f) })
		return
	}
	p.inbox = append(p.inbox, m)
	p.signal()
}

func (p *Peer) serve(m Message, f func(Message) (any, error)) {
	result, err := f(m)
	if m.ID == nil {
		return
	}
	answer := map[string]any{"jsonrpc": "2.0", "id": m.ID}
	if err == nil {
		answer["result"] = result
	} else if e, ok := errors.AsType[*Error](err); ok {
		answer["error"] = e
	} else {
		answer["error"] = &Error{Code: -32603, Message: err.Error()}
	}
	line, err := json.Marshal(answer)
	if err == nil {
		err = p.write(line)
	}
	if err != nil {
		p.note("!", []byte(fmt.Sprintf("answer to %s: %v", m.Method, err)))
	}
}

// signal is called with mu held.
func (p *Peer) signal() {
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Peer) note(mark string, line []byte) {
	const longest, most = 600, 400
	text := string(line)
	if len(text) > longest {
		text = fmt.Sprintf("%s … %s (%d bytes)", text[:longest/2], text[len(text)-longest/4:], len(line))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.script = append(p.script, mark+" "+text); len(p.script) > most {
		p.script = p.script[1:]
	}
}

func quote(s string) []byte {
	b, _ := json.Marshal(s) // a string always marshals
	return b
}

// marshal keeps <, > and & unescaped, and writes a json.RawMessage unchanged.
func marshal(t testing.TB, v any) []byte {
	t.Helper()
	if raw, ok := v.(json.RawMessage); ok {
		return raw
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatalf("marshal %T: %v", v, err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
