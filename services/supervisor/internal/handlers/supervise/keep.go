package supervise

// maxKeep is the maximum size in bytes of data kept for a handler, according to the API.
const maxKeep = 32 << 20

// keepable returns the part of keep that is kept; nil: nothing. For a sidecar nothing is kept: acphost does not know
// when it ends, and it has its own files and settings.
func keepable(t *target, keep []byte) []byte {
	if t.sidecar() || len(keep) == 0 || len(keep) > maxKeep {
		return nil
	}
	return keep
}

// Keeps reports whether the handler has given data to be kept.
func (h *Handler) Keeps() bool { return h.kept() != nil }

// kept returns the data that the next start passes to the handler.
func (h *Handler) kept() []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.keep
}

// Kept returns the data that is kept; nil: none. It must not be changed. The connection that Conn returns has the
// methods Kept and Keep.
func (a *attached) Kept() []byte { return a.h.kept() }

// Keep replaces the data, if the instance that Conn returned still runs, because the handler now uses other data.
func (a *attached) Keep(what []byte) {
	a.h.mu.Lock()
	defer a.h.mu.Unlock()
	if keep := keepable(&a.h.target, what); keep != nil && a.h.current == a {
		a.h.keep = keep
	}
}

// Told returns a number that changes before and after each time that the settings are sent to the instance again. ok is
// false for a sidecar, whose settings others change, and if the instance was replaced. The connection that Conn returns
// has this method.
func (a *attached) Told() (n uint64, ok bool) {
	a.h.mu.Lock()
	defer a.h.mu.Unlock()
	return a.h.configures, a.h.current == a && a.PID() != 0
}

// markConfigure records the begin or the end of a Configure: answers of the instance from before or during it are
// outdated.
func (h *Handler) markConfigure() {
	h.mu.Lock()
	h.configures++
	h.mu.Unlock()
	h.notifyChanged()
}
