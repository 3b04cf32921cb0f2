package e2e_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestAnAnswerForAFolderHoldsUntilTheRulesChange reads files of one folder, of which permd is asked about the first alone, and
// changes in between what the answer goes by.
func TestAnAnswerForAFolderHoldsUntilTheRulesChange(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for _, name := range []string{"a", "b", "c", "d", ".env", "sub/a"} {
		p.file(t, name, name)
	}
	s := p.scene(t, p.policy(t, gateRules, ""))
	allowed := func(name, rule string, reused bool) {
		t.Helper()
		if got := content(s.read(name)); got != name {
			t.Errorf("%s is read as %q", name, got)
		}
		if got := p.lastDecision(t); got.Rule != rule || got.Reused != reused || got.Outcome != "allowed" || got.AnsweredBy != "policy" || got.PolicyDigest == "" ||
			!strings.HasPrefix(got.Plugin, "permd ") || len(got.Action.Paths) != 1 || got.Action.Paths[0].Path != p.path(name) {
			t.Errorf("%s: the audit says %+v", name, got)
		}
	}
	refused := func(name, rule string) {
		t.Helper()
		s.read(name).Refused(-32603)
		s.Expect("session/update") // the user is told
		if got := p.lastDecision(t); got.Rule != rule || got.Reused || got.Outcome != "denied" {
			t.Errorf("%s: the audit says %+v", name, got)
		}
	}
	allowed("a", "reading", false)
	allowed("b", "reading", true)
	allowed("sub/a", "reading", false)
	refused(".env", "secrets")
	for link, to := range map[string]string{"c1": ".env", "sub/b": p.path(".env")} {
		if err := os.Symlink(to, p.path(link)); err != nil {
			t.Fatal(err)
		}
		refused(link, "secrets")
	}
	// A file that was read becomes a link.
	if err := os.Remove(p.path("b")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(".env", p.path("b")); err != nil {
		t.Fatal(err)
	}
	refused("b", "secrets")
	allowed("a", "reading", true)

	// What is stricter counts with the next read, though nobody has loaded it.
	for i := range 3 {
		rule := fmt.Sprintf("no-more-%d", i)
		p.file(t, "../config/policy.yaml", strings.Replace(gateRules, "rules:\n", "rules:\n  - {id: "+rule+", effect: deny, path: [\"**/c\"]}\n", 1))
		refused("c", rule)
		allowed("a", "reading", false)
		p.file(t, "../config/policy.yaml", gateRules)
		if status, out, errs := p.cli(t, "policy", "reload"); status != 0 {
			t.Fatalf("acphost policy reload: %s%s", out, errs)
		}
		allowed("c", "reading", false)
		allowed("a", "reading", true)
	}

	// A workspace's own rules count once they appear, and permd's end ends its answers.
	p.file(t, ".acphost/policy.yaml", "version: 1\nrules: [{id: guests, effect: deny, path: [\"**/c\", \"**/d\"]}]\n")
	refused("c", "guests")
	allowed("a", "reading", false)
	allowed("a", "reading", true)
	s.crash("permd")
	allowed("a", "reading", false)
	refused("d", "guests")
	s.finish()
}
