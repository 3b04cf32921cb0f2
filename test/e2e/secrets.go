package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Journaled is all that the journal has, as text.
func (p *Place) Journaled(t testing.TB) string {
	t.Helper()
	var all strings.Builder
	files := 0
	err := filepath.WalkDir(p.Home, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".ndjson" {
			return err
		}
		data, err := os.ReadFile(path)
		all.Write(data)
		files++
		return err
	})
	if err != nil || files == 0 {
		t.Fatalf("the journal has %d files (%v)", files, err)
	}
	return all.String()
}
