// Package acpclient provides an in-process client of an agent: Program sends requests and waits for their results.
//
// A link reads the client's messages from In and writes the agent's messages to Out. The package knows JSON-RPC, and
// which requests of an agent a Program rejects. It must not know handlers, policies, or the callers of a Program.
package acpclient

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/acphost/acphost/internal/limits"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
)

// Limits of a Program.
const (
	// maxLine limits the bytes of a line that is read: the link's limit, and room for the members that the link adds.
	maxLine = 128 << 20
	// maxOutbox limits the bytes that wait until the agent reads them. An empty outbox accepts a message of any size.
	maxOutbox = limits.Waiting
	// maxOpen limits the calls that the agent has not answered, including abandoned ones.
	maxOpen = 4096
	// keepPartial limits the bytes of a line buffer that is kept for the next line.
	keepPartial = 64 << 10
)

var (
	// ErrClosed means that the program was closed, usually because the link has ended: the agent will not answer.
	ErrClosed = errors.New("the link to the agent is closed")
	// ErrUnanswered means that too many calls wait for the agent's answer, so that no further call is sent.
	ErrUnanswered = fmt.Errorf("the agent has left %d calls unanswered", maxOpen)
	errDeaf       = fmt.Errorf("the agent reads nothing: %d MiB wait for it", maxOutbox>>20)
)

// Rejected is the error of a call that acphost itself rejected. The agent did not receive the call.
type Rejected struct {
	// Reply is the error in the link's answer. It names the method.
	Reply *jsonrpc.Error
}

// Error returns the message of the reply.
func (r *Rejected) Error() string { return r.Reply.Message }

// Unwrap returns the reply.
func (r *Rejected) Unwrap() error { return r.Reply }

// ProgramOptions configure a Program.
type ProgramOptions struct {
	// Wait, if set, is called after each message of the link, before the next one is read. The agent's output is not
	// read meanwhile. It must return when ctx ends.
	Wait func(ctx context.Context) error
	// Logger receives warnings. Nil discards them.
	Logger *slog.Logger
}

// Program is the client of an agent for code that makes calls and uses their results.
//
// It stores no events: an observer of the link publishes them. It rejects every request of the agent that the link
// forwards to it. The link answers permission requests and elicitations elsewhere.
//
// It follows two rules of the link. It processes each message of the link at once, and its answers go to a queue that
// never blocks; only Wait delays the agent. A message for the agent waits in a queue of limited size until the link
// reads it.
//
// It is safe for concurrent use. Only the link uses In and Out.
type Program struct {
	opts ProgramOptions
	log  *slog.Logger
	out  *outbox
	max  int // limit of a line, in bytes

	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	writing sync.Mutex // guards partial, skipping and scan
	partial []byte     // the beginning of an incomplete line
	skip    bool       // the rest of the current line is discarded, because the line is too long
	scan    acp.Scanner

	mu     sync.Mutex // guards the fields below
	nextID uint64
	open   map[string]*Pending // by canonical id
	closed bool
	// Set when the agent has opened a session by the current name of session/new, or by an older one. Later methods use
	// names of the same kind.
	today, older bool
}

// NewProgram returns a Program. The caller must close it.
func NewProgram(o ProgramOptions) *Program {
	p := &Program{opts: o, log: o.Logger, out: newOutbox(maxOutbox), max: maxLine, open: map[string]*Pending{}}
	p.log = cmp.Or(p.log, slog.New(slog.DiscardHandler))
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// In returns the reader of the program's messages.
func (p *Program) In() io.Reader { return p.out }

// Out returns the writer of messages to the program: whole lines, or parts of them.
func (p *Program) Out() io.Writer { return writer{p} }

// Rejected implements the link's Client.Rejected.
func (p *Program) Rejected(id []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.open[jsonrpc.CanonicalID(id)]; c != nil {
		c.rejected = true
	}
}

// Pending is a call that was sent.
type Pending struct {
	program *Program
	id      string // as JSON, which is its canonical form
	method  string // its current name
	params  []byte // kept until the names that the agent uses are known
	older   bool   // it was repeated with an older name
	session string // session of a prompt
	done    chan struct{}
	result  []byte
	err     error
	left    bool // the caller has abandoned the call; guarded by the program's mu
	// acphost itself answers the call with an error. Guarded by the program's mu.
	rejected bool
}

// Call sends a request and waits for its result. params and the result are raw JSON, and the caller owns the result. An
// error from the agent is a *jsonrpc.Error, an error from acphost a *Rejected. If ctx ends first, Call abandons the
// call (see Leave) and returns ctx's error.
func (p *Program) Call(ctx context.Context, method string, params []byte) ([]byte, error) {
	c, err := p.Send(ctx, method, params)
	if err != nil {
		return nil, err
	}
	result, err := c.Wait(ctx)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		c.Abandon()
	}
	return result, err
}

// Send queues a request, and waits only for room in the queue. Requests that are queued after Send has returned are
// sent after this one.
func (p *Program) Send(ctx context.Context, method string, params []byte) (*Pending, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := &Pending{program: p, method: method, done: make(chan struct{})}
	if method == acp.MethodSessionPrompt {
		c.session, _ = acp.String(acp.Get(params, "sessionId"))
	}
	p.mu.Lock()
	switch {
	case p.closed:
		p.mu.Unlock()
		return nil, ErrClosed
	case len(p.open) >= maxOpen:
		p.mu.Unlock()
		return nil, ErrUnanswered
	}
	if !p.today && !p.older && method == acp.MethodSessionNew { // an agent without session/new is useless
		c.params = slices.Clone(params)
	}
	request := p.request(c, p.agentMethod(method), params)
	id := c.id
	p.mu.Unlock()
	err := checkReadable(method, request)
	if err == nil {
		err = p.out.put(ctx, request)
	}
	if err != nil {
		p.remove(id)
		return nil, err
	}
	return c, nil
}

// request registers a call, and returns its request with the given name of the method. mu is held.
func (p *Program) request(c *Pending, name string, params []byte) []byte {
	c.id = strconv.FormatUint(p.nextID, 10)
	p.nextID++
	p.open[c.id] = c
	return jsonrpc.AppendRequest(nil, []byte(c.id), name, params)
}

// agentMethod returns the agent's name of a method. mu is held.
func (p *Program) agentMethod(method string) string {
	if others := acp.OtherNames(method); p.older && strings.HasPrefix(method, "session/") && len(others) > 0 {
		return others[0]
	}
	return method
}

// checkReadable returns an error if the link could not parse a request. The link would discard it, and the call would
// never end.
func checkReadable(method string, request []byte) error {
	var scan acp.Scanner
	var m jsonrpc.Message
	if jerr := scan.Scan(request, &m); jerr != nil {
		return fmt.Errorf("%s: the request cannot be sent: %s", method, jerr.Message)
	}
	return nil
}

// Notify queues a notification. It does not wait.
func (p *Program) Notify(method string, params []byte) error {
	p.mu.Lock()
	method = p.agentMethod(method)
	p.mu.Unlock()
	return p.out.post(jsonrpc.AppendNotification(nil, method, params))
}

// Close ends the client: the link reads io.EOF, all calls fail with ErrClosed, and no method blocks any more. It may be
// called again.
func (p *Program) Close() {
	p.cancel()
	p.out.close()
	p.mu.Lock()
	p.closed = true
	open := p.open
	p.open = nil
	p.mu.Unlock()
	for _, c := range open {
		c.err = ErrClosed
		close(c.done)
	}
}

// Wait returns the result or the error of the call. The result is raw JSON, and the caller owns it. It is nil if the
// answer has neither. An error from the agent is a *jsonrpc.Error, an error from acphost a *Rejected. If ctx ends
// first, Wait returns ctx's error, and the call is still in progress.
func (c *Pending) Wait(ctx context.Context) ([]byte, error) {
	select {
	case <-c.done:
	case <-ctx.Done():
		select {
		case <-c.done: // prefer a result that is available
		default:
			return nil, ctx.Err()
		}
	}
	return c.result, c.err
}

// Abandon abandons a call: a later answer is discarded. The agent receives a request to cancel the call, unless the
// call is a prompt, which session/cancel ends.
func (c *Pending) Abandon() {
	p := c.program
	p.mu.Lock()
	under := p.open[c.id] == c && !c.left
	c.left = true
	p.mu.Unlock()
	if under && c.method != acp.MethodSessionPrompt {
		if err := c.RequestCancel(); err != nil {
			p.log.Debug("a call could not be given up", "method", c.method, "error", err)
		}
	}
}

// RequestCancel asks the agent to cancel the call. The agent still answers it, usually with an error.
func (c *Pending) RequestCancel() error {
	c.program.mu.Lock()
	id := c.id
	c.program.mu.Unlock()
	return c.program.Notify(acp.MethodCancelRequest, []byte(`{"requestId":`+id+`}`))
}

// remove removes a call and returns it, or nil if none exists. The caller must end the call.
func (p *Program) remove(id string) *Pending {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.open[id]
	delete(p.open, id)
	return c
}

// writer is the end of the Program to which the link writes.
type writer struct{ p *Program }

// Write processes lines, and parts of lines.
func (w writer) Write(b []byte) (int, error) {
	p := w.p
	p.writing.Lock()
	defer p.writing.Unlock()
	if p.ctx.Err() != nil {
		return 0, ErrClosed
	}
	if err := p.split(b); err != nil {
		return 0, err
	}
	if p.opts.Wait != nil {
		if err := p.opts.Wait(p.ctx); err != nil && p.ctx.Err() == nil {
			p.log.Debug("the program did not wait for room", "error", err)
		}
	}
	return len(b), nil
}

// split processes the lines in b, and keeps the bytes after the last line feed.
func (p *Program) split(b []byte) error {
	for len(b) > 0 {
		i := bytes.IndexByte(b, '\n')
		piece := b
		if i >= 0 {
			piece = b[:i]
		}
		switch {
		case p.skip:
		case len(p.partial)+len(piece) > p.max:
			p.log.Warn("a message for a program was too long; it was dropped", "limit", p.max)
			p.skip, p.partial = true, nil
		case i < 0:
			p.partial = append(p.partial, piece...)
		default:
			line := piece
			if len(p.partial) > 0 {
				p.partial = append(p.partial, piece...)
				line = p.partial
			}
			if err := p.line(line); err != nil {
				return err
			}
			if p.partial = p.partial[:0]; cap(p.partial) > keepPartial {
				p.partial = nil
			}
		}
		if i < 0 {
			return nil
		}
		p.skip = false
		b = b[i+1:]
	}
	return nil
}

// line processes one message. An error means that the agent does not read its input.
func (p *Program) line(line []byte) error {
	var m jsonrpc.Message
	if jerr := p.scan.Scan(line, &m); jerr != nil {
		if len(bytes.TrimSpace(line)) > 0 {
			p.log.Debug("a message for a program makes no sense; it was dropped", "error", jerr.Message)
		}
		return nil
	}
	switch m.Kind {
	case jsonrpc.KindResponse:
		p.handleResponse(&m)
	case jsonrpc.KindRequest:
		return p.rejectRequest(&m)
	case jsonrpc.KindNotification:
		if string(m.Method) == acp.MethodSessionEndTurn {
			p.turnEnded(&m)
		}
	}
	return nil
}

// handleResponse ends the call that a response answers.
func (p *Program) handleResponse(m *jsonrpc.Message) {
	c := p.remove(jsonrpc.CanonicalID(m.ID))
	if c == nil {
		p.log.Debug("the agent answered a call that has ended; the answer was dropped", "id", excerpt(m.ID))
		return
	}
	var fault *jsonrpc.Error
	if m.Error != nil {
		fault = parseError(m.Error)
	}
	if p.retryOlder(c, fault) {
		return
	}
	p.mu.Lock()
	left, rejected := c.left, c.rejected
	p.mu.Unlock()
	switch {
	case left:
	case fault != nil && rejected:
		c.err = &Rejected{Reply: fault}
	case fault != nil:
		c.err = fault
	default:
		c.result = slices.Clone(m.Result)
	}
	close(c.done)
}

// retryOlder repeats a call by an older name of its method, if the agent does not know the current name. It returns
// false if the agent knows the current name, or if there is no older name.
func (p *Program) retryOlder(c *Pending, fault *jsonrpc.Error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	params := c.params
	c.params = nil
	switch {
	case fault == nil && c.older:
		p.older = true
		return false
	case fault == nil:
		p.today = p.today || params != nil
		return false
	case params == nil || fault.Code != jsonrpc.CodeMethodNotFound || p.today || c.left || p.closed:
		return false
	}
	c.older = true
	before := c.id
	if err := p.out.post(p.request(c, acp.OtherNames(c.method)[0], params)); err != nil {
		delete(p.open, c.id)
		c.id = before
		return false
	}
	return true
}

// turnEnded uses a notification of the agent that a turn has ended as the answer to the prompt, because the agent may
// never send that answer. A notification without a session applies to the only turn in progress.
func (p *Program) turnEnded(m *jsonrpc.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var over []*Pending
	for _, c := range p.open {
		if c.method == acp.MethodSessionPrompt && (m.SessionID == nil || c.session == string(m.SessionID)) {
			over = append(over, c)
		}
	}
	if m.SessionID == nil && len(over) != 1 {
		return
	}
	for _, c := range over {
		delete(p.open, c.id)
		if reason := acp.EndTurnReason(m.Params); reason != "" {
			c.result = append(jsonrpc.AppendString([]byte(`{"stopReason":`), reason), '}')
		} else {
			words, _ := acp.String(acp.Get(m.Params, "error"))
			c.err = &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: cmp.Or(words, "the agent ended the turn with an error")}
		}
		close(c.done)
	}
}

// rejectRequest rejects a request of the agent.
func (p *Program) rejectRequest(m *jsonrpc.Message) error {
	if method := string(m.Method); method == acp.MethodRequestPermission || method == acp.MethodElicitationCreate {
		return nil
	}
	err := p.out.post(jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{
		Code: jsonrpc.CodeMethodNotFound, Message: "no handler answers " + excerpt(m.Method),
	}))
	if errors.Is(err, errDeaf) {
		return err
	}
	return nil
}

// parseError reads a JSON-RPC error. Members of a wrong type count as missing.
func parseError(raw []byte) *jsonrpc.Error {
	e := &jsonrpc.Error{Code: jsonrpc.CodeInternal}
	if code, ok := acp.Int(acp.Get(raw, "code"), strconv.IntSize); ok {
		e.Code = int(code)
	}
	if e.Message, _ = acp.String(acp.Get(raw, "message")); e.Message == "" {
		e.Message = "the agent gave no reason"
	}
	e.Data = slices.Clone(acp.Get(raw, "data"))
	return e
}

// excerpt returns the beginning of a text of the agent.
func excerpt(b []byte) string {
	const limit = 100
	if len(b) > limit {
		b = b[:limit]
	}
	return string(bytes.ToValidUTF8(b, []byte("?")))
}
