package policy_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/acphost/acphost/test/e2e"
)

// TestGuard_ReplacedProgram: if an agent of the same user replaces acphost's file, the next guard still runs the
// original program.
func TestGuard_ReplacedProgram(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	folder := t.TempDir()
	for _, name := range []string{"acphost", "fsd", "termd", "permd"} {
		data, err := os.ReadFile(e2e.Program(name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	own, marker := filepath.Join(folder, "acphost"), filepath.Join(p.Home, "it-ran")
	s := p.ServeFrom(t, own, nil)
	if err := os.WriteFile(own+".new", []byte("#!/bin/sh\necho >"+marker+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(own+".new", own); err != nil {
		t.Fatal(err)
	}
	s.Start(p.Demo())
	if _, err := os.Stat(marker); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the program in acphost's place ran: %v", err)
	}
	if err := os.Remove(own); err != nil {
		t.Fatal(err)
	}
	s.Start(p.Demo("--")) // another agent, when the file is gone
	s.Finish()
}
