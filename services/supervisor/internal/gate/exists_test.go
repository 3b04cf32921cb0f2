package gate

import (
	"os"
	"path/filepath"
	"testing"
)

func TestExistsSeesWhatComesAndGoes(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "folder", "policy.yaml")
	check := func(when string, want bool) {
		t.Helper()
		if got := exists(file); got != want {
			t.Errorf("%s: exists is %v", when, got)
		}
	}
	check("without its folder", false)
	if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	check("without the file", false)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	check("once it is written", true)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	check("once it is removed", false)
	if err := os.Symlink(filepath.Join(dir, "nowhere"), file); err != nil {
		t.Fatal(err)
	}
	check("a link that leads nowhere", true)
}
