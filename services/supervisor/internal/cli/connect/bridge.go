package connect

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/acphost/acphost/internal/limits"
	"github.com/acphost/acphost/services/supervisor/internal/safetext"
)

const (
	// maxFrame bounds a message of the gateway, in bytes: a read of a large file, in an update.
	maxFrame = limits.Skipped
	// closeTime is how long the gateway may take to close its side.
	closeTime = 2 * time.Second
)

// bridge joins a WebSocket, on which each text message is one of ACP, with lines.
type bridge struct {
	ws  *websocket.Conn
	in  io.Reader
	out io.Writer

	mu    sync.Mutex
	open  map[string]bool // requests of the client that have no answer yet, by their ids
	ended bool            // no more requests come
	quiet chan struct{}   // closed when they have ended, and none is open
}

func newBridge(ws *websocket.Conn, in io.Reader, out io.Writer) *bridge {
	return &bridge{ws: ws, in: in, out: out, open: map[string]bool{}, quiet: make(chan struct{})}
}

// run returns when standard input has ended and what was asked is answered, when the connection has ended, or with ctx.
func (b *bridge) run(ctx context.Context) error {
	defer func() { _ = b.ws.CloseNow() }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sent, received := make(chan error, 1), make(chan error, 1)
	go func() { sent <- b.send(ctx) }() // where input is not a pipe's, this may be left waiting; the process ends then
	go func() { received <- b.receive(ctx) }()
	for {
		select {
		case err := <-sent:
			if err != nil {
				return err
			}
			sent = nil
		case <-b.quiet:
			b.close()
			return nil
		case err := <-received:
			return err
		case <-ctx.Done():
			b.close()
			return nil
		}
	}
}

// close closes the connection in order, if the gateway does its part.
func (b *bridge) close() {
	done := make(chan struct{})
	go func() { defer close(done); _ = b.ws.Close(websocket.StatusNormalClosure, "") }()
	select {
	case <-done:
	case <-time.After(closeTime):
	}
}

// send sends each line as it is, without its end; empty ones are nothing.
func (b *bridge) send(ctx context.Context) error {
	for r := bufio.NewReaderSize(b.in, 64<<10); ; {
		line, err := r.ReadBytes('\n')
		line = bytes.TrimSuffix(line, []byte("\n"))
		if len(bytes.TrimSpace(line)) > 0 {
			b.asks(line)
			if err := b.ws.Write(ctx, websocket.MessageText, line); err != nil {
				return b.why(err)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			b.endAsking()
			return nil
		case err != nil:
			return fmt.Errorf("read standard input: %w", err)
		}
	}
}

// receive writes each message as a line.
func (b *bridge) receive(ctx context.Context) error {
	for {
		kind, frame, err := b.ws.Read(ctx)
		if err != nil {
			return b.why(err)
		}
		if kind != websocket.MessageText {
			return errors.New("the gateway has sent bytes where ACP has text: it does not speak ACP's remote transport")
		}
		// Between the parts of a message, a line's end means nothing; within a string there is none.
		for i, c := range frame {
			if c == '\n' {
				frame[i] = ' '
			}
		}
		if _, err := b.out.Write(append(frame, '\n')); err != nil {
			return fmt.Errorf("write to standard output: %w", err)
		}
		b.answers(frame)
	}
}

// why says why the connection is over; nil: it was closed in order.
func (b *bridge) why(err error) error {
	closed, ok := errors.AsType[websocket.CloseError](err)
	switch {
	case !ok:
		return fmt.Errorf("it broke: %w", err)
	case closed.Code == websocket.StatusNormalClosure:
		return nil
	}
	reason := ""
	if text := safetext.Line(closed.Reason); text != "" {
		reason = ": " + text
	}
	return fmt.Errorf("the gateway has closed it (%d)%s", closed.Code, reason)
}

// message is what is looked at in a message.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method *string         `json:"method"`
}

// asks notes a request. What cannot be read is passed on, and not waited for.
func (b *bridge) asks(line []byte) {
	var m message
	if json.Unmarshal(line, &m) != nil || m.Method == nil || m.ID == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open[string(m.ID)] = true
}

// answers notes an answer.
func (b *bridge) answers(frame []byte) {
	var m message
	if json.Unmarshal(frame, &m) != nil || m.Method != nil || m.ID == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.open, string(m.ID))
	b.settle()
}

func (b *bridge) endAsking() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	b.settle()
}

// settle says that nothing is waited for any more; b.mu is held.
func (b *bridge) settle() {
	if !b.ended || len(b.open) > 0 {
		return
	}
	select {
	case <-b.quiet:
	default:
		close(b.quiet)
	}
}
