package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/test/e2e"
)

// TestPrompt_FindsDemoAgentBesideAcphost: pages name the demo agent without a path, and after an installation by npm,
// Homebrew or "go install" its folder may not be in PATH.
func TestPrompt_FindsDemoAgentBesideAcphost(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if _, err := os.Stat(filepath.Join(dir, "demoagent")); err == nil {
			t.Skipf("demoagent is in %s, a folder of PATH", dir)
		}
	}
	for name, args := range map[string][]string{
		"prompt": {"prompt", "--policy", "workspace", "repeat hello", "--", "demoagent"},
		"run":    {"run", "--policy", "workspace", "--", "demoagent"}, // the client has ended already
	} {
		t.Run(name, func(t *testing.T) {
			if code, out, errs := p.Cli(t, args...); code != 0 || strings.Contains(out+errs, "not found") {
				t.Errorf("%q: status %d\n%s%s", args, code, out, errs)
			}
		})
	}
}
