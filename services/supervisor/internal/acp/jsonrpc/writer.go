package jsonrpc

import (
	"io"
	"sync"
	"sync/atomic"

	"github.com/acphost/acphost/internal/panics"
)

// A Writer writes frames from concurrent goroutines to one stream, one after another. A frame is one or several whole
// lines.
//
// Frames are written in the order of the calls: a posted frame is written before all frames that are forwarded or sent
// after it. The first error of the stream is final, because a part of a frame may have been written; every later call
// returns it at once. All methods are safe for concurrent use.
type Writer struct {
	out   sink
	limit int

	writing sync.Mutex   // held during a write; guards single
	single  [1][]byte    // scratch: a frame of one buffer
	callers atomic.Int32 // calls that hold writing or wait for it

	mu      sync.Mutex // guards the fields below; never held during a write
	queue   [][]byte
	queued  int // bytes in queue, and bytes that were removed from it and are not written yet
	err     error
	closed  bool
	wake    chan struct{} // nil until the first Post
	drained chan struct{} // closed when the draining goroutine has ended
}

// sink writes buffers completely, in one system call if possible.
type sink interface {
	write(bufs [][]byte) error
	// ready reports whether a write of a small frame would probably not block.
	ready() bool
}

// NewWriter returns a Writer to w that queues at most limit bytes of posted frames. If w is an *os.File, frames that
// consist of several buffers are written without joining them first, if the system supports that.
func NewWriter(w io.Writer, limit int) *Writer {
	return &Writer{out: newSink(w), limit: limit}
}

// Forward writes b, one or several whole lines, and returns when it is written. The caller may reuse b then.
func (w *Writer) Forward(b []byte) error {
	defer w.release()
	if err := w.acquire(); err != nil {
		return err
	}
	return w.writeOne(b)
}

// Send writes one frame that consists of several buffers, and returns when it is written. The caller may reuse the
// buffers then.
func (w *Writer) Send(bufs ...[]byte) error {
	defer w.release()
	if err := w.acquire(); err != nil {
		return err
	}
	return w.write(bufs)
}

// Post queues a frame and returns at once. The Writer owns the frame from then on. It returns ErrOverflow if the queue
// has no room for it; an empty queue accepts any frame. If a queued frame cannot be written, later calls return the
// error.
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

// TrySend writes a frame if there is no other writer, the queue is empty, and the stream probably accepts a small frame
// without blocking. It returns false if it wrote nothing.
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

// Close rejects further frames, waits until all accepted frames are written or have failed, and returns the stream's
// error. It does not close the stream. If Close waits for a peer that does not read, closing the stream elsewhere ends
// the wait. It may be called again.
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
	w.writing.Lock() // wait for the current writer
	defer w.writing.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// acquire makes the caller the only writer, and writes the queue. The caller must call release, also after an error.
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

// drainPosted writes posted frames if there is no other writer.
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
	_ = w.drain() // stored in w.err
}

// fail makes all later calls return an error.
func (w *Writer) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err, w.queue = err, nil
}

// drain writes the queue. w.writing must be held.
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

// write writes bufs and stores an error. w.writing must be held.
func (w *Writer) write(bufs [][]byte) error {
	err := w.out.write(bufs)
	if err != nil {
		w.fail(err)
	}
	return err
}

// usable returns the error of a failed or closed Writer. w.mu must be held.
func (w *Writer) usable() error {
	if w.err != nil {
		return w.err
	}
	if w.closed {
		return ErrClosed
	}
	return nil
}
