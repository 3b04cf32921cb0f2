package doctor

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/commandtest"
)

func TestDoctor_RejectsCwdThatIsNotFolder(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	doctor := func(call *command.Call) *cobra.Command { return New(call, nil) }
	status, _, stderr := (&commandtest.Call{Env: map[string]string{}}).Run(t, doctor, "doctor", "--cwd", missing)
	if status != command.StatusUsage || !strings.Contains(stderr, "--cwd: ") || !strings.Contains(stderr, missing) {
		t.Errorf("status %d, %q; want that --cwd names no folder", status, stderr)
	}
}
