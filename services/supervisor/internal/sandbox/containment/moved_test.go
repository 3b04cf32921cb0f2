package containment

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/sandbox"
)

// TestMovedNames_LimitsMemory: the names of all files in a folder are kept while it is renamed.
func TestMovedNames_LimitsMemory(t *testing.T) {
	top := t.TempDir()
	deep := top
	for len(deep) < 3600 {
		deep = filepath.Join(deep, strings.Repeat("x", 250))
	}
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	e := change(sandbox.Move, top, nil)
	e.Others = []string{top + ".new"}
	if names, err := (&renames{}).movedNames(t.Context(), e.Asked); err != nil || len(names) == 0 {
		t.Fatalf("got %d names, %v", len(names), err)
	}
	for i := range maxMovedBytes / len(deep) / 2 {
		if err := os.Symlink("x", filepath.Join(deep, strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
	}
	if names, err := (&renames{}).movedNames(t.Context(), e.Asked); err == nil {
		t.Errorf("got %d names, want an error", len(names))
	}
}

// TestMovedNames_DecidesNewNamesAfterRename: a process of another sandbox can make a file in a folder while its rename
// is decided.
func TestMovedNames_DecidesNewNamesAfterRename(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile []string
		want      int
	}{
		"nothing":        {nil, 0},
		"a file":         {[]string{"tasks.json"}, 4}, // two files by two names
		"a file, nested": {[]string{"sub/x"}, 6},
	} {
		t.Run(name, func(t *testing.T) {
			var r renames
			top := t.TempDir()
			from, to := filepath.Join(top, "d"), filepath.Join(top, ".vscode")
			write := func(name string) {
				t.Helper()
				file := filepath.Join(from, name)
				if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			decide := func(path, other string, made bool) int {
				t.Helper()
				e := change(sandbox.Move, path, func(e *sandbox.Event) {
					e.PID, e.Call, e.Others, e.Made = 1, 2, []string{other}, made
				})
				names, err := r.movedNames(t.Context(), e.Asked)
				if err != nil {
					t.Fatal(err)
				}
				return len(names)
			}
			write("a")
			if got := decide(to, from, false) + decide(from, to, false); got != 2 {
				t.Errorf("before: got %d names, want 2", got)
			}
			for _, name := range c.meanwhile {
				write(name)
			}
			if err := os.Rename(from, to); err != nil {
				t.Fatal(err)
			}
			if got := decide(to, from, true) + decide(from, to, true); got != c.want {
				t.Errorf("after: got %d names, want %d", got, c.want)
			}
		})
	}
}
