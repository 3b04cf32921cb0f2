package programs

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/acphost/acphost/internal/fault"
	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
)

// promptMux connects a remote client with the link of its agent, and lets other callers prompt the agent like the
// client does: the link handles their prompts like the client's, and the client does not get the answers. It is safe
// for concurrent use.
type promptMux struct {
	from *io.PipeReader // read by the link
	to   *io.PipeWriter
	out  io.Writer     // to the client
	done chan struct{} // closed when the link has ended

	in sync.Mutex // held while a line is written to the link

	writing sync.Mutex // held while out is written; guards partial and inside
	partial []byte     // an incomplete line of the agent, while prompts of others are open
	inside  bool       // the latest write to out did not end a line

	mu     sync.Mutex           // guards the fields below
	others map[string]*injected // open prompts of other callers, by the id of the request
}

// injected is a prompt of another caller.
type injected struct {
	session string
	begins  chan bool     // receives once whether its turn begins
	done    chan struct{} // closed when it is answered
	result  []byte        // the answer, once over is closed
}

// newPromptMux returns a promptMux between a client and a link. The caller runs carry.
func newPromptMux(out io.Writer) *promptMux {
	b := &promptMux{out: out, done: make(chan struct{}), others: map[string]*injected{}}
	b.from, b.to = io.Pipe()
	return b
}

// forwardInput passes the client's lines to the link, until the client ends or the link has ended.
func (b *promptMux) forwardInput(in io.Reader) {
	lines := bufio.NewReaderSize(in, 64<<10)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			if e := b.write(line); e != nil {
				err = e
			}
		}
		if err != nil {
			_ = b.to.CloseWithError(err)
			return
		}
	}
}

// write passes a line to the link.
func (b *promptMux) write(line []byte) error {
	b.in.Lock()
	defer b.in.Unlock()
	_, err := b.to.Write(line)
	return err
}

// close ends the link's input, once the link has ended.
func (b *promptMux) close() {
	_ = b.from.CloseWithError(io.ErrClosedPipe)
	close(b.done)
}

// foreign implements the link's Client.Foreign. Only it reports whether an injected prompt began a turn: the link sees
// all prompts in order.
func (b *promptMux) foreign(id []byte) (begins func(bool)) {
	var key string
	if json.Unmarshal(id, &key) != nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.others[key]
	if p == nil {
		return nil
	}
	return func(begins bool) {
		if !begins {
			b.forget(key)
		}
		p.begins <- begins
	}
}

// forget drops an unanswered prompt.
func (b *promptMux) forget(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.others, id)
}

// prompted reports whether an injected prompt is unanswered.
func (b *promptMux) prompted() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.others) > 0
}

// prompt prompts the agent. id must be unique and not guessable. If ctx ends before the agent has read the prompt, it
// may still read it later.
func (b *promptMux) prompt(ctx context.Context, id, session string, params []byte) (*injected, error) {
	p := &injected{session: session, begins: make(chan bool, 1), done: make(chan struct{})}
	b.mu.Lock()
	b.others[id] = p
	b.mu.Unlock()
	err := b.writeContext(ctx, jsonrpc.AppendRequest(nil, jsonrpc.AppendString(nil, id), acp.MethodSessionPrompt, params))
	if err == nil {
		select {
		case begins := <-p.begins:
			if !begins {
				return nil, fault.New(fault.Precondition, "session %q has a turn under way: wait for its end, or cancel it", excerpt(session))
			}
		case <-p.done: // it was too late to cancel; this is the answer
		case <-b.done:
			err = io.ErrClosedPipe
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if errors.Is(err, io.ErrClosedPipe) {
		b.forget(id)
		return nil, fault.New(fault.Precondition, "prompt session %q: its agent has ended", excerpt(session))
	}
	return p, err
}

// cancel cancels the turn of a session.
func (b *promptMux) cancel(ctx context.Context, session string) error {
	err := b.writeContext(ctx, jsonrpc.AppendNotification(nil, acp.MethodSessionCancel, sessionParams(session)))
	if errors.Is(err, io.ErrClosedPipe) {
		return fault.New(fault.Precondition, "cancel a turn of session %q: its agent has ended", excerpt(session))
	}
	return err
}

// writeContext passes a line to the link, unless ctx ends first.
func (b *promptMux) writeContext(ctx context.Context, line []byte) error {
	given := make(chan error, 1)
	go func() { // ends with the agent
		given <- panics.Catch(nil, "giving a message to an agent", func() error { return b.write(line) })
	}()
	select {
	case err := <-given:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Write passes the agent's lines to the client, except answers to injected prompts.
func (b *promptMux) Write(p []byte) (int, error) {
	b.writing.Lock()
	defer b.writing.Unlock()
	if !b.prompted() && len(b.partial) == 0 {
		b.inside = len(p) > 0 && p[len(p)-1] != '\n'
		return b.out.Write(p)
	}
	var clients []byte // one write, as received
	for line := range bytes.Lines(p) {
		whole := line[len(line)-1] == '\n'
		switch {
		case b.inside: // a line whose start was written already
			clients = append(clients, line...)
			b.inside = !whole
		case !whole:
			b.partial = append(b.partial, line...)
		default:
			line = append(b.partial, line...)
			b.partial = nil
			if !b.takeAnswer(line) {
				clients = append(clients, line...)
			}
		}
	}
	if len(clients) > 0 {
		if _, err := b.out.Write(clients); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// takeAnswer reports whether a line answers an injected prompt, and removes the prompt then.
func (b *promptMux) takeAnswer(line []byte) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, p := range b.others {
		if !bytes.Contains(line, []byte(id)) {
			continue
		}
		var m struct {
			ID     *string          `json:"id"`
			Method *json.RawMessage `json:"method"`
		}
		if json.Unmarshal(line, &m) == nil && m.Method == nil && m.ID != nil && *m.ID == id {
			delete(b.others, id)
			p.result = line
			close(p.done)
			return true
		}
	}
	return false
}

// answer returns the result of the prompt, or its error.
func (p *injected) answer() ([]byte, error) {
	var m struct {
		Result json.RawMessage `json:"result"`
		Error  *struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal(p.result, &m); err != nil {
		return nil, fmt.Errorf("the agent's answer: %w", err)
	}
	if m.Error != nil {
		return nil, errors.New(m.Error.Message)
	}
	return m.Result, nil
}
