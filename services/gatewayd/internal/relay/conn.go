package relay

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/acphost/acphost/internal/panics"
)

// maxSessions bounds the session streams of a connection, with and without readers.
const maxSessions = 4096

// finalReadTimeout is how long a client may take to read the last messages of an ended agent.
const finalReadTimeout = 5 * time.Second

// Conn is a connection: a client and its agent. It is safe for concurrent use, except for Initialize, Stream and Route,
// of which one is called once.
type Conn struct {
	// ID is random: only the client knows it.
	ID string

	reg    *Registry
	owner  Owner
	agent  Agent
	routed bool // its frames go to streams; set under the Registry's mu
	ctx    context.Context
	end    context.CancelCauseFunc
	once   sync.Once

	sending sync.Mutex // held while a frame is sent

	mu             sync.Mutex // guards the fields below
	main           *outbox
	sessions       map[string]*outbox
	clientRequests map[string]string // the session whose stream gets the answer, by request id; "": main
	agentRequests  map[string]string // the agent's open requests on session streams
	initial        chan []byte       // receives the answer to initialize; nil: received
	initializeID   string            // the id of initialize
	room           chan struct{}     // closed when the client has read a frame
	busy           int               // number of active streams and requests
	idle           *time.Timer
	finished       bool
	turns          map[string]bool // the client's open prompts, by id
}

func newConn(r *Registry, id string, owner Owner, a Agent) *Conn {
	c := &Conn{
		ID: id, reg: r, owner: owner, agent: a, sessions: map[string]*outbox{}, clientRequests: map[string]string{}, agentRequests: map[string]string{}, turns: map[string]bool{},
		room: make(chan struct{}),
	}
	c.ctx, c.end = context.WithCancelCause(context.Background())
	c.main = c.newOutbox()
	return c
}

// Done returns a channel that is closed when the connection has ended; Cause returns the reason.
func (c *Conn) Done() <-chan struct{} { return c.ctx.Done() }

// Cause returns why the connection has ended.
func (c *Conn) Cause() error { return context.Cause(c.ctx) }

// Close ends the connection and its agent. It may be called again.
func (c *Conn) Close(why error) {
	c.once.Do(func() {
		defer c.reg.leave(c.owner.ID) // last, and after a panic, too: the Registry's Close waits for it
		c.end(why)
		defer c.agent.Close()
		c.mu.Lock()
		c.finished = true
		if c.idle != nil {
			c.idle.Stop()
		}
		c.main.close()
		for _, o := range c.sessions {
			o.close()
		}
		c.notifyRead()
		c.mu.Unlock()
		c.reg.mu.Lock()
		delete(c.reg.all, c.ID)
		c.reg.mu.Unlock()
		c.reg.becameIdle()
		c.reg.log.Info("a client's connection is over", "connection", c.ID, "owner", c.owner.ID, "why", why)
	})
}

// Send sends a frame to the agent, as one line.
func (c *Conn) Send(frame []byte) error {
	c.sending.Lock()
	defer c.sending.Unlock()
	if c.ctx.Err() != nil {
		return c.Cause()
	}
	return c.agent.Send(frame) // after an error, the reader of the agent reports how it ended
}

// recordPrompt records that a turn begins; beyond Limits.Open, turns are not counted.
func (c *Conn) recordPrompt(m Message) {
	if m.Kind != Request || m.Method != "session/prompt" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.turns) < c.reg.limits.Open {
		c.turns[m.ID] = true
	}
}

// turnEnded records that a request of the client was answered; mu is held.
func (c *Conn) turnEnded(id string) {
	if c.turns[id] {
		delete(c.turns, id)
		c.reg.becameIdle()
	}
}

// isActive reports whether a turn is active, or frames wait for the client.
func (c *Conn) isActive() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.turns) > 0 || c.waiting() > 0
}

// SendMessage is Send of a parsed message, for a client with one stream for all frames.
func (c *Conn) SendMessage(m Message, frame []byte) error {
	c.recordPrompt(m)
	return c.Send(frame)
}

// RecordSent records which turns end with frames of Recv that were sent to the client. It assumes that a frame with a
// member "method" anywhere is no answer, which is nearly always right: parsing each would be too expensive. An error
// only makes Drain wait longer.
func (c *Conn) RecordSent(frames [][]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.turns) == 0 {
		return
	}
	for _, f := range frames {
		if bytes.Contains(f, []byte(`"method"`)) {
			continue
		}
		if m, err := Read(f); err == nil && m.Kind == Response {
			c.turnEnded(m.ID)
		}
	}
}

// Recv returns the agent's next frames, in order, for a client with one stream for all frames. It is for one goroutine.
// Any error means that the connection has ended.
func (c *Conn) Recv() ([][]byte, error) {
	frames, err := c.agent.Recv()
	if err != nil {
		c.Close(err)
		return nil, c.Cause()
	}
	return frames, nil
}

// Initialize sends the client's first message, and passes the agent's frames to streams from now on. It returns the
// answer.
func (c *Conn) Initialize(ctx context.Context, m Message, frame []byte) ([]byte, error) {
	c.mu.Lock()
	c.initializeID, c.initial = m.ID, make(chan []byte, 1)
	initial := c.initial
	c.idle = time.AfterFunc(c.reg.limits.Idle, panics.Guard(c.reg.log, "ending an idle connection", c.closeIfUnused))
	c.busy = 1
	c.mu.Unlock()
	defer c.release()
	c.reg.mu.Lock()
	c.routed = true
	c.reg.mu.Unlock()
	c.reg.wg.Go(panics.Guard(c.reg.log, "passing on what an agent sends", c.route, c.Close)) // wg is not 0, since it counts the connection
	if err := c.Send(frame); err != nil {
		return nil, err
	}
	select {
	case answer := <-initial:
		return answer, nil
	case <-c.ctx.Done():
		select {
		case answer := <-initial: // the answer arrived nevertheless
			return answer, nil
		default:
			return nil, c.Cause()
		}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Use marks the connection as in use, and so not idle, until release is called.
func (c *Conn) Use() (release func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy++
	return sync.OnceFunc(c.release)
}

func (c *Conn) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy--; c.busy == 0 && !c.finished {
		c.idle.Reset(c.reg.limits.Idle)
	}
}

// closeIfUnused ends the connection if its client has left.
func (c *Conn) closeIfUnused() {
	c.mu.Lock()
	busy := c.busy
	c.mu.Unlock()
	if busy == 0 {
		c.Close(fmt.Errorf("the client had neither a stream nor a request for %s", c.reg.limits.Idle))
	}
}

// InvalidError is the reason why a message of the client is invalid.
type InvalidError string

func (p InvalidError) Error() string { return string(p) }

// LimitError is a limit that a client has reached. Nothing was sent.
type LimitError string

func (e LimitError) Error() string { return string(e) }

// Forward sends a message of the client to the agent. sessionHeader is the session that the request names in its
// header; "": none. A request waits until the client has read enough of the earlier frames. A Problem is a client
// error; after a Problem or an Excess, nothing was sent.
func (c *Conn) Forward(ctx context.Context, m Message, frame []byte, sessionHeader string) error {
	if len(m.ID) > MaxID+1 || len(m.Session) > MaxID || len(sessionHeader) > MaxID {
		return InvalidError(fmt.Sprintf("an id has more than %d bytes", MaxID))
	}
	if m.Kind == Response {
		if err := c.recordAnswer(m, sessionHeader); err != nil {
			return err
		}
		return c.Send(frame)
	}
	if m.Kind == Request {
		if err := c.awaitRoom(ctx); err != nil {
			return err
		}
		session := sessionHeader
		if m.Method == "session/load" || m.Method == "session/attach" { // its session's stream has the history meanwhile
			session = ""
		}
		if err := c.recordRequest(m.ID, session); err != nil {
			return err
		}
		c.recordPrompt(m)
	}
	return c.Send(frame)
}

// recordAnswer closes a request of the agent.
func (c *Conn) recordAnswer(m Message, sessionHeader string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	session, known := c.agentRequests[m.ID]
	switch {
	case known && sessionHeader == "":
		return InvalidError("Missing Acp-Session-Id")
	case known && sessionHeader != session:
		return InvalidError("Mismatched Acp-Session-Id")
	}
	delete(c.agentRequests, m.ID)
	return nil
}

// recordRequest records the stream for the answer to a request.
func (c *Conn) recordRequest(id, session string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.clientRequests) >= c.reg.limits.Open {
		return LimitError(fmt.Sprintf("%d requests are unanswered: wait for an answer", len(c.clientRequests)))
	}
	c.clientRequests[id] = session
	return nil
}

// Stream returns a reader of the connection's stream, or of a session's. after, if set, is the number of the last frame
// that the client has, 0 before the first. The error is ErrTaken, ErrTooOld, a Problem, an Excess, or why the
// connection has ended.
func (c *Conn) Stream(session string, after *uint64) (*Reader, error) {
	if len(session) > MaxID {
		return nil, InvalidError(fmt.Sprintf("an id has more than %d bytes", MaxID))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.finished {
		return nil, c.Cause()
	}
	o := c.main
	if session != "" {
		if o = c.sessions[session]; o == nil {
			if len(c.sessions) >= maxSessions && !c.dropEmptyStreams() {
				return nil, LimitError(fmt.Sprintf("the connection has %d session streams: end one", len(c.sessions)))
			}
			if after != nil && *after > 0 {
				return nil, ErrTooOld
			}
			o = c.newOutbox()
			c.sessions[session] = o
		}
	}
	return o.attach(after)
}

// dropEmptyStreams drops empty session streams without a reader; mu is held.
func (c *Conn) dropEmptyStreams() (dropped bool) {
	for id, o := range c.sessions {
		if o.reader == nil && len(o.frames) == 0 {
			delete(c.sessions, id)
			dropped = true
		}
	}
	return dropped
}

// route passes the agent's frames to the streams until the agent ends.
func (c *Conn) route() {
	for {
		frames, err := c.agent.Recv()
		if err != nil {
			c.drain()
			c.Close(err)
			return
		}
		for _, f := range frames {
			if err := c.deliver(f); err != nil {
				c.Close(err)
				return
			}
		}
	}
}

// drain waits until the client has read the last frames of the agent, and ends its streams.
func (c *Conn) drain() {
	late := time.NewTimer(finalReadTimeout)
	defer late.Stop()
	for {
		c.mu.Lock()
		c.main.finish()
		for _, o := range c.sessions {
			o.finish()
		}
		left, room := c.waiting(), c.room
		c.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-room:
		case <-late.C:
			return
		case <-c.ctx.Done():
			return
		}
	}
}

// deliver puts a frame into its stream, and waits for room for the next.
func (c *Conn) deliver(frame []byte) error {
	m, err := Read(frame)
	if err != nil {
		c.reg.log.Debug("a frame of the agent makes no sense; it was dropped", "connection", c.ID, "error", err)
		return nil
	}
	if err := c.enqueue(m, frame); err != nil {
		return err
	}
	return c.awaitClient()
}

// enqueue puts a frame into its stream, or passes it to Initialize if that waits for it.
func (c *Conn) enqueue(m Message, frame []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.Kind == Response && c.initial != nil && m.ID == c.initializeID {
		c.initial <- frame
		c.initial = nil
		return nil
	}
	o, err := c.streamOf(m)
	if err == nil && !c.finished {
		o.put(frame)
	}
	return err
}

// streamOf returns the stream of a frame; mu is held.
func (c *Conn) streamOf(m Message) (*outbox, error) {
	session := ""
	switch m.Kind {
	case Response:
		session = c.clientRequests[m.ID]
		delete(c.clientRequests, m.ID)
		c.turnEnded(m.ID)
	case Request, Notification:
		if session = m.Session; session != "" && m.Kind == Request {
			if len(c.agentRequests) >= c.reg.limits.Open {
				return nil, fmt.Errorf("the client has left %d requests of the agent unanswered", len(c.agentRequests))
			}
			c.agentRequests[m.ID] = session
		}
	}
	if session == "" {
		return c.main, nil
	}
	if o := c.sessions[session]; o != nil {
		return o, nil
	}
	unread := 0
	for _, o := range c.sessions {
		if o.reader == nil {
			unread++
		}
	}
	if unread >= c.reg.limits.Unread && !c.dropEmptyStreams() || len(session) > MaxID {
		return nil, fmt.Errorf("the agent speaks of more than %d sessions whose streams the client does not read", c.reg.limits.Unread)
	}
	o := c.newOutbox()
	c.sessions[session] = o
	return o, nil
}

// notifyRead wakes waiters after the client has read frames, or the state has changed; mu is held.
func (c *Conn) notifyRead() {
	close(c.room)
	c.room = make(chan struct{})
	c.reg.becameIdle()
}

// waiting returns how many bytes wait for the client; mu is held.
func (c *Conn) waiting() int {
	n := c.main.waiting
	for _, o := range c.sessions {
		n += o.waiting
	}
	return n
}

// full reports whether too many bytes wait for the client; mu is held.
func (c *Conn) full() bool {
	n := c.waiting()
	return n >= c.reg.limits.Buffered || n >= guaranteedBuffer && c.reg.waiting.Load() >= int64(c.reg.limits.BufferedAll)
}

// newOutbox returns a new stream.
func (c *Conn) newOutbox() *outbox {
	return newOutbox(&c.mu, min(c.reg.limits.Replay, maxReplayAll/(1+len(c.sessions))), &c.reg.waiting, c.notifyRead)
}

// awaitClient waits while too many bytes wait for the client. It ends the connection of a client that reads nothing
// for too long.
func (c *Conn) awaitClient() error {
	for {
		c.mu.Lock()
		full, room := c.full(), c.room
		c.mu.Unlock()
		if !full {
			return nil
		}
		stalled := time.NewTimer(c.reg.limits.Stall)
		select {
		case <-room:
			stalled.Stop()
		case <-c.ctx.Done():
			stalled.Stop()
			return c.Cause()
		case <-stalled.C:
			return fmt.Errorf("the client has read nothing for %s, and %d bytes wait for it", c.reg.limits.Stall, c.reg.limits.Buffered)
		}
	}
}

// awaitRoom waits until fewer bytes wait for the client than make its agent wait: a client that does not read cannot
// send more requests.
func (c *Conn) awaitRoom(ctx context.Context) error {
	for {
		c.mu.Lock()
		full, room := c.full(), c.room
		c.mu.Unlock()
		if !full {
			return nil
		}
		select {
		case <-room:
		case <-c.ctx.Done():
			return c.Cause()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
