package e2e_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// acphost runs acphost in the workspace of a place and returns what it printed.
func (p *place) acphost(t *testing.T, status int, args ...string) string {
	t.Helper()
	got, out, errs := p.cli(t, args...)
	if got != status {
		t.Fatalf("acphost %s: exit %d, want %d\n%s%s", strings.Join(args, " "), got, status, out, errs)
	}
	return out + errs
}

func TestRulesCanBeTriedBeforeTheyCount(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	good := p.file(t, "good.yaml", gateRules)
	bad := p.file(t, "bad.yaml", `version: 1
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
		expectContains(t, "check", p.acphost(t, 0, "policy", "check", good), "4 rules", "ok")
		expectContains(t, "check of a bad file", p.acphost(t, 1, "policy", "check", bad), "bad.yaml:5:", "pathz", "bad.yaml:10:", "git push")
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
			{[]string{"--path", p.path("a.txt"), "--on", "fs.write"}, "ask", []string{"no rule matches"}},
			{[]string{"--path", p.path("sub/.env")}, "deny", []string{"Secrets stay where they are"}},
		} {
			out := p.acphost(t, 0, append([]string{"policy", "why", "--policy", good}, c.args...)...)
			if !strings.HasPrefix(out, c.first) {
				t.Errorf("%v: the first line is not %q:\n%s", c.args, c.first, out)
			}
			expectContains(t, strings.Join(c.args, " "), out, c.parts...)
		}
	})
	t.Run("show and import", func(t *testing.T) {
		expectContains(t, "show", p.acphost(t, 0, "policy", "show"), "ask", "headless", "readonly", "workspace")
		for _, name := range []string{"ask", "headless", "readonly", "workspace"} {
			ready := p.file(t, name+".yaml", p.acphost(t, 0, "policy", "show", name))
			expectContains(t, "check of "+name, p.acphost(t, 0, "policy", "check", ready), "ok")
		}
		theirs := p.file(t, "settings.json", `{"permissions":{"allow":["Bash(npm run test:*)","WebFetch(domain:example.com)"],"deny":["Read(./.env)"]}}`)
		expectContains(t, "import", p.acphost(t, 0, "policy", "import", theirs, "--out", p.path("imported.yaml")), "WebFetch(domain:example.com)")
		expectContains(t, "check of the import", p.acphost(t, 0, "policy", "check", p.path("imported.yaml")), "ok")
	})
}

func TestWhatWasDecidedIsThereToBeAskedAbout(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.scene(t, p.policy(t, gateRules, ""))
	s.write(".env", "x").Refused(-32603)
	s.Expect("session/update")
	run := s.agent.Send("terminal/create", params("command", "date -u"))
	q := s.asked()
	s.choose(q, "allow_always")
	run.Result(nil)
	s.status(q, "in_progress")
	s.status(q, "completed")

	expectContains(t, "audit tail", p.acphost(t, 0, "audit", "tail"), "deny", ".env", "secrets", "date -u", "front")
	if out := p.acphost(t, 0, "audit", "query", "--outcome", "denied"); strings.Contains(out, "date -u") || !strings.Contains(out, ".env") {
		t.Errorf("a query for denials says\n%s", out)
	}
	var record struct {
		Outcome string
		Action  struct{ Kind string }
	}
	if err := json.Unmarshal([]byte(p.acphost(t, 0, "audit", "query", "--outcome", "denied", "--json")), &record); err != nil || record.Action.Kind != "fs.write" {
		t.Errorf("a record as JSON: %+v, %v", record, err)
	}
	looser := p.file(t, "looser.yaml", strings.Replace(gateRules, "effect: deny", "effect: allow", 1))
	expectContains(t, "replay", p.acphost(t, 0, "policy", "replay", "--policy", looser), ".env", "deny", "allow", "1 differ")

	listed := p.acphost(t, 0, "grants", "list")
	expectContains(t, "grants list", listed, "date", p.work)
	id := strings.Fields(strings.Split(listed, "\n")[1])[0]
	expectContains(t, "ListGrants", string(grpcurl(t, "-plaintext", "-unix", s.socket(), stateService+"ListGrants")), id, "GRANT_SCOPE_WORKSPACE")
	p.acphost(t, 0, "grants", "revoke", id)
	again := s.agent.Send("terminal/create", params("command", "date -u"))
	q = s.asked()
	s.choose(q, "reject_once")
	again.Refused(-32603)
	s.status(q, "failed")
	if out := p.acphost(t, 1, "grants", "revoke", id); !strings.Contains(out, id) {
		t.Errorf("revoking it twice says %q", out)
	}
	s.finish()
}

func TestAWorkspaceIsTrustedAsItIs(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.file(t, ".acphost/policy.yaml", "version: 1\nrules: [{id: dates, effect: allow, command: [date]}]\n")
	s := p.scene(t, p.policy(t, gateRules, ""))
	asked := func() {
		t.Helper()
		run := s.agent.Send("terminal/create", params("command", "date"))
		q := s.asked()
		s.choose(q, "reject_once")
		run.Refused(-32603)
		s.status(q, "failed")
	}
	asked()
	expectContains(t, "policy trust", p.acphost(t, 0, "policy", "trust", "--yes", p.work), "dates")
	asked() // it loosens, so it waits for a person
	expectContains(t, "the policies that loaded theirs", p.acphost(t, 0, "policy", "reload", "--json"), `"name":"permission"`, `"supervisor":`)
	s.agent.Request("terminal/create", params("command", "date"), nil)
	if err := os.WriteFile(p.path(".acphost/policy.yaml"), []byte("version: 1\nrules: [{id: dates, effect: allow, command: [date, id]}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	asked()
	s.finish()
}
