package policy_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/acphost/acphost/test/e2e"
)

func TestPolicyCLI_TryRules(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	good := p.File(t, "good.yaml", e2e.GateRules)
	bad := p.File(t, "bad.yaml", `version: 1
rules:
  - id: typo
    effect: deny
    when: action.pathz.exists(p, true)
  - id: wrong
    effect: allow
    command: ["git status"]
    tests:
      match: [{command: "git push"}]
`)
	t.Run("check", func(t *testing.T) {
		e2e.ExpectContains(t, "check", p.Acphost(t, 0, "policy", "check", good), "4 rules", "ok")
		e2e.ExpectContains(t, "check of a bad file", p.Acphost(t, 1, "policy", "check", bad), "bad.yaml:5:", "pathz", "bad.yaml:10:", "git push")
	})
	t.Run("why", func(t *testing.T) {
		for _, c := range []struct {
			args  []string
			first string
			parts []string
		}{
			{[]string{"--command", "ls && cat <.env"}, "deny", []string{"secrets", "matches **/.env", "cat"}},
			{[]string{"--command", "ls; echo $(reboot)"}, "ask", []string{"reboot"}},
			{[]string{"--command", "ls -la"}, "allow", []string{"looking"}},
			{[]string{"--path", p.Path("a.txt"), "--on", "fs.write"}, "ask", []string{"no rule matches"}},
			{[]string{"--path", p.Path("sub/.env")}, "deny", []string{"Secrets stay where they are"}},
		} {
			out := p.Acphost(t, 0, append([]string{"policy", "why", "--policy", good}, c.args...)...)
			if !strings.HasPrefix(out, c.first) {
				t.Errorf("%v: the first line is not %q:\n%s", c.args, c.first, out)
			}
			e2e.ExpectContains(t, strings.Join(c.args, " "), out, c.parts...)
		}
	})
	t.Run("show and import", func(t *testing.T) {
		e2e.ExpectContains(t, "show", p.Acphost(t, 0, "policy", "show"), "ask", "headless", "readonly", "workspace")
		for _, name := range []string{"ask", "headless", "readonly", "workspace"} {
			ready := p.File(t, name+".yaml", p.Acphost(t, 0, "policy", "show", name))
			e2e.ExpectContains(t, "check of "+name, p.Acphost(t, 0, "policy", "check", ready), "ok")
		}
		theirs := p.File(t, "settings.json", `{"permissions":{"allow":["Bash(npm run test:*)","WebFetch(domain:example.com)"],"deny":["Read(./.env)"]}}`)
		e2e.ExpectContains(t, "import", p.Acphost(t, 0, "policy", "import", theirs, "--out", p.Path("imported.yaml")), "WebFetch(domain:example.com)")
		e2e.ExpectContains(t, "check of the import", p.Acphost(t, 0, "policy", "check", p.Path("imported.yaml")), "ok")
	})
}

func TestAudit_ShowsDecisions(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, p.Policy(t, e2e.GateRules, ""))
	s.WriteFile(".env", "x").Refused(-32603)
	s.Expect("session/update")
	run := s.Agent.Send("terminal/create", e2e.Params("command", "date -u"))
	q := s.Asked()
	s.Choose(q, "allow_always")
	run.Result(nil)
	s.Status(q, "in_progress")
	s.Status(q, "completed")

	e2e.ExpectContains(t, "audit tail", p.Acphost(t, 0, "audit", "tail"), "deny", ".env", "secrets", "date -u", "front")
	if out := p.Acphost(t, 0, "audit", "query", "--outcome", "denied"); strings.Contains(out, "date -u") || !strings.Contains(out, ".env") {
		t.Errorf("a query for denials prints\n%s", out)
	}
	var record struct {
		Outcome string
		Action  struct{ Kind string }
	}
	if err := json.Unmarshal([]byte(p.Acphost(t, 0, "audit", "query", "--outcome", "denied", "--json")), &record); err != nil || record.Action.Kind != "fs.write" {
		t.Errorf("a record as JSON: %+v, %v", record, err)
	}
	looser := p.File(t, "looser.yaml", strings.Replace(e2e.GateRules, "effect: deny", "effect: allow", 1))
	e2e.ExpectContains(t, "replay", p.Acphost(t, 0, "policy", "replay", "--policy", looser), ".env", "deny", "allow", "1 differ")

	listed := p.Acphost(t, 0, "grants", "list")
	e2e.ExpectContains(t, "grants list", listed, "date", p.Work)
	id := strings.Fields(strings.Split(listed, "\n")[1])[0]
	e2e.ExpectContains(t, "ListGrants", string(e2e.Grpcurl(t, "-plaintext", "-unix", s.Socket(), e2e.StateService+"ListGrants")), id, "GRANT_SCOPE_WORKSPACE")
	p.Acphost(t, 0, "grants", "revoke", id)
	again := s.Agent.Send("terminal/create", e2e.Params("command", "date -u"))
	q = s.Asked()
	s.Choose(q, "reject_once")
	again.Refused(-32603)
	s.Status(q, "failed")
	if out := p.Acphost(t, 1, "grants", "revoke", id); !strings.Contains(out, id) {
		t.Errorf("revoking it twice prints %q", out)
	}
	s.Finish()
}

func TestPolicyTrust_CoversCurrentContent(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	p.File(t, ".acphost/policy.yaml", "version: 1\nrules: [{id: dates, effect: allow, command: [date]}]\n")
	s := p.Fixture(t, p.Policy(t, e2e.GateRules, ""))
	asked := func() {
		t.Helper()
		run := s.Agent.Send("terminal/create", e2e.Params("command", "date"))
		q := s.Asked()
		s.Choose(q, "reject_once")
		run.Refused(-32603)
		s.Status(q, "failed")
	}
	asked()
	e2e.ExpectContains(t, "policy trust", p.Acphost(t, 0, "policy", "trust", "--yes", p.Work), "dates")
	asked() // it loosens, so it waits for a person
	e2e.ExpectContains(t, "the policies that loaded theirs", p.Acphost(t, 0, "policy", "reload", "--json"), `"name":"permission"`, `"supervisor":`)
	s.Agent.Request("terminal/create", e2e.Params("command", "date"), nil)
	if err := os.WriteFile(p.Path(".acphost/policy.yaml"), []byte("version: 1\nrules: [{id: dates, effect: allow, command: [date, id]}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	asked()
	s.Finish()
}
