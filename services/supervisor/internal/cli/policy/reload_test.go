package policy

import (
	"testing"

	"github.com/spf13/cobra"

	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/commandtest"
)

func TestPolicyReload_PrintsEffectiveFiles(t *testing.T) {
	env := commandtest.ServeHandlers(t, &commandtest.Control{}, 4711)
	build := func(call *command.Call) *cobra.Command { return New(call, nil) }
	status, stdout, stderr := (&commandtest.Call{Env: env}).Run(t, build, "policy", "reload", "--pid", "4711")
	if status != 0 || stdout != "permission: ready, permd\\u{1b} 2, process 99\n  two rules\n" {
		t.Errorf("status %d, printed %q: %s", status, stdout, stderr)
	}
}
