package e2e

import (
	"os"
	"testing"
)

// ExpectFile fails the test unless a file holds a text.
func ExpectFile(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("%s holds %q (%v), want %q", path, got, err, want)
	}
}
