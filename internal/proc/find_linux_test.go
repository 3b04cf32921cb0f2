package proc_test

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/testkit"
)

// The runtime keeps the first goroutine in the process's first thread while packages are initialized. A lock that is
// taken then keeps it there for main as well.
func init() {
	if os.Getenv(roleVar) == "threadless" {
		runtime.LockOSThread()
	}
}

// exitFirstThread ends the process's first thread. It returns only if it is called in another one.
func exitFirstThread() {
	if unix.Gettid() == unix.Getpid() {
		_, _, _ = unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
	}
}

// under runs script below a subreaper, and returns the subreaper's pid once the script has printed "ready".
func under(t *testing.T, script string) int {
	t.Helper()
	cmd := helper("subreaper", script)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testkit.Timeout())
		defer cancel()
		if err := proc.End(ctx, func() ([]int, error) { return proc.Descendants(cmd.Process.Pid) }, 0); err != nil {
			t.Error(err)
		}
		_ = stdin.Close()
		_, _ = io.Copy(io.Discard, stdout)
		_ = cmd.Wait()
	})
	if got := line(t, stdout); got != "ready" {
		t.Fatalf("the script printed %q, want ready", got)
	}
	return cmd.Process.Pid
}

func TestDescendants_IncludeDetachedProcesses(t *testing.T) {
	dir := t.TempDir()
	root := under(t, `setsid sh -c 'sleep 1000 & echo $! >`+dir+`/detached; exit' </dev/null; echo ready; exec sleep 1000`)
	data, err := os.ReadFile(filepath.Join(dir, "detached"))
	if err != nil {
		t.Fatal(err)
	}
	detached, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	got, err := proc.Descendants(root)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(got, detached) {
		t.Errorf("descendants = %v, want them to include the detached %d", got, detached)
	}
	if slices.Contains(got, root) {
		t.Errorf("descendants = %v include the root %d itself", got, root)
	}
	tree, err := proc.TreeOf(root)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := tree.List()
	if err != nil || len(whole) == 0 || whole[0] != root {
		t.Errorf("tree = %v, %v, want the root %d first", whole, err, root)
	}
	tree.Started++
	if other, err := tree.List(); err != nil || len(other) != 0 {
		t.Errorf("a tree whose root started at another time lists %v, %v, want nothing", other, err)
	}
}

func TestDescendants_OmitZombies(t *testing.T) {
	dir := t.TempDir()
	root := under(t, `setsid sh -c 'sleep 0 & echo $! >`+dir+`/pid; exit' </dev/null; echo ready; exec sleep 1000`)
	data, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid := strings.TrimSpace(string(data))
	testkit.Eventually(t, "the adopted zombie is reaped", func() bool {
		_, err := os.Stat("/proc/" + pid)
		return os.IsNotExist(err)
	})
	if got, err := proc.Descendants(root); err != nil || len(got) != 1 {
		t.Errorf("descendants = %v, %v, want the one sleep that is left", got, err)
	}
}

func TestWithEnviron_MatchesWholeEntry(t *testing.T) {
	mark := "PROC_TEST_MARK=" + strconv.Itoa(os.Getpid()) + t.Name()
	start := func(entry string) *exec.Cmd {
		cmd := exec.Command("sleep", "1000")
		cmd.Env = []string{"A=1", entry, "Z=1"}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		return cmd
	}
	marked := start(mark)
	start(mark + "x")
	start("X" + mark)
	got, err := proc.WithEnviron(mark)
	if err != nil {
		t.Fatal(err)
	}
	if want := []int{marked.Process.Pid}; !slices.Equal(got, want) {
		t.Errorf("marked = %v, want %v", got, want)
	}
}

func TestEnd_ProcessWithoutFirstThread(t *testing.T) {
	mark := "PROC_TEST_MARK=threadless" + strconv.Itoa(os.Getpid())
	cmd := helper("threadless")
	cmd.Env = append(cmd.Env, mark)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	if got := line(t, stdout); got != "ready" {
		t.Fatalf("got %q, want ready", got)
	}
	testkit.Eventually(t, "the first thread ends", func() bool {
		data, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		return strings.Contains(string(data), ") Z ")
	})
	if got, err := proc.Descendants(os.Getpid()); err != nil || !slices.Contains(got, pid) {
		t.Errorf("descendants = %v, %v, want %d among them", got, err, pid)
	}
	if got, err := proc.WithEnviron(mark); err != nil || !slices.Contains(got, pid) {
		t.Errorf("marked = %v, %v, want %d among them", got, err, pid)
	}
	if err := proc.End(t.Context(), func() ([]int, error) { return proc.WithEnviron(mark) }, 0); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
	if got := proc.StatusOf(cmd.ProcessState); got.Signal != "SIGKILL" || got.Number != 9 {
		t.Errorf("status = %+v, want SIGKILL and 9", got)
	}
}

func TestUndumpable_AppliesToProcess(t *testing.T) {
	out, err := helper("undumpable").Output()
	if err != nil || strings.TrimSpace(string(out)) != "0" {
		t.Errorf("PR_GET_DUMPABLE = %q, %v, want 0", out, err)
	}
}

func TestReap_DistinguishesRunningEndedAndUnknown(t *testing.T) {
	pid, err := startRaw("/bin/sh", "-c", "read x; exit 7")
	if err != nil {
		t.Fatal(err)
	}
	if _, reaped, err := proc.Reap(pid.pid); reaped || err != nil {
		t.Errorf("of a running child: %t, %v, want false, nil", reaped, err)
	}
	pid.release()
	var got proc.ExitStatus
	testkit.Eventually(t, "the child is reaped", func() bool {
		var reaped bool
		got, reaped, err = proc.Reap(pid.pid)
		return reaped || err != nil
	})
	if got.Code != 7 || got.Signal != "" || err != nil {
		t.Errorf("status = %+v, %v, want code 7", got, err)
	}
	if _, _, err := proc.Reap(pid.pid); err == nil {
		t.Error("a child that was reaped before: no error")
	}
	if _, _, err := proc.Reap(-1); err == nil {
		t.Error("reaping any child: no error")
	}
}

// raw is a child that os does not know of.
type raw struct {
	pid     int
	release func()
}

func startRaw(argv ...string) (raw, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return raw{}, err
	}
	defer r.Close()
	p, err := os.StartProcess(argv[0], argv, &os.ProcAttr{Files: []*os.File{r, os.Stdout, os.Stderr}})
	if err != nil {
		return raw{}, err
	}
	pid := p.Pid
	_ = p.Release()
	return raw{pid: pid, release: func() { _ = w.Close() }}, nil
}
