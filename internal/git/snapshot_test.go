package git

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// gitIn runs git in a folder, and returns its output.
func gitIn(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=n", "-c", "user.email=n@example.org"}, args...)...)
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v: %s", args, err, out)
	}
	return string(out)
}

func TestSnapshot_HasOnlyContentOfItsCommits(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := filepath.Join(dir, "r")
	far := time.Now().Add(time.Hour)
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(r, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) { t.Helper(); gitIn(t, r, args...) }
	gitIn(t, dir, "init", "-q", "-b", "main", r)
	write(".vscode/tasks.json", "first\n")
	write("fixture.json", "fixture\n")
	run("add", ".")
	run("commit", "-qm", "1")
	write(".vscode/tasks.json", "second\n")
	run("commit", "-qam", "2")
	run("switch", "-qc", "side", "HEAD~")
	write(".vscode/tasks.json", "side\n")
	run("commit", "-qam", "3")
	run("tag", "-am", "x", "v1")
	run("switch", "-q", "main")
	run("branch", "-qD", "side")

	s := TakeSnapshot(filepath.Join(r, ".vscode"))
	if s == nil {
		t.Fatal("no snapshot")
	}
	write(".vscode/tasks.json", "of the agent\n")
	run("commit", "-qam", "4")
	check := func(state string) {
		t.Helper()
		for _, c := range []struct {
			name, content string
			want          bool
		}{
			{".vscode/tasks.json", "first\n", true},
			{".vscode/tasks.json", "second\n", true},
			{".vscode/tasks.json", "side\n", true},
			{".vscode/tasks.json", "of the agent\n", false},
			{".vscode/tasks.json", "fixture\n", false},
			{".vscode/tasks.json", "first", false},
			{".vscode", "first\n", false},
			{".vscode/tasks.json/x", "first\n", false},
			{"../r/fixture.json", "fixture\n", false},
			{"fixture.json", "fixture\n", true},
		} {
			if got := s.Has(r+"/"+c.name, []byte(c.content), far); got != c.want {
				t.Errorf("%s: %s with %q: got %t, want %t", state, c.name, c.content, got, c.want)
			}
		}
	}
	check("loose objects")
	run("gc", "-q", "--prune=now")
	check("a pack")
	run("update-ref", "refs/heads/main", "HEAD~2")
	check("moved refs")
	if s.Has(r+"/fixture.json", []byte("fixture\n"), time.Now().Add(-time.Second)) {
		t.Error("found after the deadline")
	}

	// An object whose file has another content than its name says.
	objects, err := filepath.Glob(filepath.Join(r, ".git", "objects", "pack", "*"))
	if err != nil || len(objects) == 0 {
		t.Fatal(objects, err)
	}
	for _, o := range objects {
		if err := os.Remove(o); err != nil {
			t.Fatal(err)
		}
	}
	if s.Has(r+"/fixture.json", []byte("fixture\n"), far) {
		t.Error("found without objects")
	}
}

func TestSnapshot_IgnoresForgedObjects(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	gitIn(t, dir, "init", "-q", "-b", "main", ".")
	file := filepath.Join(dir, "a")
	commit := func(text string) (tree string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		gitIn(t, dir, "add", "a")
		gitIn(t, dir, "commit", "-qm", text)
		id := gitIn(t, dir, "rev-parse", "HEAD^{tree}")[:2*idSize]
		return filepath.Join(dir, ".git", "objects", id[:2], id[2:])
	}
	old := commit("old")
	s := TakeSnapshot(dir)
	forged, err := os.ReadFile(commit("new"))
	if err != nil {
		t.Fatal(err)
	}
	far := time.Now().Add(time.Hour)
	if !s.Has(file, []byte("old"), far) || s.Has(file, []byte("new"), far) {
		t.Error("want only the old content before")
	}
	if err := os.Chmod(old, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(old, forged, 0o600); err != nil {
		t.Fatal(err)
	}
	if s.Has(file, []byte("new"), far) {
		t.Error("a tree in the file of another one counts")
	}
}

func TestTakeSnapshot_NeedsReadableRepository(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if TakeSnapshot(dir) != nil {
		t.Error("without a repository")
	}
	gitIn(t, dir, "init", "-q", "--object-format=sha256", ".")
	if TakeSnapshot(dir) != nil {
		t.Error("with longer ids")
	}
}

// TestSnapshot_IgnoresUnusualPacks: processes may write any file below "objects".
func TestSnapshot_IgnoresUnusualPacks(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	gitIn(t, dir, "init", "-q", "-b", "main")
	gitIn(t, dir, "commit", "-q", "--allow-empty", "-m", "x")
	id := strings.TrimSpace(gitIn(t, dir, "rev-parse", "HEAD"))
	s := TakeSnapshot(dir)
	packs := filepath.Join(dir, ".git", "objects", "pack")
	for i := range 8 { // sparse
		const objects = maxObjects / 4
		head := append([]byte(packIndex), make([]byte, 1024)...)
		binary.BigEndian.PutUint32(head[8+1020:], objects)
		name := filepath.Join(packs, "pack-"+strconv.Itoa(i))
		err := errors.Join(os.WriteFile(name+".idx", head, 0o600), os.Truncate(name+".idx", 8+1024+objects*(idSize+8)),
			os.WriteFile(name+".pack", nil, 0o600))
		if err != nil {
			t.Fatal(err)
		}
	}
	loose := filepath.Join(dir, ".git", "objects", id[:2], id[2:])
	err = errors.Join(os.Remove(loose), syscall.Mkfifo(loose, 0o600),
		syscall.Mkfifo(filepath.Join(packs, "pack-p.idx"), 0o600), syscall.Mkfifo(filepath.Join(packs, "pack-q.pack"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	r := &objectReader{history: NewHistory(s.dir), trees: map[string][]byte{}}
	defer r.close()
	if _, _, err := r.read(id); err == nil {
		t.Error("an object was read that is not there")
	}
	objects := 0
	for _, p := range r.packs {
		objects += len(p.places)
	}
	if objects == 0 || objects > maxObjects {
		t.Errorf("%d objects of packs are in memory, want at most %d", objects, maxObjects)
	}
}
