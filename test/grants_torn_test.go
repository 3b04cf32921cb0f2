package e2e_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
)

// TestGrants_WarnOfLineThatIsCutOff has the last of two remembered answers half written, as a full disk leaves it.
func TestGrants_WarnOfLineThatIsCutOff(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	flags := p.policy(t, gateRules, "")
	remember := func(s *scene, command string) {
		t.Helper()
		run := s.agent.Send("terminal/create", params("command", command))
		q := s.asked()
		s.choose(q, "allow_always")
		run.Result(nil)
		s.status(q, "in_progress")
		s.status(q, "completed")
	}
	s := p.scene(t, flags)
	remember(s, "date -u")
	remember(s, "uname")
	s.finish()
	file := filepath.Join(p.home, ".local", "state", "acphost", "grants.jsonl")
	whole := must(t, file)
	lines := bytes.SplitAfter(whole, []byte("\n"))
	if len(lines) != 3 {
		t.Fatalf("the file of answers holds %q, want two lines", whole)
	}
	left := len(lines[1]) / 2
	if err := os.Truncate(file, int64(len(lines[0])+left)); err != nil {
		t.Fatal(err)
	}

	warning := fmt.Sprintf("line=2 error=\"it is cut off after %d bytes: the disk was full, or acphost was killed, while it was written\"", left)
	status, out, errs := p.cli(t, "grants", "list")
	if status != 0 || !strings.Contains(out, "date") || strings.Contains(out, "uname") {
		t.Errorf("grants list: %d, %s, want the answer of the line before", status, out)
	}
	expectContains(t, "the warning of grants list", errs, "a line of the remembered answers cannot be used", file, warning)

	s = p.scene(t, flags)
	testkit.Eventually(t, "the supervisor warns", func() bool { return strings.Contains(s.Stderr(), warning) })
	s.agent.Request("terminal/create", params("command", "date -u"), nil) // the whole line still counts
	remember(s, "uname")
	s.finish()
	if _, out, errs := p.cli(t, "grants", "list"); !strings.Contains(out, "uname") || errs != "" {
		t.Errorf("after another answer, grants list prints %s%s, want both and no warning", out, errs)
	}
}
