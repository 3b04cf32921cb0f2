package adversary

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/acphost/acphost/test/wire"
)

// TestContainment_RepositoryInMemory: git checks a folder in the memory of a process, and then reads the configuration
// of a folder in the workspace, which git would not accept.
func TestContainment_RepositoryInMemory(t *testing.T) {
	t.Parallel()
	needsProgram(t, "unshare")
	if os.Getuid() == 0 {
		t.Skip("root without capabilities cannot map users")
	}
	s := openWalls(t, wire.NewPlace(t))
	s.sh(fmt.Sprintf(`mkdir x sub; echo "ref: refs/heads/main" >x/HEAD
printf '[core]\n\trepositoryformatversion = 0\n\tfsmonitor = "%s"\n' >x/config
cat >memory <<'END'
mount -t tmpfs none x && mkdir x/objects x/refs && echo "ref: refs/heads/main" >x/HEAD && echo ready
exec sleep 1000
END
unshare -rm sh ./memory >is &
until grep ready is; do kill -0 $! || exit 1; done
echo "gitdir: /proc/$!/root$PWD/x" >sub/.git
git init -q other; echo "/proc/$!/root$PWD/x" >other/.git/commondir
cat sub/.git other/.git/commondir
`, trap(s.Place)))
	s.looks(s.Path("sub"), "a file .git")
	s.looks(s.Path("other"), "commondir")
	s.finish()
}

// TestContainment_RepositoryLocation: a path without a folder named ".git" can lead to another folder when git resolves
// it for the second time.
func TestContainment_RepositoryLocation(t *testing.T) {
	t.Parallel()
	s := openWalls(t, wire.NewPlace(t))
	out := s.sh(`git init -q good; mkdir sub moved linked worktree
echo "gitdir: ../good/.git" >sub/.git; cat sub/.git
git init -q --bare bare
for dir in moved linked worktree; do
	echo "gitdir: ../link" >file
	case $dir in
	moved) mv file $dir/.git ;;
	linked) ln file $dir/.git ;;
	*) cat file >$dir/.git ;;
	esac
	test ! -e $dir/.git || echo "ATTACK: $dir"
done
echo ../link >good/.git/commondir; test ! -e good/.git/commondir || echo "ATTACK: commondir"
echo ../link >bare/commondir; test ! -e bare/commondir || echo "ATTACK: commondir in a bare repository"
cd good && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && git worktree add -q ../w && git -C ../w status
`)
	for _, want := range []string{"gitdir: ../good/.git\n", "nothing to commit"} {
		expectText(t, out, want, true)
	}
	expectText(t, out, "ATTACK", false)
	s.finish()
}

// expectText fails the test unless a text is in the output, or is not in it.
func expectText(t *testing.T, out, text string, want bool) {
	t.Helper()
	if got := strings.Contains(out, text); got != want {
		t.Errorf("%q in the output: got %v, want %v: %s", text, got, want, out)
	}
}
