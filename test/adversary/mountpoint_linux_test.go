package adversary

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMountpoint_MaskOfAgentSandboxIsAllowed: sandboxes of agents mount something empty over names that their programs
// must not create, whatever rules say about the name. This leaves an empty file or folder behind, which can be removed,
// and nothing else.
func TestMountpoint_MaskOfAgentSandboxIsAllowed(t *testing.T) {
	needsBubblewrap(t)
	t.Parallel()
	needsProgram(t, "unshare")
	s := openFixture(t, inSandbox("enforce", kernelRules+"  - {id: box, effect: allow, command: [\"sh ./box\"]}\n"+
		"  - {id: keys, effect: deny, on: [fs.write], path: [\"**/.aws/**\", \"**/.npmrc\", \"**/.gitconfig\"]}\n"))
	s.prompt()
	box := func(line string) string {
		s.File(t, "box", line+"\n")
		return s.hand.try("run", "/bin/sh", "./box")[0].Got
	}
	s.File(t, "line", "ls -A .aws .git; cat .gitconfig; (echo x > .aws/credentials) 2>&1; echo x > .gitconfig; rmdir .aws; echo after\n")
	masks := []string{"--perms 555 --tmpfs", s.Path(".aws"), "--remount-ro", s.Path(".aws"), "--perms 555 --tmpfs", s.Path(".git"), "--ro-bind /dev/null", s.Path(".gitconfig")}
	if got := box(inBubblewrap(s, masks...)); !strings.Contains(got, "after") || !strings.Contains(got, "credentials") {
		t.Errorf("in bubblewrap: got %q", got)
	}
	empty := func(when string) {
		t.Helper()
		for _, name := range []string{".aws", ".git", ".gitconfig", ".npmrc", "e/.npmrc"} {
			is, err := os.Lstat(s.Path(name))
			if err != nil {
				continue
			}
			if in, err := os.ReadDir(s.Path(name)); is.IsDir() && (err != nil || len(in) > 0) || !is.IsDir() && is.Size() > 0 {
				t.Errorf("ATTACK SUCCEEDED: %s: %s has something in it: %v, %v", when, name, in, is)
			}
		}
	}
	empty("after bubblewrap")
	if _, err := os.Lstat(s.Path(".gitconfig")); err != nil {
		t.Errorf("this test is of nothing: %v", err)
	}
	if got := box("rmdir .aws .git; rm .gitconfig; ls -d .aws .git .gitconfig; echo after"); strings.Contains(got, "\n.") || !strings.Contains(got, "after") {
		t.Errorf("what bubblewrap left cannot be removed: %q", got)
	}

	hidden := filepath.Join(s.Home, ".npmrc")
	s.File(t, "line", "echo x > .npmrc; echo y >> .npmrc; (exec 5<> .npmrc; echo z >&5); mkdir "+hidden+"; echo x > d; mkdir e; echo x > e/.npmrc; mv e .aws; cp box .gitconfig; ln box .aws; ls -lA; echo after\n")
	if got := box("unshare -Urm sh ./line"); !strings.Contains(got, "after") {
		t.Errorf("in a namespace of its own: got %q", got)
	}
	empty("without bubblewrap")
	if _, err := os.Lstat(hidden); err == nil {
		t.Error("ATTACK SUCCEEDED: a folder was made outside of the roots")
	}
	if got := box("echo x > .npmrc; mkdir .aws; echo after"); !strings.Contains(got, "after") {
		t.Errorf("without a namespace: got %q", got)
	}
	empty("without a namespace")
	if _, err := os.Lstat(s.Path(".aws")); err == nil {
		t.Error("ATTACK SUCCEEDED: a folder that rules deny was made without a namespace")
	}
	s.recorded(`"rule":"acphost/sandbox"`, `"rule":"keys"`, s.Path(".aws"))
	s.finish()
}
