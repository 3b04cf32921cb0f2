package e2e

import (
	"fmt"
	"os"
	"path/filepath"
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
