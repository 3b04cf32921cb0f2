package e2e

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/users"
	"github.com/acphost/acphost/test/wire"
)

// AgentUser is the user that agents run as here.
func AgentUser(t testing.TB) *proc.User {
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

// UserPlace is a place in which agents and their handlers run as another user.
type UserPlace struct {
	*Place
	AgentUser *proc.User
	Flags     []string
}

// NewUserPlace makes a place in which agents and handlers run as the user nobody. It skips the test if that is not
// possible.
func NewUserPlace(t testing.TB) *UserPlace {
	t.Helper()
	u := AgentUser(t)
	p := NewPlace(t)
	h := &UserPlace{Place: p, AgentUser: u, Flags: p.Config(t, "agent: {user: nobody}\n")}
	for _, dir := range []string{p.Home, filepath.Join(p.Home, "tmp")} {
		if err := os.Chmod(dir, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	h.Own(t, p.Work)
	if err := wire.Command(t, "setpriv", "--reuid", strconv.Itoa(int(u.UID)), "--clear-groups", Program("termd"), "--version").Run(); err != nil {
		t.Skipf("nobody may not execute the programs under test in %s: %v", bin, err)
	}
	return h
}

// Own changes the owner of a file to the agent user.
func (h *UserPlace) Own(t testing.TB, path string) {
	t.Helper()
	if err := os.Chown(path, int(h.AgentUser.UID), int(h.AgentUser.GID)); err != nil {
		t.Fatal(err)
	}
}

// Fixture is Place.Fixture, with an agent that the agent user may execute.
func (h *UserPlace) Fixture(t testing.TB, flags []string, env ...string) *Fixture {
	t.Helper()
	st := h.Stage(t)
	st.Command[0] = h.Install(t, st.Command[0])
	started := h.Start(t, flags, st.Command, env...)
	s := &Fixture{Host: started, Agent: st.Play(t)}
	call := started.Initialize(ShowsTerminals)
	s.Agent.Reply(s.Agent.Expect("initialize"), map[string]any{"protocolVersion": 1})
	call.Result(nil)
	s.Open("s1")
	return s
}

// Install copies a program to where everybody may execute it.
func (h *UserPlace) Install(t testing.TB, program string) string {
	t.Helper()
	from, err := os.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	path := filepath.Join(h.Home, filepath.Base(program))
	to, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}
