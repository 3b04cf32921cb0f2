package link

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
)

// order keeps what an agent says about a session in its order on the way to the client while a permission request of the
// session is decided. The agent is read on meanwhile: what comes of other sessions passes, and what comes of this one is
// kept, until the request was put to the client or answered. Where nothing is decided, a frame costs one atomic load.
//
// The agent's pump alone adds to it. What is kept takes room; where there is none, the agent is not read. That cannot lock
// up: nothing that a decision waits for needs the agent to be read, nor does the client that takes what was kept.
type order struct {
	room  budget
	deep  atomic.Int32 // sessions in lines
	mu    sync.Mutex
	lines map[string][]*place
}

// place is a place in a session's line: a permission request that is decided, or something that comes behind one.
type place struct {
	do   func() error  // what is done when its turn comes; nil: whoever has the place does it
	size int64         // of do, as it was taken from room
	turn chan struct{} // closed when its turn has come, where do is nil
	left bool          // whoever had the place does not need it any more
}

// keptOverhead is how many bytes a message that is kept takes beside its own.
const keptOverhead = 512

func newOrder(limit int64) *order {
	o := &order{lines: map[string][]*place{}}
	o.room.init(limit)
	return o
}

// enter takes the next place in a session's line. What comes behind is kept until leave.
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

// leave gives a place up. If its turn had come, the caller also does what was kept behind it, in order.
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
			if err == nil { // else the client is gone
				err = panics.Catch(nil, "passing on a message of the agent that had waited", next.do)
			}
			o.room.give(next.size)
			o.mu.Lock()
		}
	}
}

// holds reports whether messages of a session are kept.
func (o *order) holds(session []byte) bool {
	if o.deep.Load() == 0 {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.lines[string(session)]) > 0
}

// keep puts do into a session's line, to be done in its turn. It reports false, and keeps nothing, if nothing holds the
// session any more. It waits for room for size bytes; the error is ctx's.
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

// inOrder does do at once or, if the session is held, in its turn. Then another goroutine does it, so do must use copies of
// a message. size is how many bytes do keeps. An error means that the client is gone, or the link over.
func (p *agentPump) inOrder(session []byte, size int, do func() error) error {
	if err := p.out.flush(); err != nil { // what came before it
		return err
	}
	if p.order.holds(session) {
		kept, err := p.order.keep(p.queue.ctx, session, size, do)
		if err != nil {
			<-p.ended // why is said there
			return errHandled
		}
		if kept {
			return nil
		}
	}
	return do()
}

// forward passes a message on to the client, in the order of its session.
func (p *agentPump) forward(session []byte, m *jsonrpc.Message) error {
	if !p.order.holds(session) {
		return p.out.add(m.Raw)
	}
	line := slices.Clone(m.Raw)
	return p.inOrder(session, len(line), func() error { return p.sendClient(line) })
}

// behind returns a channel that closes when the client has everything that came of a session before; nil: the client has it
// already.
func (p *agentPump) behind(session []byte) (<-chan struct{}, error) {
	if !p.order.holds(session) {
		return nil, p.out.flush()
	}
	passed := make(chan struct{})
	return passed, p.inOrder(session, 0, func() error { close(passed); return nil })
}
