//go:build amd64 || arm64

package sandbox

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// roleVar makes this test binary play an attacker instead of running tests.
const roleVar = "SANDBOX_TEST_ROLE"

// shortVar tells an attacker that "go test -short" runs it.
const shortVar = "SANDBOX_TEST_SHORT"

// confinedVar has tests fail that would be skipped because nothing can be confined here.
const confinedVar = "SANDBOX_TEST_CONFINED"

// needsSandbox skips a test of what only a kernel can do that asks.
func needsSandbox(t *testing.T) {
	t.Helper()
	if err := Supported(); err != nil {
		if os.Getenv(confinedVar) != "" {
			t.Fatalf("nothing can be confined here: %v", err)
		}
		t.Skipf("nothing can be confined here: %v", err)
	}
}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Command {
		if os.Getenv(stuckVar) != "" {
			os.Exit(mainWith(nil, stuckDecider))
		}
		if os.Getenv(toldVar) != "" {
			os.Exit(mainWith(nil, tellingDecider))
		}
		if os.Getenv(stagedVar) != "" {
			os.Exit(mainWith(nil, stagingDecider))
		}
		if os.Getenv(inspectedVar) != "" {
			os.Exit(mainWith(nil, inspectingDecider))
		}
		if os.Getenv(placedVar) != "" {
			os.Exit(mainWith(nil, placingDecider))
		}
		os.Exit(Main())
	}
	Carry()
	if role := os.Getenv(roleVar); role != "" {
		os.Exit(play(role, os.Args[1:]))
	}
	os.Exit(m.Run())
}

// needsPrograms skips a test of programs that a machine with a busybox alone does not have: its shell is all of them,
// and statically linked.
func needsPrograms(t *testing.T) {
	t.Helper()
	for _, name := range []string{"bash", "git"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("there is no %s here", name)
		}
	}
}

// yard is a folder that the confined may change, with a file that it may not, beside one that it may not either.
type yard struct {
	inside, denied, outside, victim string
	flags                           []string // more of the sandbox's
}

// newYard makes one that a user without privileges can work in, too.
func newYard(t *testing.T) yard {
	t.Helper()
	top, err := os.MkdirTemp("", "sandbox") //nolint:usetesting // only one user can search the folders of t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(top) })
	y := yard{inside: filepath.Join(top, "in"), outside: filepath.Join(top, "out")}
	y.denied, y.victim = filepath.Join(y.inside, ".env"), filepath.Join(y.outside, "victim")
	for _, dir := range []string{top, y.inside, y.outside} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{y.denied, y.victim} {
		if err := os.WriteFile(file, []byte("secret"), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return y
}

// untouched says that the files that may not be changed are as they were.
func (y yard) untouched(t *testing.T) {
	t.Helper()
	for _, file := range []string{y.denied, y.victim} {
		info, err := os.Stat(file)
		if err != nil || info.Mode().Perm() != 0o666 {
			t.Errorf("%s: got %v, %v", file, info, err)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != "secret" {
			t.Errorf("%s: got %q, %v; want what it had", file, got, err)
		}
	}
	if names, err := os.ReadDir(y.outside); err != nil || len(names) != 1 {
		t.Errorf("got %v, %v outside, want nothing new", names, err)
	}
}

// confined is a command in a sandbox of this test binary.
func (y yard) confined(t *testing.T, command ...string) *exec.Cmd {
	t.Helper()
	needsSandbox(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{Command, "--write", y.inside, "--deny-write", y.denied, "--deny-execute", "/usr/bin/id", "--deny-execute", filepath.Join(y.inside, "refused")}
	args = append(append(args, y.flags...), "--")
	cmd := exec.Command(self, append(args, command...)...)
	cmd.Dir = y.inside
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", "HOME="+y.inside, "TMPDIR="+y.inside, "GOFLAGS=-buildvcs=false")
	return cmd
}

// attack runs a role of this test binary in a sandbox.
func (y yard) attack(t *testing.T, role string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := y.confined(t, append([]string{self}, args...)...)
	cmd.Env = append(cmd.Env, roleVar+"="+role)
	if testing.Short() {
		cmd.Env = append(cmd.Env, shortVar+"=1")
	}
	return cmd
}

// asNobody has an attack run as a user without privileges.
func (y yard) asNobody(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	self := filepath.Join(y.inside, "self")
	data, err := os.ReadFile(cmd.Path)
	if err == nil {
		err = os.WriteFile(self, data, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd.Args[slices.Index(cmd.Args, "--")+1], cmd.Path = self, self
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
}

// run expects the command to succeed, and returns what it wrote.
func run(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%q: %v\n%s", cmd.Args, err, &out)
	}
	return strings.TrimSpace(out.String())
}
