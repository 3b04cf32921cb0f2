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
	if names, err := movedNames(t.Context(), e.Asked); err != nil || len(names) == 0 {
		t.Fatalf("got %d names, %v", len(names), err)
	}
	for i := range maxMovedBytes / len(deep) / 2 {
		if err := os.Symlink("x", filepath.Join(deep, strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
	}
	if names, err := movedNames(t.Context(), e.Asked); err == nil {
		t.Errorf("got %d names, want an error", len(names))
	}
}
