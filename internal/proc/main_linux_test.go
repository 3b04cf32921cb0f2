package proc_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/acphost/acphost/internal/testkit"
)

// roleVar makes this test binary play one of the roles below instead of running tests.
const roleVar = "PROC_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVar); role != "" {
		os.Exit(play(role, os.Args[1:]))
	}
	goleak.VerifyTestMain(m)
}

// helper is this test binary in a role.
func helper(role string, args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	// By default the race detector delays the exit of a process by a second.
	cmd.Env = append(os.Environ(), roleVar+"="+role, "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	return cmd
}

// probes are the results of accesses to a process that is not a descendant.
type probes struct {
	Pid            int
	SignalStranger string
	KillOwnChild   string
	WriteFD        string
	WriteMem       string
	ReadMem        string
	ReadEnviron    string
	Abstract       string
	Pathname       string
	WriteFile      string
	GrandchildKill string
}

// probe tries everything on the process pid and the sockets and files under dir. Each field is "ok" or the error.
func probe(pid int, abstract, dir string) probes {
	var p probes
	p.Pid = os.Getpid()
	p.SignalStranger = outcome(signalZero(pid))
	child := exec.Command("sleep", "1000")
	if err := child.Start(); err != nil {
		p.KillOwnChild = err.Error()
	} else {
		p.KillOwnChild = outcome(child.Process.Kill())
		_ = child.Wait()
	}
	p.WriteFD = outcome(open(fmt.Sprintf("/proc/%d/fd/0", pid), os.O_WRONLY))
	p.WriteMem = outcome(open(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR))
	p.ReadMem = outcome(open(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDONLY))
	_, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	p.ReadEnviron = outcome(err)
	p.Abstract = outcome(dial("@" + abstract))
	p.Pathname = outcome(dial(filepath.Join(dir, "sock")))
	p.WriteFile = outcome(os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o600))
	// A descendant that left the session is in the domain as well.
	p.GrandchildKill = outcome(exec.Command("setsid", "sh", "-c", "kill -0 "+strconv.Itoa(pid)+" 2>/dev/null").Run())
	return p
}

func play(role string, args []string) int {
	switch role {
	case "probe":
		pid, _ := strconv.Atoi(args[0])
		if err := json.NewEncoder(os.Stdout).Encode(probe(pid, args[1], args[2])); err != nil {
			return 1
		}
		return 0
	default:
		return playLinux(role, args)
	}
}

func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	return err.Error()
}

func open(name string, flag int) error {
	f, err := os.OpenFile(name, flag, 0)
	if err == nil {
		err = f.Close()
	}
	return err
}

func dial(address string) error {
	conn, err := net.Dial("unix", address)
	if err == nil {
		err = conn.Close()
	}
	return err
}

// line reads one line from a process; it fails the test if the process prints nothing before the timeout.
func line(t *testing.T, r io.Reader) string {
	t.Helper()
	got := make(chan string, 1)
	go func() {
		var b strings.Builder
		var one [1]byte
		for {
			n, err := r.Read(one[:])
			if n == 1 && one[0] == '\n' || err != nil {
				got <- b.String()
				return
			}
			b.WriteByte(one[0])
		}
	}()
	select {
	case s := <-got:
		return s
	case <-testkit.After():
		t.Fatal("the process printed nothing for 20 s")
		return ""
	}
}

var errStillThere = errors.New("still there")
