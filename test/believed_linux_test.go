package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/wire"
)

// crash kills a policy and waits for the next one.
func (s *scene) crash(program string) {
	s.t.Helper()
	pid := s.daemon(program)
	s.signal(pid, syscall.SIGKILL)
	if !testkit.Poll(func() bool {
		state := s.handler("permission")
		return state.State == "HANDLER_STATE_READY" && state.PID.String() != "" && s.daemon(program) != pid
	}) {
		s.t.Fatalf("%s does not come back: %+v", program, s.handler("permission"))
	}
}

// decided asks about an edit, and expects the option that a policy chooses, or "asked": a person is asked.
func (s *scene) decided(t *testing.T, path, want string) {
	t.Helper()
	s.answered(t, s.ask(edit(s.path(path)), options), want)
}

// answered expects the option that a policy chooses, or "asked": a person is asked, and cancels.
func (s *scene) answered(t *testing.T, request *wire.Call, want string) {
	t.Helper()
	if want == "asked" {
		s.Reply(s.Expect("session/request_permission"), map[string]any{"outcome": map[string]any{"outcome": "cancelled"}})
		want = "cancelled"
	}
	if got := chosen(t, request); got != want {
		t.Errorf("the answer is %q, want %q", got, want)
	}
}

func TestAPolicyThatIsStartedAgainBelievesWhatItBelieved(t *testing.T) {
	t.Parallel()
	const guests = "version: 1\nrules: [{id: guests, effect: deny, path: [\"**/guarded\"]}]\n"
	looser := strings.Replace(rules, `effect: deny, path: ["**/.env"]`, `effect: allow, path: ["**/.env"]`, 1)
	stricter := strings.Replace(rules, "rules:\n", "rules:\n  - {id: no-more, effect: deny, path: [\"**/a\"]}\n", 1)
	p := newPlace(t)
	workspaces := filepath.Join(p.work, ".acphost", "policy.yaml")
	p.file(t, ".acphost/policy.yaml", guests)
	s := p.scene(t, p.policy(t, rules, ""))
	p.file(t, "../config/policy.yaml", looser)
	s.crash("permd") // before it has decided anything
	s.decided(t, ".env", "no")
	s.decided(t, "guarded", "no")
	s.decided(t, "a", "yes")
	p.file(t, "../config/policy.yaml", stricter)
	s.decided(t, "a", "no")
	p.file(t, "../config/policy.yaml", looser)
	if err := os.Remove(workspaces); err != nil {
		t.Fatal(err)
	}
	s.crash("permd")
	s.decided(t, ".env", "no")
	s.decided(t, "a", "no")
	s.decided(t, "guarded", "no")
	if status, out, errs := p.cli(t, "handler", "restart", "permission"); status != 0 {
		t.Fatalf("acphost handler restart: %s%s", out, errs)
	}
	s.decided(t, ".env", "no")
	if status, out, errs := p.cli(t, "policy", "reload"); status != 0 {
		t.Fatalf("acphost policy reload: %s%s", out, errs)
	}
	s.decided(t, ".env", "yes")
	s.decided(t, "a", "yes")
	s.decided(t, "guarded", "yes")
	s.crash("permd") // what a person has loaded counts
	s.decided(t, ".env", "yes")
	s.finish()
}

func TestAPolicyOfYourOwnThatIsStartedAgainIsBelievedIfItsFilesAreAsTheyWere(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	file := p.file(t, "../config/rules.txt", "strict")
	s := p.scene(t, p.config(t, `handlers:
  permission: {command: [`+program("businesshours")+`], settings: {paths: [`+p.work+`, `+file+`], from: 0, until: 24}}
`))
	call := func(want string) {
		t.Helper()
		reading := map[string]any{"toolCallId": "t1", "title": "Read", "kind": "read", "locations": []any{map[string]any{"path": p.path("a")}}}
		s.answered(t, s.ask(reading, options), want)
	}
	call("yes")
	p.file(t, "b", "the workspace changes")
	s.crash("businesshours")
	call("yes")
	p.file(t, "../config/rules.txt", "loose!")
	call("yes") // it has not read that
	p.file(t, "../config/rules.txt", "strict")
	s.crash("businesshours")
	call("asked")
	if got := p.lastDecision(t); got.Rule != "acphost/reload-needed" || !strings.Contains(got.Reason, file) || !strings.Contains(got.Reason, "acphost policy reload") {
		t.Errorf("the audit says %+v", got)
	}
	if status, out, errs := p.cli(t, "policy", "reload"); status != 0 {
		t.Fatalf("acphost policy reload: %s%s", out, errs)
	}
	call("yes")
	s.finish()
}
