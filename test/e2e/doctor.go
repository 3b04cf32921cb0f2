package e2e

import (
	"encoding/json"
	"testing"

	_ "github.com/acphost/acphost/internal/sandbox/sandboxed" // has sandbox.Supported try
)

// examined is the output of "doctor --json".
type examined struct {
	OK       bool
	Findings []struct{ Area, Check, Level, Detail, Todo string }
}

// Doctor runs it, and returns what it found by area and check.
func (p *Place) Doctor(t *testing.T, args ...string) (status int, found map[string]string) {
	t.Helper()
	status, out, errs := p.Cli(t, append([]string{"doctor", "--json"}, args...)...)
	var e examined
	if err := json.Unmarshal([]byte(out), &e); err != nil {
		t.Fatalf("doctor: %d, %v: %s%s", status, err, out, errs)
	}
	if e.OK != (status == 0) || errs != "" {
		t.Errorf("ok is %v and the exit status %d: %s", e.OK, status, errs)
	}
	found = map[string]string{}
	for _, f := range e.Findings {
		found[f.Area+"/"+f.Check] += f.Level + ": " + f.Detail + " -> " + f.Todo + "\n"
	}
	return status, found
}
