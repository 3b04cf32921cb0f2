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
		argv     []string // if that is not "grep -r x", some words of which stand otherwise in the line
	}{
		{"nothing to leave out", &permissionv1.FileUse{Path: dir + "/clean", Recursive: true}, false, Allow, "look", "Looking.", nil},
		{"nobody can tell", &permissionv1.FileUse{Path: dir, Recursive: true}, false, Ask, RuleLeaveOut, ".env", nil},
		{"the program is told", &permissionv1.FileUse{Path: dir, Recursive: true}, true, Allow, "look", "Left out: .env.", nil},
		{"where the path leads counts", &permissionv1.FileUse{Path: dir + "/clean", ResolvedPath: dir + "/secret", Recursive: true}, false, Ask,
			RuleLeaveOut, ".env", nil},
		{"names alone", &permissionv1.FileUse{Path: dir, Recursive: true, MetadataOnly: true}, false, Allow, "look", "", nil},
		{"one file", &permissionv1.FileUse{Path: dir + "/secret/x"}, false, Allow, "look", "", nil},
		{"an end of the options that the line has as a variable", &permissionv1.FileUse{Path: dir, Recursive: true}, true, Ask, RuleLeaveOut, ".env",
			[]string{"grep", "-r", "x", "--"}},
		{"another variable", &permissionv1.FileUse{Path: dir, Recursive: true}, true, Allow, "look", "Left out: .env.", []string{"grep", "-r", "x", "."}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var walking []string
			r := Request{Action: &permissionv1.Action{Kind: "terminal.create", Door: permissionv1.Door_DOOR_CALL, Command: &permissionv1.Command{
				Text: "grep -r x", SubCommands: []*permissionv1.SubCommand{{Argv: []string{"grep", "-r", "x"}, Facts: &permissionv1.Facts{Known: true,
					Files: []*permissionv1.FileUse{c.use}}}}}}}
			if sub := r.Action.GetCommand().GetSubCommands()[0]; c.argv != nil {
				sub.Argv, sub.Written = c.argv, "grep -r x $f"
			}
			if c.told {
				r.LeaveOut = func(programs []string, _ leaveout.Found) bool { walking = programs; return true }
			}
			d, err := g.Decide(t.Context(), r)
			if err != nil || d.Verdict != c.want || d.Rule != c.rule || !strings.Contains(d.Reason, c.in) {
				t.Errorf("got %v by %q: %s (%v); want %v by %q: %q", d.Verdict, d.Rule, d.Reason, err, c.want, c.rule, c.in)
			}
			if !c.told && c.use.GetRecursive() && !c.use.GetMetadataOnly() { // so it is for a search of the agent's
				d, err := g.Decide(t.Context(), Request{Action: &permissionv1.Action{Kind: "tool.search", Paths: []*permissionv1.PathAccess{
					{Path: c.use.GetPath(), ResolvedPath: c.use.GetResolvedPath(), Recursive: true}}}})
				if err != nil || d.Verdict != c.want || d.Rule != c.rule || !strings.Contains(d.Reason, c.in) {
					t.Errorf("a search: got %v by %q: %s (%v); want %v by %q: %q", d.Verdict, d.Rule, d.Reason, err, c.want, c.rule, c.in)
				}
			}
			if c.told && c.want == Allow && !slices.Equal(walking, []string{"grep"}) {
				t.Errorf("walking through folders: %q", walking)
			}
		})
	}
}
