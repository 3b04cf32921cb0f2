package git_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/git"
)

// repository is one with two commits, a change, a submodule and a remote; everything that it may run leaves a trace.
type repository struct{ dir, home, mark, trace string }

func repositoryIn(base string) repository {
	return repository{dir: base + "/r", home: base + "/home", mark: base + "/mark", trace: base + "/ran"}
}

// prepared is where the repository is that newRepository copies: to make one takes dozens of processes. TestMain removes it.
var prepared = sync.OnceValues(func() (string, error) {
	base, err := os.MkdirTemp("", "acphost-git-")
	if err != nil {
		return "", err
	}
	return base, repositoryIn(base).prepare(base + "/other")
})

// prepare makes the repository, and the other one that is its submodule.
func (r repository) prepare(other string) error {
	if err := os.Mkdir(r.home, 0o700); err != nil {
		return err
	}
	for _, dir := range []string{other, r.dir} {
		if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(dir+"/f", []byte("one\n"), 0o600), os.WriteFile(dir+"/same", []byte("same\n"), 0o600)); err != nil {
			return err
		}
		for _, args := range [][]string{{"init", "--quiet"}, {"config", "user.name", "n"}, {"config", "user.email", "e@example.com"}, {"add", "f", "same"},
			{"commit", "--quiet", "--message", "one"}} {
			if err := r.run(dir, args...); err != nil {
				return err
			}
		}
	}
	for _, args := range [][]string{{"-c", "protocol.file.allow=always", "submodule", "--quiet", "add", other, "sub"},
		{"config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"}} {
		if err := r.run(r.dir, args...); err != nil {
			return err
		}
	}
	return errors.Join(os.WriteFile(r.dir+"/f", []byte("two\n"), 0o600), r.run(r.dir, "commit", "--quiet", "--all", "--message", "two\n\nx: y\n"))
}

func newRepository(t *testing.T) repository {
	t.Helper()
	from, err := prepared()
	if err != nil {
		t.Fatal(err)
	}
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(base, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	r := repositoryIn(base)
	write(t, r.mark, "#!/bin/sh\necho \"$0 $*\" >>"+r.trace+"\nexit 1\n", 0o700)
	write(t, r.dir+"/f", "six\n", 0o600)
	write(t, r.dir+"/sub/f", "six\n", 0o600)
	old := time.Unix(1, 0)
	if err := os.Chtimes(r.dir+"/f", old, old); err != nil {
		t.Fatal(err)
	}
	return r
}

func write(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func (r repository) environ() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.home, "GIT_CONFIG_NOSYSTEM=1"}
}

func (r repository) git(t *testing.T, dir string, args ...string) {
	t.Helper()
	if err := r.run(dir, args...); err != nil {
		t.Fatal(err)
	}
}

func (r repository) run(dir string, args ...string) error {
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = dir, r.environ()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git %q in %s: %w\n%s", args, dir, err, out)
	}
	return nil
}

// ran runs git and tells what it ran.
func (r repository) ran(t *testing.T, env []string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = r.dir, env
	_ = cmd.Run() // many fail, and must run nothing all the same
	traced, _ := os.ReadFile(r.trace)
	_ = os.Remove(r.trace)
	return string(traced)
}

// shell runs a line in the repository.
func (r repository) shell(env []string, line string) (output string, err error) {
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir, cmd.Env = r.dir, env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// looking are the commands of git that the ready policies allow, with what makes them do most.
var looking = [][]string{
	{"status"}, {"status", "--ignore-submodules=none"}, {"diff"}, {"diff", "--submodule=diff"}, {"diff", "HEAD~1", "--stat"},
	{"log", "-p"}, {"log", "--show-signature"}, {"log", "--format=%G? %(trailers)"}, {"show"}, {"show", "HEAD:f"}, {"blame", "f"},
	{"rev-parse", "HEAD"}, {"ls-files", "-m", "-o"}, {"ls-tree", "HEAD"}, {"shortlog", "HEAD"}, {"describe", "--always", "--dirty"},
	{"merge-base", "HEAD", "HEAD~1"}, {"rev-list", "HEAD"}, {"diff-tree", "-p", "HEAD"}, {"show-ref"}, {"stash", "list", "-p"},
	{"worktree", "list"}, {"remote", "get-url", "origin"}, {"branch", "--show-current"}, {"grep", "s"}, {"fetch", "--dry-run"},
}

func TestSuspects_ProgramsThatQuietLeavesOn(t *testing.T) {
	for _, c := range []struct {
		name, config, attributes string
		in                       string // the folder whose settings they are; empty: the repository's
		suspect                  bool   // told of although the environment is quiet
		silent                   bool   // none of these commands runs anything, whatever the environment
	}{
		{name: "fsmonitor", config: "[core]\nfsmonitor = MARK"},
		{name: "hooks", config: "[core]\nhooksPath = HOOKS"},
		{name: "external diff", config: "[diff]\nexternal = MARK", suspect: true},
		{name: "a driver's textconv", config: "[diff \"x\"]\ntextconv = MARK", attributes: "f diff=x", suspect: true},
		{name: "a driver's command", config: "[diff \"x\"]\ncommand = MARK", attributes: "f diff=x", suspect: true},
		{name: "a filter's clean", config: "[filter \"x\"]\nclean = MARK", attributes: "f filter=x", suspect: true},
		{name: "a filter's process", config: "[filter \"x\"]\nprocess = MARK", attributes: "f filter=x", suspect: true},
		{name: "ssh", config: "[core]\nsshCommand = MARK\n[remote \"origin\"]\nurl = ssh://h/x", suspect: true},
		{name: "ext", config: "[remote \"origin\"]\nurl = ext::MARK\n[protocol \"ext\"]\nallow = always", suspect: true},
		{name: "upload-pack", config: "[remote \"origin\"]\nurl = .\nuploadpack = MARK", suspect: true},
		{name: "a proxy", config: "[core]\ngitProxy = MARK\n[remote \"origin\"]\nurl = git://127.0.0.1:1/x", suspect: true},
		{name: "an included file", config: "[include]\npath = more", suspect: true},
		{name: "a file that is included under a condition", config: "[includeIf \"gitdir:**\"]\npath = more", suspect: true},
		{name: "in a submodule", in: "sub", config: "[core]\nfsmonitor = MARK"},
		{name: "a filter of a submodule", in: "sub", config: "[filter \"x\"]\nclean = MARK", attributes: "f filter=x", suspect: true},
		{name: "another work tree", config: "[core]\nworktree = /", suspect: true, silent: true},
		{name: "signatures", config: "[gpg]\nprogram = MARK\n[log]\nshowSignature = true", suspect: true, silent: true},
		{name: "alternates", config: "[core]\nalternateRefsCommand = MARK", suspect: true, silent: true},
		{name: "trailers", config: "[trailer \"x\"]\ncommand = MARK", suspect: true, silent: true},
		{name: "credentials", config: "[credential]\nhelper = MARK", suspect: true, silent: true},
		{name: "a section without a line of its own", config: "[filter \"x\"] clean = MARK", attributes: "f filter=x", suspect: true},
		{name: "a name in other letters, and a value in parts", config: "[FiLTeR \"x\"]\nCLEAN = \"MA\"\\\nRK", attributes: "f filter=x", suspect: true},
		{name: "the old way to write a section", config: "[filter.x]\nclean = MARK", attributes: "f filter=x", suspect: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRepository(t)
			config := r.dir + "/.git/config"
			if c.in != "" {
				config = r.dir + "/.git/modules/" + c.in + "/config"
			}
			hooks := filepath.Dir(r.mark) + "/hooks"
			write(t, hooks+"/post-index-change", "#!/bin/sh\n"+r.mark+" </dev/null\n", 0o700)
			text := strings.NewReplacer("MARK", r.mark, "\"MA\"\\\nRK", "\""+r.mark[:5]+"\"\\\n"+r.mark[5:], "HOOKS", hooks).Replace(c.config)
			have, err := os.ReadFile(config)
			if err != nil {
				t.Fatal(err)
			}
			write(t, config, string(have)+"\n"+text+"\n", 0o600)
			write(t, r.dir+"/.git/more", "[core]\nfsmonitor = "+r.mark+"\n", 0o600)
			if c.attributes != "" {
				write(t, filepath.Join(r.dir, c.in, ".gitattributes"), c.attributes+"\n", 0o600)
			}
			touch(t, filepath.Join(r.dir, c.in))
			loud, quiet := "", ""
			for _, args := range looking {
				touch(t, filepath.Join(r.dir, c.in))
				quiet += r.ran(t, git.Quiet(r.environ()), args...)
			}
			for _, args := range looking {
				touch(t, filepath.Join(r.dir, c.in))
				loud += r.ran(t, r.environ(), args...)
			}
			if (loud == "") != c.silent {
				t.Errorf("without a quiet environment git ran %q: the case shows nothing", loud)
			}
			found := git.Find(r.dir)
			suspects := suspectsOf(found, git.Use{Command: "status", Looks: true, Quiet: true})
			if (len(suspects) > 0) != c.suspect {
				t.Errorf("suspects with a quiet environment: %q, want some: %t", suspects, c.suspect)
			}
			if quiet != "" && len(suspects) == 0 {
				t.Errorf("git ran %q in a quiet environment, and nothing is suspected", quiet)
			}
			if all := suspectsOf(found, git.Use{Command: "status", Looks: true}); len(all) == 0 {
				t.Error("nothing is suspected where the environment is not quiet")
			}
		})
	}
}

// touch has git look at the files in a folder again, and write the index for the one that has not changed.
func touch(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{"f", "same"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		at := info.ModTime().Add(-time.Minute)
		if err := os.Chtimes(filepath.Join(dir, name), at, at); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSuspects_AcceptsOrdinaryRepository(t *testing.T) {
	r := newRepository(t)
	for _, name := range []string{"color.ui=auto", "branch.main.merge=refs/heads/main", "core.autocrlf=false", "extensions.worktreeConfig=true",
		"alias.lg=log --graph", "http.https://example.com/.extraheader=x", "diff.algorithm=histogram"} {
		key, value, _ := strings.Cut(name, "=")
		r.git(t, r.dir, "config", key, value)
	}
	for _, quiet := range []bool{true, false} {
		if got := suspectsOf(git.Find(r.dir), git.Use{Command: "status", Looks: true, Quiet: quiet}); len(got) > 0 {
			t.Errorf("quiet %t: suspected: %q", quiet, got)
		}
	}
	if got := suspectsOf(git.Find(r.dir), git.Use{Command: "lg", Quiet: true}); !slices.Contains(got, "alias.lg") {
		t.Errorf("an alias that is called is not suspected: %q", got)
	}
	write(t, r.dir+"/.git/hooks/pre-commit", "#!/bin/sh\n", 0o700)
	if got := suspectsOf(git.Find(r.dir), git.Use{Command: "commit"}); !slices.Contains(got, "hooks/pre-commit") {
		t.Errorf("a hook is not suspected: %q", got)
	}
	if got := suspectsOf(git.Find(r.dir), git.Use{Command: "commit", Quiet: true}); len(got) > 0 {
		t.Errorf("a hook that does not run is suspected: %q", got)
	}
}

func TestSuspects_HardLinkedSettings(t *testing.T) {
	r := newRepository(t)
	if err := os.Link(r.dir+"/.git/config", r.dir+"/plain"); err != nil {
		t.Fatal(err)
	}
	if got := suspectsOf(git.Find(r.dir), git.Use{Command: "status", Quiet: true}); len(got) != 1 {
		t.Errorf("what can be written under another name: %q", got)
	}
}

func TestIndex_ReadsEveryVersion(t *testing.T) {
	for _, version := range []string{"2", "3", "4"} {
		r := newRepository(t)
		write(t, r.dir+"/new/file/with/a/long/name", "x", 0o600)
		r.git(t, r.dir, "add", "--intent-to-add", "new")
		r.git(t, r.dir, "update-index", "--index-version", version)
		r.git(t, r.dir+"/sub", "config", "core.sshCommand", r.mark)
		if got := suspectsOf(git.Find(r.dir), git.Use{Quiet: true}); !slices.Equal(got, []string{"sub: core.sshcommand"}) {
			t.Errorf("version %s: %q", version, got)
		}
		write(t, r.dir+"/.git/index", "DIRC garbage of twelve bytes", 0o600)
		if got := suspectsOf(git.Find(r.dir), git.Use{Quiet: true}); len(got) != 1 {
			t.Errorf("an index that cannot be read: %q", got)
		}
	}
}

func TestSuspects_SplitIndex(t *testing.T) {
	r := newRepository(t)
	r.git(t, r.dir, "update-index", "--split-index")
	if got := suspectsOf(git.Find(r.dir), git.Use{Quiet: true}); len(got) == 0 {
		t.Error("what a shared index holds is not known, and nothing is suspected")
	}
}

func TestQuiet_OverridesEnvironmentOfAgent(t *testing.T) {
	r := newRepository(t)
	r.git(t, r.dir, "config", "core.fsmonitor", r.mark)
	on := "core.fsmonitor=" + r.mark
	for _, more := range [][]string{
		{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=core.fsmonitor", "GIT_CONFIG_VALUE_0=" + r.mark},
		{"GIT_CONFIG_COUNT=0", "GIT_CONFIG_KEY_6=core.fsmonitor", "GIT_CONFIG_VALUE_6=" + r.mark},
		{"GIT_CONFIG_COUNT=nonsense"}, {"GIT_CONFIG_COUNT=-1"}, {"GIT_CONFIG_COUNT=99999999"},
		{"GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=a.b", "GIT_CONFIG_VALUE_0=c", "GIT_CONFIG_KEY_1=core.fsmonitor", "GIT_CONFIG_VALUE_1=" + r.mark},
		{"GIT_CONFIG_PARAMETERS='" + on + "'"},
		{"GIT_EXTERNAL_DIFF=" + r.mark}, {"GIT_PAGER=" + r.mark},
	} {
		env := append(r.environ(), more...)
		for _, args := range [][]string{{"status"}, {"diff"}} {
			if ran := r.ran(t, git.Quiet(env), args...); ran != "" {
				t.Errorf("%q: git %s ran %q", more, args[0], ran)
			}
		}
	}
	if ran := r.ran(t, r.environ(), "status"); ran == "" {
		t.Error("git ran nothing without all that: the test shows nothing")
	}
}

func TestQuiet_KeepsEarlierSettings(t *testing.T) {
	r := newRepository(t)
	cmd := exec.Command("git", "config", "a.b")
	cmd.Dir = r.dir
	cmd.Env = git.Quiet(append(r.environ(), "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=a.b", "GIT_CONFIG_VALUE_0=c"))
	if out, err := cmd.Output(); err != nil || string(out) != "c\n" {
		t.Errorf("a setting of the environment: %q, %v", out, err)
	}
}
