package agents

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/acphost/acphost/sdk/proc"
	"github.com/acphost/acphost/test/wire"
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
			bin, err = dir, wire.Build("../..", dir, "./services/supervisor/cmd/acphost", "./services/fsd", "./services/termd", "./services/permd")
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
	if err := wire.NobodyLeft(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = max(status, 1)
	}
	return status
}

// program is the path of one of the binaries under test.
func program(name string) string { return filepath.Join(bin, name) }
