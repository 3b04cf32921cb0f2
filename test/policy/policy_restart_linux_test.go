package policy_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/e2e"
)

func TestPolicyRestart_KeepsTrust(t *testing.T) {
	t.Parallel()
	const guests = "version: 1\nrules: [{id: guests, effect: deny, path: [\"**/guarded\"]}]\n"
	looser := strings.Replace(e2e.Rules, `effect: deny, path: ["**/.env"]`, `effect: allow, path: ["**/.env"]`, 1)
	stricter := strings.Replace(e2e.Rules, "rules:\n", "rules:\n  - {id: no-more, effect: deny, path: [\"**/a\"]}\n", 1)
	p := e2e.NewPlace(t)
	workspaces := filepath.Join(p.Work, ".acphost", "policy.yaml")
	p.File(t, ".acphost/policy.yaml", guests)
	s := p.Fixture(t, p.Policy(t, e2e.Rules, ""))
	p.File(t, "../config/policy.yaml", looser)
	crash(s, "permd") // before it has decided anything
	s.Decided(t, ".env", "no")
	s.Decided(t, "guarded", "no")
	s.Decided(t, "a", "yes")
	p.File(t, "../config/policy.yaml", stricter)
	s.Decided(t, "a", "no")
	p.File(t, "../config/policy.yaml", looser)
	if err := os.Remove(workspaces); err != nil {
		t.Fatal(err)
	}
	crash(s, "permd")
	s.Decided(t, ".env", "no")
	s.Decided(t, "a", "no")
	s.Decided(t, "guarded", "no")
	if status, out, errs := p.Cli(t, "handler", "restart", "permission"); status != 0 {
		t.Fatalf("acphost handler restart: %s%s", out, errs)
	}
	testkit.Eventually(t, "the restart is logged", func() bool {
		return strings.Contains(s.Stderr(), "a handler was restarted on a person's order")
	})
	s.Decided(t, ".env", "no")
	if status, out, errs := p.Cli(t, "policy", "reload"); status != 0 {
		t.Fatalf("acphost policy reload: %s%s", out, errs)
	}
	s.Decided(t, ".env", "yes")
	s.Decided(t, "a", "yes")
	s.Decided(t, "guarded", "yes")
	crash(s, "permd") // what a person has loaded counts
	s.Decided(t, ".env", "yes")
	s.Finish()
}

func TestPolicyRestart_ChangedFilesLoseTrust(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	file := p.File(t, "../config/rules.txt", "strict")
	s := p.Fixture(t, p.Config(t, `handlers:
  permission: {command: [`+e2e.Program("businesshours")+`], settings: {paths: [`+p.Work+`, `+file+`], from: 0, until: 24}}
`))
	call := func(want string) {
		t.Helper()
		reading := map[string]any{"toolCallId": "t1", "title": "Read", "kind": "read", "locations": []any{map[string]any{"path": p.Path("a")}}}
		s.Answered(t, s.Ask(reading, e2e.Options), want)
	}
	call("yes")
	p.File(t, "b", "the workspace changes")
	crash(s, "businesshours")
	call("yes")
	p.File(t, "../config/rules.txt", "loose!")
	call("yes") // it has not read that
	p.File(t, "../config/rules.txt", "strict")
	crash(s, "businesshours")
	call("asked")
	if got := lastDecision(t, p); got.Rule != "acphost/reload-needed" || !strings.Contains(got.Reason, file) || !strings.Contains(got.Reason, "acphost policy reload") {
		t.Errorf("the audit has %+v", got)
	}
	if status, out, errs := p.Cli(t, "policy", "reload"); status != 0 {
		t.Fatalf("acphost policy reload: %s%s", out, errs)
	}
	call("yes")
	s.Finish()
}

// crash kills a policy and waits for the next one.
func crash(s *e2e.Fixture, program string) {
	s.T.Helper()
	pid := s.Daemon(program)
	s.Signal(pid, syscall.SIGKILL)
	if !testkit.Poll(func() bool {
		state := s.Handler("permission")
		return state.State == "HANDLER_STATE_READY" && state.PID.String() != "" && s.Daemon(program) != pid
	}) {
		s.T.Fatalf("%s does not come back: %+v", program, s.Handler("permission"))
	}
}
