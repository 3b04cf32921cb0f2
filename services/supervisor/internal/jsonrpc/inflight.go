package jsonrpc

// All returns the calls that are in flight at this moment, in no particular order.
func (f *InFlight[T]) All() []T {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]T, 0, len(f.calls))
	for _, call := range f.calls {
		all = append(all, call)
	}
	return all
}
