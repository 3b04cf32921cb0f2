package wire

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/acphost/acphost/sdk/proc"
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

// NobodyLeft makes sure that no process outlives the tests of this one, which is a subreaper: the error names those that
// do, and they are ended.
func NobodyLeft() error {
	list := func() ([]int, error) { return proc.Descendants(os.Getpid()) }
	left, err := list()
	if errors.Is(err, proc.ErrUnsupported) {
		return nil
	}
	if err != nil || len(left) == 0 {
		return err
	}
	said := Describe(left)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(fmt.Errorf("the tests leave processes behind:\n%s", said), proc.End(ctx, list, 0))
}

// Describe says what processes are, a line each.
func Describe(pids []int) string {
	var b strings.Builder
	for _, pid := range pids {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // it may be gone by now
		fmt.Fprintf(&b, "  %d %s\n", pid, strings.ReplaceAll(strings.TrimRight(string(line), "\x00"), "\x00", " "))
	}
	return b.String()
}
