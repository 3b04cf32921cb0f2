package policy_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/e2e"
)

// TestGrants_WarnOfTruncatedLine truncates the last of two remembered answers, as a full disk does.
func TestGrants_WarnOfTruncatedLine(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	flags := p.Policy(t, e2e.GateRules, "")
	remember := func(s *e2e.Fixture, command string) {
		t.Helper()
		run := s.Agent.Send("terminal/create", e2e.Params("command", command))
		q := s.Asked()
		s.Choose(q, "allow_always")
		run.Result(nil)
		s.Status(q, "in_progress")
		s.Status(q, "completed")
	}
	s := p.Fixture(t, flags)
	remember(s, "date -u")
	remember(s, "uname")
	s.Finish()
	file := filepath.Join(p.Home, ".local", "state", "acphost", "grants.jsonl")
	whole := e2e.Must(t, file)
	lines := bytes.SplitAfter(whole, []byte("\n"))
	if len(lines) != 3 {
		t.Fatalf("the file of answers holds %q, want two lines", whole)
	}
	left := len(lines[1]) / 2
	if err := os.Truncate(file, int64(len(lines[0])+left)); err != nil {
		t.Fatal(err)
	}

	warning := fmt.Sprintf("line=2 error=\"it is cut off after %d bytes: the disk was full, or acphost was killed, while it was written\"", left)
	status, out, errs := p.Cli(t, "grants", "list")
	if status != 0 || !strings.Contains(out, "date") || strings.Contains(out, "uname") {
		t.Errorf("grants list: %d, %s, want the answer of the line before", status, out)
	}
	e2e.ExpectContains(t, "the warning of grants list", errs, "a line of the remembered answers cannot be used", file, warning)

	s = p.Fixture(t, flags)
	testkit.Eventually(t, "the supervisor warns", func() bool { return strings.Contains(s.Stderr(), warning) })
	s.Agent.Request("terminal/create", e2e.Params("command", "date -u"), nil) // the whole line still counts
	remember(s, "uname")
	s.Finish()
	if _, out, errs := p.Cli(t, "grants", "list"); !strings.Contains(out, "uname") || errs != "" {
		t.Errorf("after another answer, grants list prints %s%s, want both and no warning", out, errs)
	}
}
