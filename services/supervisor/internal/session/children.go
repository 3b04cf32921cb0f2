package session

// A child session is one that an agent opens by itself below a session of the client's, for a subagent. What it does is done
// by its parent: it has the parent's roots, mode and turn, and never more. The client has not opened it, so that the agent
// alone says that it exists, and whose child it is.

// child is where a child session belongs.
type child struct {
	parent string
	// inferred: the agent named no parent, and the session is that of the only one that was open. While the client opens another
	// session, the id may be that session's.
	inferred bool
}

// maxChildren bounds the child sessions that are known, and the ids of sessions that have ended.
const maxChildren = 4096

// Parent returns the session that a session is a child of, empty for one that the client opened. It reports false for a session
// that is not known.
func (t *Table) Parent(id []byte) (parent string, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sessions.At(string(id)) != nil {
		return "", true
	}
	parent = t.parentOf(string(id))
	return parent, parent != ""
}

// AddChild takes a session that is not known for a child of another one, and returns that one. parent empty stands for the
// only session that is open. It reports false, and takes nothing, if the parent is not known, if parent is empty and not
// exactly one session is open, and for an id that is, or was, a session of the client's.
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
		parent = above // a child's child
	}
	if t.sessions.At(parent) == nil {
		return "", false
	}
	t.children.Keep(id, child{parent, inferred}, maxChildren)
	return parent, true
}

// parentOf returns the session that a child session belongs to; empty if it is not known. mu is held.
func (t *Table) parentOf(id string) string {
	c := t.children.At(id)
	if c.inferred && len(t.opening) > 0 {
		return ""
	}
	return c.parent
}

// HasChildren reports whether any child session is known.
func (t *Table) HasChildren() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.children.Len() > 0
}

// endChildren forgets the children of a session that ends. Its id, and theirs, are no further children's. mu is held.
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
