package git_test

import (
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/acphost/acphost/internal/git"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if dir, _ := prepared(); dir != "" {
			_ = os.RemoveAll(dir)
		}
		os.Exit(code)
	}))
}

func TestOwn_RecognizesEverySpelling(t *testing.T) {
	for _, path := range []string{"/w/.git", "/w/.git/config", "/w/sub/.GIT/hooks/x", "/w/.git./config", "/w/.git /config", "/w/GIT~1/config",
		"/w/.g\u200cit/config", "/w/.git::$INDEX_ALLOCATION/config", ".git"} {
		if !git.Own(path) {
			t.Errorf("%q is not taken for git's own", path)
		}
	}
	for _, path := range []string{"", "/w/.gitignore", "/w/.github/x", "/w/git/config", "/w/x.git/config", "/w/.gitattributes", "/w/.git-x"} {
		if git.Own(path) {
			t.Errorf("%q is taken for git's own", path)
		}
	}
}

func TestCompletes_WriteThatMakesRepository(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	make := func(names ...string) {
		for _, name := range names {
			if err := os.MkdirAll(at(name), 0o700); err != nil {
				t.Fatal(err)
			}
		}
	}
	make("bare/HEAD", "bare/objects", "bare/refs", "noHEAD/objects", "noHEAD/refs", "noRefs/HEAD", "noRefs/objects", "only/HEAD", "table/HEAD", "table/objects")
	for _, name := range []string{"bare/config", "bare/hooks/x", "bare/CONFIG", "bare/HEAD", "bare/objects/info/alternates", "noHEAD/HEAD", "noHEAD/head",
		"noRefs/refs/heads/main", "only/commondir", "table/reftable/tables.list"} {
		if !git.Completes(at(name)) {
			t.Errorf("%s makes or changes a repository, and that is not seen", name)
		}
	}
	for _, name := range []string{"bare/work/file", "bare/work/config", "noHEAD/config", "noHEAD/objects/x", "only/objects/x", "config", "HEAD", "hooks/x"} {
		if git.Completes(at(name)) {
			t.Errorf("%s is taken for a part of a repository", name)
		}
	}
	make("head/HEAD")
	for _, c := range []struct {
		names []string
		want  bool
	}{
		{[]string{"head/objects"}, false}, {[]string{"head/refs", "head/info"}, false}, {[]string{"head/objects", "refs"}, false},
		{[]string{"head/objects", "head/refs"}, true}, {[]string{"head/objects/info", "x", "head/Refs/heads"}, true},
		{[]string{"new/HEAD", "new/objects", "new/refs"}, true},
	} {
		var paths []string
		for _, name := range c.names {
			paths = append(paths, at(name))
		}
		if got := git.Completes(paths...); got != c.want {
			t.Errorf("%q together: that they make a repository is told as %t", c.names, got)
		}
	}
}

func TestFind_AgreesWithGit(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"r/.git/HEAD", "r/.git/objects", "r/.git/refs", "r/sub/deep", "r/bare/HEAD", "r/bare/objects", "r/bare/refs/heads",
		"r/broken/.git", "r/file", "r/linked/.git/HEAD", "r/linked/.git/commondir", "none/x"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "r/file/.git"), "gitdir: /elsewhere\n", 0o600)
	for from, want := range map[string]git.Found{
		"r":           {Dir: "r/.git", Top: "r", Plain: true},
		"r/sub/deep":  {Dir: "r/.git", Top: "r", Plain: true},
		"r/bare":      {Dir: "r/bare", Top: "r/bare"},
		"r/bare/refs": {Dir: "r/bare", Top: "r/bare"},
		"r/broken":    {Dir: "r/broken/.git", Top: "r/broken"},
		"r/file":      {Dir: "r/file/.git", Top: "r/file"},
		"r/linked":    {Dir: "r/linked/.git", Top: "r/linked"},
	} {
		want.Dir, want.Top = filepath.Join(dir, want.Dir), filepath.Join(dir, want.Top)
		if got := git.Find(filepath.Join(dir, from)); got != want {
			t.Errorf("from %s: %+v, want %+v", from, got, want)
		}
	}
	if got := git.Find(filepath.Join(dir, "none/x")); got.Dir != "" {
		t.Errorf("where there is none: %+v", got)
	}
}
