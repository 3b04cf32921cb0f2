//go:build amd64 || arm64

package sandbox

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/testkit"
)

// In brackets is what the attacker may do: it shows that the others are not refused for another reason.
const harmless = "(symlink)\n(create)\n(bind)\n(landlock)\n(dumpable)\n(reopen a memfd)"

func TestConfine_CallsCannotChangeDeniedFiles(t *testing.T) {
	y := newYard(t)
	if got := run(t, y.attack(t, "calls", y.inside, y.denied, y.victim)); got != harmless {
		t.Errorf("the attacker achieved\n%s\nwant\n%s", got, harmless)
	}
	y.untouched(t)
}

func TestAttacker_SucceedsWithoutSandbox(t *testing.T) {
	y := newYard(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, y.inside, y.denied, y.victim)
	cmd.Env, cmd.Dir = append(os.Environ(), roleVar+"=calls"), y.inside
	got := run(t, cmd)
	all := []string{"chmodat ", "truncate ", "reopen ", "rename over ", "rename the folder of a denied file", "mkdir", "bind"}
	if sysCreat < noCall {
		all = append(all, "creat ", "chmod ")
	}
	for _, want := range all {
		if !strings.Contains("\n"+got, "\n"+want) {
			t.Errorf("%q did not succeed without a sandbox, so that its failure inside shows nothing; got\n%s", want, got)
		}
	}
}

func TestSandbox_StoppedHoldsCalls(t *testing.T) {
	y := newYard(t)
	file := filepath.Join(y.inside, "x")
	cmd := y.attack(t, "wait", file)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal("the command said nothing")
	}
	testkit.Freeze(t, cmd.Process.Pid)
	if _, err := in.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "a call that waits", func() bool {
		tasks, _ := filepath.Glob("/proc/" + lines.Text() + "/task/*/wchan")
		for _, task := range tasks {
			if at, _ := os.ReadFile(task); strings.Contains(string(at), "seccomp") {
				return true
			}
		}
		return false
	})
	if _, err := os.Stat(file); err == nil {
		t.Error("the file is there, although nobody has decided")
	}
	if err := unix.Kill(cmd.Process.Pid, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}

func TestConfine_CallsOfUnprivilegedUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("not root: the other test is this one already")
	}
	y := newYard(t)
	cmd := y.attack(t, "calls", y.inside, y.denied, y.victim)
	y.asNobody(t, cmd)
	if got := run(t, cmd); got != harmless {
		t.Errorf("the attacker achieved\n%s\nwant\n%s", got, harmless)
	}
	y.untouched(t)
}

func TestConfine_PathSwappedAfterDecision(t *testing.T) {
	y := newYard(t)
	own := filepath.Join(y.inside, strings.Repeat("a", len(y.victim)-len(y.inside)-1))
	run(t, y.attack(t, "race", own, y.victim))
	y.untouched(t)
	if got, err := os.ReadFile(own); err != nil || string(got) != "broken" {
		t.Errorf("got %q, %v: this race never opened the file that may be changed", got, err)
	}
}

// programs are two that an attacker can exchange, in folders of their own: by their names, as a busybox wants them.
func (y yard) programs(t *testing.T) (own, denied string) {
	t.Helper()
	own, denied = filepath.Join(y.inside, "allowed", "true"), filepath.Join(y.inside, "refused", "date")
	for from, to := range map[string]string{"/bin/true": own, "/bin/date": denied} {
		data, err := os.ReadFile(from)
		if err == nil {
			err = os.Mkdir(filepath.Dir(to), 0o777)
		}
		if err == nil {
			err = os.WriteFile(to, data, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return own, denied
}

func TestConfine_ProgramSwappedAfterDecision(t *testing.T) {
	y := newYard(t)
	own, denied := y.programs(t)
	cmd := y.attack(t, "execrace", own, denied)
	if got := run(t, cmd); got != "" {
		t.Errorf("the denied program ran and said %q", got)
	}
}

func TestConfine_ManyProgramsStartAtOnce(t *testing.T) {
	y := newYard(t)
	if got := run(t, y.attack(t, "spawn")); got != "" {
		t.Error(got)
	}
}

func TestConfine_ProgramsWork(t *testing.T) {
	for name, c := range map[string]struct{ needs, line, want string }{
		"a shell makes, moves and removes files": {"sh", "mkdir -p a/b && echo x >a/b/f && mv a/b/f a/g && ln -s g a/l && cat a/l && chmod 600 a/g && touch -d 2001-01-01 a/g && rm -r a", "x"},
		"a script is executed":                   {"sh", "printf '#!/bin/sh\\necho $1\\n' >s && chmod +x s && ./s hello", "hello"},
		"a program that was just written":        {"sh", "echo >t; chmod +x t; for i in $(seq 300); do echo '#!/bin/true' >t; ./t || echo failed; done; echo ran", "ran"},
		"a script without its first line":        {"bash", "printf 'echo $1\\n' >s && chmod +x s && bash -c './s hello; ./s again'", "hello\nagain"},
		"a file below an open folder":            {"sh", "mkdir -p d && exec 9<d && echo x >/proc/self/fd/9/f && mv /dev/fd/9/f /proc/self/fd/9/g && cat d/g", "x"},
		"a folder that is there already":         {"bash", "mkdir -p / .. && mkdir / 2>&1 | grep -o 'File exists'", "File exists"},
		"a pipe waits for its reader":            {"sh", "mkfifo p && (cat p & echo through >p; wait)", "through"},
		"standard output opened again":           {"sh", "echo x >/dev/stdout; echo y >/dev/null", "x"},
		"the umask counts":                       {"sh", "umask 027; echo >m; stat -c %a m", "640"},
		"a signal ends a command":                {"sh", "exec 2>/dev/null; sleep 100 & kill $!; wait $!; echo $?", "143"},
		"git commits":                            {"git", "git init -q . 2>/dev/null && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && git log --format=%s", "x"},
		"Node.js starts a program":               {"node", "node -e 'const c=require(\"child_process\");require(\"fs\").writeFileSync(\"n\",\"1\");console.log(c.execSync(\"cat n\").toString())'", "1"},
		"npm makes a package":                    {"npm", "npm init -y >/dev/null 2>&1 && npm pkg get version", "\"1.0.0\""},
		"Python starts a program":                {"python3", "python3 -c 'import subprocess,tempfile;tempfile.TemporaryFile().write(b\"x\");print(subprocess.check_output([\"echo\",\"p\"]).decode().strip())'", "p"},
		"Go builds":                              {"go", "printf 'package main\\nfunc main(){println(\"g\")}\\n' >m.go && GOCACHE=$PWD/c go run m.go 2>&1", "g"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(c.needs); err != nil {
				t.Skipf("there is no %s", c.needs)
			}
			y := newYard(t)
			if got := run(t, y.confined(t, "sh", "-c", c.line)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			y.untouched(t)
		})
	}
}

func TestConfine_ReturnsExitStatusOfCommand(t *testing.T) {
	y := newYard(t)
	var status *exec.ExitError
	if err := y.confined(t, "sh", "-c", "exit 7").Run(); !errors.As(err, &status) || status.ExitCode() != 7 {
		t.Errorf("got %v, want exit status 7", err)
	}
	err := y.confined(t, "sh", "-c", "kill -TERM $$").Run()
	if !errors.As(err, &status) || status.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("got %v, want the signal", err)
	}
}

func TestSandbox_EndKillsConfinedProcesses(t *testing.T) {
	y := newYard(t)
	cmd := y.attack(t, "wait", filepath.Join(y.inside, "x"))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal("the command said nothing")
	}
	if err := unix.Kill(cmd.Process.Pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	testkit.Eventually(t, "the end of the command", func() bool {
		_, err := os.Stat("/proc/" + lines.Text())
		return err != nil || state(lines.Text()) == "Z"
	})
}

func TestSandbox_SurvivingProcessesChangeNothing(t *testing.T) {
	y := newYard(t)
	cmd := y.attack(t, "parent", filepath.Join(y.inside, "x"))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal("the command said nothing")
	}
	if err := unix.Kill(cmd.Process.Pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := cmd.Process.Wait(); err != nil { // not of cmd, which would close the pipes
		t.Fatal(err)
	}
	if _, err := in.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if !lines.Scan() || lines.Text() != "true" {
		t.Errorf("got %q, want ENOSYS for a call that nobody decides on", lines.Text())
	}
}

// state is a process's, as /proc/PID/stat has it.
func state(pid string) string {
	data, _ := os.ReadFile("/proc/" + pid + "/stat")
	_, rest, _ := strings.Cut(string(data), ") ")
	s, _, _ := strings.Cut(rest, " ")
	return s
}

func TestOpen_WaitsForWriterOfPipe(t *testing.T) {
	for _, reads := range []bool{false, true} {
		y := newYard(t)
		if reads {
			y.flags = []string{"--reads"}
		}
		line := "mkfifo p && { head -c 100000 /dev/zero | wc -c >n; echo through >p; } & while [ ! -p p ]; do :; done; read -r line <p && echo $line; wait"
		if got := run(t, y.confined(t, "sh", "-c", line)); got != "through" {
			t.Errorf("reads %t: got %q", reads, got)
		}
		// A process that waits for a writer can be ended.
		if got := run(t, y.confined(t, "bash", "-c", "exec 2>/dev/null; mkfifo q; cat q & while ! kill -KILL $!; do :; done; wait $!; echo $?")); got != "137" {
			t.Errorf("reads %t: the status is %q", reads, got)
		}
	}
}

func TestReads_FactsOfConfinedProcessesOnly(t *testing.T) {
	y := newYard(t)
	y.flags = []string{"--reads"}
	const line = `sleep 1000 & s=$!
until [ "$(cat /proc/$s/comm)" = sleep ]; do :; done
grep -c . /proc/$s/stat /proc/$s/status /proc/$s/cmdline >/dev/null && echo read
for outside in $PPID 1; do cat /proc/$outside/comm /proc/$outside/status 2>/dev/null && echo "read $outside"; done
for file in environ maps auxv; do cat /proc/$s/$file >/dev/null 2>&1 && echo "read $file"; done
cat /proc/self/environ >/dev/null && echo own
kill $s`
	if got := run(t, y.confined(t, "bash", "-c", line)); got != "read\nown" {
		t.Errorf("got %q", got)
	}
}
