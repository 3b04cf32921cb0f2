// Package e2e has the shared code of the packages of end-to-end tests (test/cli, test/console, test/docs, test/gateway,
// test/handlers, test/headless, test/policy, test/protocol and test/terminal). They run the real binaries between
// foreign peers, or peers that a test plays byte for byte, and check the effects on an editor, an agent and the
// machine.
package e2e

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

// Main runs the tests of a package in the folder test/, so that paths in tests are relative to that in each package; or
// it plays an agent, if the test binary is started as one (Role). atEnd are called when the tests have ended.
func Main(m *testing.M, atEnd ...func()) {
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], rolePrefix) {
		os.Exit(playRole(os.Args[1:]))
	}
	if err := os.Chdir(".."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(runTests(m, atEnd))
}

func runTests(m *testing.M, atEnd []func()) int {
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
	return wire.RunTests(m, atEnd...)
}

// Program is the path of one of the binaries under test.
func Program(name string) string { return filepath.Join(bin, name) }
