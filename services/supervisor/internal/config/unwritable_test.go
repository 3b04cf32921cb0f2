package config_test

import (
	"os"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/users"
)

func TestUnwritable_NamesFolderOfOtherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root has capabilities to lose")
	}
	u, err := users.Find("nobody")
	if err != nil {
		t.Skip("this system has no user nobody to run agents as: ", err)
	}
	nobody := int(u.UID)
	dir := t.TempDir()
	for name, c := range map[string]struct {
		config string
		owner  int
		mode   os.FileMode
		says   string
	}{
		"root's own":           {"", 0, 0o755, ""},
		"somebody else's":      {"", nobody, 0o755, ": set agent.user to that user"},
		"one who is not known": {"", 59999, 0o755, ": add that user"},
		"open to everybody":    {"", nobody, 0o777, ""},
		"with the capability":  {"agent: {capabilities: [DAC_OVERRIDE]}", nobody, 0o755, ""},
		"with another one":     {"agent: {capabilities: [CHOWN]}", nobody, 0o755, ": set agent.user"},
		"agents of their user": {"agent: {user: nobody}", nobody, 0o755, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.Chown(dir, c.owner, c.owner); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(dir, c.mode); err != nil {
				t.Fatal(err)
			}
			got := load(t, c.config).Unwritable(dir)
			if (got != "") != (c.says != "") || !strings.Contains(got, c.says) || got != "" && !strings.Contains(got, dir) {
				t.Errorf("it says %q", got)
			}
		})
	}
}
