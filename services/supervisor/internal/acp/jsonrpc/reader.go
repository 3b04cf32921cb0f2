package jsonrpc

import (
	"bytes"
	"errors"
	"io"
	"math"
)

const (
	// readSize is the size in bytes of a read, and of the buffer of an idle Reader.
	readSize = 256 << 10
	// keepSize limits the buffer that a Reader keeps after the line that needed it.
	keepSize = 1 << 20
	// minRead is the minimum room for a read. With less, the unread bytes are moved to the start of the buffer.
	minRead = 32 << 10
)

// A Reader splits a stream into lines. A line up to the limit is returned whole; a longer line is discarded. Its time
// is linear in the bytes read. It is not safe for concurrent use.
type Reader struct {
	src io.Reader
	max int

	buf     []byte
	r, w    int // buf[r:w] is read and not yet returned
	scanned int // buf[r:scanned] has no line feed
	next    int // index after the next line feed, or 0 if it is unknown
	err     error
	flood   flood
}

// NewReader returns a Reader of src for lines of at most limit bytes, without line feeds.
func NewReader(src io.Reader, limit int) *Reader {
	return &Reader{src: src, max: min(limit, math.MaxInt/2)}
}

// Next returns the next line with its line feed. A last line without a line feed gets one. Next waits only if Buffered
// returns false. The line must not be modified. It is valid until Next is called after Buffered returned false. Lines
// that were returned since then are adjacent in memory (see Span).
//
// The error is a *TooLong for a line over the limit, after which Next may be called again; io.EOF at the end; or the
// source's error, before which an incomplete line is discarded.
func (r *Reader) Next() ([]byte, error) {
	for {
		if r.Buffered() {
			if r.next-r.r > r.max+1 {
				return nil, r.discard()
			}
			line := r.buf[r.r:r.next] // Span needs its capacity
			r.r, r.scanned, r.next = r.next, r.next, 0
			return line, nil
		}
		if r.w-r.r > r.max {
			return nil, r.discard()
		}
		if r.err != nil {
			return r.last()
		}
		r.fill()
	}
}

// Buffered reports whether the buffer contains another whole line, so that Next returns without a read.
func (r *Reader) Buffered() bool {
	if r.next > 0 {
		return true
	}
	if i := bytes.IndexByte(r.buf[r.scanned:r.w], '\n'); i >= 0 {
		r.next = r.scanned + i + 1
		return true
	}
	r.scanned = r.w
	return false
}

// Span joins a run of lines and the next line, as Next returned them while Buffered returned true, into a longer run
// without copying, so that they can be written at once. A nil run is empty. It returns nil, false if line does not
// follow run in memory.
func Span(run, line []byte) ([]byte, bool) {
	if run == nil {
		return line, true
	}
	n := len(run)
	if len(line) == 0 || cap(run) < n+len(line) || &run[:n+1][n] != &line[0] {
		return nil, false
	}
	return run[: n+len(line) : cap(run)], true
}

// last returns the bytes before the end of the stream.
func (r *Reader) last() ([]byte, error) {
	if !errors.Is(r.err, io.EOF) || r.r == r.w {
		r.buf, r.r, r.w, r.scanned = nil, 0, 0, 0
		return nil, r.err
	}
	line := make([]byte, r.w-r.r+1)
	line[copy(line, r.buf[r.r:r.w])] = '\n'
	r.r, r.scanned = r.w, r.w
	return line, nil
}

// fill makes room and reads once. It must not be called if a whole line is buffered.
func (r *Reader) fill() {
	rest := r.w - r.r
	switch {
	case cap(r.buf) == 0, rest < readSize/2 && cap(r.buf) > keepSize:
		r.move(make([]byte, readSize))
	case rest == 0:
		r.r, r.w, r.scanned = 0, 0, 0
	case rest > len(r.buf)/2:
		if len(r.buf)-r.w < minRead {
			// rest is at most max here, so there is room for more even if the limit ends the doubling.
			if size := min(2*len(r.buf), r.max+1+minRead); size > len(r.buf) {
				r.move(make([]byte, size))
			} else {
				r.move(r.buf)
			}
		}
	case len(r.buf)-r.w < len(r.buf)/4:
		r.move(r.buf)
	}
	r.flood.wait()
	for range 100 {
		n, err := r.src.Read(r.buf[r.w:])
		r.flood.read(n)
		r.w += n
		if err != nil {
			r.err = err
			return
		}
		if n > 0 {
			return
		}
	}
	r.err = io.ErrNoProgress
}

// move moves the unread bytes to the start of buf, which may be the current buffer.
func (r *Reader) move(buf []byte) {
	n := copy(buf, r.buf[r.r:r.w])
	r.buf = buf
	r.r, r.w, r.scanned = 0, n, n
}

// discard discards the current line up to its end, and returns its error.
func (r *Reader) discard() error {
	var p peeker
	long := &TooLong{Max: r.max}
	for {
		end := r.w
		if r.Buffered() {
			end = r.next - 1
		}
		p.feed(r.buf[r.r:end])
		long.Size += int64(end - r.r)
		if r.next > 0 {
			r.r, r.scanned, r.next = r.next, r.next, 0
			break
		}
		r.r, r.scanned = r.w, r.w
		if r.err != nil {
			break
		}
		r.fill()
	}
	long.ID, long.Method = p.found()
	return long
}
