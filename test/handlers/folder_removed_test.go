package handlers_test

import (
	"os"
	"testing"

	"github.com/acphost/acphost/internal/paths"
	"github.com/acphost/acphost/test/e2e"
)

// TestSession_RemovedFolderRejectsCalls: after the session's folder was removed, files and terminals reject calls with
// the same message, and no call creates the folder again.
func TestSession_RemovedFolderRejectsCalls(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, nil)
	if err := os.RemoveAll(p.Work); err != nil {
		t.Fatal(err)
	}
	want := paths.RootMissing(p.Work)
	if e := s.WriteFile("a.txt", "a\n").Refused(-32602); e.Message != want {
		t.Errorf("a write was refused with %q, want %q", e.Message, want)
	}
	if e := s.Agent.Send("terminal/create", e2e.Params("command", "true")).Refused(-32602); e.Message != want {
		t.Errorf("a command was refused with %q, want %q", e.Message, want)
	}
	if _, err := os.Stat(p.Work); err == nil {
		t.Error("the folder is there again")
	}
}
