// Package relay holds the connections of a gateway: each joins a client with an agent of its own. The frames of an agent go to
// the streams by which its client reads: the connection's, and one for each session.
//
// The package knows JSON-RPC's envelope and which stream a message belongs to (ACP's remote transport). Memory is bounded, and
// an agent whose client does not read waits. The package must not know HTTP, WebSocket, gRPC, or who a client is: an owner is a
// name.
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

// Agent is the far end of a connection: an agent at a supervisor.
type Agent interface {
	// Send sends a frame, one line of JSON without its line feed. It waits for room. One goroutine calls it at a time.
	Send(frame []byte) error
	// Recv returns the next frames. Any error is the end, in words. One goroutine calls it.
	Recv() ([][]byte, error)
	// Close ends the agent. It does not wait, ends Send and Recv, and may be called again.
	Close()
}

// Target is the agent that a client wants. The zero value is the only agent of the supervisor.
type Target struct {
	// Name is the agent's name; empty: the only one.
	Name string
	// None says that the connection has no agent of its own, and only attaches to sessions. Name is empty then.
	None bool
}

// String returns the target as the log shows it.
func (t Target) String() string {
	if t.None {
		return "(none: attaches to sessions)"
	}
	return t.Name
}

// Open opens an agent. ctx ends the opening alone.
type Open func(ctx context.Context, agent Target) (Agent, error)

// Limits bound a gateway. Zero stands for the default.
type Limits struct {
	// Connections there may be, 256; of one owner, 32.
	Connections, ConnectionsEach int
	// Buffered is how many bytes of frames wait for a client, before its agent does: 64 MiB.
	Buffered int
	// BufferedAll is how many bytes of frames wait for all clients, before only those connections go on that have less than
	// bufferedSure waiting: 512 MiB.
	BufferedAll int
	// Replay is how many bytes of frames that were sent are kept for a client that lost a stream, for each stream: 1 MiB.
	Replay int
	// Stall is how long a client may read nothing while its agent waits: 60 s.
	Stall time.Duration
	// Idle is how long a connection may have neither a stream nor a request: 2 minutes.
	Idle time.Duration
	// Unread is how many session streams may have no reader: 1,024.
	Unread int
	// Open is how many requests of one side may be unanswered: 4,096.
	Open int
}

// bufferedSure is how many bytes of frames may wait for a client, whatever waits for others.
const bufferedSure = 1 << 20

// keptAll is how many bytes of frames that were sent are kept for a connection, more or less: where it has many streams, less than
// Limits.Replay is kept of each.
const keptAll = limits.Whole

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

// Registry holds the connections. It must be closed. It is safe for concurrent use.
type Registry struct {
	open    Open
	limits  Limits
	log     *slog.Logger
	idle    chan struct{} // holds something when a connection may have become idle
	waiting atomic.Int64  // bytes of frames that wait for clients

	mu     sync.Mutex // guards what follows
	all    map[string]*Conn
	owners map[string]int // connections, those that are being opened included
	count  int
	ending map[*func()]bool // see Closing
	drains bool             // it is about to be closed
	closed bool
	wg     sync.WaitGroup // of connections that are not over
}

// New returns a Registry without connections.
func New(open Open, l Limits, logger *slog.Logger) *Registry {
	return &Registry{open: open, limits: l.filled(), log: logger, all: map[string]*Conn{}, owners: map[string]int{}, ending: map[*func()]bool{}, idle: make(chan struct{}, 1)}
}

var (
	// ErrFull says that there are too many connections, of all or of the owner.
	ErrFull = errors.New("there are too many connections: end one, or try again later")
	// ErrClosing says that the gateway ends.
	ErrClosing = errors.New("the gateway is stopping")
)

// Owner is whose a connection is.
type Owner struct {
	// ID is nobody else's.
	ID string
	// Stands reports whether the owner may still have the connection; it is asked from time to time. Nil: always.
	Stands func() bool
}

// Connect opens an agent and makes a connection with an id of NewID. Nobody takes its frames yet: Initialize must follow, or
// Send and Recv, and Close. ctx ends the opening alone.
func (r *Registry) Connect(ctx context.Context, id string, owner Owner, agent Target) (*Conn, error) {
	if err := r.enter(owner.ID); err != nil {
		return nil, err
	}
	opened := false
	defer func() {
		if !opened { // after a panic, too: Close waits for the place
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
	closed := r.closed || r.drains
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
	case r.closed, r.drains:
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

// Get finds a connection of an owner that its streams read. Another owner's is not there.
func (r *Registry) Get(owner, id string) *Conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.all[id]
	if c == nil || c.owner.ID != owner || !c.routed {
		return nil
	}
	return c
}

// Sweep ends the connections whose owners may not have them any more.
func (r *Registry) Sweep() {
	r.mu.Lock()
	all := slices.Collect(maps.Values(r.all))
	r.mu.Unlock()
	for _, c := range all {
		panics.Guard(r.log, "looking whether a client may stay", func() {
			if c.owner.Stands != nil && !c.owner.Stands() {
				c.Close(ErrNotAllowed)
			}
		}, c.Close)()
	}
}

// ErrNotAllowed says that the owner of a connection may not have it any more.
var ErrNotAllowed = errors.New("the token or certificate is not valid any more")

// Closing has f called, in a goroutine of its own, when the Registry is closed. Close waits until done is called, which must be
// done once.
func (r *Registry) Closing(f func()) (done func()) {
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

// Drain lets no connection begin, and ends each as soon as none of its turns runs and its client has been sent what the agent has
// said. It returns when all are over, or ctx is. Close must follow.
func (r *Registry) Drain(ctx context.Context) {
	for {
		r.mu.Lock()
		r.drains = true
		all := slices.Collect(maps.Values(r.all))
		r.mu.Unlock()
		left := 0
		for _, c := range all {
			if c.works() {
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

// becameIdle tells that a connection may have become idle, or is over.
func (r *Registry) becameIdle() {
	select {
	case r.idle <- struct{}{}:
	default: // it is known already
	}
}

// Close ends all connections, lets none begin, and waits until nothing of them runs.
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

// NewID is a random UUID: who does not know it does not guess it.
func NewID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
