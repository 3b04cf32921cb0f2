package containment

import (
	"slices"
	"strings"
	"testing"

	"github.com/acphost/acphost/services/supervisor/internal/policy/leaveout"
)

func TestCommand_FindsOriginalArguments(t *testing.T) {
	c := &command{rewritten: []leaveout.Rewrite{
		{Argv: []string{"git", "log", "-p"}, Told: []string{"git", "log", "-p", "--", ":!x"}},
		{Argv: []string{"grep", "x"}, Told: []string{"grep", "--exclude=y", "x"}},
	}}
	for args, want := range map[string]string{
		"git log -p -- :!x":             "git log -p",
		"/usr/bin/git log -p -- :!x":    "/usr/bin/git log -p",
		"git -C sub log -p -- :!x":      "git -C sub log -p",
		"git -C sub -C a log -p -- :!x": "git -C sub -C a log -p",
		"git -C log -p -- :!x":          "",
		"git -c a.b=c log -p -- :!x":    "",
		"git -C sub -c log -p -- :!x":   "",
		"git -p log -p -- :!x":          "",
		"git log -p":                    "",
		"git":                           "",
		"hg log -p -- :!x":              "",
		"grep --exclude=y x":            "grep x",
		"grep -C 3 --exclude=y x":       "",
		"git -C sub log -p -- :!x :!y":  "",
	} {
		if got := c.original(strings.Fields(args)); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s: got %q, want %q", args, got, want)
		}
	}
}
