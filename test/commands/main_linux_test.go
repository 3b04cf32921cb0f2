package commands

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/acphost/acphost/test/wire"
)

// bin is the folder of the programs under test: the one that ACPHOST_BIN names, or one that is built for this run.
var bin string

// puppet is how this program is started as an agent that a test plays.
const puppet = "agent-that-a-test-plays"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == puppet {
		if err := wire.Puppet(os.Args[2], false); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	var err error
	if bin = os.Getenv("ACPHOST_BIN"); bin == "" {
		if bin, err = os.MkdirTemp("", "acphost-commands-bin-"); err == nil {
			defer os.RemoveAll(bin)
			err = wire.Build("../..", bin, "./services/supervisor/cmd/acphost", "./services/fsd", "./services/termd", "./services/permd")
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return wire.RunTests(m)
}

func program(name string) string { return filepath.Join(bin, name) }
