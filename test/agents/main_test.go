package agents

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/acphost/acphost/sdk/proc"
)

// installed names the folder in which the agents are, by "npm install" there. Without it every test that needs one is
// skipped.
const installed = "ACPHOST_AGENTS"

// bin is the folder of the binaries under test: the one that ACPHOST_BIN names, or one that is built for this run.
var bin string

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	// What a test leaves behind becomes a child of this process, wherever it hid, and is found in the end.
	if err := proc.Subreaper(); err != nil && !errors.Is(err, proc.ErrUnsupported) {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if bin = os.Getenv("ACPHOST_BIN"); bin == "" && os.Getenv(installed) != "" {
		dir, err := os.MkdirTemp("", "acphost-agents-bin-")
		if err == nil {
			defer os.RemoveAll(dir)
			bin, err = dir, build(dir)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	status := m.Run()
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = max(status, 1)
	}
	if err := nobodyLeft(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = max(status, 1)
	}
	return status
}

// build makes the binaries as "make build" does.
func build(dir string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-o", dir+"/",
		"./services/supervisor/cmd/acphost", "./services/fsd", "./services/termd", "./services/permd")
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the binaries: %w\n%s", err, out)
	}
	return nil
}

// nobodyLeft makes sure that no process outlives the tests.
func nobodyLeft() error {
	list := func() ([]int, error) { return proc.Descendants(os.Getpid()) }
	left, err := list()
	if errors.Is(err, proc.ErrUnsupported) {
		return nil
	}
	if err != nil || len(left) == 0 {
		return err
	}
	said := describe(left)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(fmt.Errorf("the tests leave processes behind:\n%s", said), proc.End(ctx, list, 0))
}

// program is the path of one of the binaries under test.
func program(name string) string { return filepath.Join(bin, name) }

// describe says what processes are, a line each.
func describe(pids []int) string {
	var b strings.Builder
	for _, pid := range pids {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // it may be gone by now
		fmt.Fprintf(&b, "  %d %s\n", pid, strings.ReplaceAll(strings.TrimRight(string(line), "\x00"), "\x00", " "))
	}
	return b.String()
}
