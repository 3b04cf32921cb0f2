package ring

import "sync/atomic"

// Budget is how many bytes all rings that share it may hold. It is safe for concurrent use.
type Budget struct {
	limit atomic.Int64
	used  atomic.Int64
}

// NewBudget makes a budget of so many bytes.
func NewBudget(limit int64) *Budget {
	b := &Budget{}
	b.limit.Store(limit)
	return b
}

// SetLimit changes the budget. What rings already hold above a lower one stays with them.
func (b *Budget) SetLimit(limit int64) { b.limit.Store(limit) }

// Used is how many bytes are taken.
func (b *Budget) Used() int64 { return b.used.Load() }

func (b *Budget) take(n int64) bool {
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

func (b *Budget) give(n int64) { b.used.Add(-n) }
