package relay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

var (
	// ErrStreamInUse means that a stream has a reader already.
	ErrStreamInUse = errors.New("the outbound stream already has an active receiver")
	// ErrTooOld means that a stream cannot continue at the requested frame. A *TooOld is an ErrTooOld with details.
	ErrTooOld = errors.New("the stream cannot go on there: load the session again (session/load)")
)

// TooOld is an ErrTooOld.
type TooOld struct {
	// After is the number of the last frame that the reader has, First that of the oldest kept frame, Next that of the
	// next frame to be delivered.
	After, First, Next uint64
	// Kept is how many bytes of sent frames are kept.
	Kept int
}

func (e *TooOld) Error() string {
	if e.After >= e.Next {
		return fmt.Sprintf("frame %d of this stream was not sent yet, the next one is %d: load the session again (session/load)", e.After, e.Next)
	}
	return fmt.Sprintf("the frames after %d are not kept any more: the last %d bytes that were sent are, from frame %d on. Load the session again (session/load)",
		e.After, e.Kept, e.First)
}

// Is reports true for ErrTooOld.
func (e *TooOld) Is(target error) bool { return target == ErrTooOld }

// outbox is a stream: numbered frames in order, for one reader at a time. Delivered frames are kept for a while, for a
// reader that lost its connection. Its Conn counts the contents, and guards the outbox.
type outbox struct {
	mu      *sync.Mutex // of the Conn; guards all fields
	room    func()      // reports that frames were read; mu is held
	frames  [][]byte
	first   uint64        // number of frames[0]
	sent    int           // how many of frames were delivered
	waiting int           // bytes not yet delivered
	all     *atomic.Int64 // waiting bytes of all streams of all connections
	kept    int           // delivered bytes that are kept
	maxKept int           // limit of kept
	reader  *Reader
	wake    chan struct{} // closed when there may be frames to read
	closed  bool
}

func newOutbox(mu *sync.Mutex, keep int, all *atomic.Int64, room func()) *outbox {
	return &outbox{mu: mu, room: room, all: all, first: 1, maxKept: keep, wake: make(chan struct{})}
}

// addWaiting adds n, which may be negative, to the waiting bytes; mu is held.
func (o *outbox) addWaiting(n int) {
	o.waiting += n
	o.all.Add(int64(n))
}

// put adds a frame; mu is held.
func (o *outbox) put(frame []byte) {
	o.frames = append(o.frames, frame)
	o.addWaiting(len(frame))
	o.signal()
}

// signal wakes the reader; mu is held.
func (o *outbox) signal() {
	close(o.wake)
	o.wake = make(chan struct{})
}

// close ends the stream at once; mu is held.
func (o *outbox) close() {
	o.closed = true
	o.addWaiting(-o.waiting)
	o.frames, o.kept, o.sent = nil, 0, 0
	o.signal()
}

// finish ends the stream after its frames; mu is held.
func (o *outbox) finish() {
	if !o.closed {
		o.closed = true
		o.signal()
	}
}

// attach returns a reader that continues after the last delivered frame or, if after is set, after that frame. A reader
// with after replaces the previous one, whose connection may be lost without notice. mu is held.
func (o *outbox) attach(after *uint64) (*Reader, error) {
	if o.reader != nil && after == nil {
		return nil, ErrStreamInUse
	}
	if after != nil {
		last := o.first + uint64(o.sent) - 1
		if *after+1 < o.first || *after > last {
			return nil, &TooOld{After: *after, First: o.first, Next: last + 1, Kept: o.maxKept}
		}
		for o.sent > 0 && o.first+uint64(o.sent)-1 > *after { // deliver these again
			o.sent--
			size := len(o.frames[o.sent])
			o.kept -= size
			o.addWaiting(size)
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
	o.signal() // the previous reader notices that it was replaced
	return o.reader, nil
}

// trim drops delivered frames, oldest first, until at most maxKept bytes of them are kept; mu is held.
func (o *outbox) trim(maxKept int) {
	drop := 0
	for ; drop < o.sent && o.kept > maxKept; drop++ {
		o.kept -= len(o.frames[drop])
		o.frames[drop] = nil
	}
	o.frames, o.first, o.sent = o.frames[drop:], o.first+uint64(drop), o.sent-drop
}

// Reader reads a stream. It is for one goroutine.
type Reader struct{ box *outbox }

// At returns the number of the frame before the next one.
func (r *Reader) At() uint64 {
	o := r.box
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.first + uint64(o.sent) - 1
}

// maxBatch bounds the frames of one Next, in bytes, except for a single larger frame.
const maxBatch = 64 << 10

// Next waits for frames and returns them. They are not delivered again, unless a new reader asks for it by the number
// of its last frame. number is that of the first frame. ok is false when the stream has ended, or another reader has
// replaced this one.
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
			o.addWaiting(-size)
			o.kept += size
			o.trim(o.maxKept)
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

// Close releases the stream for the next reader.
func (r *Reader) Close() {
	o := r.box
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.reader == r {
		o.reader = nil
		o.room()
	}
}
