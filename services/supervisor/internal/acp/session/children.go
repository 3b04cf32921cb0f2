package session

// A child session is a session that an agent opens itself below a session of the client, for a subagent. Its actions
// count as the parent's: it has the parent's roots, mode and turn, and no further rights. The client has not opened it,
// so only the agent states that it exists, and which session its parent is.

// child is the relation of a child session to its parent.
type child struct {
	parent string
	// inferred: the agent named no parent, and the only open session was assumed. While the client opens another
	// session, the id may belong to that session.
	inferred bool
}

// maxChildren limits the known child sessions, and the remembered ids of ended sessions.
const maxChildren = 4096

// Parent returns the parent of a child session; empty for a session that the client opened. It returns false for an
// unknown session.
func (t *Table) Parent(id []byte) (parent string, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sessions.At(string(id)) != nil {
		return "", true
	}
	parent = t.parentOf(string(id))
	return parent, parent != ""
}

// AddChild adds an unknown session as a child of a parent, and returns the parent. An empty parent means the only open
// session. It returns false, and adds nothing, if the parent is unknown, if parent is empty and not exactly one session
// is open, or if id is or was a session of the client.
func (t *Table) AddChild(id, parent string) (of string, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if id == "" || t.sessions.At(id) != nil || t.past.At(id) {
		return "", false
	}
	if known := t.parentOf(id); known != "" {
		return known, true
	}
	inferred := parent == ""
	if inferred {
		if t.sessions.Len() != 1 || len(t.opening) > 0 {
			return "", false
		}
		parent = t.sessions.Oldest()
	} else if above := t.parentOf(parent); above != "" {
		parent = above // a child of a child
	}
	if t.sessions.At(parent) == nil {
		return "", false
	}
	t.children.Keep(id, child{parent, inferred}, maxChildren)
	return parent, true
}

// parentOf returns the parent of a child session; empty: unknown. mu is held.
func (t *Table) parentOf(id string) string {
	c := t.children.At(id)
	if c.inferred && len(t.opening) > 0 {
		return ""
	}
	return c.parent
}

// HasChildren reports whether there are child sessions.
func (t *Table) HasChildren() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.children.Len() > 0
}

// endChildren removes the children of a session that ends. Its id and theirs cannot become children again. mu is held.
func (t *Table) endChildren(parent string) {
	t.past.Keep(parent, true, maxChildren)
	var gone []string
	for id, of := range t.children.All() {
		if of.parent == parent {
			gone = append(gone, id)
		}
	}
	for _, id := range gone {
		t.children.Delete(id)
		t.past.Keep(id, true, maxChildren)
	}
}
