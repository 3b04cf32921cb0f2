// Package e2e_test runs the real binaries between peers that are not ours, or that a test plays byte for byte, and looks at
// what an editor, an agent and the machine get to see of it.
package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/test/wire"
)

// bin is the folder of the binaries under test: the one that ACPHOST_BIN names, or one that is built for this run.
var bin string

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], rolePrefix) {
		os.Exit(playRole(os.Args[1:]))
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	var err error
	if bin = os.Getenv("ACPHOST_BIN"); bin == "" {
		if bin, err = os.MkdirTemp("", "acphost-e2e-bin-"); err == nil {
			defer os.RemoveAll(bin)
			err = wire.Build("..", bin, "./services/supervisor/cmd/acphost", "./services/fsd", "./services/termd", "./services/permd", "./services/gatewayd", "./examples/demoagent", "./examples/echo",
				"./sdk/cmd/acphost-conformance")
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return wire.RunTests(m, stopSharedBrowser)
}

// program is the path of one of the binaries under test.
func program(name string) string { return filepath.Join(bin, name) }
