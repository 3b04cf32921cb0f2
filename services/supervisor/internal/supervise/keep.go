package supervise

// maxKeep bounds what is kept of a handler, in bytes, as the contract says.
const maxKeep = 32 << 20

// keepable is what is kept of what a handler gives; nil: nothing. Nobody knows when a sidecar has ended, which has files
// and settings of its own.
func keepable(t *target, keep []byte) []byte {
	if t.sidecar() || len(keep) == 0 || len(keep) > maxKeep {
		return nil
	}
	return keep
}

// Keeps reports whether the handler gives what it believes to be kept.
func (h *Handler) Keeps() bool { return h.kept() != nil }

// kept is what the next start gives back to the handler.
func (h *Handler) kept() []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.keep
}

// Kept is what is kept now; nil: nothing. It must not be changed. What Conn returns has it and Keep beside the connection.
func (a *attached) Kept() []byte { return a.h.kept() }

// Keep replaces it, if the handler that Conn returned still runs: by now it believes something else.
func (a *attached) Keep(what []byte) {
	a.h.mu.Lock()
	defer a.h.mu.Unlock()
	if keep := keepable(&a.h.target, what); keep != nil && a.h.current == a {
		a.h.keep = keep
	}
}

// Told counts how often the instance was told what to go by: it changes before and after each time that the settings are sent
// again. ok is false for a sidecar, whose settings others change, and if another instance has taken its place. What Conn
// returns has it beside the connection.
func (a *attached) Told() (n uint64, ok bool) {
	a.h.mu.Lock()
	defer a.h.mu.Unlock()
	return a.h.told, a.h.current == a && a.PID() != 0
}

// tell has a Configure begin or end: what the instance said before, or while it was configured, is not what it says now.
func (h *Handler) tell() {
	h.mu.Lock()
	h.told++
	h.mu.Unlock()
	h.tellChanged()
}
