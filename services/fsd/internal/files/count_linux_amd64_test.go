package files

import (
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRead_ForCounting plays the process whose system calls are counted, between two calls of getppid.
func TestRead_ForCounting(t *testing.T) {
	dir := os.Getenv("FILES_TEST_COUNTED")
	if dir == "" {
		t.Skip("another test runs it")
	}
	own := []string{dir + "/own", dir + "/audit.jsonl"}
	for i := range 20 {
		own = append(own, dir+"/audit.jsonl."+strconv.Itoa(i))
	}
	d := protecting(t, own...)
	runtime.LockOSThread()
	for range 40 { // on a busy machine, many of them contain calls of Go's scheduler
		unix.Getppid()
		if _, err := read(d, in(dir+"/ws"), dir+"/ws/f"); err != nil {
			t.Error(err)
		}
	}
	unix.Getppid()
}

func TestRead_SmallFileTakesFewSystemCalls(t *testing.T) {
	dir := workspace(t)
	put(t, dir+"/ws/f", "content")
	put(t, dir+"/own/policy", "rules")
	counts := countCalls(t, dir)
	if len(counts) < 4 {
		t.Fatalf("counted %v", counts)
	}
	// Each folder of the path, and the file, are examined once. The other calls are the watch, the opening, the check
	// of the opened file, the reading and the closing.
	want := strings.Count(dir+"/ws/f", "/") + 5
	if got := slices.Min(counts[1:]); got > want { // the first read has Go's own calls; others may change the folder of all tests
		t.Errorf("a read takes %d system calls, want at most %d", got, want)
	}
}

// countCalls traces TestRead_ForCounting, and returns the system calls of its thread between each getppid and the next.
func countCalls(t *testing.T, dir string) (counts []int) {
	runtime.LockOSThread() // which traces
	defer runtime.UnlockOSThread()
	cmd := exec.Command(os.Args[0], "-test.run=^TestRead_ForCounting$")
	cmd.Env = append(os.Environ(), "FILES_TEST_COUNTED="+dir)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		t.Skip("no process can be traced here:", err)
	}
	first := cmd.Process.Pid
	var status unix.WaitStatus
	_, err := unix.Wait4(first, &status, 0, nil)
	must(t, err)
	must(t, unix.PtraceSetOptions(first, unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_TRACECLONE|unix.PTRACE_O_EXITKILL))
	must(t, unix.PtraceSyscall(first, 0))
	inside, counted, n := map[int]bool{}, 0, 0
	for {
		pid, err := unix.Wait4(-1, &status, unix.WALL, nil)
		must(t, err)
		if status.Exited() || status.Signaled() {
			if pid == first {
				if status.ExitStatus() != 0 {
					t.Fatal("the reads failed")
				}
				return counts
			}
			continue
		}
		pass := 0
		switch signal := status.StopSignal(); signal {
		case unix.SIGTRAP | 0x80:
			if inside[pid] = !inside[pid]; !inside[pid] {
				break
			}
			var regs unix.PtraceRegs
			if unix.PtraceGetRegs(pid, &regs) != nil {
				break
			}
			switch {
			case regs.Orig_rax == unix.SYS_GETPPID:
				if counted != 0 {
					counts = append(counts, n)
				}
				counted, n = pid, 0
			case pid == counted:
				n++
			}
		case unix.SIGTRAP, unix.SIGSTOP: // an event, or a new thread
		default:
			pass = int(signal)
		}
		_ = unix.PtraceSyscall(pid, pass)
	}
}
