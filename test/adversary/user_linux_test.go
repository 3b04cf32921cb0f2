package adversary

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/test/wire"
)

// TestUser_LimitsActionsForAgent: agent.user is the strongest protection only if no process of another user acts for
// the agent beyond the agent's rights.
func TestUser_LimitsActionsForAgent(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can run an agent as somebody else")
	}
	const nobody = 65534
	p := wire.NewPlace(t)
	for path, mode := range map[string]os.FileMode{p.Home: 0o711, filepath.Join(p.Home, "tmp"): 0o733, p.Work: 0o755} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(p.Work, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	p.File(t, "roots.txt", "for root alone")
	p.File(t, "roots/file", "x") // a folder of root's
	s := openFixtureAt(t, p, configured("agent: {user: nobody}\n"))
	s.noPerson()
	for _, h := range []*hand{s.hand, s.command()} {
		if got := h.try("status", "Uid").of(t, "Uid").Got; got != strings.Repeat("65534\t", 3)+"65534" {
			t.Errorf("ATTACK SUCCEEDED: %s runs as %q", h.name, got)
		}
		h.leave()
	}
	if out, allowed := s.runs("id -u; cat roots.txt; touch roots/made", s.Work); !allowed || strings.Contains(out, "for root alone") || !strings.HasPrefix(out, "65534") {
		t.Errorf("ATTACK SUCCEEDED: a command runs as root: %q", out)
	}
	if got := s.agent.Send("fs/read_text_file", params("path", s.Path("roots.txt"))).Answer(); strings.Contains(string(got.Raw), "for root alone") {
		t.Errorf("ATTACK SUCCEEDED: a file of root's was read: %s", got.Raw)
	}
	for _, name := range []string{"roots/made", "roots/file", "roots.txt", "roots/new/folder"} {
		if got := s.agent.Send("fs/write_text_file", params("path", s.Path(name), "content", "overwritten")).Answer(); got.Error == nil {
			t.Errorf("ATTACK SUCCEEDED: %s was written: %s", name, got.Raw)
		}
	}
	for _, name := range []string{"roots/made", "roots/new"} {
		notWritten(t, s.Path(name))
	}
	if text, err := os.ReadFile(s.Path("roots.txt")); err != nil || string(text) != "for root alone" {
		t.Errorf("ATTACK SUCCEEDED: a file of root's is %q (%v)", text, err)
	}
	if got := s.agent.Send("fs/write_text_file", params("path", s.Path("mine.txt"), "content", "mine")).Answer(); got.Error != nil {
		t.Errorf("it cannot write what it may: %s", got.Raw)
	} else if info, err := os.Stat(s.Path("mine.txt")); err != nil || ownerOf(info) != nobody {
		t.Errorf("ATTACK SUCCEEDED: what it wrote is root's (%v)", err)
	}
	s.finish()
}
