package policy_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/acphost/acphost/test/e2e"
)

// TestReuse_EndsWhenRulesChange reads files of one folder, of which only the first needs an answer of permd, and
// changes the rules in between.
func TestReuse_EndsWhenRulesChange(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	for _, name := range []string{"a", "b", "c", "d", ".env", "sub/a"} {
		p.File(t, name, name)
	}
	s := p.Fixture(t, p.Policy(t, e2e.GateRules, ""))
	allowed := func(name, rule string, reused bool) {
		t.Helper()
		if got := e2e.Content(s.Read(name)); got != name {
			t.Errorf("%s is read as %q", name, got)
		}
		if got := lastDecision(t, p); got.Rule != rule || got.Reused != reused || got.Outcome != "allowed" || got.AnsweredBy != "policy" || got.PolicyDigest == "" ||
			!strings.HasPrefix(got.Plugin, "permd ") || len(got.Action.Paths) != 1 || got.Action.Paths[0].Path != p.Path(name) {
			t.Errorf("%s: the audit has %+v", name, got)
		}
	}
	refused := func(name, rule string) {
		t.Helper()
		s.Read(name).Refused(-32603)
		s.Expect("session/update") // the user is notified
		if got := lastDecision(t, p); got.Rule != rule || got.Reused || got.Outcome != "denied" {
			t.Errorf("%s: the audit has %+v", name, got)
		}
	}
	allowed("a", "reading", false)
	allowed("b", "reading", true)
	allowed("sub/a", "reading", false)
	refused(".env", "secrets")
	for link, to := range map[string]string{"c1": ".env", "sub/b": p.Path(".env")} {
		if err := os.Symlink(to, p.Path(link)); err != nil {
			t.Fatal(err)
		}
		refused(link, "secrets")
	}
	// A file that was read becomes a link.
	if err := os.Remove(p.Path("b")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(".env", p.Path("b")); err != nil {
		t.Fatal(err)
	}
	refused("b", "secrets")
	allowed("a", "reading", true)

	// Stricter rules apply to the next read, without a reload.
	for i := range 3 {
		rule := fmt.Sprintf("no-more-%d", i)
		p.File(t, "../config/policy.yaml", strings.Replace(e2e.GateRules, "rules:\n", "rules:\n  - {id: "+rule+", effect: deny, path: [\"**/c\"]}\n", 1))
		refused("c", rule)
		allowed("a", "reading", false)
		p.File(t, "../config/policy.yaml", e2e.GateRules)
		if status, out, errs := p.Cli(t, "policy", "reload"); status != 0 {
			t.Fatalf("acphost policy reload: %s%s", out, errs)
		}
		allowed("c", "reading", false)
		allowed("a", "reading", true)
	}

	// A workspace's own rules count once they appear, and permd's end ends its answers.
	p.File(t, ".acphost/policy.yaml", "version: 1\nrules: [{id: guests, effect: deny, path: [\"**/c\", \"**/d\"]}]\n")
	refused("c", "guests")
	allowed("a", "reading", false)
	allowed("a", "reading", true)
	crash(s, "permd")
	allowed("a", "reading", false)
	refused("d", "guests")
	s.Finish()
}
