package session_test

import (
	"testing"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/session"
)

// opened opens sessions of the client, each in a folder with its name.
func opened(table *session.Table, ids ...string) {
	for _, id := range ids {
		table.Opening("r"+id, acp.MethodSessionNew, acp.Opening{Cwd: "/" + id})
		table.Opened("r"+id, acp.Opened{SessionID: id}, false)
	}
}

func TestTable_AddChild(t *testing.T) {
	add := func(t *testing.T, table *session.Table, id, parent, want string) {
		t.Helper()
		if got, ok := table.AddChild(id, parent); got != want || ok != (want != "") {
			t.Errorf("AddChild(%q, %q) = %q, %v, want %q", id, parent, got, ok, want)
		}
	}
	t.Run("the only session", func(t *testing.T) {
		table := session.New(session.Options{})
		add(t, table, "a-child", "", "")
		opened(table, "a")
		add(t, table, "a-child", "", "a")
		if parent, known := table.Parent([]byte("a-child")); parent != "a" || !known {
			t.Errorf("Parent = %q, %v, want a", parent, known)
		}
		if parent, known := table.Parent([]byte("a")); parent != "" || !known {
			t.Errorf("Parent of the client's = %q, %v, want none", parent, known)
		}
	})
	t.Run("several sessions", func(t *testing.T) {
		table := session.New(session.Options{})
		opened(table, "a", "b")
		add(t, table, "x", "", "")
		add(t, table, "x", "none", "")
		add(t, table, "x", "b", "b")
		add(t, table, "x", "a", "b") // it stays the first one's
		add(t, table, "y", "x", "b") // a child of a child
		add(t, table, "a", "b", "")  // the client's own session
	})
	t.Run("one that is being opened", func(t *testing.T) {
		table := session.New(session.Options{})
		opened(table, "a")
		add(t, table, "x", "", "a")
		add(t, table, "y", "a", "a")
		table.Opening("r", acp.MethodSessionNew, acp.Opening{Cwd: "/b"})
		add(t, table, "z", "", "")
		add(t, table, "x", "", "")  // it may be the session that is being opened
		add(t, table, "y", "", "a") // the agent has named its parent
	})
	t.Run("after the end", func(t *testing.T) {
		table := session.New(session.Options{})
		opened(table, "a", "b")
		add(t, table, "x", "b", "b")
		table.Closed("b")
		add(t, table, "b", "", "")
		add(t, table, "x", "", "")
		if _, known := table.Parent([]byte("x")); known {
			t.Error("the child of a session that has ended is known")
		}
	})
	t.Run("an id that the client's session takes", func(t *testing.T) {
		table := session.New(session.Options{})
		opened(table, "a")
		add(t, table, "x", "", "a")
		opened(table, "x")
		if parent, known := table.Parent([]byte("x")); parent != "" || !known {
			t.Errorf("Parent = %q, %v, want a session of the client's", parent, known)
		}
	})
}
