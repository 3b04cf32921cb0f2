package sandbox

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// roleVar makes this test binary play an attacker instead of running tests.
const roleVar = "SANDBOX_TEST_ROLE"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Command {
		if os.Getenv(stuckVar) != "" {
			os.Exit(mainWith(nil, stuckDecider))
		}
		os.Exit(Main())
	}
	if role := os.Getenv(roleVar); role != "" {
		os.Exit(play(role, os.Args[1:]))
	}
	os.Exit(m.Run())
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
	if err := Supported(); err != nil {
		t.Skipf("no sandbox here: %v", err)
	}
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
	return cmd
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
