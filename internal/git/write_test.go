package git_test

import (
	"crypto/sha1"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/git"
)

// tree makes files below a new folder: "NAME" a file, "NAME/" a folder, "NAME -> TARGET" a symbolic link, "NAME = TEXT" a file.
func tree(t *testing.T, names ...string) string {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		name, target, isLink := strings.Cut(name, " -> ")
		name, text, _ := strings.Cut(name, " = ")
		switch file := filepath.Join(top, name); {
		case isLink:
			symlink(t, target, file)
		case strings.HasSuffix(name, "/"):
			if err := os.MkdirAll(file, 0o700); err != nil {
				t.Fatal(err)
			}
		default:
			write(t, file, text, 0o700)
		}
	}
	return top
}

func TestWriteOf_NamesInARepository(t *testing.T) {
	top := tree(t, ".git/objects/", ".git/hooks/", ".git/modules/s/objects/", ".git/worktrees/w/", "bare/HEAD", "bare/objects/", "bare/refs/",
		"begun/refs/", "src/hooks/", "src/objects/")
	for want, names := range map[git.Write][]string{
		git.State: {
			".git", ".git/HEAD", ".git/HEAD.lock", ".git/index.lock", ".git/next-index-12.lock", ".git/index.stash.7",
			".git/objects/ab/cd", ".git/objects/info/alternates", ".git/refs/heads/main", ".git/refs/heads/config", ".git/refs/remotes/origin/hooks/x",
			".git/refs/heads/a.lock", ".git/refs/replace/abc.lock", ".git/logs/HEAD", ".git/packed-refs.lock", ".git/packed-refs.new", ".git/ORIG_HEAD", ".git/FETCH_HEAD",
			".git/MERGE_MSG", ".git/CHERRY_PICK_HEAD", ".git/BISECT_LOG", ".git/AUTO_MERGE", ".git/COMMIT_EDITMSG", ".git/SQUASH_MSG",
			".git/rebase-merge/git-rebase-todo.lock", ".git/rebase-merge/done", ".git/rebase-apply/0001", ".git/sequencer/todo.lock", ".git/rr-cache/x/preimage", ".git/shallow.lock",
			".git/description", ".git/info/exclude", ".git/info/sparse-checkout.lock", ".git/hooks/pre-commit.sample", ".git/config.lock",
			".git/config.worktree.lock", ".git/gc.pid", ".git/tAb3xYz", ".git/lfs/objects/ab/x",
			".git/worktrees/w/HEAD", ".git/worktrees/w/gitdir", ".git/worktrees/w/locked", ".git/worktrees/w/logs/HEAD",
			".git/modules/s/HEAD", ".git/modules/s/objects/ab/cd", ".git/modules/lib/s/refs/heads/main", ".git/modules/s/modules/t/HEAD",
			".git/modules/lib/s/config.lock",
			"bare/HEAD.lock", "bare/refs/heads/main", ".git/commondir.lock",
		},
		git.Refs: {".git/packed-refs", ".git/modules/s/packed-refs", "bare/packed-refs"},
		git.Location: {
			"src/.git", "src/.GIT", ".git/commondir", ".git/worktrees/w/commondir",
			".git/modules/s/commondir", "bare/commondir", "begun/commondir", "other/commondir",
		},
		git.Config: {
			".git/config", ".git/CONFIG", ".git/config.worktree", ".git/modules/s/config", ".git/modules/lib/s/config", ".git/worktrees/w/config.worktree",
			"bare/config", "begun/config", ".GIT/config", "git~1/config", ".g\u200cit/config", ".git/co\u200cnfig", ".git/config.",
		},
		git.Index: {".git/index", ".git/sharedindex.0123", ".git/worktrees/w/index", ".git/modules/s/index", ".git/modules/lib/s/index", "bare/index", "begun/index"},
		git.Steps: {
			".git/rebase-merge/git-rebase-todo", ".git/rebase-merge/strategy", ".git/sequencer/todo", ".git/sequencer/opts",
			".git/worktrees/w/rebase-merge/git-rebase-todo", ".git/modules/s/sequencer/opts", "begun/rebase-merge/git-rebase-todo",
			".git/REBASE-MERGE/Git-Rebase-Todo",
		},
		git.Runs: {
			".git/hooks", ".git/hooks/pre-commit", ".git/hooks/x/y.sample", ".git/hooks/pre-commit.lock", ".git/info", ".git/info/attributes", ".git/info/grafts",
			".git/unknown", ".git/unknown/x", ".git/branches/origin", ".git/remotes/origin", ".git/refs/replace/abc", ".git/refs/replace",
			".git/refs/replace/x.lock/abc", ".git/objects", ".git/lfs/x",
			".git/modules/s/hooks/pre-commit", ".git/modules/lib/s/hooks/pre-commit", ".git/modules/s/info/attributes", ".git/modules/x",
			".git/modules/s/modules/t/hooks/x", ".git/worktrees/w/hooks/x", ".git/worktrees/x", ".git/HOOKS/pre-commit", ".git/hook\u017f/pre-commit",
			"bare/hooks/pre-commit", "bare/info/attributes", "bare/unknown", "begun/hooks/pre-commit", "begun/hooks", "begun/info/attributes",
			".GIT/hooks/x", "sub/.git/hooks/x", ".git/.git/hooks/x", ".git/objects/.git/hooks/x",
		},
		git.NotGit: {
			"file", "hooks/pre-commit", "config", "src/hooks/useThing.ts", "src/hooks/deep/pre-commit", "src/config/index", "src/main.go",
			"begun/other", ".gitignore", ".github/x", "objects", "refs",
		},
	} {
		for _, name := range names {
			c := git.Change{Path: filepath.Join(top, name)}
			if name == ".git/hooks" || name == ".git/objects" { // as a symbolic link is made
				c.Path = strings.Replace(c.Path, ".git", "new/.git", 1)
			}
			if got := git.WriteOf(c); got != want {
				t.Errorf("%s: got %v, want %v", name, got, want)
			}
		}
	}
	if got := git.WriteOf(git.Change{Path: filepath.Join(top, ".git"), File: true}); got != git.Location {
		t.Errorf("a file in place of a folder .git: got %v, want Location", got)
	}
	for name, want := range map[string]git.Write{
		".git/hooks": git.State, ".git/info": git.State, ".git/objects/ab": git.State, ".git/modules/lib/x": git.State, ".git/worktrees/v": git.State,
		".git/unknown": git.Runs, ".git/config": git.Runs, ".git/refs/replace": git.State, ".git/refs/replace/x": git.Runs, ".git/branches": git.State, "src/.git": git.State, "x": git.NotGit,
	} {
		if got := git.WriteOf(git.Change{Path: filepath.Join(top, name), Folder: true}); got != want {
			t.Errorf("folder %s: got %v, want %v", name, got, want)
		}
	}
}

func TestFolderOf_FindsOutermostRepository(t *testing.T) {
	top := tree(t, ".git/modules/s/HEAD", ".git/modules/s/objects/", ".git/modules/s/refs/", "bare/HEAD", "bare/objects/", "bare/refs/", "begun/refs/")
	for path, want := range map[string]string{
		".git/objects/x/y": ".git", ".git/modules/s/HEAD": ".git", "bare/objects/tmp_x": "bare", "bare/refs/heads/main": "bare",
		"bare": "", "begun/refs/x": "", "src/x": "", ".git": "", "sub/.git/x": "sub/.git",
	} {
		if want != "" {
			want = filepath.Join(top, want)
		}
		if got := git.FolderOf(filepath.Join(top, path)); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}

// TestWriteOf_FolderThatBecomesRepository checks the names that make their folder a repository.
func TestWriteOf_FolderThatBecomesRepository(t *testing.T) {
	for name, c := range map[string]struct {
		has  []string
		path string
		want git.Write
	}{
		"nothing in it":                 {nil, "objects", git.NotGit},
		"a hook":                        {[]string{"hooks/pre-commit"}, "objects", git.Runs},
		"a hook and refs":               {[]string{"hooks/pre-commit"}, "refs", git.Runs},
		"a hook and commondir":          {[]string{"hooks/pre-commit"}, "commondir", git.Runs},
		"a sample":                      {[]string{"hooks/pre-commit.sample"}, "objects", git.NotGit},
		"sources named hooks":           {[]string{"hooks/useThing.ts", "hooks/x/"}, "objects", git.NotGit},
		"a configuration":               {[]string{"config"}, "objects", git.Runs},
		"a folder config":               {[]string{"config/x"}, "objects", git.NotGit},
		"a configuration of a worktree": {[]string{"config.worktree"}, "refs", git.Runs},
		"an index":                      {[]string{"index"}, "objects", git.Runs},
		"the second, an index":          {[]string{"refs/", "HEAD", "index = x"}, "objects", git.Runs},
		"attributes":                    {[]string{"info/attributes"}, "objects", git.Runs},
		"a todo list":                   {[]string{"rebase-merge/git-rebase-todo"}, "objects", git.Runs},
		"the second, a harmless one":    {[]string{"refs/", "HEAD", "rebase-merge/git-rebase-todo = pick a\n"}, "objects", git.State},
		"the second, a dangerous one":   {[]string{"refs/", "HEAD", "rebase-merge/git-rebase-todo = exec x\n"}, "objects", git.Runs},
		"a link to hooks":               {[]string{"hooks -> /elsewhere"}, "objects", git.Runs},
		"a link to info":                {[]string{"info -> /elsewhere"}, "objects", git.Runs},
		"the second, config harmless":   {[]string{"refs/", "HEAD", "config = [core]\nbare = true\n"}, "objects", git.State},
		"the second, config dangerous":  {[]string{"refs/", "HEAD", "config = [core]\nfsmonitor = x\n"}, "objects", git.Runs},
		"the second, config a link":     {[]string{"refs/", "HEAD", "config -> x"}, "objects", git.Runs},
		"a worktree's HEAD":             {[]string{"commondir", "config.worktree = [core]\nfsmonitor = x\n"}, "HEAD", git.Runs},
		"a repository":                  {[]string{"refs/", "HEAD", "objects/", "config = [core]\nfsmonitor = x\n", "hooks/pre-commit"}, "HEAD", git.State},
	} {
		t.Run(name, func(t *testing.T) {
			top := tree(t, c.has...)
			if got := git.WriteOf(git.Change{Path: filepath.Join(top, c.path), Folder: c.path == "objects" || c.path == "refs"}); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestWriteOf_RenamedFolder(t *testing.T) {
	dangerous, harmless := "config = [core]\nfsmonitor = x\n", "config = [core]\nbare = false\n"
	for name, c := range map[string]struct {
		has      []string // below "from"
		path     string
		exchange []string // what path has
		want     git.Write
	}{
		"to .git":                         {[]string{"HEAD", "objects/x", "refs/"}, "w/.git", nil, git.State},
		"to .git with a hook":             {[]string{"HEAD", "objects/", "refs/", "hooks/pre-commit"}, "w/.git", nil, git.Runs},
		"to .git with a config of before": {[]string{"HEAD", "objects/", "refs/", harmless}, "w/.git", nil, git.State},
		"to .git with a dangerous one":    {[]string{"HEAD", "objects/", "refs/", dangerous}, "w/.git", nil, git.Runs},
		"to .git with a file config":      {[]string{harmless}, "w/.git", nil, git.Runs},
		"to rebase-merge":                 {[]string{"git-rebase-todo = pick a\n"}, "w/.git/rebase-merge", nil, git.Runs},
		"to .git with a harmless list":    {[]string{"HEAD", "objects/", "refs/", "rebase-merge/git-rebase-todo = noop\n"}, "w/.git", nil, git.State},
		"to .git with a dangerous list":   {[]string{"HEAD", "objects/", "refs/", "rebase-merge/git-rebase-todo = x y\n"}, "w/.git", nil, git.Runs},
		"to hooks":                        {[]string{"pre-commit"}, "w/.git/hooks", nil, git.Runs},
		"to hooks, samples":               {[]string{"pre-commit.sample"}, "w/.git/hooks", nil, git.State},
		"to info":                         {[]string{"attributes"}, "w/.git/info", nil, git.Runs},
		"to a module, of its work tree":   {[]string{"HEAD", "objects/", "refs/", "config = [core]\nworktree = ../../../s\n"}, "w/.git/modules/s", nil, git.State},
		"to .git, of another work tree":   {[]string{"HEAD", "objects/", "refs/", "config = [core]\nworktree = ../../../s\n"}, "w/.git", nil, git.Runs},
		"to a module":                     {[]string{"hooks/pre-commit"}, "w/.git/modules/s", nil, git.Runs},
		"to hooks of a beginning":         {[]string{"pre-commit"}, "begun/hooks", nil, git.Runs},
		"to objects beside hooks":         {[]string{"x"}, "hooked/objects", nil, git.Runs},
		"sources":                         {[]string{"hooks/pre-commit", "config"}, "w/src", nil, git.NotGit},
		"hooks that leave":                {nil, "w/.git/hooks", []string{"pre-commit"}, git.Runs},
		"an alias":                        {[]string{"hooks/pre-commit"}, "w/.Git", nil, git.Runs},
	} {
		t.Run(name, func(t *testing.T) {
			top := tree(t, "w/.git/", "w/.git/modules/", "begun/refs/", "hooked/hooks/pre-commit")
			for _, name := range c.has {
				copyInto(t, tree(t, name), top+"/from")
			}
			for _, name := range c.exchange {
				copyInto(t, tree(t, name), filepath.Join(top, c.path))
			}
			if got := git.WriteOf(git.Change{Path: filepath.Join(top, c.path), From: top + "/from"}); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func copyInto(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

func TestWriteOf_RejectsLargeFolder(t *testing.T) {
	top := tree(t, "w/.git/", "from/")
	for i := range 1<<12 + 1 {
		if err := os.Mkdir(filepath.Join(top, "from", "x"+strings.Repeat("y", i%100)+string(rune('a'+i/100%26))+string(rune('a'+i/2600))), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if got := git.WriteOf(git.Change{Path: top + "/w/.git/modules", From: top + "/from"}); got != git.Runs {
		t.Errorf("got %v, want Runs", got)
	}
}

// forged is an index that names a file that no tree can have.
func forged(id string) []byte {
	const name = ".git/hooks/post-checkout"
	object, _ := hex.DecodeString(id)
	data := append([]byte("DIRC"), 0, 0, 0, 2, 0, 0, 0, 1)
	data = append(data, make([]byte, 24)...)
	data = append(data, 0, 0, 0o100755>>8, 0o100755&0xff)
	data = append(data, make([]byte, 12)...)
	data = append(data, object...)
	data = append(data, 0, byte(len(name)))
	data = append(data, name...)
	data = append(data, make([]byte, 8-(62+len(name))%8)...)
	sum := sha1.Sum(data)
	return append(data, sum[:]...)
}

// TestHarmlessIndex_RejectsNamesThatGitRestores shows that git writes a hook that an index lists, and expects that
// HarmlessIndex rejects the index.
func TestHarmlessIndex_RejectsNamesThatGitRestores(t *testing.T) {
	r := newRepository(t)
	write(t, r.dir+"/hook", "#!/bin/sh\n"+r.mark+"\n", 0o700)
	cmd := exec.Command("git", "hash-object", "-w", "hook")
	cmd.Dir, cmd.Env = r.dir, r.environ()
	id, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	own := r.dir + "/.git/index"
	if why := git.HarmlessIndex([]byte(read(t, own))); why != "" {
		t.Errorf("git's own index: %s", why)
	}
	index := forged(strings.TrimSpace(string(id)))
	if why := git.HarmlessIndex(index); why != ".git/hooks/post-checkout" {
		t.Errorf("got %q, want the name", why)
	}
	if got := git.WriteOf(git.Change{Path: own}); got != git.Index {
		t.Errorf("got %v, want Index", got)
	}
	write(t, own, string(index), 0o600)
	if ran := r.ran(t, r.environ(), "checkout", "--", "."); !strings.Contains(ran, "mark") {
		t.Errorf("git ran %q: the index is no trap", ran)
	}
}

func TestHarmlessIndex_OtherForms(t *testing.T) {
	r := newRepository(t)
	for name, args := range map[string][]string{
		"version 2": {"update-index", "--index-version", "2"}, "version 4": {"update-index", "--index-version", "4"},
		"untracked": {"update-index", "--untracked-cache"}, "intended": {"add", "--intent-to-add", "."},
	} {
		r.git(t, r.dir, args...)
		if why := git.HarmlessIndex([]byte(read(t, r.dir+"/.git/index"))); why != "" {
			t.Errorf("%s: %s", name, why)
		}
	}
	r.git(t, r.dir, "update-index", "--split-index")
	if git.HarmlessIndex([]byte(read(t, r.dir+"/.git/index"))) == "" {
		t.Error("a split index is accepted")
	}
	r.git(t, r.dir, "update-index", "--no-split-index")
	r.git(t, r.dir, "-c", "index.threads=2", "update-index", "--force-write-index")
	if why := git.HarmlessIndex([]byte(read(t, r.dir+"/.git/index"))); !strings.HasPrefix(why, "an extension ") {
		t.Errorf("an index with a table of offsets: got %q", why)
	}
	for _, data := range []string{"DIRC", "x", "DIRC\x00\x00\x00\x05\x00\x00\x00\x00" + strings.Repeat("x", 20), "DIRC\x00\x00\x00\x02\x00\x00\x00\x01" + strings.Repeat("x", 99)} {
		if git.HarmlessIndex([]byte(data)) == "" {
			t.Errorf("%q is accepted", data)
		}
	}
}
