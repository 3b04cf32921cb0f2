package session

// setting is a request to set a mode that is not answered yet.
type setting struct {
	st           *state
	mode, before string
}

// Mode records a change of mode by the agent.
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

// SettingMode records a client's session/set_mode. reqID is the canonical id of the request.
func (t *Table) SettingMode(reqID, sessionID, mode string) {
	defer t.change()()
	if st := t.sessions.At(sessionID); st != nil && mode != "" {
		t.settings[reqID] = setting{st: st, mode: mode, before: st.mode}
		st.mode = mode
	}
}

// ModeSet records the agent's answer to session/set_mode. failed: the answer is an error. The session then returns to
// its previous mode, or to the mode that the agent reported meanwhile.
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
	for id, later := range t.settings { // a later request may fail too, and must not restore this mode
		if later.st == s.st && later.before == s.mode {
			later.before = s.before
			t.settings[id] = later
		}
	}
}
