//go:build linux

package reuse_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/acphost/acphost/internal/reuse"
)

func TestState_ChangesWithFile(t *testing.T) {
	for name, tt := range map[string]struct {
		before, change func(path string) error
		follow         bool
	}{
		"it appears":                 {nil, write("a"), true},
		"it is removed":              {write("a"), os.Remove, true},
		"it is written":              {write("a"), write("ab"), true},
		"another of the same length": {write("a"), replace("b"), true},
		"its folder appears":         {nil, func(p string) error { return os.MkdirAll(p, 0o700) }, false},
		"its attributes":             {write("a"), func(p string) error { return os.Chmod(p, 0o604) }, true},
		"its time is set back":       {write("a"), touched, true},
		"a link takes its place":     {write("a"), linked, false},
		"a link to nothing appears":  {nil, linked, false},
		"the link leads elsewhere":   {linked, linkedElsewhere, true},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "f")
			must(t, os.WriteFile(path+".1", []byte("x"), 0o600))
			must(t, os.WriteFile(path+".2", []byte("x"), 0o600))
			if tt.before != nil {
				must(t, tt.before(path))
			}
			state, ok := reuse.Of(path, tt.follow)
			if !ok || !reuse.IsStill(state) {
				t.Fatalf("before the change: %v, %v, and it is not the same at once", state, ok)
			}
			must(t, tt.change(path))
			if reuse.IsStill(state) {
				t.Errorf("the change does not show: %v", state)
			}
		})
	}
}

func TestState_UnavailableForUnobservablePaths(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	must(t, os.Symlink("/", path))
	if state, ok := reuse.Of(path, false); ok {
		t.Errorf("a link that is not followed: %v", state)
	}
	if state, ok := reuse.Of("/a\x00b", true); ok {
		t.Errorf("a name that cannot be looked at: %v", state)
	}
}

func TestView_IsStable(t *testing.T) {
	if v := reuse.View(); v == "" || v != reuse.View() {
		t.Errorf("view %q, then %q", v, reuse.View())
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(text string) func(string) error {
	return func(path string) error { return os.WriteFile(path, []byte(text), 0o600) }
}

// replace puts another file in the place, as editors do.
func replace(text string) func(string) error {
	return func(path string) error {
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			return err
		}
		return os.Rename(path+".new", path)
	}
}

// touched writes a file anew and sets its time of change back to what it was.
func touched(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if err := replace("b")(path); err != nil {
		return err
	}
	return os.Chtimes(path, info.ModTime(), info.ModTime())
}

func linked(path string) error {
	_ = os.Remove(path)
	return os.Symlink(path+".1", path)
}

func linkedElsewhere(path string) error {
	if err := os.Remove(path); err != nil {
		return err
	}
	return os.Symlink(path+".2", path)
}
