package pid1

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
)

// TestMain is the first process of a namespace where a test says so.
func TestMain(m *testing.M) {
	if os.Getenv("PID1_TEST") != "" && Needed() {
		status, err := Run(append([]string{"/proc/self/exe"}, os.Args[1:]...), os.Stdin, os.Stdout, os.Stderr)
		if err != nil {
			_, _ = os.Stderr.WriteString(err.Error() + "\n")
		}
		os.Exit(status)
	}
	if script := os.Getenv("PID1_TEST"); script != "" {
		cmd := exec.Command("sh", "-c", script)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		_ = cmd.Run() // the state says more
		os.Exit(statusOf(cmd.ProcessState))
	}
	os.Exit(m.Run())
}

// inNamespace runs a script below a first process of a namespace of its own.
func inNamespace(t *testing.T, script string) (string, int) {
	t.Helper()
	cmd := exec.Command(testkit.Self(t), "-test.run=^$")
	cmd.Env = append(os.Environ(), "PID1_TEST="+script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if errors.Is(err, syscall.EPERM) {
		t.Skip("namespaces of processes cannot be made here: ", err)
	}
	return out.String(), statusOf(cmd.ProcessState)
}

func TestRun_ReturnsStatusOfCommand(t *testing.T) {
	if out, status := inNamespace(t, "exit 7"); status != 7 {
		t.Errorf("status %d, want 7: %s", status, out)
	}
	if out, status := inNamespace(t, "kill -9 $PPID; exit 0"); status != 128+9 {
		t.Errorf("status %d after SIGKILL, want 137: %s", status, out)
	}
}

func TestRun_ReapsOrphans(t *testing.T) {
	// Twenty orphans end one after another; those that nobody reaps stay as zombies of the first process.
	out, status := inNamespace(t, `
mount -t proc proc /proc || { echo no proc; exit 77; }
i=0; while [ $i -lt 20 ]; do (sh -c 'exit 0' & exec true) ; i=$((i+1)); done
n=99; i=0
while [ $i -lt 200 ]; do
  n=0; for s in /proc/[0-9]*/stat; do case "$(cat $s 2>/dev/null)" in *") Z 1 "*) n=$((n+1));; esac; done
  [ $n = 0 ] && break
  i=$((i+1))
done
echo zombies $n`)
	if status == 77 {
		t.Skip("proc cannot be mounted in a namespace here: ", out)
	}
	if status != 0 || !strings.Contains(out, "zombies 0") {
		t.Errorf("status %d: %s", status, out)
	}
}

func TestRun_ForwardsSignals(t *testing.T) {
	// Run looks after a command whoever calls it; only Needed asks for the number.
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	cmd := exec.Command(testkit.Self(t), "-test.run=^TestRun_ChildOfForwardsSignals$")
	cmd.Env = append(os.Environ(), "PID1_BELOW=1")
	cmd.Stdout = write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = write.Close()
	line := make([]byte, 64)
	if n, err := read.Read(line); err != nil || !strings.Contains(string(line[:n]), "ready") {
		t.Fatalf("%q, %v", line[:n], err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the state says more
	if got := statusOf(cmd.ProcessState); got != 42 {
		t.Errorf("status %d, want 42: the command's own on TERM", got)
	}
}

func TestRun_ChildOfForwardsSignals(t *testing.T) {
	if os.Getenv("PID1_BELOW") == "" {
		t.Skip("only runs below TestRun_ForwardsSignals")
	}
	status, err := Run([]string{"sh", "-c", "trap 'kill $p; exit 42' TERM; sleep 60 & p=$!; echo ready; wait"}, os.Stdin, os.Stdout, os.Stderr)
	if err != nil {
		t.Fatal(strconv.Itoa(status), err)
	}
	os.Exit(status)
}
