package wire

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/testkit"
)

// Place is where programs are run: its own home and runtime folder, and a workspace.
type Place struct {
	Home string // also marks every process that belongs here
	Work string
}

// NewPlace makes a place. When the test ends, nothing that belongs there may still run, and it is removed.
func NewPlace(t testing.TB) *Place {
	t.Helper()
	home := testkit.ShortDir(t)
	p := &Place{Home: home, Work: filepath.Join(home, "work")}
	for _, dir := range []string{p.Work, filepath.Join(home, "run"), filepath.Join(home, "tmp")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { p.ExpectNobody(t, nil) })
	return p
}

// Env is the environment of all that is run here.
func (p *Place) Env(more ...string) []string {
	return append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + p.Home, "TMPDIR=" + filepath.Join(p.Home, "tmp"),
		"XDG_RUNTIME_DIR=" + filepath.Join(p.Home, "run"), "LANG=C.UTF-8", "GORACE=atexit_sleep_ms=0",
	}, more...)
}

// Path is a path in the workspace.
func (p *Place) Path(name string) string { return filepath.Join(p.Work, name) }

// File writes a file into the workspace and returns its path.
func (p *Place) File(t testing.TB, name, text string) string {
	t.Helper()
	path := p.Path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Config writes a configuration file, outside of the workspace, and returns the flags that name it.
func (p *Place) Config(t testing.TB, text string) []string {
	t.Helper()
	return []string{"--config", p.File(t, "../config/config.yaml", cmp.Or(text, "{}"))}
}

// ExpectNobody waits until no process is left that belongs here, or is one of pids.
func (p *Place) ExpectNobody(t testing.TB, pids []int) {
	t.Helper()
	var left []int
	if !testkit.Poll(func() bool {
		marked, err := proc.WithEnviron("HOME=" + p.Home)
		if err != nil {
			t.Error(err)
			return true
		}
		alive, err := proc.Descendants(os.Getpid())
		if err != nil {
			t.Error(err)
			return true
		}
		left = marked
		for _, pid := range pids {
			if slices.Contains(alive, pid) && !slices.Contains(left, pid) {
				left = append(left, pid)
			}
		}
		return len(left) == 0
	}) {
		t.Errorf("processes are left behind:\n%s", Describe(left))
	}
}
