package relay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

var (
	// ErrTaken says that a stream has a reader already.
	ErrTaken = errors.New("the outbound stream already has an active receiver")
	// ErrTooOld says that a stream cannot go on where its reader wants it to. A *TooOld is one, and says how much is kept.
	ErrTooOld = errors.New("the stream cannot go on there: load the session again (session/load)")
)

// TooOld is an ErrTooOld.
type TooOld struct {
	// Asked is the number of the last frame that the reader has, First that of the oldest that is kept, Next that of the next one
	// that will be handed out.
	Asked, First, Next uint64
	// Kept is how many bytes of frames that were sent are kept.
	Kept int
}

func (e *TooOld) Error() string {
	if e.Asked >= e.Next {
		return fmt.Sprintf("nobody was sent a frame %d of this stream, the next one is %d: load the session again (session/load)", e.Asked, e.Next)
	}
	return fmt.Sprintf("the frames after %d are not kept any more: the last %d bytes that were sent are, from frame %d on. Load the session again (session/load)",
		e.Asked, e.Kept, e.First)
}

// Is makes it an ErrTooOld.
func (e *TooOld) Is(target error) bool { return target == ErrTooOld }

// outbox is a stream: frames for one reader at a time, in order, each with a number. Frames that were handed out are kept for a
// while, for a reader that lost its connection. What it holds is counted by its Conn, which guards it.
type outbox struct {
	mu      *sync.Mutex // the Conn's; guards all
	room    func()      // tells that something was read; mu is held
	frames  [][]byte
	first   uint64        // the number of frames[0]
	sent    int           // of frames, how many were handed out
	waiting int           // bytes that were not handed out
	all     *atomic.Int64 // those of all streams of all connections
	kept    int           // bytes that were
	most    int           // bytes of those that are kept
	reader  *Reader
	wake    chan struct{} // closed when there may be something to read
	closed  bool
}

func newOutbox(mu *sync.Mutex, keep int, all *atomic.Int64, room func()) *outbox {
	return &outbox{mu: mu, room: room, all: all, first: 1, most: keep, wake: make(chan struct{})}
}

// await counts bytes that wait, or wait no more; mu is held.
func (o *outbox) await(n int) {
	o.waiting += n
	o.all.Add(int64(n))
}

// put adds a frame; mu is held.
func (o *outbox) put(frame []byte) {
	o.frames = append(o.frames, frame)
	o.await(len(frame))
	o.signal()
}

// signal wakes the reader; mu is held.
func (o *outbox) signal() {
	close(o.wake)
	o.wake = make(chan struct{})
}

// close ends the stream; mu is held.
func (o *outbox) close() {
	o.closed = true
	o.await(-o.waiting)
	o.frames, o.kept, o.sent = nil, 0, 0
	o.signal()
}

// finish ends the stream behind what is in it; mu is held.
func (o *outbox) finish() {
	if !o.closed {
		o.closed = true
		o.signal()
	}
}

// attach gives the stream a reader that goes on behind the last frame that was handed out or, if after is set, behind that
// one. A reader that knows where it was takes over from the one before, which may be a connection that nobody has noticed is
// gone. mu is held.
func (o *outbox) attach(after *uint64) (*Reader, error) {
	if o.reader != nil && after == nil {
		return nil, ErrTaken
	}
	if after != nil {
		last := o.first + uint64(o.sent) - 1
		if *after+1 < o.first || *after > last {
			return nil, &TooOld{Asked: *after, First: o.first, Next: last + 1, Kept: o.most}
		}
		for o.sent > 0 && o.first+uint64(o.sent)-1 > *after { // they are to be handed out again
			o.sent--
			size := len(o.frames[o.sent])
			o.kept -= size
			o.await(size)
		}
		for i := 0; o.first+uint64(i) <= *after; i++ { // these have arrived
			o.kept -= len(o.frames[i])
			o.frames[i] = nil
			if o.first+uint64(i) == *after {
				o.frames, o.first, o.sent = o.frames[i+1:], *after+1, 0
				break
			}
		}
	}
	o.reader = &Reader{box: o}
	o.signal() // the one before sees that it is not the reader any more
	return o.reader, nil
}

// trim forgets frames that were handed out, the oldest first, until most bytes of them are left; mu is held.
func (o *outbox) trim(most int) {
	drop := 0
	for ; drop < o.sent && o.kept > most; drop++ {
		o.kept -= len(o.frames[drop])
		o.frames[drop] = nil
	}
	o.frames, o.first, o.sent = o.frames[drop:], o.first+uint64(drop), o.sent-drop
}

// Reader reads a stream. One goroutine uses it.
type Reader struct{ box *outbox }

// At is the number of the frame before the next one.
func (r *Reader) At() uint64 {
	o := r.box
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.first + uint64(o.sent) - 1
}

// maxBatch bounds what is handed out at once, in bytes, but for a frame that is larger.
const maxBatch = 64 << 10

// Next waits for frames and hands them out: they are not handed out again, unless a reader asks for it by the number of the
// last one that it has. number is that of the first. ok is false when the stream has ended, or another reader has taken over.
func (r *Reader) Next(ctx context.Context) (frames [][]byte, number uint64, ok bool) {
	o := r.box
	for {
		o.mu.Lock()
		if o.reader != r || o.closed && o.sent == len(o.frames) {
			o.mu.Unlock()
			return nil, 0, false
		}
		if o.sent < len(o.frames) {
			number = o.first + uint64(o.sent)
			size := 0
			for o.sent < len(o.frames) && (size == 0 || size+len(o.frames[o.sent]) <= maxBatch) {
				size += len(o.frames[o.sent])
				frames = append(frames, o.frames[o.sent])
				o.sent++
			}
			o.await(-size)
			o.kept += size
			o.trim(o.most)
			o.room()
			o.mu.Unlock()
			return frames, number, true
		}
		wake := o.wake
		o.mu.Unlock()
		select {
		case <-wake:
		case <-ctx.Done():
			return nil, 0, true
		}
	}
}

// Close gives the stream up to the next reader.
func (r *Reader) Close() {
	o := r.box
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.reader == r {
		o.reader = nil
		o.room()
	}
}
