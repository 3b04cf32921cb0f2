package programs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/git"
	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	"github.com/acphost/acphost/sdk/programs"
)

// workplace is a repository at the root of a session, with a home and a program that leaves a trace.
type workplace struct{ root, home, bin, trace string }

func newWorkplace(t *testing.T) workplace {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := workplace{root: base + "/w", home: base + "/home", bin: base + "/w/node_modules/.bin", trace: base + "/ran"}
	for _, dir := range []string{w.bin, w.home} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	w.file(t, w.root+"/f.bin", "x\n", 0o600)
	w.git(t, "init", "--quiet")
	w.git(t, "add", "f.bin")
	return w
}

func (w workplace) file(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// trap makes a program that leaves a trace where it runs.
func (w workplace) trap(t *testing.T, name string) {
	t.Helper()
	w.file(t, name, "#!/bin/sh\necho ran >>"+w.trace+"\n", 0o700)
}

func (w workplace) environ(path string) []string {
	return []string{"PATH=" + path, "HOME=" + w.home, "GIT_CONFIG_NOSYSTEM=1"}
}

func (w workplace) git(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = w.root, w.environ(os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
}

// ran reports whether git runs a trap, in the environment of actions without a question.
func (w workplace) ran(path string, args ...string) bool {
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = w.root, git.Quiet(w.environ(path))
	_ = cmd.Run()
	_, err := os.Stat(w.trace)
	_ = os.Remove(w.trace)
	return err == nil
}

// doubt is why it is not certain what git runs.
func (w workplace) doubt(path string, args ...string) string {
	s := programs.Resolver{Environ: w.environ(path), Roots: []string{w.root}, Quiet: true}
	return s.Look([]*acpv1.SimpleCommand{{Argv: append([]string{"git"}, args...), Cwd: w.root}})[0].GetRepository().GetDoubt()
}

func TestGit_DoubtsProgramsFoundByName(t *testing.T) {
	system := os.Getenv("PATH")
	for _, c := range []struct {
		name string
		trap string // a program of the workspace, in a folder of PATH
		home string // the user's own settings
		args []string
		runs bool
	}{
		{name: "a command of the workspace's", trap: "git-foo", args: []string{"foo"}, runs: true},
		{name: "ssh", trap: "ssh", args: []string{"fetch", "ssh://h/x"}, runs: true},
		{name: "a remote helper", trap: "git-remote-foo", args: []string{"fetch", "foo::x"}, runs: true},
		{name: "a program of the user's settings", trap: "big", home: "[filter \"lfs\"]\nclean = big\n", args: []string{"status"}, runs: true},
		{name: "a script's tools", trap: "basename", args: []string{"submodule", "status"}, runs: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorkplace(t)
			w.file(t, w.home+"/.gitconfig", c.home, 0o600)
			w.file(t, w.root+"/.gitattributes", "*.bin filter=lfs\n", 0o600)
			w.file(t, w.root+"/f.bin", "y\n", 0o600)
			w.trap(t, filepath.Join(w.bin, c.trap))
			path := w.bin + ":" + system
			if !w.ran(path, c.args...) {
				t.Errorf("git runs nothing: the case shows nothing")
			}
			if why := w.doubt(path, c.args...); why == "" {
				t.Errorf("git %s runs a program of the workspace, and that is not seen", c.args)
			}
			if why := w.doubt(system, c.args...); why != "" && c.trap != "git-foo" {
				t.Errorf("where PATH holds the system alone: %s", why)
			}
		})
	}
}

func TestGit_AcceptsWorkspaceFolderInPATH(t *testing.T) {
	w := newWorkplace(t)
	for _, name := range []string{"eslint", "git-cz", "python", "basename"} {
		w.trap(t, filepath.Join(w.bin, name))
	}
	w.file(t, w.home+"/.gitconfig", "[alias]\nst = status\n[core]\npager = eslint\n[user]\nname = python\n", 0o600)
	path := w.bin + ":" + os.Getenv("PATH")
	for _, args := range [][]string{{"status"}, {"diff", "--stat"}, {"-C", ".", "log"}, {"st"}, {"--version"}, {}} {
		if why := w.doubt(path, args...); why != "" {
			t.Errorf("git %s: %s", args, why)
		}
		if w.ran(path, args...) {
			t.Errorf("git %s ran a program of the workspace", args)
		}
	}
	if why := w.doubt(w.root+"/none:"+path, "status"); why != "" {
		t.Errorf("a folder that is not there: %s", why)
	}
	if w.doubt(w.root+"/f.bin:"+path, "status") == "" {
		t.Error("a folder that cannot be read is no reason for doubt")
	}
	for _, args := range [][]string{{"cz"}, {"no-such-command"}} {
		if w.doubt(path, args...) == "" {
			t.Errorf("git %s is taken for git's own", args)
		}
	}
}

func TestGit_DoubtsVariablesThatLeadIntoWorkspace(t *testing.T) {
	w := newWorkplace(t)
	doubt := func(more ...string) string {
		s := programs.Resolver{Environ: append(w.environ(os.Getenv("PATH")), more...), Roots: []string{w.root}, Quiet: true}
		return look(t, s, []*acpv1.SimpleCommand{{Argv: []string{"git", "fetch"}, Cwd: w.root}})[0].GetProgram().GetDoubt()
	}
	for _, entry := range []string{"GIT_SSH=" + w.root + "/ssh", "GIT_SSH_COMMAND=ssh -F ./config", "GIT_ASKPASS=bin/ask", "SSH_ASKPASS=" + w.bin + "/ask"} {
		if doubt(entry) == "" {
			t.Errorf("%s is not seen", entry)
		}
	}
	for _, entry := range []string{"GIT_SSH_COMMAND=ssh -i /home/u/.ssh/id", "SSH_ASKPASS=/usr/bin/ksshaskpass", "GIT_PAGER=cat"} {
		if why := doubt(entry); why != "" {
			t.Errorf("%s: %s", entry, why)
		}
	}
}

func TestGit_DoubtsVersionsWithoutEnvironmentSettings(t *testing.T) {
	w := newWorkplace(t)
	w.git(t, "config", "core.fsmonitor", "x")
	base := filepath.Dir(w.root)
	for _, c := range []struct {
		name, program    string
		doubt, suspected bool
	}{
		{"old", "\x7fELF\x00git/2.25.1\x00", true, true},
		{"older", "\x7fELF\x00git/1.8.3.1\x00", true, true},
		{"one that takes them", "\x7fELF\x00git/2.31.0-rc1\x00", false, false},
		{"new", "\x7fELF\x00 git/x git/2.54.0 (Apple Git-1)\x00", false, false},
		{"one without a version", "#!/bin/sh\nexec /usr/bin/git \"$@\"\ngit/2.40.0\x00", false, true},
		{"one with two versions", "\x7fELF\x00git/2.40.0\x00git/2.20.0\x00", false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(base, strings.ReplaceAll(c.name, " ", "-"))
			w.file(t, dir+"/git", c.program, 0o700)
			s := programs.Resolver{Environ: w.environ(dir), Roots: []string{w.root}, Quiet: true}
			got := look(t, s, []*acpv1.SimpleCommand{{Argv: []string{"git", "status"}, Cwd: w.root}})[0]
			if (got.GetRepository().GetDoubt() != "") != c.doubt || (len(got.GetRepository().GetSuspects()) > 0) != c.suspected {
				t.Errorf("got %v", got)
			}
		})
	}
	file, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(file, "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	if v, ok := git.VersionOf(file); ok && !strings.Contains(string(out), " "+strings.Join([]string{strconv.Itoa(v.Major), strconv.Itoa(v.Minor)}, ".")) {
		t.Errorf("%q is taken for %v", out, v)
	}
}
