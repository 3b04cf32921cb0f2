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

// Guest is the user that agents run as here.
func Guest(t testing.TB) *proc.User {
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

// house is a place in which agents and their handlers run as another user.
type house struct {
	*Place
	Guest *proc.User
	Flags []string
}

// NewHouse makes a place in which agents and handlers run as the user nobody. It skips the test where that is not possible.
func NewHouse(t testing.TB) *house {
	t.Helper()
	u := Guest(t)
	p := NewPlace(t)
	h := &house{Place: p, Guest: u, Flags: p.Config(t, "agent: {user: nobody}\n")}
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

// Own gives a file to the guest.
func (h *house) Own(t testing.TB, path string) {
	t.Helper()
	if err := os.Chown(path, int(h.Guest.UID), int(h.Guest.GID)); err != nil {
		t.Fatal(err)
	}
}

// Scene is place.scene, with an agent that the guest may execute.
func (h *house) Scene(t testing.TB, flags []string, env ...string) *Scene {
	t.Helper()
	st := h.Stage(t)
	st.Command[0] = h.Install(t, st.Command[0])
	started := h.Start(t, flags, st.Command, env...)
	s := &Scene{Host: started, Agent: st.Play(t)}
	call := started.Initialize(ShowsTerminals)
	s.Agent.Reply(s.Agent.Expect("initialize"), map[string]any{"protocolVersion": 1})
	call.Result(nil)
	s.Open("s1")
	return s
}

// Install copies a program to where everybody may execute it.
func (h *house) Install(t testing.TB, program string) string {
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
