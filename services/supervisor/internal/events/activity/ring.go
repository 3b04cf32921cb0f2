package activity

import (
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/events/replay"
)

// Reasons for missing events.
const (
	whyBusy      = "the supervisor was busier than could be followed"
	whyUnwatched = "pieces of messages are not kept while there are no watchers"
	whyNoRecord  = "there is no record of what happened before"
	whyUnwritten = "the record cannot be written, or is as large as it may be"
)

// entry is an event with the position and the costs that queues need.
type entry struct {
	event *supervisorv1.Event
	field []byte // see event.Encoded; nil except in the feed
	seq   uint64
	skips uint64 // frames before it that were not needed
	cost  int
}

// queue holds events, oldest first.
type queue struct {
	entries []entry
	head    int // entries before it are removed
	held    int // sum of the events' costs
}

func (q *queue) kept() []entry { return q.entries[q.head:] }

func (q *queue) push(e entry) {
	q.entries = append(q.entries, e)
	q.held += e.cost
}

// pop removes and returns the oldest event; false: the queue is empty.
func (q *queue) pop() (entry, bool) {
	if len(q.kept()) == 0 {
		return entry{}, false
	}
	e := q.entries[q.head]
	q.entries[q.head] = entry{}
	q.held -= e.cost
	q.head++
	switch {
	case len(q.kept()) == 0 && cap(q.entries) > 1024: // release a large buffer
		q.entries, q.head = nil, 0
	case len(q.kept()) == 0, q.head > maxRecentEvents:
		n := copy(q.entries, q.kept())
		clear(q.entries[n:])
		q.entries, q.head = q.entries[:n], 0
	}
	return e, true
}

// ring keeps the latest events, up to a number and a number of bytes.
type ring struct {
	queue
	max int
	// The last event that was dropped.
	goneSeq, goneSkips uint64
	goneCursor         string
}

func (r *ring) add(e entry) {
	r.push(e)
	for r.held > r.max || len(r.kept()) > maxRecentEvents {
		old, _ := r.pop()
		r.goneSeq, r.goneSkips, r.goneCursor = old.seq, old.skips, old.event.GetCursor()
	}
}

// behind returns the events after a cursor, and how many unneeded frames preceded them. whole reports that no event
// since the cursor is missing.
func (r *ring) behind(at replay.Position) (kept []entry, skips uint64, whole bool) {
	kept, skips = r.kept(), r.goneSkips
	for len(kept) > 0 && kept[0].seq <= at.Seq {
		e := kept[0]
		kept, skips = kept[1:], e.skips
		if e.event.GetCursor() == at.Text {
			return kept, skips, true
		}
	}
	return kept, skips, at.Seq > r.goneSeq || at.Text == r.goneCursor
}
