package gate

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/leaveout"
)

func TestACommandThatWalksReadsNothingThatAPolicyKeepsFromIt(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"clean", "secret"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "secret", ".env"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	g := gateWith(true, func(context.Context) (*permissionv1.DecideResponse, error) {
		return &permissionv1.DecideResponse{Verdict: Allow, Rule: "look", Reason: "Looking.", LeaveOut: []string{"**/.env"}}, nil
	})
	for _, c := range []struct {
		name     string
		use      *permissionv1.FileUse
		told     bool // somebody can tell the program
		want     permissionv1.Verdict
		rule, in string
	}{
		{"nothing to leave out", &permissionv1.FileUse{Path: dir + "/clean", Recursive: true}, false, Allow, "look", "Looking."},
		{"nobody can tell", &permissionv1.FileUse{Path: dir, Recursive: true}, false, Ask, RuleLeaveOut, ".env"},
		{"the program is told", &permissionv1.FileUse{Path: dir, Recursive: true}, true, Allow, "look", "Left out: .env."},
		{"where the path leads counts", &permissionv1.FileUse{Path: dir + "/clean", ResolvedPath: dir + "/secret", Recursive: true}, false, Ask,
			RuleLeaveOut, ".env"},
		{"names alone", &permissionv1.FileUse{Path: dir, Recursive: true, MetadataOnly: true}, false, Allow, "look", ""},
		{"one file", &permissionv1.FileUse{Path: dir + "/secret/x"}, false, Allow, "look", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var walking [][]string
			r := Request{Action: &permissionv1.Action{Kind: "terminal.create", Door: permissionv1.Door_DOOR_CALL, Command: &permissionv1.Command{
				Text: "grep -r x", SubCommands: []*permissionv1.SubCommand{{Argv: []string{"grep", "-r", "x"}, Facts: &permissionv1.Facts{Known: true,
					Files: []*permissionv1.FileUse{c.use}}}}}}}
			if c.told {
				r.LeaveOut = func(commands [][]string, _ leaveout.Found) bool { walking = commands; return true }
			}
			d, err := g.Decide(t.Context(), r)
			if err != nil || d.Verdict != c.want || d.Rule != c.rule || !strings.Contains(d.Reason, c.in) {
				t.Errorf("got %v by %q: %s (%v); want %v by %q: %q", d.Verdict, d.Rule, d.Reason, err, c.want, c.rule, c.in)
			}
			if c.told && (len(walking) != 1 || !slices.Equal(walking[0], []string{"grep", "-r", "x"})) {
				t.Errorf("walking through folders: %q", walking)
			}
		})
	}
}
