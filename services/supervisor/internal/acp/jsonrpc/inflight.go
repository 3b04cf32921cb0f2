package jsonrpc

import (
	"maps"
	"slices"
	"sync"
)

// InFlight maps the ids of unanswered calls to their data. Ids with the same value are equal in any spelling. The zero
// value is ready. It is safe for concurrent use.
type InFlight[T any] struct {
	mu    sync.Mutex
	calls map[string]T
}

// Add adds a call. It returns false, and changes nothing, if a call with this id is in flight.
func (f *InFlight[T]) Add(id []byte, call T) bool {
	var scratch [64]byte
	key := appendCanonicalID(scratch[:0], id)
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, taken := f.calls[string(key)]; taken {
		return false
	}
	if f.calls == nil {
		f.calls = make(map[string]T)
	}
	f.calls[string(key)] = call
	return true
}

// Get returns the call with an id.
func (f *InFlight[T]) Get(id []byte) (call T, ok bool) {
	var scratch [64]byte
	key := appendCanonicalID(scratch[:0], id)
	f.mu.Lock()
	defer f.mu.Unlock()
	call, ok = f.calls[string(key)]
	return call, ok
}

// Remove removes a call and returns it. If several goroutines remove the same call, only one of them gets it, and
// answers it.
func (f *InFlight[T]) Remove(id []byte) (call T, ok bool) {
	var scratch [64]byte
	key := appendCanonicalID(scratch[:0], id)
	f.mu.Lock()
	defer f.mu.Unlock()
	if call, ok = f.calls[string(key)]; ok {
		delete(f.calls, string(key))
	}
	return call, ok
}

// Drain removes and returns all calls, in no particular order.
func (f *InFlight[T]) Drain() []T {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := f.calls
	f.calls = nil
	return slices.Collect(maps.Values(calls))
}

// Len returns the number of calls in flight.
func (f *InFlight[T]) Len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.calls)
}

// All returns the calls in flight, in no particular order.
func (f *InFlight[T]) All() []T {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Values(f.calls))
}
