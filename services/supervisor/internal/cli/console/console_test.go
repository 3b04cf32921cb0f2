package console

import (
	"strings"
	"testing"

	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/commandtest"
)

func TestConsole_RefusesAgents(t *testing.T) {
	for _, args := range [][]string{{"aaaaa-aaaaa"}, {"--list"}, {"--sign-out", "x"}} {
		status, out, errs := (&commandtest.Call{Agent: true, Terminal: true}).Run(t, New, append([]string{"console"}, args...)...)
		if status == 0 || out != "" || !strings.Contains(errs, "is for people") {
			t.Errorf("%q: status %d, %q, %q", args, status, out, errs)
		}
	}
}

func TestConsole_UsageErrors(t *testing.T) {
	for want, args := range map[string][]string{
		"expected the one code":   {},
		"exactly one is required": {"aaaaa-aaaaa", "--list"},
		`got "root"`:              {"aaaaa-aaaaa", "--role", "root"},
		"--for: expected":         {"aaaaa-aaaaa", "--for", "1000h"},
		"--json is for --list":    {"aaaaa-aaaaa", "--json"},
	} {
		if status, out, errs := (&commandtest.Call{}).Run(t, New, append([]string{"console"}, args...)...); status != 2 || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%q: %d, %q, %q, want %q", args, status, out, errs, want)
		}
	}
}
