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
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

const (
	// maxFrame limits the bytes of a message of the gateway, such as an update with a large file.
	maxFrame = limits.Skipped
	// closeTime limits the time until the gateway closes its side.
	closeTime = 2 * time.Second
)

// bridge connects a WebSocket, whose text messages are ACP messages, with lines on standard input and output.
type bridge struct {
	ws  *websocket.Conn
	in  io.Reader
	out io.Writer

	mu    sync.Mutex
	open  map[string]bool // unanswered requests of the client, by their ids
	ended bool            // no more requests will arrive
	quiet chan struct{}   // closed after the end of input, when no request is open
}

func newBridge(ws *websocket.Conn, in io.Reader, out io.Writer) *bridge {
	return &bridge{ws: ws, in: in, out: out, open: map[string]bool{}, quiet: make(chan struct{})}
}

// run returns when standard input has ended and all requests are answered, when the connection has ended, or when ctx
// ends.
func (b *bridge) run(ctx context.Context) error {
	defer func() { _ = b.ws.CloseNow() }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sent, received := make(chan error, 1), make(chan error, 1)
	go func() { sent <- b.send(ctx) }() // if the input is not a pipe, the goroutine may remain until the process ends
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

// close closes the connection with a handshake, if the gateway responds.
func (b *bridge) close() {
	done := make(chan struct{})
	go func() { defer close(done); _ = b.ws.Close(websocket.StatusNormalClosure, "") }()
	select {
	case <-done:
	case <-time.After(closeTime):
	}
}

// send sends each line without its line feed. It skips empty lines.
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
		// Outside of strings, line feeds have no meaning in JSON; inside of strings there are none.
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

// why returns the reason why the connection has ended, or nil if it was closed normally.
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

// message contains the members that the bridge uses.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method *string         `json:"method"`
}

// asks records a request. A line that cannot be parsed is forwarded, and not waited for.
func (b *bridge) asks(line []byte) {
	var m message
	if json.Unmarshal(line, &m) != nil || m.Method == nil || m.ID == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open[string(m.ID)] = true
}

// answers records an answer.
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

// settle closes quiet if no request is open after the end of input. b.mu is held.
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
