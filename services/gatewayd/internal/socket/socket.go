// Package socket implements ACP's remote transport over WebSocket: a text message is a frame, and one connection
// carries all streams.
//
// It knows the transport's rules and close codes. It must not know how a client is authenticated, nor how an agent is
// reached.
package socket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"

	"github.com/acphost/acphost/internal/limits"
	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/services/gatewayd/internal/apierror"
	"github.com/acphost/acphost/services/gatewayd/internal/intake"
	"github.com/acphost/acphost/services/gatewayd/internal/relay"
)

const (
	// initializeTimeout is how long a client may take to send initialize.
	initializeTimeout = 30 * time.Second
	// writeTimeout is how long a client may take to read a frame; for long frames, slowest is the minimum rate in bytes
	// per second.
	writeTimeout = time.Minute
	minRate      = 64 << 10
	// pingInterval is the interval of pings to a client, so that networks keep the connection.
	pingInterval = 30 * time.Second
	// maxReason is the maximum length of a close reason, in bytes (RFC 6455).
	maxReason = 123
)

// Options configure a WebSocket connection.
type Options struct {
	Relay *relay.Registry
	// ID is the connection's id, Owner its owner, Agent the requested agent.
	ID    string
	Owner relay.Owner
	Agent relay.Target
	// Intake reads the client's messages.
	Intake *intake.Intake
	Logger *slog.Logger
}

// IsUpgrade reports whether a request asks for a WebSocket.
func IsUpgrade(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

// Serve answers a request that asks for a WebSocket, and returns when the connection has ended. The caller has
// authenticated the request and checked its page.
func Serve(w http.ResponseWriter, r *http.Request, o Options) {
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true, CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		o.Logger.Debug("a WebSocket could not be opened", "error", err) // Accept has answered
		return
	}
	defer func() { _ = ws.CloseNow() }()
	ws.SetReadLimit(maxSkipped) // a message longer than o.Intake accepts is skipped and answered, so that other sessions continue
	// The request's context ends only with the handler: net/http does not own the connection any more.
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	defer cancel()
	s := &session{Options: o, ws: ws, ctx: ctx, cancel: cancel}
	s.run()
}

// session is a WebSocket with its connection.
type session struct {
	Options
	ws      *websocket.Conn
	ctx     context.Context
	cancel  context.CancelFunc
	reading atomic.Bool // a read from the client is active
	closing sync.Once
	conn    *relay.Conn
}

func (s *session) run() {
	stop := s.Relay.OnClose(func() { s.close(apierror.Unavailable.Close, relay.ErrClosing.Error()) })
	defer stop()
	m, frame, ok := s.first()
	if !ok {
		return
	}
	opening, cancel := context.WithCancel(s.ctx)
	c, err := s.Relay.Connect(opening, s.ID, s.Owner, s.Agent)
	cancel()
	if err != nil {
		kind, text := apierror.Of(s.ctx, err)
		s.send(kind.Initialize(m.RawID, text))
		s.close(kind.Close, "Initialize failed")
		return
	}
	s.conn = c
	var wg sync.WaitGroup
	defer wg.Wait()
	defer s.cancel()
	defer c.Close(errGone) // after a panic, too
	wg.Go(panics.Guard(s.Logger, "writing to a client", s.pump, c.Close, func(error) { s.cancel() }))
	wg.Go(panics.Guard(s.Logger, "pinging a client", s.ping, c.Close, func(error) { s.cancel() }))
	if err := c.Send(frame); err == nil {
		s.readAll()
	}
}

var errGone = errors.New("the client has closed its WebSocket")

// first reads messages until initialize; false: there was none, and the connection is closed.
func (s *session) first() (relay.Message, []byte, bool) {
	ctx, cancel := context.WithTimeout(s.ctx, initializeTimeout)
	defer cancel()
	for {
		m, frame, ok := s.next(ctx)
		switch {
		case !ok:
			return m, nil, false
		case frame == nil, m.Kind == relay.Response:
		case m.Kind == relay.Invalid:
			s.send(relay.Failure(nil, apierror.Invalid.RPC, "Invalid request", "a message has a method, or an id and a result or an error"))
		case m.Method != "initialize":
			s.close(apierror.Invalid.Close, "First message must be initialize")
			return m, nil, false
		case m.Kind != relay.Request || m.ID == "" || string(m.RawID) == "null":
			s.close(apierror.Invalid.Close, "Initialize request must include an ID")
			return m, nil, false
		default:
			return m, frame, true
		}
	}
}

// next reads a message; a nil frame: it was answered, or is ignored. False: the connection has ended.
func (s *session) next(ctx context.Context) (relay.Message, []byte, bool) {
	kind, frame, err := s.read(ctx)
	if oversized, ok := errors.AsType[*tooLong](err); ok {
		return relay.Message{}, nil, s.answerTooLong(oversized)
	}
	if err != nil {
		return relay.Message{}, nil, false
	}
	if kind != websocket.MessageText {
		s.Logger.Debug("a WebSocket message that is not text was ignored", "connection", s.ID)
		return relay.Message{}, nil, true
	}
	m, err := relay.Read(frame)
	if err != nil {
		_, failure := apierror.Unread(err)
		return m, nil, s.send(failure)
	}
	return m, relay.Line(frame), true
}

// read reads a message. It waits for the start without a limit, and then for intake.Timeout.
func (s *session) read(ctx context.Context) (websocket.MessageType, []byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.reading.Store(true)
	kind, r, err := s.ws.Reader(ctx)
	s.reading.Store(false)
	if err != nil {
		return 0, nil, err
	}
	late := time.AfterFunc(intake.Timeout, cancel)
	defer late.Stop()
	frame, err := s.Intake.Read(ctx, s.Owner.ID, r)
	if errors.Is(err, intake.ErrTooLong) {
		oversized := &tooLong{size: int64(len(frame))}
		_, _ = oversized.Envelope.Write(frame)
		rest, err := io.Copy(&oversized.Envelope, r)
		oversized.size += rest
		if errors.Is(err, websocket.ErrMessageTooBig) {
			s.close(apierror.TooLong.Close, fmt.Sprintf("a message has more than %d MiB", maxSkipped>>20))
		}
		if err != nil {
			return 0, nil, err
		}
		return 0, nil, oversized
	}
	return kind, frame, err
}

// maxSkipped is the length of the longest message that is skipped, in bytes. A longer one ends the connection.
const maxSkipped = limits.Skipped

// tooLong is a message that was skipped because it is too long.
type tooLong struct {
	relay.Envelope
	size int64
}

func (t *tooLong) Error() string { return intake.ErrTooLong.Error() }

// answerTooLong answers a skipped message: a request to the client, an answer to the agent, which waits for it. It
// reports whether the connection continues.
func (s *session) answerTooLong(oversized *tooLong) bool {
	why := fmt.Sprintf("the message has %d bytes, more than the %d that a message over a gateway may have", oversized.size, s.Intake.MaxSize())
	s.Logger.Warn("a client sent a message that is too long; it was dropped", "connection", s.ID, "bytes", oversized.size, "limit", s.Intake.MaxSize(), "method", oversized.Name())
	switch {
	case oversized.Method != nil && oversized.ID == nil: // a notification has no answer
		return true
	case oversized.Method == nil && oversized.ID != nil && s.conn != nil:
		return s.conn.Send(relay.Line(relay.Failure(oversized.ID, apierror.TooLong.RPC, "Invalid response", "the client's answer was dropped: "+why))) == nil
	}
	return s.send(relay.Failure(oversized.ID, apierror.TooLong.RPC, "Invalid request", why))
}

// readAll passes the client's messages to the agent until the client or the connection ends.
func (s *session) readAll() {
	for {
		m, frame, ok := s.next(s.ctx)
		switch {
		case !ok:
			return
		case frame == nil:
		case len(m.ID) > relay.MaxID+1 || len(m.Session) > relay.MaxID:
			s.close(apierror.Invalid.Close, "an id is too long")
			return
		case m.Method == "initialize" && m.Kind == relay.Request:
			if !s.send(relay.Failure(m.RawID, apierror.Invalid.RPC, "Invalid request", "Initialize not allowed on existing connection")) {
				return
			}
		default:
			if err := s.conn.SendMessage(m, frame); err != nil { // pump reports the reason
				<-s.conn.Done()
				return
			}
		}
	}
}

// pump passes the agent's frames to the client until the connection ends.
func (s *session) pump() {
	for {
		frames, err := s.conn.Recv()
		if err != nil {
			s.closeFor(err)
			return
		}
		for _, f := range frames {
			if !s.send(f) {
				s.conn.Close(errSlow)
				return
			}
		}
		s.conn.RecordSent(frames)
	}
}

var errSlow = errors.New("the client did not take what was sent to it")

// closeFor closes the WebSocket with the reason why the connection has ended.
func (s *session) closeFor(err error) {
	kind := apierror.Failed // as for an ended agent, whatever its error
	if errors.Is(err, relay.ErrClosing) || errors.Is(err, relay.ErrNotAllowed) {
		kind, _ = apierror.Of(s.ctx, err)
	}
	s.close(kind.Close, err.Error())
}

// ping regularly checks whether the client answers.
func (s *session) ping() {
	tick := time.NewTicker(pingInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			return
		case <-s.conn.Done():
			return
		}
		ctx, cancel := context.WithTimeout(s.ctx, pingInterval)
		err := s.ws.Ping(ctx)
		cancel()
		// While no read from the client is active, because the agent does not read, its pong is not received either.
		if err != nil && (s.reading.Load() || !errors.Is(err, context.DeadlineExceeded)) {
			s.conn.Close(errSlow)
			s.cancel()
			return
		}
	}
}

// send sends a frame; false: the connection is unusable.
func (s *session) send(frame []byte) bool {
	if !utf8.Valid(frame) { // clients would close the connection
		frame = []byte(strings.ToValidUTF8(string(frame), "\uFFFD"))
	}
	ctx, cancel := context.WithTimeout(s.ctx, writeTimeout+time.Duration(len(frame)/minRate)*time.Second)
	defer cancel()
	return s.ws.Write(ctx, websocket.MessageText, frame) == nil
}

// close closes the WebSocket with a code and a reason.
func (s *session) close(code websocket.StatusCode, reason string) {
	s.closing.Do(func() {
		if len(reason) > maxReason {
			reason = strings.ToValidUTF8(reason[:maxReason], "")
		}
		_ = s.ws.Close(code, reason)
		s.cancel()
	})
}
