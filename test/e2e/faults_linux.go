package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/wire"
)

// Daemon finds the process of one of the supervisor's programs.
func (h *Host) Daemon(name string) int {
	h.T.Helper()
	found := 0
	if !testkit.Poll(func() bool {
		for _, pid := range h.Family() {
			if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err == nil && filepath.Base(exe) == name {
				found = pid
				return true
			}
		}
		return false
	}) {
		h.T.Fatalf("%s does not run:\n%s", name, wire.Describe(h.Family()))
	}
	return found
}

// Guard finds the supervisor's guard of its agent.
func (h *Host) Guard() int {
	h.T.Helper()
	for _, pid := range h.Family() {
		if strings.Contains(wire.Describe([]int{pid}), "acphost guard") {
			return pid
		}
	}
	h.T.Fatalf("there is no guard:\n%s", wire.Describe(h.Family()))
	return 0
}

// Signal sends a signal. A process that shall stop has done so when it returns.
func (h *Host) Signal(pid int, sig syscall.Signal) {
	h.T.Helper()
	if sig == syscall.SIGSTOP {
		testkit.Freeze(h.T, pid)
		return
	}
	if err := syscall.Kill(pid, sig); err != nil {
		h.T.Fatalf("%v to %d: %v", sig, pid, err)
	}
}

// ExpectRefusals takes an answer to each of the agent's requests, which must be an error of the handler's.
func (s *Scene) ExpectRefusals(handler string, ids []string) {
	s.T.Helper()
	open := slices.Clone(ids)
	for range ids {
		m := s.Agent.Next()
		i := slices.Index(open, string(m.ID))
		if i < 0 {
			s.T.Fatalf("an answer under an id that is not open, or was answered: %.300s", m.Raw)
		}
		open = slices.Delete(open, i, i+1)
		if m.Error == nil || m.Error.Code != -32603 {
			s.T.Fatalf("a request was answered with %s, want -32603", m.Raw)
		}
		if !strings.Contains(string(m.Error.Data), `"handler":"`+handler+`"`) {
			s.T.Errorf("an error does not say whose it is: %s", m.Raw)
		}
	}
}
