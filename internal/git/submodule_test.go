package git_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/acphost/acphost/internal/git"
)

// evil makes a repository in a folder of the workspace, whose own settings have git run a program, and which holds a change.
func (r repository) evil(t *testing.T, dir string) {
	t.Helper()
	write(t, dir+"/f", "one\n", 0o600)
	r.git(t, dir, "init", "--quiet")
	r.git(t, dir, "add", "f")
	r.git(t, dir, "-c", "user.name=n", "-c", "user.email=e@example.com", "commit", "--quiet", "--message", "one")
	r.git(t, dir, "config", "filter.x.clean", r.mark)
	write(t, dir+"/.gitattributes", "f filter=x\n", 0o600)
	write(t, dir+"/f", "two\n", 0o600)
}

func TestSuspects_InspectsSubmodules(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(t *testing.T, r repository)
	}{
		{"a link in the index to a folder", func(t *testing.T, r repository) {
			r.evil(t, r.dir+"/evil")
			r.git(t, r.dir, "add", "evil")
		}},
		{"by a link", func(t *testing.T, r repository) {
			r.evil(t, r.dir+"/evil")
			r.git(t, r.dir, "add", "evil")
			rename(t, r.dir+"/evil/.git", r.dir+"/store")
			symlink(t, "../store", r.dir+"/evil/.git")
		}},
		{"by a file, through a link and back", func(t *testing.T, r repository) {
			r.evil(t, r.dir+"/evil")
			r.git(t, r.dir, "add", "evil")
			write(t, r.dir+"/far/deep/x", "", 0o600)
			rename(t, r.dir+"/evil/.git", r.dir+"/far/store")
			symlink(t, "../far/deep", r.dir+"/evil/there")
			write(t, r.dir+"/evil/.git", "gitdir: there/../store\n", 0o600)
		}},
		{"a link in a folder of a sparse index", func(t *testing.T, r repository) {
			r.evil(t, r.dir+"/d/evil")
			r.git(t, r.dir, "add", "d/evil")
			r.git(t, r.dir, "rm", "--quiet", "--cached", "sub")
			r.git(t, r.dir, "commit", "--quiet", "--all", "--message", "d")
			rename(t, r.dir+"/d", r.dir+"/away")
			r.git(t, r.dir, "sparse-checkout", "set", "--cone", "--sparse-index", "nothing")
			rename(t, r.dir+"/away", r.dir+"/d")
		}},
		{"in a submodule", func(t *testing.T, r repository) {
			r.evil(t, r.dir+"/sub/evil")
			r.git(t, r.dir+"/sub", "add", "evil")
		}},
		{"behind a link on the way", func(t *testing.T, r repository) {
			r.evil(t, r.dir+"/a/evil")
			r.git(t, r.dir, "add", "a/evil")
			rename(t, r.dir+"/a", r.dir+"/b")
			symlink(t, "b", r.dir+"/a")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRepository(t)
			c.make(t, r)
			ran := ""
			for _, args := range looking {
				ran += r.ran(t, git.Quiet(r.environ()), args...)
			}
			suspects := suspectsOf(git.Find(r.dir), git.Use{Command: "status", Looks: true, Quiet: true})
			if ran != "" && len(suspects) == 0 {
				t.Error("git ran what a repository names that it entered, and nothing is suspected")
			}
			if ran == "" && c.name != "behind a link on the way" {
				t.Error("git ran nothing: the case shows nothing")
			}
		})
	}
}

func TestSuspects_OmitsSubmodulesOfHistory(t *testing.T) {
	r := newRepository(t)
	r.evil(t, r.dir+"/evil")
	r.git(t, r.dir, "add", "evil")
	r.git(t, r.dir, "commit", "--quiet", "--message", "one evil")
	r.git(t, r.dir+"/evil", "config", "--remove-section", "filter.x")
	r.git(t, r.dir+"/evil", "-c", "user.name=n", "-c", "user.email=e@example.com", "commit", "--quiet", "--all", "--message", "two")
	r.git(t, r.dir, "add", "evil")
	r.git(t, r.dir, "commit", "--quiet", "--message", "another evil")
	r.git(t, r.dir, "rm", "--quiet", "--cached", "evil")
	r.git(t, r.dir+"/evil", "config", "diff.external", r.mark)
	all := func() (ran string) {
		for _, args := range append([][]string{{"show", "HEAD"}, {"log", "-p", "-3"}, {"diff", "HEAD~1", "HEAD"}}, looking...) {
			ran += r.ran(t, git.Quiet(r.environ()), args...)
		}
		return ran
	}
	inspect := func() []string {
		return suspectsOf(git.Find(r.dir), git.Use{Command: "show", Looks: true, Quiet: true})
	}
	if ran, suspects := all(), inspect(); ran != "" || len(suspects) > 0 {
		t.Errorf("ran %q, suspects %q", ran, suspects)
	}
	r.git(t, r.dir, "config", "diff.submodule", "log")
	if ran, suspects := all(), inspect(); ran != "" || len(suspects) > 0 {
		t.Errorf("with a log of submodules: ran %q, suspects %q", ran, suspects)
	}
	r.git(t, r.dir, "config", "diff.submodule", "diff")
	if ran, suspects := all(), inspect(); ran != "" || len(suspects) > 0 {
		t.Errorf("with a diff of submodules: ran %q, suspects %q", ran, suspects)
	}
	loud := r.ran(t, r.environ(), "log", "-p", "-3")
	if suspects := suspectsOf(git.Find(r.dir), git.Use{Command: "show", Looks: true}); loud == "" || len(suspects) == 0 {
		t.Errorf("where it is not quiet: ran %q, suspects %q, want both", loud, suspects)
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func symlink(t *testing.T, to, name string) {
	t.Helper()
	if err := os.Symlink(to, filepath.Clean(name)); err != nil {
		t.Fatal(err)
	}
}
