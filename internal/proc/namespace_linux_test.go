package proc_test

import (
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// inForeignProc runs a role in its own pid namespace, with this namespace's /proc.
func inForeignProc(t *testing.T, role string) string {
	t.Helper()
	cmd := helper(role)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
	}
	out, err := cmd.Output()
	if err != nil && cmd.ProcessState == nil {
		t.Skipf("no namespaces here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestNamespace_ForeignProcIsNotRead(t *testing.T) {
	if out := inForeignProc(t, "look"); out != "" {
		t.Error(out)
	}
}
