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

	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/fault"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
)

// between stands between a client elsewhere and the link of its agent. By it somebody else prompts the agent as the
// client does: the prompt passes the link as one of the client's, and the client does not see its answer. It is safe
// for concurrent use.
type between struct {
	from *io.PipeReader // what the link reads
	to   *io.PipeWriter
	out  io.Writer     // the client
	over chan struct{} // closed when the link is over

	in sync.Mutex // held while a line is given to the link

	writing sync.Mutex // held while something is written to out, and guards what follows
	partial []byte     // the beginning of a line of the agent's, while there are prompts of others
	inside  bool       // the last thing that was written to out did not end a line

	mu     sync.Mutex           // guards what follows
	others map[string]*injected // prompts of others that have no answer, by the id of the request
}

// injected is a prompt that is not the client's.
type injected struct {
	session string
	begins  chan bool     // takes once whether its turn begins
	over    chan struct{} // closed when it is answered
	result  []byte        // the message that answered it, once over is closed
}

// newBetween returns what stands between a client and a link; somebody has to call carry.
func newBetween(out io.Writer) *between {
	b := &between{out: out, over: make(chan struct{}), others: map[string]*injected{}}
	b.from, b.to = io.Pipe()
	return b
}

// carry gives the client's lines to the link, until the client ends or the link reads no more.
func (b *between) carry(in io.Reader) {
	lines := bufio.NewReaderSize(in, 64<<10)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			if e := b.give(line); e != nil {
				err = e
			}
		}
		if err != nil {
			_ = b.to.CloseWithError(err)
			return
		}
	}
}

// give gives a line to the link.
func (b *between) give(line []byte) error {
	b.in.Lock()
	defer b.in.Unlock()
	_, err := b.to.Write(line)
	return err
}

// close ends what the link reads, once it is over.
func (b *between) close() {
	_ = b.from.CloseWithError(io.ErrClosedPipe)
	close(b.over)
}

// foreign is the link's Client.Foreign. Who prompts is told by it alone whether a turn began: the link sees all prompts
// in order.
func (b *between) foreign(id []byte) (begins func(bool)) {
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

// forget drops a prompt that has no answer.
func (b *between) forget(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.others, id)
}

// prompted reports whether a prompt of somebody else's has no answer.
func (b *between) prompted() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.others) > 0
}

// prompt prompts the agent. id must be nobody else's, and not to be guessed. Where ctx ends before an agent that reads
// nothing has taken the prompt, it may take it later.
func (b *between) prompt(ctx context.Context, id, session string, params []byte) (*injected, error) {
	p := &injected{session: session, begins: make(chan bool, 1), over: make(chan struct{})}
	b.mu.Lock()
	b.others[id] = p
	b.mu.Unlock()
	err := b.giveOr(ctx, jsonrpc.AppendRequest(nil, jsonrpc.AppendString(nil, id), acp.MethodSessionPrompt, params))
	if err == nil {
		select {
		case begins := <-p.begins:
			if !begins {
				return nil, fault.New(fault.Precondition, "session %q has a turn under way: wait for its end, or cancel it", excerpt(session))
			}
		case <-p.over: // it was too late, which is the answer
		case <-b.over:
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

// cancel has the agent end a session's turn.
func (b *between) cancel(ctx context.Context, session string) error {
	err := b.giveOr(ctx, jsonrpc.AppendNotification(nil, acp.MethodSessionCancel, sessionParams(session)))
	if errors.Is(err, io.ErrClosedPipe) {
		return fault.New(fault.Precondition, "cancel a turn of session %q: its agent has ended", excerpt(session))
	}
	return err
}

// giveOr gives a line to the link, and does not wait for it longer than ctx.
func (b *between) giveOr(ctx context.Context, line []byte) error {
	given := make(chan error, 1)
	go func() { // it ends with the agent
		given <- panics.Catch(nil, "giving a message to an agent", func() error { return b.give(line) })
	}()
	select {
	case err := <-given:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Write gives the agent's lines to the client, but for answers to prompts that are not its own.
func (b *between) Write(p []byte) (int, error) {
	b.writing.Lock()
	defer b.writing.Unlock()
	if !b.prompted() && len(b.partial) == 0 {
		b.inside = len(p) > 0 && p[len(p)-1] != '\n'
		return b.out.Write(p)
	}
	var clients []byte // in one write, as it came
	for line := range bytes.Lines(p) {
		whole := line[len(line)-1] == '\n'
		switch {
		case b.inside: // a line whose beginning is written already
			clients = append(clients, line...)
			b.inside = !whole
		case !whole:
			b.partial = append(b.partial, line...)
		default:
			line = append(b.partial, line...)
			b.partial = nil
			if !b.takes(line) {
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

// takes takes a line that answers a prompt of somebody else's.
func (b *between) takes(line []byte) bool {
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
			close(p.over)
			return true
		}
	}
	return false
}

// answer is what answered a prompt: the result, or the error in words.
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
