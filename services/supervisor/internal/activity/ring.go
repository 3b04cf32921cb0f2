package activity

import (
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/replay"
)

// Why events are missing.
const (
	whyBusy      = "the supervisor was busier than could be followed"
	whyUnwatched = "pieces of messages are not kept while nobody watches"
	whyNoRecord  = "there is no record of what happened before"
	whyUnwritten = "the record cannot be written, or is as large as it may be"
)

// entry is an event on its way to those who watch.
type entry struct {
	event *supervisorv1.Event
	seq   uint64
	skips uint64 // frames that nobody needed, before it
	cost  int
}

// ring keeps the last events, up to a number and to a number of bytes.
type ring struct {
	max     int
	entries []entry
	head    int
	held    int
	// The last event that is not kept any more.
	goneSeq, goneSkips uint64
	goneCursor         string
}

func (r *ring) add(e entry) {
	r.entries = append(r.entries, e)
	r.held += e.cost
	for r.held > r.max || len(r.entries)-r.head > maxRecentEvents {
		old := &r.entries[r.head]
		r.held -= old.cost
		r.goneSeq, r.goneSkips, r.goneCursor = old.seq, old.skips, old.event.GetCursor()
		*old = entry{}
		r.head++
	}
	if r.head > maxRecentEvents {
		n := copy(r.entries, r.entries[r.head:])
		clear(r.entries[n:])
		r.entries, r.head = r.entries[:n], 0
	}
}

func (r *ring) kept() []entry { return r.entries[r.head:] }

// behind returns the events behind a cursor, and how many frames were left out before them. whole: no event is missing since
// the cursor was told.
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
