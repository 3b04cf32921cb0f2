package session

// setting is a mode that a session shall be in.
type setting struct {
	st           *state
	mode, before string
}

// Mode folds a change of mode.
func (b *Book) Mode(sessionID, mode string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if st := b.sessions[sessionID]; st != nil && mode != "" {
		st.mode = mode
		for id, s := range b.settings {
			if s.st == st {
				s.before = mode
				b.settings[id] = s
			}
		}
	}
}

// SettingMode folds a front's session/set_mode: reqID is the canonical id of the request.
func (b *Book) SettingMode(reqID, sessionID, mode string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if st := b.sessions[sessionID]; st != nil && mode != "" {
		b.settings[reqID] = setting{st: st, mode: mode, before: st.mode}
		st.mode = mode
	}
}

// ModeSet folds the agent's answer to such a request; failed is true for an error, which leaves the session in the mode
// before, or in the one that the agent told meanwhile.
func (b *Book) ModeSet(reqID string, failed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, ok := b.settings[reqID]
	delete(b.settings, reqID)
	if !ok || !failed {
		return
	}
	if s.st.mode == s.mode {
		s.st.mode = s.before
	}
	for id, later := range b.settings { // it may be refused too, and shall not lead back to this one
		if later.st == s.st && later.before == s.mode {
			later.before = s.before
			b.settings[id] = later
		}
	}
}
