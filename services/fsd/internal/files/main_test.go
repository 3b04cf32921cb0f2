package files

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// workspace is a folder to be a root, by its real path.
func workspace(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func in(roots ...string) Bounds {
	var b Bounds
	for _, r := range roots {
		b.Roots = append(b.Roots, Root{Path: r})
	}
	return b
}

func put(t testing.TB, path, content string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func link(t testing.TB, target, path string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func contentOf(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// kindOf is 0 for no error and -1 for an error that is not ours.
func kindOf(err error) Kind {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return -1
}

func wantKind(t testing.TB, err error, want Kind) {
	t.Helper()
	if got := kindOf(err); got != want {
		t.Errorf("got kind %d (%v), want %d", got, err, want)
	}
}

func wantNoLeftovers(t testing.TB, folder string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), temporaryPrefix) {
			t.Errorf("%s was left behind", e.Name())
		}
	}
}

func read(d *Disk, b Bounds, path string) (Text, error) {
	return d.Read(context.Background(), b, path, Range{})
}

func write(d *Disk, b Bounds, path, content string) (Written, error) {
	return d.Write(context.Background(), b, path, content, "")
}
