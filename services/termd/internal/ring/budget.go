package ring

import "sync/atomic"

// Budget limits the bytes that all rings that share it may hold. It is safe for concurrent use.
type Budget struct {
	limit atomic.Int64
	used  atomic.Int64
}

// NewBudget returns a budget with a limit in bytes.
func NewBudget(limit int64) *Budget {
	b := &Budget{}
	b.limit.Store(limit)
	return b
}

// SetLimit changes the limit. Rings keep the bytes that they already hold above a lower limit.
func (b *Budget) SetLimit(limit int64) { b.limit.Store(limit) }

// Used returns the number of bytes in use.
func (b *Budget) Used() int64 { return b.used.Load() }

func (b *Budget) reserve(n int64) bool {
	for {
		used := b.used.Load()
		if used+n > b.limit.Load() {
			return false
		}
		if b.used.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

func (b *Budget) release(n int64) { b.used.Add(-n) }
