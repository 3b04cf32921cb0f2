package ready

import (
	"path"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/permd/internal/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestThePoliciesAreListedByName(t *testing.T) {
	var got []string
	for _, p := range List() {
		got = append(got, p.GetName())
		if p.GetDescription() == "" || len(p.GetContent()) == 0 {
			t.Errorf("%s has the description %q and %d bytes", p.GetName(), p.GetDescription(), len(p.GetContent()))
		}
	}
	if want := []string{"ask", "headless", "readonly", "workspace"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	entries, err := files.ReadDir("policies")
	if err != nil || len(entries) != len(got) {
		t.Errorf("%d files, %d policies, %v", len(entries), len(got), err)
	}
}

func TestNoOtherNameIsAPolicy(t *testing.T) {
	for _, name := range []string{"", "none", "../ready", "policies/ask", `..\ask`, "ask.yaml", "ASK"} {
		if content, ok := Get(name); ok {
			t.Errorf("%q is a policy of %d bytes", name, len(content))
		}
	}
}

func TestEveryRuleSaysWhyAndIsTested(t *testing.T) {
	for _, p := range List() {
		for _, rule := range read(t, p).GetRules() {
			if rule.GetReason() == "" || len(rule.GetTests().GetMatch()) == 0 {
				t.Errorf("%s: rule %s has the reason %q and %d tests", p.GetName(), rule.GetId(), rule.GetReason(), len(rule.GetTests().GetMatch()))
			}
		}
	}
}

// decision is an action in short: a command line, or a kind and a path behind it.
type decision struct {
	want string
	what string
}

func TestThePoliciesDecideAsTheySay(t *testing.T) {
	for name, table := range map[string][]decision{"ask": askTable(), "workspace": workspaceTable(), "readonly": readonlyTable(), "headless": headlessTable()} {
		if len(table) < 40 {
			t.Errorf("%s has a table of %d decisions, want at least 40", name, len(table))
		}
		content, _ := Get(name)
		p, err := policy.Parse(name, content, policy.Surroundings{Home: "/home/u"})
		if err != nil {
			t.Errorf("%s does not load: %v", name, err)
			continue
		}
		for _, d := range table {
			got := policy.Decide([]policy.Part{{Policy: p}}, act(d.what))
			if verdict := strings.ToLower(strings.TrimPrefix(got.GetVerdict().String(), "VERDICT_")); verdict != d.want {
				t.Errorf("%s: %s: got %s by rule %q (%s), want %s", name, d.what, verdict, got.GetRule(), got.GetReason(), d.want)
			}
			if got.GetUnattended() == permissionv1.Verdict_VERDICT_ALLOW {
				t.Errorf("%s: %s: is allowed when nobody answers", name, d.what)
			}
		}
	}
}

// act builds an action. The root is /ws. "fs.read PATH [-> REAL]" is a path; anything else a command line.
func act(what string) *permissionv1.Action {
	a := &permissionv1.Action{Agent: "agent", Roots: []string{"/ws"}, ResolvedRoots: []string{"/ws"}}
	kind, rest, _ := strings.Cut(what, " ")
	if !strings.Contains(kind, ".") && kind != "elicitation" && kind != "unknown" || strings.Contains(kind, "/") {
		kind, rest = "terminal.create", what
	}
	a.Kind = kind
	if kind == "terminal.create" || kind == "tool.execute" {
		a.Command = &permissionv1.Command{Text: rest}
		a.Command.SubCommands, a.Command.Unparsed = shell.Parse(rest)
		for _, sub := range a.Command.SubCommands {
			policy.Ordinary(sub)
			for _, r := range sub.GetRedirections() {
				if r.GetPath() != "" && r.GetPath() != "/dev/null" {
					r.ResolvedPath = touch(a, r.GetPath(), "").GetResolvedPath()
				}
			}
		}
		return a
	}
	if rest != "" {
		asked, real, _ := strings.Cut(rest, " -> ")
		touch(a, asked, real)
	}
	return a
}

func touch(a *permissionv1.Action, asked, real string) *permissionv1.PathAccess {
	if !path.IsAbs(asked) {
		asked = "/ws/" + asked
	}
	if real == "" {
		real = path.Clean(asked)
	}
	inside := func(p string) bool { return p == "/ws" || strings.HasPrefix(p, "/ws/") }
	access := &permissionv1.PathAccess{Path: asked, ResolvedPath: real, InsideRoots: inside(path.Clean(asked)) && inside(real)}
	a.Paths = append(a.Paths, access)
	return access
}
