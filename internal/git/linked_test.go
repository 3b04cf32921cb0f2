package git_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/git"
)

// linkedPlaces makes a worktree of a repository, one of a bare repository, and leaves the submodule that the repository has.
func linkedPlaces(t *testing.T) (r repository, base string) {
	t.Helper()
	r = newRepository(t)
	base = filepath.Dir(r.dir)
	r.git(t, r.dir, "worktree", "add", "--quiet", "-b", "w", base+"/wt")
	r.git(t, r.dir, "submodule", "--quiet", "absorbgitdirs")
	r.git(t, base, "clone", "--quiet", "--bare", r.dir, base+"/bare.git")
	r.git(t, base+"/bare.git", "worktree", "add", "--quiet", "-b", "w2", base+"/wt2")
	return r, base
}

func TestFind_LinkedWorktreesAndSubmodules(t *testing.T) {
	r, base := linkedPlaces(t)
	for dir, want := range map[string][2]string{
		base + "/wt":    {r.dir + "/.git/worktrees/wt", r.dir + "/.git"},
		base + "/wt2":   {base + "/bare.git/worktrees/wt2", base + "/bare.git"},
		r.dir + "/sub":  {r.dir + "/.git/modules/sub", r.dir + "/.git/modules/sub"},
		r.dir + "/none": {"", ""},
	} {
		found := git.Find(dir)
		if want[0] == "" {
			if found.Linked || !found.Plain {
				t.Errorf("%s: %+v", dir, found)
			}
			continue
		}
		own, common := git.Folders(found.Dir)
		if !found.Linked || found.Plain || found.Top != dir || own != want[0] || common != want[1] {
			t.Errorf("%s: %+v, folders %s and %s, want %q", dir, found, own, common, want)
		}
	}
	if own, common := git.Folders(r.dir + "/.git"); own != r.dir+"/.git" || common != own {
		t.Errorf("a repository that is not linked has the folders %s and %s", own, common)
	}
}

// TestFind_RejectsUnconfirmedGitFile: an agent can write a file ".git" that names any folder. The link is accepted only
// if that folder names the file, too.
func TestFind_RejectsUnconfirmedGitFile(t *testing.T) {
	for name, forge := range map[string]func(r repository, base string){
		"a file that names another worktree": func(r repository, base string) {
			write(t, base+"/forged/.git", "gitdir: "+r.dir+"/.git/worktrees/wt\n", 0o600)
		},
		"a file that names another repository": func(r repository, base string) {
			write(t, base+"/forged/.git", "gitdir: "+r.dir+"/.git\n", 0o600)
		},
		"a file that names a submodule": func(r repository, base string) {
			write(t, base+"/forged/.git", "gitdir: "+r.dir+"/.git/modules/sub\n", 0o600)
		},
		"a folder of its own, with the common folder of another": func(r repository, base string) {
			own := base + "/forged/x/worktrees/w"
			write(t, base+"/forged/.git", "gitdir: "+own+"\n", 0o600)
			write(t, own+"/gitdir", base+"/forged/.git\n", 0o600)
			write(t, own+"/commondir", r.dir+"/.git\n", 0o600)
			write(t, own+"/HEAD", "ref: refs/heads/w\n", 0o600)
		},
		"such a folder behind a link": func(r repository, base string) {
			own := base + "/forged/x/worktrees/w"
			write(t, base+"/forged/.git", "gitdir: "+own+"\n", 0o600)
			write(t, own+"/gitdir", base+"/forged/.git\n", 0o600)
			write(t, own+"/commondir", "../..\n", 0o600)
			write(t, own+"/HEAD", "ref: refs/heads/w\n", 0o600)
			for _, part := range []string{"HEAD", "objects", "refs", "config"} {
				symlink(t, r.dir+"/.git/"+part, base+"/forged/x/"+part)
			}
		},
		"settings of its own that name a worktree, and a common folder": func(r repository, base string) {
			own := base + "/forged/x"
			write(t, base+"/forged/.git", "gitdir: x\n", 0o600)
			write(t, own+"/config", "[core]\nworktree = ..\n", 0o600)
			write(t, own+"/commondir", r.dir+"/.git\n", 0o600)
			write(t, own+"/HEAD", "ref: refs/heads/w\n", 0o600)
		},
		"a link": func(r repository, base string) {
			write(t, base+"/forged/x", "", 0o600)
			symlink(t, base+"/wt/.git", base+"/forged/.git")
		},
		"two lines": func(r repository, base string) {
			write(t, base+"/forged/.git", "gitdir: "+r.dir+"/.git/worktrees/wt\nx\n", 0o600)
		},
		"a repository beside the file": func(r repository, base string) {
			rename(t, base+"/wt", base+"/forged")
			r.git(t, base+"/forged", "worktree", "repair")
			for _, part := range []string{"objects", "refs"} {
				if err := os.Mkdir(base+"/forged/"+part, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			write(t, base+"/forged/HEAD", "ref: refs/heads/x\n", 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, base := linkedPlaces(t)
			forge(r, base)
			if found := git.Find(base + "/forged"); found.Linked || found.Plain || found.Dir == "" {
				t.Errorf("got %+v", found)
			}
		})
	}
}

func TestInspect_LinkedWorktrees(t *testing.T) {
	for name, c := range map[string]struct {
		hostile func(r repository, own string)
		want    string
	}{
		"nothing":      {func(repository, string) {}, ""},
		"a monitor":    {func(r repository, _ string) { r.git(t, r.dir, "config", "core.fsmonitor", r.mark) }, "core.fsmonitor"},
		"a filter":     {func(r repository, _ string) { r.git(t, r.dir, "config", "filter.x.clean", r.mark) }, "filter.x.clean"},
		"another file": {func(r repository, _ string) { r.git(t, r.dir, "config", "include.path", "/x") }, "include.path"},
		"an alias":     {func(r repository, _ string) { r.git(t, r.dir, "config", "alias.diff", "!x") }, "alias.diff"},
		"a hook":       {func(r repository, _ string) { write(t, r.dir+"/.git/hooks/post-index-change", "#!/bin/sh\n", 0o700) }, "hooks/post-index-change"},
		"its own settings": {func(_ repository, own string) {
			write(t, own+"/config.worktree", "[diff \"x\"]\ntextconv = y\n", 0o600)
		}, "diff.x.textconv"},
		"another worktree":  {func(r repository, _ string) { r.git(t, r.dir, "config", "core.worktree", "/etc") }, "core.worktree"},
		"its own alternate": {func(r repository, _ string) { write(t, r.dir+"/.git/objects/info/alternates", "/x\n", 0o600) }, "objects/info/alternates"},
		"its own link":      {func(_ repository, own string) { symlink(t, "/etc", own+"/logs2"); symlink(t, "/etc", own+"/refs") }, "symbolic link"},
	} {
		t.Run(name, func(t *testing.T) {
			r, base := linkedPlaces(t)
			c.hostile(r, r.dir+"/.git/worktrees/wt")
			found := git.Find(base + "/wt")
			suspects, _ := git.Inspect(found, git.Use{Command: "diff", Looks: true})
			// What has links in its own folder is not taken for a linked place at all.
			if said := strings.Join(suspects, ", "); c.want == "symbolic link" && found.Linked || c.want != "symbolic link" && (!strings.Contains(said, c.want) || c.want == "" && said != "") {
				t.Errorf("linked %t, suspects %q, want %q", found.Linked, said, c.want)
			}
		})
	}
	r, base := linkedPlaces(t)
	if got := suspectsOf(git.Find(base+"/wt2"), git.Use{Command: "status", Looks: true}); len(got) > 0 {
		t.Errorf("a worktree of a bare repository: %q", got)
	}
	if got := suspectsOf(git.Find(r.dir+"/sub"), git.Use{Command: "status", Looks: true}); len(got) > 0 {
		t.Errorf("a submodule: %q", got)
	}
}

func TestNarrow_AddsPathspec(t *testing.T) {
	exists := func(word string) bool { return word == "src" }
	for line, want := range map[string]string{
		"git diff":                 "git diff -- :(top,literal)a/b",
		"git diff --":              "git diff -- :(top,literal)a/b",
		"git diff main":            "git diff main -- :(top,literal)a/b",
		"git log -p -5":            "git log -p -5 -- :(top,literal)a/b",
		"git show HEAD":            "git show HEAD -- :(top,literal)a/b",
		"git grep x":               "git grep x -- :(top,literal)a/b",
		"git diff src":             "git diff -- src",
		"git diff main -- src":     "git diff main -- src",
		"git status":               "git status -- :(top,literal)a/b",
		"git diff -- :/":           "-",
		"git diff -- :!src":        "-",
		"git grep x -- :(top)":     "-",
		"git show HEAD:src":        "-",
		"git show 1234abcd":        "-",
		"git diff main:x main:y":   "-",
		"git cat-file --batch":     "-",
		"git stash show -p":        "-",
		"git log -p --full-diff":   "-",
		"git log -L :main:src":     "-",
		"git grep --no-index x":    "-",
		"git log -p --stdin":       "-",
		"git for-each-ref %(raw)":  "-",
		"git range-diff a...b":     "-",
		"git submodule summary":    "-",
		"git show --textconv :src": "-",
	} {
		argv := strings.Fields(line)
		told, ok := git.Narrow(argv, "a/b", exists)
		if !git.CanNarrow(argv) {
			told, ok = []string{"-"}, true
		}
		if !ok || !slices.Equal(told, strings.Fields(want)) {
			t.Errorf("%s: got %q %t, want %q", line, told, ok, want)
		}
	}
}
