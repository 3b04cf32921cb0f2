package cgroup_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/cgroup"
	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/testkit"
)

// newGroup creates a group, and skips the test if no group is delegated to the test.
func newGroup(t *testing.T, l cgroup.Limits) *cgroup.Group {
	t.Helper()
	g, err := cgroup.New("test", l)
	if errors.Is(err, cgroup.ErrNotDelegated) {
		if got := cgroup.Delegated(); !errors.Is(got, cgroup.ErrNotDelegated) {
			t.Errorf("got %v from Delegated, want an error as from New: %v", got, err)
		}
		t.Skipf("this test needs a control group that is delegated to it: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for until := time.Now().Add(testkit.Scale(10 * time.Second)); ; {
			err := g.Remove()
			if err == nil {
				return
			}
			if time.Now().After(until) {
				t.Errorf("remove the group: %v", err)
				return
			}
		}
	})
	return g
}

// inGroup runs a shell command in a group, and returns its output.
func inGroup(t *testing.T, g *cgroup.Group, script string) (string, error) {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	done, err := proc.EnterGroup(cmd.SysProcAttr, g.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	out, err := cmd.CombinedOutput()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	return string(out), err
}

func TestNew_LimitsTasks(t *testing.T) {
	g := newGroup(t, cgroup.Limits{Tasks: 20})
	if !cgroup.Enterable(g.Path) {
		t.Errorf("the group %s cannot be entered", g.Path)
	}
	const start = "do sleep 60 >/dev/null 2>&1 & i=$((i+1)); done; "
	out, err := inGroup(t, g, "i=0; while [ $i -lt 10 ]; "+start+"echo ten; while [ $i -lt 100 ]; "+start+"echo hundred")
	if !strings.HasPrefix(out, "ten") || strings.Contains(out, "hundred") || err == nil {
		t.Errorf("got %q, %v, want a shell that can start 10 processes and not 100", out, err)
	}
	if refused, ended := cgroup.Reached(g.Path); refused == 0 || ended > 0 {
		t.Errorf("got %d refused starts and %d ended processes, want at least one refused start", refused, ended)
	}
}

func TestNew_LimitsMemory(t *testing.T) {
	g := newGroup(t, cgroup.Limits{Memory: 32 << 20})
	const keep = " /dev/zero | tail >/dev/null && echo "
	out, err := inGroup(t, g, "head -c 8000000"+keep+"small; head -c 200000000"+keep+"large")
	if !strings.HasPrefix(out, "small") || strings.Contains(out, "large") {
		t.Errorf("got %q, %v, want a process that has 8 MB and not 200 MB", out, err)
	}
	if refused, ended := cgroup.Reached(g.Path); refused > 0 || ended == 0 {
		t.Errorf("got %d refused starts and %d ended processes, want at least one ended process", refused, ended)
	}
}

// A group can be created after the first one, when this process is in the group "supervisor".
func TestNew_AfterFirst(t *testing.T) {
	newGroup(t, cgroup.Limits{})
	g, err := cgroup.New("second", cgroup.Limits{Tasks: 20})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Remove(); err != nil {
		t.Error(err)
	}
	if err := cgroup.Delegated(); err != nil {
		t.Errorf("got %v, want a delegated group", err)
	}
	if data, err := os.ReadFile("/proc/self/cgroup"); err != nil || !strings.Contains(string(data), "/supervisor\n") {
		t.Errorf("got the group %q, %v of this process, want one named supervisor", data, err)
	}
}
