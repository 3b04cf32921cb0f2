package session

// setting is a mode that a session shall be in.
type setting struct {
	st           *state
	mode, before string
}

// Mode folds a change of mode.
func (t *Table) Mode(sessionID, mode string) {
	defer t.change()()
	if st := t.sessions.At(sessionID); st != nil && mode != "" {
		st.mode = mode
		for id, s := range t.settings {
			if s.st == st {
				s.before = mode
				t.settings[id] = s
			}
		}
	}
}

// SettingMode folds a client's session/set_mode: reqID is the canonical id of the request.
func (t *Table) SettingMode(reqID, sessionID, mode string) {
	defer t.change()()
	if st := t.sessions.At(sessionID); st != nil && mode != "" {
		t.settings[reqID] = setting{st: st, mode: mode, before: st.mode}
		st.mode = mode
	}
}

// ModeSet folds the agent's answer to such a request; failed is true for an error, which leaves the session in the mode
// before, or in the one that the agent told meanwhile.
func (t *Table) ModeSet(reqID string, failed bool) {
	defer t.change()()
	s, ok := t.settings[reqID]
	delete(t.settings, reqID)
	if !ok || !failed {
		return
	}
	if s.st.mode == s.mode {
		s.st.mode = s.before
	}
	for id, later := range t.settings { // it may be refused too, and shall not lead back to this one
		if later.st == s.st && later.before == s.mode {
			later.before = s.before
			t.settings[id] = later
		}
	}
}
