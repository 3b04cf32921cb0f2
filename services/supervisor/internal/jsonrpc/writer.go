package jsonrpc

import (
	"io"
	"sync"
	"sync/atomic"

	"github.com/acphost/acphost/internal/panics"
)

// A Writer writes frames, each a line or several whole lines, from many goroutines to one stream without mixing them.
//
// Frames leave in the order in which they were handed over: one that was posted is written before all that are
// forwarded or sent after it. The first error of the stream is final, since part of a frame may have been written;
// every later call fails with it at once. All methods are safe for concurrent use.
type Writer struct {
	out   sink
	limit int

	writing sync.Mutex   // held by who writes; guards single
	single  [1][]byte    // scratch: a frame of one buffer
	callers atomic.Int32 // calls that hold writing or wait for it

	mu      sync.Mutex // guards what follows, never held while writing
	queue   [][]byte
	queued  int // bytes in queue, and of what was taken from it and is not yet written
	err     error
	closed  bool
	wake    chan struct{} // nil until the first Post
	drained chan struct{} // closed when the draining goroutine has ended
}

// sink writes buffers whole, as one piece if it can.
type sink interface {
	write(bufs [][]byte) error
	// ready says whether a write of a small frame would probably not wait.
	ready() bool
}

// NewWriter returns a Writer to w that queues at most limit bytes of posted frames. If w is an *os.File, frames that
// consist of several buffers are written without joining them first, where the system can.
func NewWriter(w io.Writer, limit int) *Writer {
	return &Writer{out: newSink(w), limit: limit}
}

// Forward writes b, one whole line or several, and returns when it is written. b may be used again then.
func (w *Writer) Forward(b []byte) error {
	defer w.release()
	if err := w.acquire(); err != nil {
		return err
	}
	return w.writeOne(b)
}

// Send writes one frame that consists of several buffers, and returns when it is written. The buffers may be used again
// then.
func (w *Writer) Send(bufs ...[]byte) error {
	defer w.release()
	if err := w.acquire(); err != nil {
		return err
	}
	return w.write(bufs)
}

// Post queues a frame and returns at once; the frame belongs to the Writer from then on. It is ErrOverflow if the queue
// has no room for it; an empty queue takes any frame. That a queued frame could not be written is seen by later calls.
func (w *Writer) Post(frame []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.usable(); err != nil {
		return err
	}
	if w.queued > 0 && w.queued+len(frame) > w.limit {
		return ErrOverflow
	}
	w.queue = append(w.queue, frame)
	w.queued += len(frame)
	if w.wake == nil {
		w.wake, w.drained = make(chan struct{}, 1), make(chan struct{})
		go panics.Guard(nil, "writing messages to a peer", func() { w.drainPosted(w.wake, w.drained) }, w.fail)()
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
	return nil
}

// TrySend writes a frame if nobody else is writing or waiting to, nothing is queued, and the stream would take a small
// frame without waiting, as far as that can be told. False: nothing of it was written.
func (w *Writer) TrySend(frame []byte) bool {
	if w.callers.Load() > 0 || !w.writing.TryLock() {
		return false
	}
	defer w.writing.Unlock()
	w.mu.Lock()
	idle := w.usable() == nil && w.queued == 0
	w.mu.Unlock()
	if !idle || w.callers.Load() > 0 || !w.out.ready() {
		return false
	}
	return w.writeOne(frame) == nil
}

// Close refuses further frames, waits until all that was handed over is written or has failed, and returns the stream's
// error. It does not close the stream; closing that from elsewhere ends a Close that waits for a peer that does not
// read. It may be called again.
func (w *Writer) Close() error {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		if w.wake != nil {
			close(w.wake)
		}
	}
	drained := w.drained
	w.mu.Unlock()
	if drained != nil {
		<-drained
	}
	w.writing.Lock() // whoever was writing is done
	defer w.writing.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// acquire makes the caller the one who writes, and writes what was posted before. release must follow, also on error.
func (w *Writer) acquire() error {
	w.callers.Add(1)
	w.writing.Lock()
	if err := w.drain(); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.usable()
}

func (w *Writer) release() {
	w.writing.Unlock()
	w.callers.Add(-1)
}

// drainPosted writes posted frames when nobody else comes along to do it.
func (w *Writer) drainPosted(wake <-chan struct{}, drained chan<- struct{}) {
	defer close(drained)
	for more := true; more; {
		_, more = <-wake
		w.drainOnce()
	}
}

func (w *Writer) drainOnce() {
	w.writing.Lock()
	defer w.writing.Unlock()
	_ = w.drain() // remembered in w.err
}

// fail has all later calls fail.
func (w *Writer) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err, w.queue = err, nil
}

// drain writes what is queued. w.writing must be held.
func (w *Writer) drain() error {
	for {
		w.mu.Lock()
		frames, bytes, err := w.queue, w.queued, w.err
		w.queue = nil
		w.mu.Unlock()
		if err != nil || len(frames) == 0 {
			return err
		}
		err = w.write(frames)
		w.mu.Lock()
		w.queued -= bytes
		w.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

// writeOne writes a frame of one buffer. w.writing must be held.
func (w *Writer) writeOne(b []byte) error {
	w.single[0] = b
	err := w.write(w.single[:])
	w.single[0] = nil
	return err
}

// write writes bufs and remembers a failure. w.writing must be held.
func (w *Writer) write(bufs [][]byte) error {
	err := w.out.write(bufs)
	if err != nil {
		w.fail(err)
	}
	return err
}

// usable returns why nothing can be written any more. w.mu must be held.
func (w *Writer) usable() error {
	if w.err != nil {
		return w.err
	}
	if w.closed {
		return ErrClosed
	}
	return nil
}
