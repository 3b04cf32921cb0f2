package git

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

func TestSnapshot_ChangedSince(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := filepath.Join(dir, "r")
	run := func(args ...string) { t.Helper(); gitIn(t, r, args...) }
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(r, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(r, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		run("add", ".")
	}
	gitIn(t, dir, "init", "-q", "-b", "main", r)
	write("ci/old.yml", "old\n")
	run("commit", "-qm", "old")
	write("a.txt", "a\n")
	run("commit", "-qm", "a")
	for _, test := range []struct {
		name string
		do   func()
		want []string
	}{
		{"nothing", func() {}, nil},
		{"a change that is not committed", func() { write("b.txt", "b\n") }, nil},
		{"a commit", func() { write("ci/new.yml", "new\n"); run("commit", "-qm", "b") }, []string{"b.txt", "ci/new.yml"}},
		{"a new ref to an old commit", func() { run("branch", "again", "HEAD~2") }, nil},
		{"a removed file", func() { run("rm", "-q", "a.txt"); run("commit", "-qm", "removed") }, nil},
		{"a changed mode", func() {
			if err := os.Chmod(filepath.Join(r, "b.txt"), 0o700); err != nil {
				t.Fatal(err)
			}
			run("commit", "-qam", "mode")
		}, []string{"b.txt"}},
		{"a commit on another branch, and back", func() {
			run("switch", "-qc", "side")
			write("x/y/z.txt", "z\n")
			run("commit", "-qm", "z")
			run("reset", "-q", "--hard")
			run("switch", "-q", "main")
		}, []string{"x/y/z.txt"}},
		{"a merge of a known commit", func() { run("merge", "-q", "--no-ff", "--no-edit", "side") }, []string{"x/y/z.txt"}},
		{"packed", func() { run("gc", "-q") }, nil},
		{"a tag", func() {
			write("c.txt", "c\n")
			run("commit", "-qm", "c")
			run("tag", "-am", "v1", "v1")
			run("reset", "-q", "--hard", "HEAD~")
		}, []string{"c.txt"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := TakeSnapshot(r)
			test.do()
			var want []string
			for _, name := range test.want {
				want = append(want, filepath.Join(r, name))
			}
			got := TakeSnapshot(r).ChangedSince(before, time.Now().Add(time.Hour))
			if len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
			if late := TakeSnapshot(r).ChangedSince(before, time.Now()); len(late) > 0 {
				t.Errorf("got %q after the deadline, want nothing", late)
			}
		})
	}
}
