package link

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
)

// order keeps the agent's messages about a session in order on the way to the client while a permission request of the session is decided.
// The agent is read meanwhile: messages of other sessions pass, and messages of this session are held until the request was sent to the
// client or answered. Without a pending decision, a frame costs one atomic load.
//
// Only the agent's pump adds messages. Held messages take room; without room, the agent is not read. That cannot deadlock: neither a
// decision nor a client that reads the held messages needs the agent to be read.
type order struct {
	room  budget
	deep  atomic.Int32 // sessions in lines
	mu    sync.Mutex
	lines map[string][]*place
}

// place is an entry in a session's line: a permission request that is being decided, or a message held after one.
type place struct {
	do   func() error  // called when its turn comes; nil: the owner of the place acts itself
	size int64         // of do, taken from room
	turn chan struct{} // if do is nil, closed when its turn comes
	left bool          // the owner no longer needs the place
}

// keptOverhead is the memory of a held message beside its own bytes.
const keptOverhead = 512

func newOrder(limit int64) *order {
	o := &order{lines: map[string][]*place{}}
	o.room.init(limit)
	return o
}

// enter takes the next place in a session's line. Later messages are held until leave.
func (o *order) enter(session string) *place {
	at := &place{turn: make(chan struct{})}
	o.mu.Lock()
	defer o.mu.Unlock()
	line := o.lines[session]
	if len(line) == 0 {
		close(at.turn)
		o.deep.Add(1)
	}
	o.lines[session] = append(line, at)
	return at
}

// leave releases a place. If its turn had come, the caller also sends the messages held after it, in order.
func (o *order) leave(session string, at *place) error {
	o.mu.Lock()
	at.left = true
	if o.lines[session][0] != at {
		o.mu.Unlock()
		return nil
	}
	var err error
	for {
		line := o.lines[session][1:]
		if len(line) == 0 {
			delete(o.lines, session)
			o.deep.Add(-1)
			o.mu.Unlock()
			return err
		}
		o.lines[session] = line
		next := line[0]
		if next.do == nil && !next.left {
			close(next.turn)
			o.mu.Unlock()
			return err
		}
		if next.do != nil {
			o.mu.Unlock()
			if err == nil { // otherwise the client is gone
				err = panics.Catch(nil, "passing on a message of the agent that had waited", next.do)
			}
			o.room.give(next.size)
			o.mu.Lock()
		}
	}
}

// holds reports whether messages of a session are held.
func (o *order) holds(session []byte) bool {
	if o.deep.Load() == 0 {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.lines[string(session)]) > 0
}

// keep adds do to a session's line, to be called in its turn. It returns false, and keeps nothing, if nothing holds the session any more.
// It waits for room for size bytes; the error is ctx's.
func (o *order) keep(ctx context.Context, session []byte, size int, do func() error) (bool, error) {
	taken, err := o.room.reserve(ctx, int64(size)+keptOverhead)
	if err != nil {
		return false, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	line := o.lines[string(session)]
	if len(line) == 0 {
		o.room.give(taken)
		return false, nil
	}
	o.lines[string(session)] = append(line, &place{do: do, size: taken})
	return true, nil
}

// inOrder calls do at once or, if the session is held, in its turn. In that case another goroutine calls it, so do must use copies of a
// message. size is the memory of do, in bytes. An error means that the client is gone, or the link has ended.
func (p *agentPump) inOrder(session []byte, size int, do func() error) error {
	if err := p.out.flush(); err != nil { // earlier messages
		return err
	}
	if p.order.holds(session) {
		kept, err := p.order.keep(p.queue.ctx, session, size, do)
		if err != nil {
			<-p.ended // it has recorded the reason
			return errHandled
		}
		if kept {
			return nil
		}
	}
	return do()
}

// forward forwards a message to the client, in the order of its session.
func (p *agentPump) forward(session []byte, m *jsonrpc.Message) error {
	if !p.order.holds(session) {
		return p.out.add(m.Raw)
	}
	line := slices.Clone(m.Raw)
	return p.inOrder(session, len(line), func() error { return p.sendClient(line) })
}

// behind returns a channel that is closed when the client has all earlier messages of a session; nil: the client has them already.
func (p *agentPump) behind(session []byte) (<-chan struct{}, error) {
	if !p.order.holds(session) {
		return nil, p.out.flush()
	}
	passed := make(chan struct{})
	return passed, p.inOrder(session, 0, func() error { close(passed); return nil })
}
