package containment

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/acphost/acphost/internal/paths"
)

// TestCommits_FirstSnapshotCounts: commits that an agent makes do not count in later sessions of the same agent,
// whichever folder of the repository they have.
func TestCommits_FirstSnapshotCounts(t *testing.T) {
	dir := paths.Real(t.TempDir())
	ws := filepath.Join(dir, "ws")
	run := func(folder string, args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=n", "-c", "user.email=n@example.org"}, args...)...)
		cmd.Dir, cmd.Env = folder, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1"}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
	}
	commit := func(folder, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(folder, "sub"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "sub", "tasks.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		run(folder, "add", ".")
		run(folder, "commit", "-qm", text)
	}
	run(dir, "init", "-q", "-b", "main", ws)
	commit(ws, "before")
	run(ws, "worktree", "add", "-q", "-b", "side", filepath.Join(dir, "side"))

	var c commits
	c.snapshot(ws)
	commit(ws, "of the agent")
	nested := filepath.Join(ws, "nested")
	run(ws, "init", "-q", nested)
	commit(nested, "of the agent, too")
	for _, folder := range []string{ws, filepath.Join(ws, "sub"), dir, nested, filepath.Join(dir, "side")} {
		c.snapshot(folder)
	}
	for _, tt := range []struct {
		file, content string
		want          bool
	}{
		{filepath.Join(ws, "sub", "tasks.json"), "before", true},
		{filepath.Join(ws, "sub", "tasks.json"), "of the agent", false},
		{filepath.Join(nested, "sub", "tasks.json"), "of the agent, too", false},
		{filepath.Join(dir, "side", "sub", "tasks.json"), "of the agent", false},
	} {
		if got := c.have(tt.file, []byte(tt.content)); got != tt.want {
			t.Errorf("%s with %q: got %t, want %t", tt.file, tt.content, got, tt.want)
		}
	}
}
