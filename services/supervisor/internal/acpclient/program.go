// Package acpclient has an agent's client in this process: Program makes requests and waits for the results.
//
// A link reads the client's messages from In and writes the agent's messages to Out. The package knows JSON-RPC, and which
// requests of an agent a Program does not answer. It must not know handlers, policies, or the callers of a Program.
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
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
)

// Bounds of a Program.
const (
	// maxLine is the longest line that is taken: the link's limit, and room for what the link adds to a line.
	maxLine = 128 << 20
	// maxOutbox bounds the bytes that wait for the agent to take them. An empty outbox takes a message of any size.
	maxOutbox = limits.Waiting
	// maxOpen bounds the calls that the agent has not answered, those included that nobody waits for any more.
	maxOpen = 4096
	// keepPartial is the largest buffer for a line in pieces that is kept for the next one.
	keepPartial = 64 << 10
)

var (
	// ErrClosed says that the program was closed, as a rule since the link is gone: the agent will not answer.
	ErrClosed = errors.New("the link to the agent is closed")
	// ErrUnanswered says that the agent has left too many calls unanswered to be sent another one.
	ErrUnanswered = fmt.Errorf("the agent has left %d calls unanswered", maxOpen)
	errDeaf       = fmt.Errorf("the agent reads nothing: %d MiB wait for it", maxOutbox>>20)
)

// Rejected is the error of a call that acphost itself rejected: the agent never saw it.
type Rejected struct {
	// Reply is the error with which the link answered. It names the method.
	Reply *jsonrpc.Error
}

// Error is the message of the reply.
func (r *Rejected) Error() string { return r.Reply.Message }

// Unwrap is the reply.
func (r *Rejected) Unwrap() error { return r.Reply }

// ProgramOptions are what a Program is made of.
type ProgramOptions struct {
	// Wait, if set, is called after the link has handed something over, before more is taken: as long as it waits, the
	// agent is not read. It must return when ctx ends.
	Wait func(ctx context.Context) error
	// Logger is told what is odd; nil: nobody.
	Logger *slog.Logger
}

// Program is a client that is no editor: it plays ACP's client for code that makes calls and takes their results.
//
// It keeps no events: those are told by whoever observes the link. It answers no permission question and no
// elicitation either: whoever does is not at this end. Any other request of the agent's is refused.
//
// It keeps the link's two rules. It processes what the link writes at once, and its answers go to a queue that never blocks;
// only Wait holds the agent back. A message for the agent waits in a queue of bounded size until the link reads it.
//
// It is safe for concurrent use; the link alone uses In and Out.
type Program struct {
	opts ProgramOptions
	log  *slog.Logger
	out  *outbox
	max  int // bytes of a line

	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	writing sync.Mutex // guards partial, skipping and scan
	partial []byte     // the begin of a line that came in pieces
	skip    bool       // the rest of a line that is too long
	scan    acp.Scanner

	mu     sync.Mutex // guards what follows
	nextID uint64
	open   map[string]*Pending // by canonical id
	closed bool
	// The agent has opened a session by session/new, or by an older name of it: it is called by such names since.
	today, older bool
}

// NewProgram returns a Program. It must be closed.
func NewProgram(o ProgramOptions) *Program {
	p := &Program{opts: o, log: o.Logger, out: newOutbox(maxOutbox), max: maxLine, open: map[string]*Pending{}}
	p.log = cmp.Or(p.log, slog.New(slog.DiscardHandler))
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// In gives the program's messages.
func (p *Program) In() io.Reader { return p.out }

// Out takes messages for the program, whole lines or pieces of them.
func (p *Program) Out() io.Writer { return writer{p} }

// Rejected is the link's Client.Rejected.
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
	method  string // its name of today
	params  []byte // until it is known by which names the agent is called
	older   bool   // it was made again by an older name
	session string // of a prompt
	done    chan struct{}
	result  []byte
	err     error
	left    bool // nobody waits for it; guarded by the program's mu
	// acphost itself answers with an error; guarded by the program's mu
	rejected bool
}

// Call sends a request and waits for its result. params and the result are raw JSON; the caller owns the result. An error from the
// agent is a *jsonrpc.Error, an error from acphost a *Rejected. If ctx ends first, Call leaves the call (see Leave) and returns
// ctx's error.
func (p *Program) Call(ctx context.Context, method string, params []byte) ([]byte, error) {
	c, err := p.Send(ctx, method, params)
	if err != nil {
		return nil, err
	}
	result, err := c.Wait(ctx)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		c.Leave()
	}
	return result, err
}

// Send queues a request, and waits only for room in the queue. Requests that are queued after Send has returned are sent after
// this one.
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
	if !p.today && !p.older && method == acp.MethodSessionNew { // without which an agent is of no use
		c.params = slices.Clone(params)
	}
	request := p.request(c, p.spelled(method), params)
	id := c.id
	p.mu.Unlock()
	err := readable(method, request)
	if err == nil {
		err = p.out.put(ctx, request)
	}
	if err != nil {
		p.remove(id)
		return nil, err
	}
	return c, nil
}

// request opens a call, and returns the request that makes it, by a name of its method; mu is held.
func (p *Program) request(c *Pending, name string, params []byte) []byte {
	c.id = strconv.FormatUint(p.nextID, 10)
	p.nextID++
	p.open[c.id] = c
	return jsonrpc.AppendRequest(nil, []byte(c.id), name, params)
}

// spelled is the name by which the agent knows a method; mu is held.
func (p *Program) spelled(method string) string {
	if others := acp.OtherNames(method); p.older && strings.HasPrefix(method, "session/") && len(others) > 0 {
		return others[0]
	}
	return method
}

// readable makes sure that the link can read a request: what it cannot read, it drops, and nobody would ever answer.
func readable(method string, request []byte) error {
	var scan acp.Scanner
	var m jsonrpc.Message
	if jerr := scan.Scan(request, &m); jerr != nil {
		return fmt.Errorf("%s: the request cannot be sent: %s", method, jerr.Message)
	}
	return nil
}

// Notify hands a notification over. It does not wait.
func (p *Program) Notify(method string, params []byte) error {
	p.mu.Lock()
	method = p.spelled(method)
	p.mu.Unlock()
	return p.out.post(jsonrpc.AppendNotification(nil, method, params))
}

// Close ends the client: the link reads io.EOF, all calls fail with ErrClosed, and no method blocks any more. It may be called
// again.
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

// Wait returns the call's result or its error. The result is raw JSON, which the caller owns; nil if the answer has neither. An error
// from the agent is a *jsonrpc.Error, an error from acphost a *Rejected. If ctx ends first, Wait returns ctx's error, and the call
// is still in progress.
func (c *Pending) Wait(ctx context.Context) ([]byte, error) {
	select {
	case <-c.done:
	case <-ctx.Done():
		select {
		case <-c.done: // all the same
		default:
			return nil, ctx.Err()
		}
	}
	return c.result, c.err
}

// Leave ends the wait for a call: a later answer is dropped. The agent gets a request to cancel the call, unless the call is a
// prompt: session/cancel ends a turn.
func (c *Pending) Leave() {
	p := c.program
	p.mu.Lock()
	under := p.open[c.id] == c && !c.left
	c.left = true
	p.mu.Unlock()
	if under && c.method != acp.MethodSessionPrompt {
		if err := c.GiveUp(); err != nil {
			p.log.Debug("a call could not be given up", "method", c.method, "error", err)
		}
	}
}

// GiveUp asks the agent to give the call up. It is still answered, as a rule with an error.
func (c *Pending) GiveUp() error {
	c.program.mu.Lock()
	id := c.id
	c.program.mu.Unlock()
	return c.program.Notify(acp.MethodCancelRequest, []byte(`{"requestId":`+id+`}`))
}

// remove removes a call and returns it; nil if there is none. Whoever gets the call ends it.
func (p *Program) remove(id string) *Pending {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.open[id]
	delete(p.open, id)
	return c
}

// writer is the Program as the link writes to it.
type writer struct{ p *Program }

// Write takes lines, and pieces of lines.
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

// split works on the lines in b, and keeps what is behind the last one.
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

// line takes one message. An error means that the agent does not read.
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
		p.answered(&m)
	case jsonrpc.KindRequest:
		return p.asked(&m)
	case jsonrpc.KindNotification:
		if string(m.Method) == acp.MethodSessionEndTurn {
			p.turnEnded(&m)
		}
	}
	return nil
}

// answered ends the call that a response is for.
func (p *Program) answered(m *jsonrpc.Message) {
	c := p.remove(jsonrpc.CanonicalID(m.ID))
	if c == nil {
		p.log.Debug("the agent answered a call that nobody waits for; the answer was dropped", "id", excerpt(m.ID))
		return
	}
	var fault *jsonrpc.Error
	if m.Error != nil {
		fault = parseError(m.Error)
	}
	if p.again(c, fault) {
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

// again repeats a call by an older name of its method, if the agent does not know the current name. False: the agent knows the
// current name, or there is no older name.
func (p *Program) again(c *Pending, fault *jsonrpc.Error) bool {
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

// turnEnded uses an agent's notification that a turn has ended as the answer to the prompt, which may never come. A notification
// without a session is about the only turn in progress.
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

// asked refuses a request of the agent's that nobody else answers.
func (p *Program) asked(m *jsonrpc.Message) error {
	if method := string(m.Method); method == acp.MethodRequestPermission || method == acp.MethodElicitationCreate {
		return nil
	}
	err := p.out.post(jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{
		Code: jsonrpc.CodeMethodNotFound, Message: "nobody at this end answers " + excerpt(m.Method),
	}))
	if errors.Is(err, errDeaf) {
		return err
	}
	return nil
}

// parseError reads a JSON-RPC error. What is of a wrong type counts as absent.
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

// excerpt is the begin of what an agent chose.
func excerpt(b []byte) string {
	const most = 100
	if len(b) > most {
		b = b[:most]
	}
	return string(bytes.ToValidUTF8(b, []byte("?")))
}
