package agents

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/commandtest"
)

func TestAgentsList_ShowsInstalledAndInstallHints(t *testing.T) {
	home, env := commandtest.AgentHome(t)
	status, stdout, stderr := (&commandtest.Call{Env: env}).Run(t, newCommand, "agents", "list")
	if status != 0 || stderr != "" {
		t.Fatalf("status %d: %s", status, stderr)
	}
	testkit.Golden(t, "agents-list.txt", strings.ReplaceAll(stdout, home, "HOME"))

	status, stdout, _ = (&commandtest.Call{Env: env}).Run(t, newCommand, "agents", "list", "--json", "--installed")
	list, err := testkit.JSONLines[listedAgent]([]byte(stdout))
	if err != nil || status != 0 {
		t.Fatalf("status %d, %v: %s", status, err, stdout)
	}
	if len(list) != 2 || list[0].ID != "gemini" || list[1].ID != "mine" || list[1].Source != filepath.Join(home, ".config/acphost/agents.json") {
		t.Errorf("the list is %+v", list)
	}
}

func TestAgentsLogin_ExecutesKnownLogin(t *testing.T) {
	home, env := commandtest.AgentHome(t)
	var executed []string
	build := func(call *command.Call) *cobra.Command {
		return New(call, func(argv, _ []string, _ *proc.User, _ proc.Confinement) (int, error) { executed = argv; return 0, nil })
	}
	known := &commandtest.Call{Env: env, Terminal: true}
	if _, _, stderr := known.Run(t, build, "agents", "login", "gemini"); !slices.Equal(executed, []string{filepath.Join(home, "bin/gemini")}) {
		t.Errorf("executed %q: %s", executed, stderr)
	}
	executed = nil
	without := &commandtest.Call{Env: env}
	if status, _, stderr := without.Run(t, build, "agents", "login", "gemini"); status != 1 || executed != nil || !strings.Contains(stderr, "needs a terminal") {
		t.Errorf("status %d, executed %q: %s", status, executed, stderr)
	}
}

// newCommand returns the command without a way to become another program.
func newCommand(call *command.Call) *cobra.Command { return New(call, nil) }
