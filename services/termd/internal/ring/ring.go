// Package ring keeps the newest bytes of a stream.
//
// It knows bytes and a maximum number of bytes. It must not know characters, lines or terminals.
package ring

// minSize is the size that a ring may always have, regardless of the budget: a terminal still shows its last output if
// the budget is used up.
const minSize = 4096

// Ring holds the newest bytes written to it, up to a limit. It starts empty and grows with its content as far as its
// budget allows. It is not safe for concurrent use.
type Ring struct {
	budget *Budget
	limit  int
	buf    []byte // len(buf) above first is taken from the budget
	oldest int    // the index of the oldest byte in buf
	n      int
	total  uint64
}

// New returns a ring that holds at most limit bytes.
func New(limit int, budget *Budget) *Ring {
	return &Ring{budget: budget, limit: max(limit, 0)}
}

// Len returns the number of bytes held.
func (r *Ring) Len() int { return r.n }

// Total returns the number of bytes ever written.
func (r *Ring) Total() uint64 { return r.total }

// Dropped returns the number of written bytes that are no longer held. It is also the offset, in the whole stream, of
// the oldest byte held.
func (r *Ring) Dropped() uint64 { return r.total - uint64(r.n) }

// Write appends p and drops the oldest bytes if there is no room.
func (r *Ring) Write(p []byte) {
	if need := r.n + len(p); need > len(r.buf) && len(r.buf) < r.limit {
		r.grow(need)
	}
	r.total += uint64(len(p))
	if len(p) >= len(r.buf) {
		copy(r.buf, p[len(p)-len(r.buf):])
		r.oldest, r.n = 0, len(r.buf)
		return
	}
	end := r.oldest + r.n
	if end >= len(r.buf) {
		end -= len(r.buf)
	}
	if k := copy(r.buf[end:], p); k < len(p) {
		copy(r.buf, p[k:])
	}
	if r.n += len(p); r.n > len(r.buf) {
		r.oldest += r.n - len(r.buf)
		if r.oldest >= len(r.buf) {
			r.oldest -= len(r.buf)
		}
		r.n = len(r.buf)
	}
}

// CopyAt copies bytes from offset off of the whole stream into dst and returns their number. off must be at least
// Dropped; from Total on it copies nothing.
func (r *Ring) CopyAt(dst []byte, off uint64) int {
	if off < r.Dropped() || off >= r.total {
		return 0
	}
	at := int(off - r.Dropped())
	dst = dst[:min(len(dst), r.n-at)]
	from := r.oldest + at
	if from >= len(r.buf) {
		return copy(dst, r.buf[from-len(r.buf):])
	}
	k := copy(dst, r.buf[from:])
	return k + copy(dst[k:], r.buf)
}

// AppendTo appends all bytes held to dst, the oldest first.
func (r *Ring) AppendTo(dst []byte) []byte {
	tail := min(r.n, len(r.buf)-r.oldest)
	dst = append(dst, r.buf[r.oldest:r.oldest+tail]...)
	return append(dst, r.buf[:r.n-tail]...)
}

// Free releases the memory. The ring is empty afterwards, and can be written to again.
func (r *Ring) Free() {
	r.budget.release(int64(max(len(r.buf)-minSize, 0)))
	r.buf, r.oldest, r.n = nil, 0, 0
}

// grow makes room for need bytes, or as close to it as limit and budget allow. It doubles the size, so that each byte
// is moved about once on average.
func (r *Ring) grow(need int) {
	for _, size := range []int{max(need, 2*len(r.buf), minSize), max(need, minSize), minSize} {
		if size = min(size, r.limit); size <= len(r.buf) {
			return
		}
		more := int64(max(size-minSize, 0) - max(len(r.buf)-minSize, 0))
		if more > 0 && !r.budget.reserve(more) {
			continue
		}
		buf := make([]byte, size)
		k := r.CopyAt(buf, r.Dropped())
		r.buf, r.oldest, r.n = buf, 0, k
		return
	}
}
