package leaveout_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/git"
	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/services/supervisor/internal/policy/leaveout"
)

// inRepository is a repository in which lines of a shell were run.
func inRepository(t *testing.T, lines string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	run(t, dir, "sh", "-ec", `git init -q -b main .
		commit() { git add -f . && git -c user.name=n -c user.email=e commit -q --allow-empty -m "$1"; }
		echo main >main.go && commit begin`+"\n"+lines)
	return dir
}

func run(t *testing.T, dir string, argv ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil && argv[0] == "sh" && argv[1] == "-ec" {
		t.Fatalf("%s: %v\n%s", argv, err, out)
	}
	return string(out)
}

func TestGit_ReadsTrackedSecrets(t *testing.T) {
	deleted := "mkdir -p d && echo TOKEN >d/.env && commit add && git rm -q d/.env && commit remove"
	for _, c := range []struct {
		name, lines    string
		index, history []string // names
	}{
		{"nothing", "echo x >environment && echo y >.gitignore && echo z >untracked.key && git add environment && echo .env >.env", nil, nil},
		{"in the index", "mkdir -p a && echo TOKEN >a/.ENV.local && commit add", []string{".ENV.local"}, []string{".ENV.local"}},
		{"a folder's", "mkdir -p h/.ssh && echo TOKEN >h/.ssh/config && commit add", []string{"config"}, []string{"config", ".ssh"}},
		{"in one commit alone", deleted, nil, []string{".env"}},
		{"in a pack", deleted + " && for i in 1 2 3 4 5 6; do mkdir -p d; for j in 1 2 3 4 5 6 7 8 9; do echo $i >d/f$i$j; done; commit $i; done; git gc -q --prune=now", nil, []string{".env"}},
		{"in a stash", "echo TOKEN >.env; git add -f .env; git -c user.name=n -c user.email=e stash -q; echo", nil, []string{".env"}},
		{"two parts of a path in different folders", "mkdir -p .docker && echo x >.docker/a && echo x >config.yaml && commit add", nil, nil},
		{"two parts of a path", "mkdir -p .docker && echo x >.docker/config.json && commit add", []string{"config.json"}, []string{"config.json"}},
		{"an absolute glob", "mkdir -p own && echo x >own/private && commit add", []string{"private"}, []string{"private"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := inRepository(t, c.lines)
			globs := slices.Concat(secrets, []string{"**/.docker/config.json", dir + "/own/private", "/elsewhere/main.go"})
			var r leaveout.Repositories
			if !testkit.Poll(func() bool { return !r.Kept(dir+"/.git", globs, true, false).Incomplete }) {
				t.Fatal("it is not read to its end")
			}
			for range 2 { // what is remembered is the same
				for _, history := range []bool{false, true} {
					want := c.index
					if history {
						want = c.history
					}
					got := r.Kept(dir+"/.git", globs, history, false)
					slices.Sort(got.Names)
					want = slices.Sorted(slices.Values(want))
					if !slices.Equal(got.Names, want) || got.Incomplete || got.Odd || (len(got.Specs) > 0) != (len(want) > 0) {
						t.Errorf("history %t: got %+v, want %q", history, got, want)
					}
				}
			}
		})
	}
}

func TestGit_UnreadableRepositoryIsIncomplete(t *testing.T) {
	for name, lines := range map[string]string{
		"a split index": "git update-index --split-index", "other objects": "mkdir -p .git/objects/info && echo /x >.git/objects/info/alternates",
		"a broken pack": "git gc -q && chmod u+w .git/objects/pack/* && for f in .git/objects/pack/*.pack; do echo >$f; done",
	} {
		t.Run(name, func(t *testing.T) {
			var r leaveout.Repositories
			if got := r.Kept(inRepository(t, lines)+"/.git", secrets, true, false); !got.Incomplete || len(got.Specs) < len(secrets) {
				t.Errorf("got %+v", got)
			}
		})
	}
	var r leaveout.Repositories
	if got := r.Kept(inRepository(t, "echo x >.env.é && commit add")+"/.git", secrets, true, false); !got.Odd {
		t.Errorf("git folds no such names: got %+v", got)
	}
}

// Each command is run as it is told to, in a repository with secrets.
func TestGit_CommandsLeaveOutSecrets(t *testing.T) {
	dir := inRepository(t, `mkdir -p sub h/.ssh
		for f in .env sub/.ENV.x sub/server.pem h/.ssh/config; do echo "TOKEN of $f" >$f; done
		commit add; for f in .env sub/.ENV.x sub/server.pem h/.ssh/config main.go; do echo "TOKEN $f again" >>$f; done; commit more
		for f in .env sub/.ENV.x sub/server.pem h/.ssh/config main.go; do echo "TOKEN $f again" >>$f; done; echo x >show`)
	for _, line := range []string{
		"git log -p", "git log -p -2 HEAD", "git log -p main", "git log -p --", "git log -p -- .", "git log -p main.go .", "git log -p -n 2 .",
		"git show", "git show HEAD", "git show HEAD~1", "git diff", "git diff HEAD~1", "git diff HEAD~1 HEAD", "git diff HEAD~1..HEAD", "git diff main.go sub",
		"git diff --stat -p", "git grep TOKEN", "git grep -n -e TOKEN", "git grep TOKEN HEAD~1", "git grep main.go", "git grep TOKEN -- . sub", "git grep -A 3 TOKEN .",
		"git --no-pager log -p", "git -C sub log -p", "git -C sub diff ..", "cd sub && git log -p", "cd sub; git grep TOKEN ..", "git log -p | cat; git show",
		"git whatchanged -p", "git diff-tree -p HEAD", "git diff-files -p", "git diff-index -p HEAD", "git log --cc", "git log -G TOKEN -p .",
	} {
		var found leaveout.Found
		var r leaveout.Repositories
		k := r.Kept(dir+"/.git", secrets, true, false)
		at := dir
		if strings.Contains(line, "sub ") || strings.Contains(line, "sub;") {
			at += "/sub"
		}
		exists := func(word string) bool { _, err := os.Lstat(filepath.Join(at, word)); return err == nil }
		for part := range strings.FieldsFuncSeq(strings.NewReplacer("&&", ";", "|", ";", "--no-pager ", "", "-C sub ", "").Replace(line), func(r rune) bool { return r == ';' }) {
			argv := strings.Fields(part)
			if argv[0] != "git" {
				continue
			}
			if c := git.ContentsOf(argv); !c.Any() || c.Untold {
				t.Errorf("%s: got %+v", line, c)
			}
			now, ok := git.Pathspecs(argv, k.Specs, exists)
			if !ok {
				t.Errorf("%s: no place for pathspecs", line)
			}
			found.Git = append(found.Git, leaveout.Rewrite{Argv: argv, Told: now})
		}
		argv, ok := leaveout.Tell([]string{"sh", "-c", line}, nil, found)
		if !ok {
			t.Errorf("%s cannot be told", line)
			continue
		}
		before, out := run(t, dir, "sh", "-c", line), run(t, dir, argv...)
		if !strings.Contains(before, "TOKEN") || strings.Contains(out, "TOKEN of") || strings.Contains(out, "env again") || strings.Contains(out, "config again") {
			t.Errorf("%s\n%s\nshows, without being told\n%s\nand told\n%s", line, argv[2], before, out)
		}
		if strings.Contains(before, "TOKEN main.go") && !strings.Contains(out, "TOKEN main.go") || strings.Contains(out, "fatal") {
			t.Errorf("%s\nshows not what it may:\n%s", argv[2], out)
		}
	}
}

func TestGit_UncertainCommandsAreNotRewritten(t *testing.T) {
	log := leaveout.Rewrite{Argv: []string{"git", "log", "-p"}, Told: []string{"git", "log", "-p", "--", ":(top,exclude).env"}}
	for _, line := range []string{
		"git --literal-pathspecs log -p", "git log -p $x", "git log -p; git show", "timeout 5 git log -p", "sh -c 'git log -p'", "git log -p *; git log -p",
		"for f in a b; do git log -p $f; done", "ls | xargs git log -p", "git log",
	} {
		if got, ok := leaveout.Tell([]string{"sh", "-c", line}, nil, leaveout.Found{Git: []leaveout.Rewrite{log}}); ok {
			t.Errorf("%s: told as %q", line, got)
		}
	}
	other := leaveout.Rewrite{Argv: log.Argv, Told: []string{"git", "log", "-p", "--", "x"}}
	if got, ok := leaveout.Tell(log.Argv, nil, leaveout.Found{Git: []leaveout.Rewrite{log, other}}); ok {
		t.Errorf("two folders: told as %q", got)
	}
	t.Setenv("GIT_LITERAL_PATHSPECS", "1")
	if got, ok := leaveout.Tell(log.Argv, nil, leaveout.Found{Git: []leaveout.Rewrite{log}}); ok {
		t.Errorf("with literal pathspecs: told as %q", got)
	}
}
