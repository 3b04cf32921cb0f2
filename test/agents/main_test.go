package agents

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/acphost/acphost/test/wire"
)

// installed names the folder in which the agents are, by "npm install" there. Without it every test that needs one is
// skipped.
const installed = "ACPHOST_AGENTS"

// bin is the folder of the binaries under test: the one that ACPHOST_BIN names, or one that is built for this run.
var bin string

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
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
	return wire.RunTests(m)
}

// program is the path of one of the binaries under test.
func program(name string) string { return filepath.Join(bin, name) }
