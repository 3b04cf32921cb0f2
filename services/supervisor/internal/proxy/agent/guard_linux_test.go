package agent_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/internal/users"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/agent"
)

// trees are agents that do not go willingly. Each says "ready" when all of it runs.
var trees = map[string]string{
	"one that reads its stdin":        `echo ready; cat`,
	"one that ignores SIGTERM":        `trap '' TERM HUP; echo ready; while :; do sleep 1000; done`,
	"a wrapper around a worker":       `sh -c 'sh -c "sleep 1000; :" & echo ready; wait; :'; :`,
	"a detached grandchild":           `setsid sh -c 'sleep 1000 & sleep 1000 & echo ready' </dev/null; sleep 1000`,
	"a detached one ignoring SIGTERM": `setsid sh -c 'trap "" TERM; (sleep 1000; :) & echo ready; exit' </dev/null; sleep 1000`,
	"a stopped one":                   `sh -c 'kill -STOP $$; sleep 1000' & until grep -q 'State:.T' /proc/$!/status; do :; done; echo ready; wait`,
	"one that forks when asked to go": `trap 'setsid sleep 1000 & setsid sleep 1000 & wait' TERM; echo ready; while :; do sleep 1000 & wait; done`,
}

// everything lists an agent's processes, by its mark and below its guard.
func everything(t *testing.T, guard int, mark string) []int {
	t.Helper()
	marked, err := proc.WithEnviron(mark)
	if err != nil {
		t.Fatal(err)
	}
	below, err := proc.Descendants(guard)
	if err != nil {
		t.Fatal(err)
	}
	found := append(marked, below...)
	slices.Sort(found)
	return slices.Compact(found)
}

func TestGuard_KillsAllWhenSupervisorIsKilled(t *testing.T) {
	for name, script := range trees {
		t.Run(name, func(t *testing.T) {
			supervisor, pid := supervised(t, script)
			guard := parentOf(t, pid)
			mark := markOf(t, pid)
			if len(everything(t, guard, mark)) == 0 {
				t.Fatal("nothing to be ended")
			}
			_ = supervisor.Process.Kill()
			_ = supervisor.Wait()
			testkit.Eventually(t, "all of the agent is gone", func() bool { return len(everything(t, guard, mark)) == 0 })
			ended(t, guard)
		})
	}
}

func TestGuard_KilledGuardLeavesNoProcesses(t *testing.T) {
	for name, script := range trees {
		t.Run(name, func(t *testing.T) {
			p := start(t, script)
			say(t, p)
			guard, mark := parentOf(t, p.PID()), markOf(t, p.PID())
			if err := syscall.Kill(guard, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			exit := wait(t, p)
			if exit.Reason != agent.Lost || exit.Status() != 137 {
				t.Errorf("exit = %+v, want lost", exit)
			}
			if left := everything(t, guard, mark); len(left) != 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

func TestGuard_ReapsProcessesOfExitedAgent(t *testing.T) {
	p := start(t, `setsid sh -c 'trap "" TERM; echo ready; sleep 1000; :' </dev/null & wait $!; :`)
	say(t, p)
	guard, mark := parentOf(t, p.PID()), markOf(t, p.PID())
	if err := syscall.Kill(p.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if exit := wait(t, p); exit.Signal != "SIGKILL" {
		t.Errorf("exit = %+v, want SIGKILL", exit)
	}
	if left := everything(t, guard, mark); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestStop_EndsDetachedProcesses(t *testing.T) {
	p := start(t, `setsid env -i sh -c 'sleep 1000 & echo $!' </dev/null; sleep 1000`)
	stray := sayPID(t, p)
	stop(t, p)
	gone(t, stray)
}

func TestStop_WorksWithStoppedGuard(t *testing.T) {
	p := start(t, `trap '' TERM; echo ready; while :; do sleep 1000; done`)
	say(t, p)
	guard := parentOf(t, p.PID())
	testkit.Freeze(t, guard)
	stop(t, p)
	gone(t, p.PID())
}

func TestGuard_StoppedGuardWakesWhenSupervisorIsKilled(t *testing.T) {
	supervisor, pid := supervised(t, `echo ready; while :; do sleep 1000; done`)
	guard := parentOf(t, pid)
	testkit.Freeze(t, guard)
	_ = supervisor.Process.Kill()
	_ = supervisor.Wait()
	gone(t, pid)
	ended(t, guard)
}

func TestGuard_AgentDiesWithGuard(t *testing.T) {
	supervisor, pid := supervised(t, `trap '' TERM; echo ready; while :; do sleep 1000; done`)
	guard := parentOf(t, pid)
	testkit.Freeze(t, supervisor.Process.Pid)
	if err := syscall.Kill(guard, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	ended(t, pid)
}

func TestGuard_SurvivesKillOfSupervisorsGroup(t *testing.T) {
	supervisor, pid := supervised(t, trees["a detached one ignoring SIGTERM"])
	guard, mark := parentOf(t, pid), markOf(t, pid)
	if err := syscall.Kill(-supervisor.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = supervisor.Wait()
	testkit.Eventually(t, "all of the agent is gone", func() bool { return len(everything(t, guard, mark)) == 0 })
	ended(t, guard)
}

func TestGuard_IsUnreachableForAgent(t *testing.T) {
	if err := proc.ConfineSupported(); err != nil {
		t.Skip(err)
	}
	p := start(t, `
		kill -KILL $PPID 2>/dev/null && echo killed
		kill -STOP $PPID 2>/dev/null && echo stopped
		(exec 3>/proc/$PPID/mem) 2>/dev/null && echo memory
		(exec 3>/proc/$PPID/fd/3) 2>/dev/null && echo life
		(exec 3>/proc/$PPID/fd/4) 2>/dev/null && echo status
		sleep 1000 & kill $! || echo 'cannot end its own'
		echo done`)
	if w := p.Restrictions(); !w.Landlock || !w.Seccomp || !w.Capabilities || len(w.Notes) != 0 {
		t.Errorf("walls = %+v, want all and no notes", w)
	}
	if got := say(t, p); got != "done" {
		t.Errorf("the agent could reach its guard: %s", got)
	}
	if exit := wait(t, p); exit.Status() != 0 {
		t.Errorf("exit = %+v", exit)
	}
}

func TestGuard_NoLandlockOption(t *testing.T) {
	p := start(t, `kill -0 $PPID && echo reached`, func(s *agent.Spec) { s.NoLandlock = true })
	if w := p.Restrictions(); w.Landlock || !w.Seccomp || len(w.Notes) != 1 {
		t.Errorf("walls = %+v, want no domain, a filter and one note", w)
	}
	if got := say(t, p); got != "reached" {
		t.Errorf("got %q", got)
	}
}

func TestAgent_InheritsOnlyStandardFiles(t *testing.T) {
	leaked, err := syscall.Open("/", syscall.O_RDONLY, 0) // as an editor's might be: not close-on-exec
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(leaked)
	p := start(t, `grep flags /proc/self/fdinfo/0; exec sleep 1000`)
	flags := strings.Fields(say(t, p))
	if bits, err := strconv.ParseUint(flags[1], 8, 64); err != nil || bits&syscall.O_NONBLOCK != 0 {
		t.Errorf("stdin has flags %q, want it blocking", flags)
	}
	testkit.Eventually(t, "the agent has three files open", func() bool {
		files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.PID()))
		return err == nil && len(files) == 3
	})
}

func TestAgent_RunsAsConfiguredUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process as another user")
	}
	p := start(t, `id -u; id -G; echo "$HOME"; echo again >/dev/stdout; setsid sleep 1000 & sleep 1000`, func(s *agent.Spec) {
		var err error
		if s.User, err = users.Lookup("nobody"); err != nil {
			t.Fatal(err)
		}
		s.Dir = "/"
		s.Env = append(os.Environ(), "HOME=/somewhere")
	})
	if got := say(t, p); got == "0" {
		t.Error("the agent runs as root")
	}
	if got := strings.Fields(say(t, p)); slices.Contains(got, "0") {
		t.Errorf("groups = %v, want none of root's", got)
	}
	if got := say(t, p); got != "/somewhere" {
		t.Errorf("HOME = %q, want it as it was", got)
	}
	if got := say(t, p); got != "again" {
		t.Errorf("through /dev/stdout: %q", got)
	}
	guard, mark := parentOf(t, p.PID()), markOf(t, p.PID())
	stop(t, p)
	if left := everything(t, guard, mark); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestGuard_ReapsAdoptedProcesses(t *testing.T) {
	p := start(t, `i=0; while [ $i -lt 50 ]; do setsid sh -c 'sleep 0 & exit' </dev/null; i=$((i+1)); done; echo ready; exec sleep 1000`)
	say(t, p)
	guard := parentOf(t, p.PID())
	testkit.Eventually(t, "the guard has one child", func() bool {
		out, err := exec.Command("ps", "-o", "pid=", "--ppid", strconv.Itoa(guard)).Output()
		return err == nil && len(strings.Fields(string(out))) == 1
	})
}

func TestGuard_RefusesStartByOthers(t *testing.T) {
	out, err := exec.Command("/proc/self/exe", "guard").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "not started by a supervisor") {
		t.Errorf("output = %q, %v, want a refusal", out, err)
	}
}

func TestStart_FailsIfGuardIsInvalid(t *testing.T) {
	for name, guard := range map[string][]string{
		"one that ends":          {"true"},
		"one that is not there":  {"/no/such/guard"},
		"one that says nonsense": {"sh", "-c", "echo nonsense >&4; echo '{' >&4; echo '{\"X\":1}' >&4"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := agent.Start(agent.Spec{Name: "test", Command: []string{"true"}, Guard: guard})
			if err == nil {
				_ = p.Stop(t.Context())
				t.Fatal("it started")
			}
		})
	}
}

// supervised runs a script under a stand-in for the supervisor, in a process group of its own.
func supervised(t *testing.T, script string) (*exec.Cmd, int) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "supervisor", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	said, err := bufio.NewReader(out).ReadString('\n')
	pid, convErr := strconv.Atoi(strings.TrimSpace(said))
	if err != nil || convErr != nil {
		t.Fatalf("the stand-in said %q, %v", said, err)
	}
	guard := parentOf(t, pid)
	t.Cleanup(func() { // should the test fail
		ctx, cancel := context.WithTimeout(context.Background(), testkit.Timeout())
		defer cancel()
		_ = proc.End(ctx, func() ([]int, error) { return proc.InSession(pid) }, 0)
		if t.Failed() {
			_ = syscall.Kill(guard, syscall.SIGKILL)
		}
	})
	return cmd, pid
}

// ended waits until a process has ended. Its zombie is init's to reap, which may take its time.
func ended(t *testing.T, pid int) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("process %d has ended", pid), func() bool { s := stateOf(pid); return s == "" || s == "Z" })
}

// stateOf is the letter that ps shows; empty: no such process.
func stateOf(pid int) string {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	return rest[:1]
}

func parentOf(t *testing.T, pid int) int {
	t.Helper()
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, "PPid:"); ok {
			parent, err := strconv.Atoi(strings.TrimSpace(value))
			if err != nil {
				t.Fatal(err)
			}
			return parent
		}
	}
	t.Fatalf("process %d has no parent", pid)
	return 0
}

func markOf(t *testing.T, pid int) string {
	t.Helper()
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		t.Fatal(err)
	}
	for entry := range strings.SplitSeq(string(data), "\x00") {
		if strings.HasPrefix(entry, "ACPHOST_AGENT_") {
			return entry
		}
	}
	t.Fatalf("process %d has no mark: %q", pid, data)
	return ""
}
