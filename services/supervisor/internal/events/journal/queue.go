package journal

import (
	"bytes"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
)

const (
	chunkSize = 256 << 10
	// spareChunks is the number of empty chunks that are kept in a flood, fewSpare otherwise.
	spareChunks = 64
	fewSpare    = 2
	// blockSize is the number of records in a block, and spareBlocks the number of empty blocks that are kept.
	blockSize   = 512
	spareBlocks = 64
	// reserveShare is the fraction of the queue that is reserved for requests and answers, so that a flood of pieces of
	// messages does not displace them: a session that lacks a piece can be read, a session that lacks an answer cannot.
	reserveShare = 4
	// recordCost is the cost of a queued frame in addition to its bytes.
	recordCost = 160
	// largeShare is the limit of one frame's cost as a fraction of the queue, regardless of its size. The rest is for
	// other frames: a queue holds at most one frame that is larger than the queue.
	largeShare = 0.75
	// maxGapSessions is the limit of sessions with separate gaps; losses of further sessions are counted together.
	maxGapSessions = 1024
)

// record is a queued frame, or a run of frames. Its slices are parts of chunks.
type record struct {
	run        *updates // instead of a frame: the complete lines of a run
	agent      *frame.Agent
	seq        uint64
	at         int64 // nanoseconds since 1970
	dir        frame.Direction
	scanned    bool
	handler    string
	method, id []byte
	session    []byte
	line       []byte
	queued     int             // its cost in the queue
	gap        *gap            // instead of a frame: the frames that were lost here
	mark       chan<- struct{} // instead of a frame: closed when all earlier records are written
}

// size returns the gap that the loss of the record leaves.
func (r *record) size() gap {
	return oneLost(r.seq, r.at, len(r.line))
}

// oneLost returns the gap of one lost frame.
func oneLost(seq uint64, at int64, size int) gap {
	return gap{frames: 1, bytes: uint64(size), first: seq, last: seq, from: at, to: at}
}

// updates is a run of updates of a session, the most frequent content of a journal. Their lines are formatted when they
// are queued, so that the writer only has to write them.
type updates struct {
	text  []byte
	holds gap // the gap that its loss leaves
}

// clone returns a copy that does not refer to a chunk.
func (r *record) clone() record {
	c := *r
	c.method, c.id, c.session, c.line = bytes.Clone(r.method), bytes.Clone(r.id), bytes.Clone(r.session), bytes.Clone(r.line)
	return c
}

// gap describes the lost frames between two frames of a session.
type gap struct {
	frames, bytes uint64
	first, last   uint64 // their numbers
	from, to      int64
	why           string
}

// merge adds a later gap.
func (g *gap) merge(o gap) {
	if o.frames == 0 {
		return
	}
	if g.frames == 0 {
		g.from, g.first = o.from, o.first
	}
	g.frames += o.frames
	g.bytes += o.bytes
	g.to, g.last, g.why = o.to, o.last, o.why
}

// lossKey identifies the session of missing frames.
type lossKey struct {
	agent   *frame.Agent
	session string
}

// queue holds frames in order, up to a number of bytes. Frames that do not fit are counted by session, and the count is
// at the position of the missing frames.
type queue struct {
	max  int
	wake chan struct{} // buffer of one
	// marks is the number of queued marks.
	marks atomic.Int64

	mu      sync.Mutex
	held    int        // bytes that are queued or being written
	blocks  [][]record // in order; only the last has free space
	empty   [][]record
	chunk   []byte
	spare   [][]byte
	used    [][]byte // full chunks of records
	last    record   // the last record's method and session; empty after the chunks were taken
	run     *record  // the last record, if it is a run at the end of the open chunk
	updates updateMaker
	content bool
	gaps    map[lossKey]*gap
	dropped uint64
	// The session of the latest loss, and its gap.
	lastLost lossKey
	lastGap  *gap
	closed   bool
}

func newQueue(limit int, content bool) *queue {
	return &queue{max: limit, content: content, wake: make(chan struct{}, 1), gaps: map[lossKey]*gap{}}
}

// put copies a frame. It never waits for the disk.
func (q *queue) put(f *frame.Frame, now func() time.Time) {
	size := len(f.Line)
	for _, b := range f.Rest {
		size += len(b)
	}
	cost := recordCost + size + len(f.Method) + len(f.ID) + len(f.SessionID)
	limit := q.max
	update := f.Scanned && f.ID == nil
	if !update {
		limit += q.max / reserveShare
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	at := f.Time.UnixNano()
	if f.Time.IsZero() { // under the lock, so that times are in order
		at = now().UnixNano()
	}
	counted := q.counted(cost)
	if q.held > 0 && q.held+counted > limit {
		q.lose(f, at, size)
		return
	}
	if len(q.gaps) > 0 {
		q.queueGap(f.Agent, f.SessionID)
	}
	if update && q.content && len(f.SessionID) > 0 && f.Direction == frame.AgentToClient && string(f.Method) == acp.MethodSessionUpdate {
		q.update(f, at, size)
		return
	}
	r := record{agent: f.Agent, seq: f.Seq, at: at, dir: f.Direction, scanned: f.Scanned, handler: f.Handler}
	room, shared := q.room(cost - recordCost)
	room, r.method = q.part(room, f.Method, q.last.method)
	room, r.id = q.part(room, f.ID, nil)
	room, r.session = q.part(room, f.SessionID, q.last.session)
	q.last.method, q.last.session = r.method, r.session
	from := len(room)
	room = append(room, f.Line...)
	for _, b := range f.Rest {
		room = append(room, b...)
	}
	r.line = room[from:len(room):len(room)]
	if shared {
		q.chunk = room
	}
	q.push(r, counted)
}

// counted returns the cost of a frame in the queue.
func (q *queue) counted(cost int) int { return min(cost, int(largeShare*float64(q.max))) }

// update queues an update: it extends the run of its session, or begins one.
func (q *queue) update(f *frame.Frame, at int64, size int) {
	need := size + updateHead
	r := q.run
	if r == nil || r.agent != f.Agent || cap(q.chunk)-len(q.chunk) < need || string(r.session) != string(f.SessionID) {
		room, shared := q.room(need + len(f.SessionID))
		rec := record{agent: f.Agent, run: &updates{}}
		room, rec.session = q.part(room, f.SessionID, q.last.session)
		q.last.session = rec.session
		rec.run.text = room[len(room):]
		if !shared {
			rec.run.text = q.updates.line(rec.run.text, f, at)
			rec.run.holds = oneLost(f.Seq, at, size)
			q.push(rec, q.counted(recordCost+len(rec.run.text)))
			return
		}
		q.chunk = room
		r = q.push(rec, recordCost)
		q.run = r
	}
	from := len(q.chunk) - len(r.run.text)
	before := len(q.chunk)
	q.chunk = q.updates.line(q.chunk, f, at)
	r.run.text = q.chunk[from:len(q.chunk):len(q.chunk)]
	r.run.holds.merge(oneLost(f.Seq, at, size))
	r.queued += len(q.chunk) - before
	q.held += len(q.chunk) - before
}

// part copies a part of a frame, unless it equals that of the previous frame. Nil and empty stay different.
func (q *queue) part(room, part, last []byte) (rest, kept []byte) {
	switch {
	case part == nil:
		return room, nil
	case last != nil && bytes.Equal(part, last):
		return room, last
	}
	from := len(room)
	room = append(room, part...)
	return room, room[from:len(room):len(room)]
}

// room returns a buffer to which n bytes can be appended: the open chunk, which is shared, or a separate one for many
// bytes.
func (q *queue) room(n int) (room []byte, shared bool) {
	if n > chunkSize/4 {
		return make([]byte, 0, n), false
	}
	if cap(q.chunk)-len(q.chunk) < n {
		if q.chunk != nil {
			q.used = append(q.used, q.chunk)
		}
		if k := len(q.spare); k > 0 {
			q.chunk, q.spare = q.spare[k-1][:0], q.spare[:k-1]
		} else {
			q.chunk = make([]byte, 0, chunkSize)
		}
	}
	return q.chunk, true
}

func (q *queue) push(r record, cost int) *record {
	n := len(q.blocks)
	if n == 0 {
		select {
		case q.wake <- struct{}{}:
		default:
		}
	}
	if n == 0 || len(q.blocks[n-1]) == blockSize {
		if k := len(q.empty); k > 0 {
			q.blocks, q.empty = append(q.blocks, q.empty[k-1]), q.empty[:k-1]
		} else {
			q.blocks = append(q.blocks, make([]record, 0, blockSize))
		}
		n++
	}
	r.queued = cost
	q.held += cost
	q.run = nil
	q.blocks[n-1] = append(q.blocks[n-1], r)
	return &q.blocks[n-1][len(q.blocks[n-1])-1]
}

// lose counts a frame that does not fit.
func (q *queue) lose(f *frame.Frame, at int64, size int) {
	q.dropped++
	one := oneLost(f.Seq, at, size)
	one.why = "too much was waiting to be written"
	if q.lastGap != nil && f.Agent == q.lastLost.agent && string(f.SessionID) == q.lastLost.session {
		q.lastGap.merge(one)
		return
	}
	key := lossKey{f.Agent, string(f.SessionID)}
	if q.gaps[key] == nil && len(q.gaps) >= maxGapSessions {
		key = lossKey{}
	}
	g := q.gaps[key]
	if g == nil {
		g = &gap{}
		q.gaps[key] = g
	}
	g.merge(one)
	q.lastLost, q.lastGap = key, g
}

// queueGap queues the count of a session's lost frames at the position of the loss: before the next frame that fits.
func (q *queue) queueGap(agent *frame.Agent, session []byte) {
	if g := q.gaps[lossKey{agent, string(session)}]; g != nil {
		delete(q.gaps, lossKey{agent, string(session)})
		q.lastGap = nil
		q.push(record{agent: agent, seq: g.last, at: g.to, session: slices.Clone(session), gap: g}, recordCost)
	}
}

// mark queues a channel that is closed once all earlier records are written.
func (q *queue) mark(written chan<- struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.queueGaps()
		q.marks.Add(1)
		q.push(record{mark: written}, recordCost)
	}
}

func (q *queue) queueGaps() {
	for key := range q.gaps {
		q.queueGap(key.agent, []byte(key.session))
	}
}

// batch is the result of take.
type batch struct {
	blocks [][]record
	chunks [][]byte
}

// take returns all records, including the counts of lost frames. old is a batch for reuse.
func (q *queue) take(old batch) batch {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queueGaps()
	if q.chunk != nil && len(q.blocks) > 0 {
		q.used = append(q.used, q.chunk)
		q.chunk = nil
	}
	b := batch{blocks: q.blocks, chunks: q.used}
	q.last, q.run = record{}, nil
	q.blocks, q.used = old.blocks[:0], old.chunks[:0]
	return b
}

// written releases the space of written bytes.
func (q *queue) written(bytes int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.held -= bytes
}

// give returns the memory of a batch for reuse. The batch is empty then.
func (q *queue) give(b batch) batch {
	for _, records := range b.blocks {
		clear(records)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, c := range b.chunks {
		if len(q.spare) < spareChunks {
			q.spare = append(q.spare, c)
		}
	}
	for _, records := range b.blocks {
		if len(q.empty) < spareBlocks {
			q.empty = append(q.empty, records[:0])
		}
	}
	clear(b.blocks)
	clear(b.chunks)
	return batch{blocks: b.blocks[:0], chunks: b.chunks[:0]}
}

// rest releases memory while nothing is queued.
func (q *queue) rest() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.spare = slices.Delete(q.spare, min(fewSpare, len(q.spare)), len(q.spare))
	q.empty = slices.Delete(q.empty, min(fewSpare, len(q.empty)), len(q.empty))
}

func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}
