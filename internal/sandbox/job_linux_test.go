//go:build amd64 || arm64

package sandbox

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/nulmsg"
)

// doJob starts a sandbox with a job, and returns what it tells of the command. The command may write into the yard's
// folder.
func (y yard) doJob(t *testing.T, j Job) (outcome func() Outcome, cmd *exec.Cmd) {
	t.Helper()
	needsSandbox(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := nulmsg.Marshal(&j)
	if err != nil {
		t.Fatal(err)
	}
	job := filepath.Join(t.TempDir(), "job")
	if err := os.WriteFile(job, text, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(job)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	ours, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ours.Close() })
	cmd = exec.Command(self, Command, "--write", y.inside, "--deny-write", y.denied, "--job")
	cmd.Dir, cmd.Env, cmd.Stderr = y.inside, []string{"GORACE=atexit_sleep_ms=0"}, os.Stderr
	cmd.ExtraFiles = []*os.File{nil, file, theirs} // DecisionsFD, JobFD, OutcomeFD
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = theirs.Close()
	from := bufio.NewReader(ours)
	return func() (o Outcome) {
		t.Helper()
		if err := nulmsg.Read(from, &o); err != nil {
			t.Fatalf("the sandbox tells nothing: %v", err)
		}
		return o
	}, cmd
}

// TestJob_SandboxOutlivesCommand: the sandbox decides on calls as long as a process runs that the command has started.
func TestJob_SandboxOutlivesCommand(t *testing.T) {
	y := newYard(t)
	gate := filepath.Join(y.inside, "gate")
	script := `exec 3<>"$1"; { read line <&3; echo x > after; echo x > "$2"; } & exit "$3"`
	if err := exec.Command("mkfifo", gate).Run(); err != nil {
		t.Fatal(err)
	}
	outcome, cmd := y.doJob(t, Job{Program: "/bin/sh", Args: []string{"sh", "-c", script, "sh", gate, y.denied, "7"}, Env: []string{"PATH=/usr/bin:/bin", "A=b c"}})
	if o := outcome(); o.PID == 0 || o.Failed != "" {
		t.Fatalf("got %+v, want that it runs", o)
	}
	if o := outcome(); o.Ended == nil || *o.Ended != (Ended{Code: 7}) {
		t.Fatalf("got %+v, want that it ended with 7", o)
	}
	if err := os.WriteFile(gate, []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the sandbox: %v", err)
	}
	if _, err := os.Stat(filepath.Join(y.inside, "after")); err != nil {
		t.Errorf("what the command has left: %v", err)
	}
	y.untouched(t)
}

func TestJob_EndsBySignal(t *testing.T) {
	outcome, cmd := newYard(t).doJob(t, Job{Program: "/bin/sh", Args: []string{"sh", "-c", "kill -TERM $$"}})
	outcome()
	if o := outcome(); o.Ended == nil || *o.Ended != (Ended{Code: -1, Signal: 15}) {
		t.Errorf("got %+v, want that signal 15 ended it", o)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the sandbox: %v", err)
	}
}

// TestJob_RunsOnlyDecidedProgram: the sandbox executes the file that was decided on, or none.
func TestJob_RunsOnlyDecidedProgram(t *testing.T) {
	y := newYard(t)
	script := filepath.Join(y.inside, "script") // a shell would run it
	if err := os.WriteFile(script, []byte("echo x > ran\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for program, want := range map[string]string{"/there/is/none": "no such file", script: "exec format error"} {
		outcome, cmd := y.doJob(t, Job{Program: program, Args: []string{"sh"}, Env: []string{"PATH=/usr/bin:/bin"}})
		if o := outcome(); o.PID != 0 || o.Errno == 0 || !strings.Contains(o.Failed, want) {
			t.Errorf("%s: got %+v, want %q", program, o, want)
		}
		if err := cmd.Wait(); err == nil {
			t.Errorf("%s: the sandbox ended as if it had started it", program)
		}
	}
}
