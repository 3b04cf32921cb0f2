//go:build amd64 || arm64

package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/testkit"
)

// stuckVar has the sandbox of this test binary use a stuck decider. Its value is after how many milliseconds calls
// are refused.
const stuckVar = "SANDBOX_TEST_STUCK"

// stuck never returns from a decision about a file named "stuck…", and tells of each. It allows what is named "slow…"
// when a second such decision begins.
type stuck struct {
	Lists
	second chan struct{}
}

func stuckDecider(o *Options, l Lists) Decider {
	ms, _ := strconv.Atoi(os.Getenv(stuckVar))
	o.Timeout = time.Duration(ms) * time.Millisecond
	return stuck{Lists: l, second: make(chan struct{})}
}

func (s stuck) Allows(e Event) bool {
	switch name := path.Base(e.Path); {
	case strings.HasPrefix(name, "stuck"):
		select {}
	case name == "slow":
		<-s.second
	case name == "second":
		close(s.second)
	}
	return s.Lists.Allows(e)
}

func TestTimeout_LateDecisionRejectsCall(t *testing.T) {
	y := newYard(t)
	cmd := y.confined(t, "sh", "-c", "(: >stuck) 2>&1; (: >slow) 2>&1; : >second; sleep 0.1; (: >stuck) 2>/dev/null || echo again; ls; cat second && mkdir d && echo on")
	cmd.Env = append(cmd.Env, stuckVar+"=50")
	got := run(t, cmd)
	for _, want := range []string{"create stuck: Permission denied", "create slow: Permission denied", "\nagain\nsecond\non"} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %q in it: neither file, and a sandbox that goes on", got, want)
		}
	}
	y.untouched(t)
}

// TestTimeout_BlockedDeciderDoesNotBlockSandbox: a decision that does not return occupies a thread of the sandbox. The
// test blocks more decisions than the sandbox has threads that receive calls.
func TestTimeout_BlockedDeciderDoesNotBlockSandbox(t *testing.T) {
	needsPrograms(t)
	y := newYard(t)
	const line = "i=0; while [ $i -lt 200 ]; do (: >stuck$i) & i=$((i+1)); done; wait; echo *; ls"
	cmd := y.confined(t, "sh", "-c", line)
	cmd.Env = append(cmd.Env, stuckVar+"=50")
	cmd.Stderr = nil
	got, err := cmd.Output()
	if err == nil || string(got) != "*\n" {
		t.Errorf("got %q, %v, want no file, and a program refused that nobody can decide on", got, err)
	}
	y.untouched(t)
}

func TestTimeout_ObserveAllowsUndecidedCall(t *testing.T) {
	y := newYard(t)
	y.flags = []string{"--observe"}
	cmd := y.confined(t, "sh", "-c", "echo x >stuck && cat stuck")
	cmd.Env = append(cmd.Env, stuckVar+"=50")
	if got := run(t, cmd); got != "x" {
		t.Errorf("got %q", got)
	}
}

// unreaped starts programs that do not begin: each in the place of a process of which this one traces another thread,
// and the kernel waits until it has waited for that thread. There are more of them than threads that receive calls.
// Then it makes a file.
func unreaped(file string) error {
	runtime.LockOSThread()
	for range receivers + 2 {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), roleVar+"=replaced")
		in, err := cmd.StdinPipe()
		if err != nil {
			return err
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			return err
		}
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", cmd.Process.Pid))
		if err != nil {
			return err
		}
		seized := false
		for _, task := range tasks {
			tid, _ := strconv.Atoi(task.Name())
			if tid != cmd.Process.Pid && unix.PtraceSeize(tid) == nil {
				seized = true
				break
			}
		}
		if !seized {
			return errors.New("no thread could be traced")
		}
		if _, err := in.Write([]byte("x")); err != nil {
			return err
		}
		alone := func() bool {
			tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", cmd.Process.Pid))
			return err == nil && len(tasks) == 2
		}
		if !testkit.Poll(alone) {
			return errors.New("its other threads are still there")
		}
	}
	return os.WriteFile(file, nil, 0o600)
}

// The first thread of a process is the main goroutine's only if it is held before others run.
func init() {
	if os.Getenv(roleVar) == "replaced" {
		runtime.LockOSThread()
	}
}

// replaced executes another program from its first thread when it is told to.
func replaced() error {
	fmt.Println("ready")
	if _, err := os.Stdin.Read(make([]byte, 1)); err != nil {
		return err
	}
	return unix.Exec("/bin/true", []string{"true"}, nil)
}

// TestTimeout_BlockedStartDoesNotBlockSandbox: after the kernel may start a program, a thread waits for the program to
// begin, to check it.
func TestTimeout_BlockedStartDoesNotBlockSandbox(t *testing.T) {
	y := newYard(t)
	cmd := y.attack(t, "unreaped", "made")
	cmd.Env = append(cmd.Env, stuckVar+"=200")
	run(t, cmd)
	if _, err := os.Stat(path.Join(y.inside, "made")); err != nil {
		t.Error(err)
	}
	y.untouched(t)
}
