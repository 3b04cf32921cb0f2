package e2e_test

import (
	"os"
	"testing"

	"github.com/acphost/acphost/internal/paths"
)

// Once the session's folder was removed, files and terminals refuse calls with the same message, and nothing makes it again.
func TestSession_WhoseFolderWasRemovedRefusesCalls(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.scene(t, nil)
	if err := os.RemoveAll(p.work); err != nil {
		t.Fatal(err)
	}
	want := paths.RootMissing(p.work)
	if e := s.write("a.txt", "a\n").Refused(-32602); e.Message != want {
		t.Errorf("a write was refused with %q, want %q", e.Message, want)
	}
	if e := s.agent.Send("terminal/create", params("command", "true")).Refused(-32602); e.Message != want {
		t.Errorf("a command was refused with %q, want %q", e.Message, want)
	}
	if _, err := os.Stat(p.work); err == nil {
		t.Error("the folder is there again")
	}
}
