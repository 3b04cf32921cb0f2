package git_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/git"
)

// suspectsOf tells the suspects alone.
func suspectsOf(found git.Found, use git.Use) []string {
	suspects, _ := git.Inspect(found, use)
	return suspects
}

const partial = "partial clone: git may fetch what is missing"

func TestSuspects_PartialClone(t *testing.T) {
	for _, c := range []struct{ name, config, pack string }{
		{name: "a remote that promises", config: "[remote \"origin\"]\npromisor = true"},
		{name: "without a value", config: "[remote \"origin\"]\npromisor"},
		{name: "a filter", config: "[remote \"origin\"]\npartialCloneFilter = blob:none"},
		{name: "an extension", config: "[core]\nrepositoryFormatVersion = 1\n[extensions]\npartialClone = origin"},
		{name: "a pack", pack: "pack-1.promisor"},
	} {
		r := newRepository(t)
		if c.pack != "" {
			write(t, r.dir+"/.git/objects/pack/"+c.pack, "", 0o600)
		}
		write(t, r.dir+"/.git/config", read(t, r.dir+"/.git/config")+c.config+"\n", 0o600)
		for _, quiet := range []bool{true, false} {
			got, quieted := git.Inspect(git.Find(r.dir), git.Use{Command: "diff", Looks: true, Quiet: quiet})
			if !slices.Equal(got, []string{partial}) || len(quieted) > 0 {
				t.Errorf("%s, quiet %t: %q and %q", c.name, quiet, got, quieted)
			}
		}
	}
}

// TestPartialClone_FetchesDuringRead shows why partial clones are suspected: reading fetches missing objects, and Quiet
// prevents that only for recent versions of git.
func TestPartialClone_FetchesDuringRead(t *testing.T) {
	r := newRepository(t)
	bin := filepath.Dir(r.mark) + "/bin"
	write(t, bin+"/ssh", read(t, r.mark), 0o700)
	env := append(r.environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	r.git(t, r.dir, "config", "remote.origin.url", "ssh://example.invalid/x")
	r.git(t, r.dir, "config", "remote.origin.promisor", "true")
	cmd := exec.Command("git", "rev-parse", "HEAD:f")
	cmd.Dir, cmd.Env = r.dir, r.environ()
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	id := strings.TrimSpace(string(out))
	if err := os.Remove(filepath.Join(r.dir, ".git/objects", id[:2], id[2:])); err != nil {
		t.Fatal(err)
	}
	heeds := heedsNoLazyFetch(t)
	for _, args := range [][]string{{"diff"}, {"log", "-p"}, {"show"}, {"blame", "f"}} {
		if ran := r.ran(t, env, args...); ran == "" {
			t.Errorf("git %q ran no ssh: the case shows nothing", args)
		}
		if ran := r.ran(t, git.Quiet(append(env, "GIT_NO_LAZY_FETCH=0")), args...); ran != "" && heeds {
			t.Errorf("git %q ran %q in a quiet environment", args, ran)
		}
	}
}

// heedsNoLazyFetch reports whether the git that is found is of a version that surely does.
func heedsNoLazyFetch(t *testing.T) bool {
	t.Helper()
	out, err := exec.Command("git", "version").Output()
	if err != nil {
		t.Fatal(err)
	}
	var major, minor, patch int
	if n, _ := fmt.Sscanf(string(out), "git version %d.%d.%d", &major, &minor, &patch); n < 2 {
		return false
	}
	return major > 2 || major == 2 && (minor >= 45 || minor == 39 && patch >= 4)
}

func TestQuiet_PreventsFetchOfMissingObjects(t *testing.T) {
	var got []string
	for _, entry := range git.Quiet([]string{"GIT_NO_LAZY_FETCH=0"}) {
		if strings.HasPrefix(entry, "GIT_NO_LAZY_FETCH=") {
			got = append(got, entry)
		}
	}
	if !slices.Equal(got, []string{"GIT_NO_LAZY_FETCH=1"}) {
		t.Errorf("%q", got)
	}
}

func TestFind_RepositoryWithLinkedPartsIsNotPlain(t *testing.T) {
	for _, name := range []string{"HEAD", "config", "objects", "refs", "packed-refs", "index", "info", "objects/info",
		"logs", "FETCH_HEAD"} {
		r := newRepository(t)
		own, away := filepath.Join(r.dir, ".git", name), filepath.Join(r.dir, "away")
		if _, err := os.Lstat(own); err == nil {
			rename(t, own, away)
		}
		symlink(t, away, own)
		if git.Find(r.dir).Plain {
			t.Errorf("with %s behind a link the repository is plain", name)
		}
	}
}

func TestSuspects_LinksOutOfRepository(t *testing.T) {
	for _, name := range []string{"objects/pack/pack-1.pack", "refs/heads/x", "logs/refs/heads/x", "modules/sub/index",
		"modules/sub/FETCH_HEAD", "modules/sub/logs/HEAD"} {
		r := newRepository(t)
		own := filepath.Join(r.dir, ".git", name)
		if err := os.RemoveAll(own); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(own), 0o700); err != nil {
			t.Fatal(err)
		}
		symlink(t, r.home+"/.profile", own)
		if got := suspectsOf(git.Find(r.dir), git.Use{Command: "status", Quiet: true}); len(got) != 1 || !strings.Contains(got[0], "symbolic link") {
			t.Errorf("%s leads elsewhere: %q", name, got)
		}
	}
}

func TestSuspects_AcceptsCommonLinks(t *testing.T) {
	r := newRepository(t)
	branch := strings.TrimSpace(strings.TrimPrefix(read(t, r.dir+"/.git/HEAD"), "ref: "))
	rename(t, r.dir+"/.git/HEAD", r.dir+"/old-head")
	symlink(t, branch, r.dir+"/.git/HEAD") // as git once wrote it
	symlink(t, filepath.Base(branch), r.dir+"/.git/refs/heads/other")
	rename(t, r.dir+"/.git/hooks", r.dir+"/githooks")
	symlink(t, "../githooks", r.dir+"/.git/hooks")
	write(t, r.dir+"/.git/objects/info/alternates", "# none\n\n", 0o600)
	found := git.Find(r.dir)
	if got := suspectsOf(found, git.Use{Command: "status", Looks: true, Quiet: true}); !found.Plain || len(got) > 0 {
		t.Errorf("plain %t, suspects %q", found.Plain, got)
	}
}

func TestSuspects_AlternateObjects(t *testing.T) {
	r := newRepository(t)
	base := filepath.Dir(r.dir)
	r.git(t, base, "clone", "--quiet", "--shared", r.dir, "shared")
	if got := suspectsOf(git.Find(base+"/shared"), git.Use{Command: "log"}); !slices.Equal(got, []string{"objects/info/alternates"}) {
		t.Errorf("a shared clone: %q", got)
	}
	write(t, r.dir+"/.git/objects/info/http-alternates", "https://example.com/x\n", 0o600)
	write(t, r.dir+"/.git/modules/sub/objects/info/alternates", "/elsewhere\n", 0o600)
	want := []string{"objects/info/http-alternates", "sub: objects/info/alternates"}
	if got := suspectsOf(git.Find(r.dir), git.Use{Command: "log", Quiet: true}); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
