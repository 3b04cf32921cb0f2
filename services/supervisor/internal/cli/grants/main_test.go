package grants

import (
	"context"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/acphost/acphost/internal/peer"
	"github.com/acphost/acphost/internal/rundir"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/commandtest"
)

// asProgram makes the test binary be acphost, for a test that needs a process.
const asProgram = "ACPHOST_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		call := &command.Call{
			Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.Getenv,
			Sockets: rundir.Dirs, FromAgent: peer.FromAgent,
		}
		os.Exit(commandtest.Execute(context.Background(), call, New, os.Args[1:]))
	}
	goleak.VerifyTestMain(m)
}
