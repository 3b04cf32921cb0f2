package git_test

import (
	"testing"

	"github.com/acphost/acphost/internal/git"
)

// TestHarmlessLocation: git checks that a path leads to a repository, and then resolves the path once more. So the second
// path must lead to a folder that is judged by its name.
func TestHarmlessLocation(t *testing.T) {
	const elsewhere, malformed = "the path of a repository, to a folder that is not named .git", "the path of a repository, which is not well-formed"
	for _, c := range []struct{ file, data, before, why string }{
		{"/w/sub/.git", "gitdir: ../.git/modules/sub\n", "", ""},
		{"/w/sub/.git", "gitdir: ../.git/modules/lib/sub", "", ""},
		{"/w/sub/.git", "gitdir: ../.git/modules/toolbox\n", "", ""},
		{"/w/sub/.git", "gitdir: /other/.git/worktrees/toolbox\n", "", ""},
		{"/w/sub/.git", "gitdir: /link/.git", "", ""},
		{"/w/sub/.git", "", "", ""},
		{"/w/sub/.git", "gitdir: /bare\n", "gitdir: /bare\n", ""},
		{"/w/sub/.git", "gitdir: /bare\n", "gitdir: /other\n", elsewhere},
		{"/w/sub/.git", "gitdir: /proc/1/root/w/x\n", "", elsewhere},
		{"/w/sub/.git", "gitdir: /w/repo.git/worktrees/x\n", "", elsewhere},
		{"/w/sub/.git", "gitdir: ../.git/modules/../../x\n", "", elsewhere},
		{"/w/sub/.git", "gitdir: ../.git/tabcdef\n", "", elsewhere},
		{"/w/sub/.git", "gitdir: ../.git/modules/lib/tabcdef\n", "", elsewhere},
		{"/w/sub/.git", "gitdir: ../.git/modules/lib/tabcdef/x\n", "", elsewhere},
		{"/w/sub/.git", "gitdir: ../.GIT\n", "", elsewhere},
		{"/w/sub/.git", "../.git/modules/sub\n", "", malformed},
		{"/w/sub/.git", "gitdir: ../.git\nx", "", malformed},
		{"/w/sub/.git", "gitdir: \n", "", malformed},
		{"/w/.git/worktrees/x/commondir", "../..\n", "", ""},
		{"/w/.git/worktrees/toolbox/commondir", "../..\n", "", ""},
		{"/w/.git/worktrees/x/commondir", "/other/.git\n", "", ""},
		{"/w/.git/worktrees/x/commondir", "../../..\n", "", elsewhere},
		{"/w/.git/worktrees/x/commondir", "../../../x\n", "", elsewhere},
		{"/w/.git/worktrees/x/commondir", "../../tabcdef\n", "", elsewhere},
		{"/w/.git/modules/r/.git/commondir", "../../q\n", "", elsewhere}, // it is another folder if the submodule moves
		{"/w/x/commondir", "../y\n", "", elsewhere},
		{"/w/x/commondir", ".\n", "", elsewhere},
		{"/w/x/commondir", "/w/.git\n", "", ""},
	} {
		if why := git.HarmlessLocation(c.file, []byte(c.data), []byte(c.before)); why != c.why {
			t.Errorf("%q in %s after %q: got %q, want %q", c.data, c.file, c.before, why, c.why)
		}
	}
}
