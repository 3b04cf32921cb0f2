//go:build amd64 || arm64

package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/git"
)

// placedVar has the sandbox of this test binary decide by structure of repositories. It names the file to which refusals are written.
const placedVar = "SANDBOX_TEST_PLACED"

// placer allows what its lists allow, if git runs nothing because of it.
type placer struct {
	Lists
	log *os.File
}

func placingDecider(_ *Options, l Lists) Decider {
	file, err := os.OpenFile(os.Getenv(placedVar), os.O_WRONLY|os.O_APPEND|unix.O_CLOEXEC, 0)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(failed)
	}
	return placer{l, file}
}

func (p placer) Places(path string) bool { return git.WriteOf(git.Change{Path: path}).ByContent() }

func (p placer) Content(path string, written []byte) []byte {
	return git.GuardSteps(path, written, nil)
}

func (p placer) Rechecks(path string) bool { return git.MeansMoreWithOthers(path) }

// AllowsStaged stages files by which git finds a repository.
func (p placer) AllowsStaged(e Event) (allowed, staged bool) {
	if p.Lists.Allows(e) && git.WriteOf(git.Change{Path: e.Path, File: true}) == git.Location {
		return false, true
	}
	return p.Allows(e), false
}

func (p placer) Allows(e Event) bool {
	if !p.Lists.Allows(e) {
		return false
	}
	if e.Operation != Write && e.Operation != Move {
		return true
	}
	for _, from := range append(e.Others, "")[:max(1, len(e.Others))] {
		w := git.WriteOf(git.Change{Path: e.Path, From: from, Folder: e.Leaves == LeavesFolder, Made: e.Made})
		if w == git.Runs || w.ByContent() && !p.harmless(w, e) {
			fmt.Fprintf(p.log, "%s %v %s leaves %q placed %t\n", e.Operation, w, e.Path, e.Leaves, e.Placed)
			return false
		}
	}
	return true
}

func (p placer) harmless(w git.Write, e Event) bool {
	before, _ := os.ReadFile(e.Path)
	switch {
	case e.Leaves == LeavesContent:
		return true
	case e.Placed || e.Leaves == LeavesNothing:
		return w.Harmless(e.Path, e.Content, before) == ""
	}
	return false
}

// placing is a command in a sandbox whose decider is a placer, and the file of its refusals.
func (y yard) placing(t *testing.T, cmd *exec.Cmd) (refused string) {
	t.Helper()
	refused = filepath.Join(filepath.Dir(y.inside), "refused")
	if err := os.WriteFile(refused, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(cmd.Env, placedVar+"="+refused, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
	return refused
}

const (
	plainConfig = "[core]\n\tbare = false\n"
	evilConfig  = "[core]\n\tpager = x\n\n"
)

// repository makes a folder that git takes for a repository.
func (y yard) repository(t *testing.T) (dir string) {
	t.Helper()
	dir = filepath.Join(y.inside, "r", ".git")
	for _, name := range []string{"objects", "refs"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"HEAD": "ref: refs/heads/main\n", "config": plainConfig} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// placeRace renames a file many times to a configuration while it writes to the file.
func placeRace(dir, times string) int {
	lock, config := filepath.Join(dir, "config.lock"), filepath.Join(dir, "config")
	renamed, through := 0, 0
	n, _ := strconv.Atoi(times)
	for range n {
		f, err := os.Create(lock)
		if err != nil {
			fmt.Println(err)
			return 1
		}
		stop := make(chan struct{})
		var writer sync.WaitGroup
		writer.Go(func() {
			for {
				for _, text := range []string{plainConfig, evilConfig} {
					_, _ = f.WriteAt([]byte(text), 0)
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
		if os.Rename(lock, config) == nil {
			renamed++
		}
		_, _ = f.WriteAt([]byte(evilConfig), 0)
		close(stop)
		writer.Wait()
		if got, err := os.ReadFile(config); err != nil || strings.Contains(string(got), "pager") {
			through++
		}
		_ = f.Close()
	}
	fmt.Printf("renamed %t, through %d\n", renamed > 0, through)
	return 0
}

func TestPlacing_WriterDuringRenameChangesNothing(t *testing.T) {
	y := newYard(t)
	dir := y.repository(t)
	cmd := y.attack(t, "placerace", dir, "2000")
	y.placing(t, cmd)
	if got := run(t, cmd); got != "renamed true, through 0" {
		t.Errorf("got %q", got)
	}
	noneReserved(t, dir)
}

func TestPlacing_RaceSucceedsWithoutSandbox(t *testing.T) {
	y := newYard(t)
	if got := run(t, y.attack(t, "placerace", y.repository(t), "100")); strings.HasSuffix(got, "through 0") {
		t.Errorf("got %q: the race shows nothing", got)
	}
}

// beginRace makes folders into repositories while it makes hooks and configurations in them, and prints how many have both.
func beginRace(dir string) int {
	made, through := 0, 0
	for n := range 500 {
		top := filepath.Join(dir, strconv.Itoa(n))
		_ = os.MkdirAll(filepath.Join(top, "hooks"), 0o777)
		_ = os.WriteFile(filepath.Join(top, "x"), []byte(evilConfig), 0o666)
		var all sync.WaitGroup
		for _, act := range []func(){
			func() { _ = os.Mkdir(filepath.Join(top, "refs"), 0o777) },
			func() { _ = os.Mkdir(filepath.Join(top, "objects"), 0o777) },
			func() { _ = os.WriteFile(filepath.Join(top, "hooks", "pre-commit"), []byte("x"), 0o777) },
			func() { _ = os.Rename(filepath.Join(top, "x"), filepath.Join(top, "config")) },
		} {
			all.Go(act)
		}
		all.Wait()
		exists := func(name string) bool {
			_, err := os.Lstat(filepath.Join(top, name))
			return err == nil
		}
		begun := exists("refs") || exists("objects")
		if begun {
			made++
		}
		if begun && (exists("hooks/pre-commit") || exists("config")) {
			through++
		}
	}
	fmt.Printf("made %t, through %d\n", made > 0, through)
	return 0
}

func TestRecheck_RepositoryMadeMeanwhile(t *testing.T) {
	y := newYard(t)
	cmd := y.attack(t, "beginrace", y.inside)
	y.placing(t, cmd)
	if got := run(t, cmd); got != "made true, through 0" {
		t.Errorf("got %q", got)
	}
}

// noneReserved expects no file of the sandbox's in a folder.
func noneReserved(t *testing.T, dir string) {
	t.Helper()
	if names, _ := filepath.Glob(filepath.Join(dir, ReservedPrefix+"*")); len(names) > 0 {
		t.Errorf("left behind: %q", names)
	}
}

func TestPlacing_Rename(t *testing.T) {
	needsPrograms(t)
	for name, c := range map[string]struct {
		line string // in the repository's own folder
		want string // the configuration after it; its mode, a blank and its text
		fail bool
	}{
		"harmless":                 {line: "printf '[core]\\n\\tbare = true\\n' >config.lock && chmod 644 config.lock && mv config.lock config && ! test -e config.lock", want: "644 [core]\n\tbare = true\n"},
		"an open descriptor":       {line: "exec 3>config.lock && printf '[core]\\n' >&3 && chmod 600 config.lock && mv config.lock config && echo '[alias]' >&3", want: "600 [core]\n"},
		"another link":             {line: "printf '[core]\\n' >x && chmod 600 x && ln x config.lock && mv config.lock config && echo '[alias]' >>x", fail: true},
		"writable for others":      {line: "echo '[core]' >config.lock && chmod 777 config.lock && mv config.lock config", want: "775 [core]\n"},
		"an empty one":             {line: ": >config.lock && chmod 600 config.lock && mv config.lock config", want: "600 "},
		"removing what is missing": {line: "rm -f unknown", want: "640 " + plainConfig},
		"dangerous":                {line: "echo '[alias]x=!y' >config.lock && mv config.lock config || ! test -s config.lock", fail: true},
		"written itself":           {line: "echo >>config", fail: true},
		"from another folder":      {line: "echo '[core]' >../x && mv ../x config", fail: true},
		"a symbolic link":          {line: "ln -s ../x config.lock && mv config.lock config", fail: true},
		"linked":                   {line: "echo '[core]' >config.lock && ln -f config.lock config", fail: true},
		"exchanged":                {line: "echo '[core]' >config.lock && python3 -c 'import ctypes;l=ctypes.CDLL(None);raise SystemExit(l.renameat2(-100,b\"config.lock\",-100,b\"config\",2)!=0)'", fail: true},
		"too long":                 {line: "head -c 4194305 /dev/zero | tr '\\0' '#' >config.lock && mv config.lock config", fail: true},
		"a name of the sandbox":    {line: "echo x >" + ReservedPrefix + "x", fail: true},
		"a folder of that name":    {line: "mkdir " + ReservedPrefix + "x", fail: true},
		"a link of that name":      {line: "ln HEAD " + ReservedPrefix + "x", fail: true},
		"moved to that name":       {line: "mv HEAD " + ReservedPrefix + "x", fail: true},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t)
			dir := y.repository(t)
			if err := os.Chmod(filepath.Join(dir, "config"), 0o640); err != nil {
				t.Fatal(err)
			}
			cmd := y.confined(t, "bash", "-c", "cd "+dir+" && "+c.line)
			y.placing(t, cmd)
			out, err := cmd.CombinedOutput()
			if (err != nil) != c.fail {
				t.Errorf("got %v, want a failure: %t\n%s", err, c.fail, out)
			}
			if c.fail {
				c.want = "640 " + plainConfig
			}
			info, err := os.Stat(filepath.Join(dir, "config"))
			if err != nil {
				t.Fatal(err)
			}
			text, _ := os.ReadFile(filepath.Join(dir, "config"))
			mode := fmt.Sprintf("%o", info.Sys().(*syscall.Stat_t).Mode&0o7777)
			if got := mode + " " + string(text); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			noneReserved(t, dir)
		})
	}
}

// TestPlacing_ReservedFileIsClosedToProcesses expects that a process cannot change a file that the sandbox creates by
// way of a descriptor for reading.
func TestPlacing_ReservedFileIsClosedToProcesses(t *testing.T) {
	needsPrograms(t)
	y := newYard(t)
	file := filepath.Join(y.inside, ReservedPrefix+"x")
	if err := os.WriteFile(file, []byte("x"), 0o666); err != nil {
		t.Fatal(err)
	}
	cmd := y.confined(t, "bash", "-c", "exec 3<"+file+"; echo y >/proc/self/fd/3; echo y >"+file+"; ln "+file+" z; mv "+file+" z; rm -f "+file+"; chmod 777 "+file+"; ls z")
	y.placing(t, cmd)
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Errorf("it was linked or moved\n%s", out)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "x" {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestPlacing_GitWorks runs git commands that write configurations and create repositories. All have to succeed.
func TestPlacing_GitWorks(t *testing.T) {
	needsPrograms(t)
	const script = `set -e
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.com GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.com
git init -q -b main r; cd r
test "$(git config core.filemode)" = true
echo 1 >f; git add f; git commit -qm one
git checkout -qb topic; echo 2 >>f; git commit -qam two; git checkout -q main; echo 3 >g; git add g; git commit -qm three
git merge -q --no-edit topic; git branch -d topic; git tag -a -m t v1
git checkout -qb side HEAD~1; echo 4 >h; git add h; git commit -qm four; git rebase -q main; git checkout -q main
echo x >>f; git stash -q; git stash pop -q; git commit -qam five; git revert --no-edit HEAD >/dev/null; git cherry-pick side >/dev/null
git bisect start HEAD HEAD~2 >/dev/null; git bisect reset >/dev/null 2>&1
git config user.name b; git config --unset user.name
GIT_SEQUENCE_EDITOR='sed -i 2s/^pick/squash/' GIT_EDITOR=true git rebase -qi HEAD~2; echo 6 >>f; git commit -qam six; git checkout -qb seven HEAD~1
echo 7 >>f; git commit -qam seven; ! git rebase -q main 2>/dev/null; git checkout -q --theirs f; git add f; GIT_EDITOR=true git rebase --continue >/dev/null
! git cherry-pick main~2 main~1 2>/dev/null; git cherry-pick --abort; git checkout -q main
git worktree add -q ../wt side; (cd ../wt; echo 5 >i; git add i; git commit -qm wt); git worktree remove ../wt
git init -q -b main --bare ../bare.git; git remote add origin ../bare.git; git push -qu origin main; git fetch -q
git clone -q ../bare.git ../clone; git clone -q --bare ../bare.git ../bare2.git
mkdir ../sep; git init -q --separate-git-dir ../sep/.git ../septree; (cd ../septree; echo 1 >f; git add f; git commit -qm one)
git -c protocol.file.allow=always submodule --quiet add ../bare.git lib/sub; git commit -qm sub
git sparse-checkout set --no-cone /f >/dev/null; git sparse-checkout disable
git gc -q; git reflog expire --expire=now --all; git repack -adq; git fsck --no-progress
cd ..; git init -q gone; rm -r gone
`
	y := newYard(t)
	cmd := y.confined(t, "bash", "-c", script)
	refusals := y.placing(t, cmd)
	out, err := cmd.CombinedOutput()
	refused, _ := os.ReadFile(refusals)
	if err != nil || len(bytes.TrimSpace(refused)) > 0 {
		t.Errorf("%v\n%s\nrefused:\n%s", err, out, refused)
	}
	y.untouched(t)
}
