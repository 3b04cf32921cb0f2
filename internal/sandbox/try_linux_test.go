//go:build amd64 || arm64

package sandbox

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/testkit/profile"
)

// inProfile executes this test binary in a container of which the profile refuses a call.
func inProfile(from []string, args ...string) error {
	errno, err := strconv.Atoi(from[0])
	if err != nil {
		return err
	}
	if err := profile.Enter(unix.Errno(errno), from[1:]...); err != nil {
		return err
	}
	if err := os.Setenv(roleVar, "supported"); err != nil {
		return err
	}
	return unix.Exec("/proc/self/exe", append(os.Args[:1:1], args...), os.Environ())
}

// supportedIn is what Supported says in a container.
func supportedIn(t *testing.T, errno unix.Errno, calls ...string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, append([]string{strconv.Itoa(int(errno))}, calls...)...)
	cmd.Env = append(os.Environ(), roleVar+"=profile", "GORACE=atexit_sleep_ms=0")
	return run(t, cmd)
}

// TestSupported_TriesCallsThatContainersDeny: seccomp profiles of containers return different errnos, and may omit
// calls that only some confined processes make.
func TestSupported_TriesCallsThatContainersDeny(t *testing.T) {
	needsSandbox(t)
	if got := supportedIn(t, unix.EPERM); got != "<nil>" {
		t.Errorf("got %q where nothing is refused", got)
	}
	for call, want := range map[string]string{
		"listener": "filter that asks", "landlock": "landlock", "ptrace": "call ptrace", "process_vm_readv": "call process_vm_readv",
		"pidfd_open": "call pidfd_open", "pidfd_getfd": "call pidfd_getfd", "openat2": "call openat2", "faccessat2": "call faccessat2",
		"unshare": "call unshare",
	} {
		for _, errno := range []unix.Errno{unix.EPERM, unix.ENOSYS} {
			t.Run(call+" "+unix.ErrnoName(errno), func(t *testing.T) {
				t.Parallel()
				if got := supportedIn(t, errno, call); !strings.Contains(got, want) || !strings.Contains(got, ErrUnsupported.Error()) {
					t.Errorf("got %q, want that it says %q", got, want)
				}
			})
		}
	}
}

// TestStart_FailsWithoutThreads: a sandbox that cannot start its threads would answer no call.
func TestStart_FailsWithoutThreads(t *testing.T) {
	y := newYard(t)
	cmd := y.confined(t, "true")
	cmd.Args = append([]string{cmd.Args[0], strconv.Itoa(int(unix.EPERM)), "unshare"}, cmd.Args[1:]...)
	cmd.Env = append(cmd.Env, roleVar+"=profiled")
	var said bytes.Buffer
	cmd.Stderr = &said
	err := cmd.Run()
	if status := (*exec.ExitError)(nil); !errors.As(err, &status) || status.ExitCode() != failed || !strings.Contains(said.String(), "a thread that answers") {
		t.Errorf("got %v, %s", err, &said)
	}
}
