package programs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	"github.com/acphost/acphost/sdk/programs"
)

// monorepo is a repository with a folder, a worktree beside it, and a folder with a file .git that leads to that
// worktree's.
func monorepo(t *testing.T) string {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := workplace{root: base + "/mono", home: base + "/home"}
	w.file(t, w.root+"/pkg/sub/f", "x\n", 0o600)
	w.git(t, "init", "--quiet")
	w.git(t, "add", "pkg")
	w.git(t, "-c", "user.name=n", "-c", "user.email=e", "commit", "--quiet", "--message", "x")
	w.git(t, "worktree", "add", "--quiet", base+"/wt")
	w.file(t, base+"/forged/.git", "gitdir: "+w.root+"/.git/worktrees/wt\n", 0o600)
	return base
}

func TestLook_RepositoriesOutsideRoots(t *testing.T) {
	base := monorepo(t)
	for _, c := range []struct {
		root, dir, command string
		want               bool
	}{
		{"wt", "wt", "status", true}, {"wt", "wt", "log", true}, {"wt", "wt", "diff", true}, {"wt", "wt/pkg", "show HEAD:pkg/sub/f", true},
		{"wt", "wt", "commit -m x", false}, {"wt", "wt", "stash", false}, {"wt", "wt", "-c core.fsmonitor=./x status", false}, {"wt", "wt", "config core.pager x", false},
		{"mono/pkg", "mono/pkg", "status", true}, {"mono/pkg", "mono/pkg/sub", "log -p", true}, {"mono/pkg", "mono/pkg", "diff", true},
		{"mono/pkg", "mono/pkg", "add -A", false}, {"mono/pkg", "mono/pkg", "checkout .", false}, {"mono/pkg", "mono", "status", false},
		{"mono/pkg", "mono/pkg", "show HEAD:other/x", false}, {"mono/pkg", "mono/pkg", "diff -- :/", false}, {"mono/pkg", "mono/pkg", "cat-file --batch", false},
		{"wt/pkg", "wt/pkg", "status", true}, {"wt/pkg", "wt/pkg", "show HEAD:other/x", false},
		{"forged", "forged", "status", false}, {"forged", "forged", "log", false},
		{"other", "mono/pkg", "status", false},
	} {
		s := programs.Resolver{Environ: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + base + "/home", "GIT_CONFIG_NOSYSTEM=1"}, Roots: []string{base + "/" + c.root}, Quiet: true}
		got := look(t, s, []*acpv1.SimpleCommand{{Argv: append([]string{"git"}, strings.Fields(c.command)...), Cwd: base + "/" + c.dir}})[0].GetRepository()
		if got.GetAtRoot() != c.want || c.want && (len(got.GetSuspects()) > 0 || got.GetDoubt() != "") {
			t.Errorf("root %s, in %s: git %s: %v, want at the root %t", c.root, c.dir, c.command, got, c.want)
		}
	}
}

// TestLook_HostileSettingsOfRepositoryOutsideRoots: the settings of a repository outside of the roots are checked like
// those of one inside.
func TestLook_HostileSettingsOfRepositoryOutsideRoots(t *testing.T) {
	base := monorepo(t)
	for _, args := range [][]string{{"filter.x.clean", "./x"}, {"include.path", "/x"}, {"diff.external", "./x"}} {
		if out, err := exec.Command("git", append([]string{"-C", base + "/mono", "config"}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	for _, root := range []string{"wt", "mono/pkg"} {
		s := programs.Resolver{Environ: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + base + "/home", "GIT_CONFIG_NOSYSTEM=1"}, Roots: []string{base + "/" + root}, Quiet: true}
		got := look(t, s, []*acpv1.SimpleCommand{{Argv: []string{"git", "status"}, Cwd: base + "/" + root}})[0].GetRepository().GetSuspects()
		if joined := strings.Join(got, " "); !strings.Contains(joined, "filter.x.clean") || !strings.Contains(joined, "include.path") || !strings.Contains(joined, "diff.external") {
			t.Errorf("root %s: %q", root, got)
		}
	}
}
