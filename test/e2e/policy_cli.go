package e2e

import (
	"strings"
	"testing"
)

// Acphost runs acphost in the workspace of a place and returns what it printed.
func (p *Place) Acphost(t *testing.T, status int, args ...string) string {
	t.Helper()
	got, out, errs := p.Cli(t, args...)
	if got != status {
		t.Fatalf("acphost %s: exit %d, want %d\n%s%s", strings.Join(args, " "), got, status, out, errs)
	}
	return out + errs
}
