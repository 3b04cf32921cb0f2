package wire

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/testkit"
)

// Build makes programs as "make build" does: packages, named from the repository's root, which is root, into dir.
func Build(root, dir string, packages ...string) error {
	cmd := exec.Command("go", append([]string{"build", "-trimpath", "-o", dir + "/"}, packages...)...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the binaries: %w\n%s", err, out)
	}
	return nil
}

// RunTests runs the tests and returns the exit status of the test binary. It fails them if they leave goroutines or
// processes behind: what a test leaves becomes a child of this process, wherever it hid. Before it looks, it calls the
// functions that end what the tests share.
func RunTests(m *testing.M, end ...func()) int {
	if err := proc.Subreaper(); err != nil && !errors.Is(err, proc.ErrUnsupported) {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	status := m.Run()
	for _, f := range end {
		f()
	}
	for _, err := range []error{goleak.Find(), nobodyLeft()} {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			status = max(status, 1)
		}
	}
	return status
}

// nobodyLeft checks that no process outlives the tests of this one: the error names the remaining processes, and they
// are ended. It waits for processes that are ending. A Place finds only processes whose environment it may read; for a
// user that is not root a supervisor's is not readable.
func nobodyLeft() error {
	list := func() ([]int, error) { return proc.Descendants(os.Getpid()) }
	var left []int
	var err error
	if testkit.Poll(func() bool { left, err = list(); return err != nil || len(left) == 0 }) {
		if errors.Is(err, proc.ErrUnsupported) {
			return nil
		}
		return err
	}
	processes := Describe(left)
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Timeout())
	defer cancel()
	return errors.Join(fmt.Errorf("the tests leave processes behind:\n%s", processes), proc.End(ctx, list, 0))
}

// Describe returns a description of processes, a line each.
func Describe(pids []int) string {
	var b strings.Builder
	for _, pid := range pids {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // it may be gone by now
		fmt.Fprintf(&b, "  %d %s\n", pid, strings.ReplaceAll(strings.TrimRight(string(line), "\x00"), "\x00", " "))
	}
	return b.String()
}
