// Package relay holds the connections of a gateway: each connects a client with its own agent. The frames of an agent
// are delivered to the streams that its client reads: the connection's, and one for each session.
//
// The package knows JSON-RPC's envelope and which stream a message belongs to (ACP's remote transport). Memory is
// bounded, and an agent whose client does not read waits. The package must not know HTTP, WebSocket, gRPC, or how
// clients are authenticated: an owner is a name.
package relay

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/acphost/acphost/internal/limits"
	"github.com/acphost/acphost/internal/panics"
)

// Agent is an agent at a supervisor.
type Agent interface {
	// Send sends a frame, one line of JSON without its line feed. It waits for room, and is not called concurrently.
	Send(frame []byte) error
	// Recv returns the next frames. An error ends the connection, and its text is the reason. It is not called
	// concurrently.
	Recv() ([][]byte, error)
	// Close ends the agent. It does not wait, ends Send and Recv, and may be called again.
	Close()
}

// Target names the agent that a client requests. The zero value is the only agent of the supervisor.
type Target struct {
	// Name is the agent's name; empty: the only one.
	Name string
	// None means that the connection has no agent, and only attaches to sessions. Name is empty then.
	None bool
}

// String returns the target as the log shows it.
func (t Target) String() string {
	if t.None {
		return "(none: attaches to sessions)"
	}
	return t.Name
}

// Open opens an agent. ctx bounds only the opening.
type Open func(ctx context.Context, agent Target) (Agent, error)

// Limits bound a gateway. Zero means the default.
type Limits struct {
	// Connections is the limit of connections, 256; ConnectionsEach that of one owner, 32.
	Connections, ConnectionsEach int
	// Buffered is how many bytes of frames may wait for a client before its agent waits: 64 MiB.
	Buffered int
	// BufferedAll is how many bytes of frames may wait for all clients: 512 MiB. Above it, the agents of clients with
	// more than bufferedSure bytes wait.
	BufferedAll int
	// Replay is how many bytes of sent frames each stream keeps for a client that loses it: 1 MiB.
	Replay int
	// Stall is how long a client may read nothing while its agent waits: 60 s.
	Stall time.Duration
	// Idle is how long a connection may have neither a stream nor a request: 2 minutes.
	Idle time.Duration
	// Unread is the limit of session streams without a reader: 1,024.
	Unread int
	// Open is the limit of unanswered requests of each side: 4,096.
	Open int
}

// guaranteedBuffer is how many bytes of frames may wait for a client regardless of other clients.
const guaranteedBuffer = 1 << 20

// maxReplayAll is about how many bytes of sent frames a connection keeps: with many streams, each keeps less than
// Limits.Replay.
const maxReplayAll = limits.Whole

// MaxID bounds ids of sessions and requests, in bytes.
const MaxID = 1024

func (l Limits) filled() Limits {
	fill := func(n *int, by int) {
		if *n == 0 {
			*n = by
		}
	}
	fill(&l.Connections, 256)
	fill(&l.ConnectionsEach, 32)
	fill(&l.Buffered, limits.Waiting)
	fill(&l.BufferedAll, 8*limits.Waiting)
	fill(&l.Replay, 1<<20)
	fill(&l.Unread, 1024)
	fill(&l.Open, 4096)
	if l.Stall == 0 {
		l.Stall = time.Minute
	}
	if l.Idle == 0 {
		l.Idle = 2 * time.Minute
	}
	return l
}

// Registry holds the connections. The caller closes it. It is safe for concurrent use.
type Registry struct {
	open    Open
	limits  Limits
	log     *slog.Logger
	idle    chan struct{} // gets an entry when a connection may have become idle
	waiting atomic.Int64  // bytes of frames that wait for clients

	mu       sync.Mutex // guards the fields below
	all      map[string]*Conn
	owners   map[string]int // number of connections by owner, including those being opened
	count    int
	ending   map[*func()]bool // see OnClose
	draining bool             // Drain was called
	closed   bool
	wg       sync.WaitGroup // connections that have not ended
}

// New returns a Registry without connections.
func New(open Open, l Limits, logger *slog.Logger) *Registry {
	return &Registry{open: open, limits: l.filled(), log: logger, all: map[string]*Conn{}, owners: map[string]int{}, ending: map[*func()]bool{}, idle: make(chan struct{}, 1)}
}

var (
	// ErrFull means that the limit of connections is reached, in total or for the owner.
	ErrFull = errors.New("there are too many connections: end one, or try again later")
	// ErrClosing means that the gateway is stopping.
	ErrClosing = errors.New("the gateway is stopping")
)

// Owner is the owner of a connection.
type Owner struct {
	// ID is unique.
	ID string
	// Valid reports whether the owner may keep the connection; Sweep calls it. Nil: always.
	Valid func() bool
}

// Connect opens an agent and returns a connection with an id of NewID. The caller then calls Initialize, or Send and
// Recv, and in any case Close. ctx bounds only the opening.
func (r *Registry) Connect(ctx context.Context, id string, owner Owner, agent Target) (*Conn, error) {
	if err := r.enter(owner.ID); err != nil {
		return nil, err
	}
	opened := false
	defer func() {
		if !opened { // after a panic, too: Close waits for the entry
			r.leave(owner.ID)
		}
	}()
	a, err := r.open(ctx, agent)
	if err != nil {
		return nil, err
	}
	opened = true
	c := newConn(r, id, owner, a)
	r.mu.Lock()
	closed := r.closed || r.draining
	r.all[c.ID] = c
	r.mu.Unlock()
	if closed {
		c.Close(ErrClosing)
		return nil, ErrClosing
	}
	r.log.Info("a client is connected", "connection", c.ID, "owner", owner.ID, "agent", agent.String())
	return c, nil
}

func (r *Registry) enter(owner string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed, r.draining:
		return ErrClosing
	case r.count >= r.limits.Connections, r.owners[owner] >= r.limits.ConnectionsEach:
		return ErrFull
	}
	r.count++
	r.owners[owner]++
	r.wg.Add(1)
	return nil
}

func (r *Registry) leave(owner string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count--
	if r.owners[owner]--; r.owners[owner] == 0 {
		delete(r.owners, owner)
	}
	r.wg.Done()
}

// Get returns a connection of an owner that streams read; nil if none exists.
func (r *Registry) Get(owner, id string) *Conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.all[id]
	if c == nil || c.owner.ID != owner || !c.routed {
		return nil
	}
	return c
}

// Sweep ends the connections whose owners may not keep them.
func (r *Registry) Sweep() {
	r.mu.Lock()
	all := slices.Collect(maps.Values(r.all))
	r.mu.Unlock()
	for _, c := range all {
		panics.Guard(r.log, "looking whether a client may stay", func() {
			if c.owner.Valid != nil && !c.owner.Valid() {
				c.Close(ErrNotAllowed)
			}
		}, c.Close)()
	}
}

// ErrNotAllowed means that the owner of a connection may not keep it.
var ErrNotAllowed = errors.New("the token or certificate is not valid any more")

// OnClose calls f, in a goroutine, when the Registry is closed. Close waits until done is called, which must happen
// exactly once.
func (r *Registry) OnClose(f func()) (done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wg.Add(1)
	key := &f
	r.ending[key] = true
	if r.closed {
		go panics.Guard(r.log, "closing a connection", f)()
	}
	return func() {
		r.mu.Lock()
		delete(r.ending, key)
		r.mu.Unlock()
		r.wg.Done()
	}
}

// Drain rejects new connections, and ends each one as soon as it has no active turn and its client has got all frames
// of the agent. It returns when all have ended, or ctx ends. The caller then calls Close.
func (r *Registry) Drain(ctx context.Context) {
	for {
		r.mu.Lock()
		r.draining = true
		all := slices.Collect(maps.Values(r.all))
		r.mu.Unlock()
		left := 0
		for _, c := range all {
			if c.isActive() {
				left++
				continue
			}
			c.Close(ErrClosing)
		}
		if left == 0 {
			return
		}
		select {
		case <-r.idle:
		case <-ctx.Done():
			return
		}
	}
}

// becameIdle reports that a connection may have become idle, or has ended.
func (r *Registry) becameIdle() {
	select {
	case r.idle <- struct{}{}:
	default: // already reported
	}
}

// Close ends all connections, rejects new ones, and waits until all goroutines have ended.
func (r *Registry) Close() {
	r.mu.Lock()
	if !r.closed {
		for f := range r.ending {
			go panics.Guard(r.log, "closing a connection", *f)()
		}
	}
	r.closed = true
	all := make([]*Conn, 0, len(r.all))
	for _, c := range r.all {
		all = append(all, c)
	}
	r.mu.Unlock()
	for _, c := range all {
		c.Close(ErrClosing)
	}
	r.wg.Wait()
}

// NewID returns a random UUID, which cannot be guessed.
func NewID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
