package launch_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/internal/users"
	"github.com/acphost/acphost/sdk/launch"
)

// nobody returns the user nobody, for tests that run as root.
func nobody(t *testing.T) *proc.User {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process as another user")
	}
	u, err := users.Lookup("nobody")
	if err != nil {
		t.Skipf("this system has no user nobody: %v", err)
	}
	return u
}

// public is a folder that everybody can enter.
func public(t *testing.T) string {
	t.Helper()
	dir := testkit.ShortDir(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// install copies the test's program to a folder, and returns it as a command.
func install(t *testing.T, dir string, mode os.FileMode) []string {
	t.Helper()
	from, err := os.Open(self()[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = from.Close() }()
	path := filepath.Join(dir, "handler")
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(to.Chmod(mode), to.Close()); err != nil {
		t.Fatal(err)
	}
	return []string{path}
}

// asNobody returns a child that plays r as the user nobody.
func asNobody(t *testing.T, r string, env ...string) launch.Spec {
	u := nobody(t)
	s := spec(r, env...)
	s.Command, s.User = install(t, public(t), 0o755), u
	return s
}

func TestUser_ChildRunsAsUser(t *testing.T) {
	s := asNobody(t, "handler")
	t.Setenv("HOME", "/root")
	i := start(t, s)
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", i.PID()))
	if err != nil {
		t.Skipf("no /proc: %v", err)
	}
	id := func(u uint32) string { return strings.Repeat(fmt.Sprintf("\t%d", u), 4) + "\n" }
	for _, want := range []string{"Uid:" + id(s.User.UID), "Gid:" + id(s.User.GID), "CapEff:\t0000000000000000\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	for line := range strings.Lines(string(text)) {
		if groups, ok := strings.CutPrefix(line, "Groups:"); ok && len(strings.Fields(groups)) > len(s.User.Groups) {
			t.Errorf("it has groups that are not its user's: %q, want %v", groups, s.User.Groups)
		}
	}
	if dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", i.PID())); err != nil || dir != "/" {
		t.Errorf("its working directory is %q (%v), want one that everybody can reach", dir, err)
	}
	env, err := callEcho(t.Context(), i, "env")
	if err != nil || !strings.Contains(env, "HOME="+s.User.Home+"\n") || strings.Contains(env, "/root\n") {
		t.Errorf("its environment does not fit its user: %q, %v", env, err)
	}
	secret := filepath.Join(filepath.Dir(s.Command[0]), "secret")
	if err := os.WriteFile(secret, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := callEcho(t.Context(), i, "read "+secret); err == nil {
		t.Errorf("it read %q of a file of root's", got)
	}
}

func TestUser_SocketFolderIsPrivate(t *testing.T) {
	s := asNobody(t, "handler")
	t.Setenv("TMPDIR", testkit.ShortDir(t)) // which the user cannot enter
	if err := os.Chmod(os.Getenv("TMPDIR"), 0o700); err != nil {
		t.Fatal(err)
	}
	i := start(t, s)
	dir := filepath.Dir(strings.TrimPrefix(i.Address(), "unix://"))
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if st := info.Sys().(*syscall.Stat_t); st.Uid != s.User.UID || info.Mode().Perm() != 0o700 {
		t.Errorf("%s belongs to %d with mode %v, want %d and 0700", dir, st.Uid, info.Mode(), s.User.UID)
	}
	pid := i.PID()
	if err := i.Stop(t.Context()); err != nil {
		t.Errorf("Stop: %v", err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) || alive(pid) {
		t.Errorf("after Stop: folder %v, process alive %v", err, alive(pid))
	}
}

func TestUser_StubbornChildIsKilled(t *testing.T) {
	s := asNobody(t, "stubborn")
	s.StopGrace = 1 // a nanosecond
	i := start(t, s)
	pid := i.PID()
	if err := i.Stop(t.Context()); err != nil {
		t.Errorf("Stop: %v", err)
	}
	if alive(pid) {
		t.Error("it lives on")
	}
}

func TestUser_ErrorNamesForbiddenProgram(t *testing.T) {
	u := nobody(t)
	for name, command := range map[string][]string{
		"mode":   install(t, public(t), 0o700),
		"folder": install(t, testkit.ShortDir(t), 0o755),
	} {
		t.Run(name, func(t *testing.T) {
			if name == "folder" {
				if err := os.Chmod(filepath.Dir(command[0]), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			s := spec("handler")
			s.Command, s.User = command, u
			i, err := launch.Start(t.Context(), s)
			if err == nil {
				_ = i.Stop(t.Context())
				t.Fatal("it was started")
			}
			for _, want := range []string{command[0], "nobody", "may not execute", "install it"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in: %v", want, err)
				}
			}
		})
	}
}

func TestSidecar_TLSRejectsOtherUserThanNamed(t *testing.T) {
	u := nobody(t)
	dir := testkit.ShortDir(t)
	ca := newAuthority(t, dir, "ca")
	server, client := ca.issue(t, "server"), ca.issue(t, "client")
	path := filepath.Join(dir, "s")
	sidecar(t, 0, "--listen", "unix://"+path, "--tls-ca", server.CA, "--tls-cert", server.Cert, "--tls-key", server.Key)
	s := launch.Spec{Name: "test", Address: "unix://" + path, TLS: &client, UID: &u.UID}
	i, err := launch.Start(t.Context(), s)
	if err == nil {
		_ = i.Stop(t.Context())
		t.Fatalf("a sidecar of root's was taken for one of user %d", u.UID)
	}
	if !strings.Contains(err.Error(), "runs as user 0") {
		t.Errorf("error = %v", err)
	}
}
