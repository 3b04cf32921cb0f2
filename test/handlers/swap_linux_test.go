package handlers_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

const controlService = "acphost.supervisor.v1.SupervisorControlService/"

func TestPolicySwap_KeepsLink(t *testing.T) {
	t.Parallel()
	const questions, swaps, kills = 1000, 10, 5
	p := e2e.NewPlace(t)
	s := p.Fixture(t, p.Policy(t, e2e.Rules, ""))
	pid := func() int {
		n, _ := strconv.Atoi(s.Handler("permission").PID.String())
		return n
	}
	ready := func() {
		if !testkit.Poll(func() bool { return s.Handler("permission").State == "HANDLER_STATE_READY" }) {
			t.Fatalf("the policy does not come back: %+v", s.Handler("permission"))
		}
	}
	// The agent asks and asks, one allowed action and one denied in turn, a few at a time.
	type asked struct {
		call    *wire.Call
		allowed bool
	}
	open := make(chan asked, 16)
	var answered, allowed, wrong int
	var agent sync.WaitGroup
	disturbed := make(chan struct{})
	agent.Go(func() {
		defer close(open)
		for i := range questions {
			if i == questions/2 { // the second half waits until all that is to happen has happened
				<-disturbed
			}
			path := p.Path("a.txt")
			if i%2 == 1 {
				path = p.Path(".env")
			}
			call := e2e.Edit(path)
			call["toolCallId"] = fmt.Sprint("t", i)
			open <- asked{s.Ask(call, e2e.Options), i%2 == 0}
		}
	})
	agent.Go(func() {
		for a := range open {
			var answer struct{ Outcome struct{ OptionID string } }
			a.call.Result(&answer)
			answered++
			switch answer.Outcome.OptionID {
			case "yes":
				allowed++
				if !a.allowed {
					wrong++
				}
			case "no":
			default:
				t.Errorf("a question was answered with %q", answer.Outcome.OptionID)
			}
		}
	})
	for i := range swaps + kills {
		if i%3 == 2 {
			s.Signal(pid(), syscall.SIGKILL)
			ready()
			continue
		}
		before := pid()
		if status, out, errs := p.Cli(t, "handler", "swap", "permission", "--", e2e.Program("permd")); status != 0 {
			t.Fatalf("swap %d: exit %d\n%s%s", i, status, out, errs)
		}
		if after := pid(); after == before {
			t.Errorf("swap %d: the process is still %d", i, after)
		}
	}
	close(disturbed)
	agent.Wait()
	if answered != questions || wrong > 0 {
		t.Errorf("%d of %d questions were answered, %d of them with a yes that the policy denies", answered, questions, wrong)
	}
	if allowed < questions/4 { // the second half had a policy all the time
		t.Errorf("only %d questions were allowed", allowed)
	}
	if left := s.Agent.Waiting(); len(left) > 0 {
		t.Errorf("the agent got more than its answers: %s", left[0].Raw)
	}
	if lines := p.Decisions(t); len(lines) != questions {
		t.Errorf("the audit has %d decisions, want %d", len(lines), questions)
	}
	s.Finish()
}

func TestPolicySwap_FailedStartKeepsOldPolicy(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, p.Policy(t, e2e.Rules, ""))
	before := s.Handler("permission").PID
	for _, bad := range [][]string{
		{"handler", "swap", "permission", "--", "/bin/true"},
		{"handler", "swap", "permission", "--", p.Path("nothing-here")},
		{"handler", "swap", "permission", "--", e2e.Program("fsd")},
		{"handler", "swap", "nobody", "--", e2e.Program("permd")},
		{"handler", "swap", "permission", "--address", "unix://" + p.Path("no.sock")},
	} {
		status, _, errs := p.Cli(t, bad...)
		if status == 0 || errs == "" {
			t.Errorf("acphost %s: exit %d, %q", strings.Join(bad, " "), status, errs)
		}
		if stays := "the old handler stays in place and serves"; strings.Contains(errs, stays) != (bad[2] == "permission") {
			t.Errorf("acphost %s: %q, want %q in it if the handler exists", strings.Join(bad, " "), errs, stays)
		}
	}
	if now := s.Handler("permission"); now.PID != before || now.State != "HANDLER_STATE_READY" {
		t.Errorf("the policy is now %+v, was process %s", now, before)
	}
	if got := e2e.Chosen(t, s.Ask(e2e.Edit(p.Path("a")), e2e.Options)); got != "yes" {
		t.Errorf("the answer is %q", got)
	}
	s.Finish()
}

func TestPolicyReload_RejectsAgent(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, p.Policy(t, e2e.Rules, ""))
	looser := strings.Replace(e2e.Rules, `effect: deny, path: ["**/.env"]`, `effect: ask, path: ["**/.env"]`, 1)
	stricter := strings.Replace(e2e.Rules, "rules:\n", "rules:\n  - {id: no-more, effect: deny, path: [\"**/a\"]}\n", 1)
	ask := func(path, want string) { t.Helper(); s.Decided(t, path, want) }
	ask("a", "yes")
	p.File(t, "../config/policy.yaml", stricter)
	if !testkit.Poll(func() bool { return e2e.Chosen(t, s.Ask(e2e.Edit(p.Path("a")), e2e.Options)) == "no" }) {
		t.Error("a stricter rule does not count at once")
	}
	p.File(t, "../config/policy.yaml", looser)
	ask("a", "no")
	ask(".env", "no")
	if status, out, errs := p.Cli(t, "policy", "reload"); status != 0 {
		t.Fatalf("acphost policy reload: %s%s", out, errs)
	}
	ask("a", "yes")
	ask(".env", "asked")
	p.File(t, "../config/policy.yaml", "version: 1\nrules: [{id: x, efect: allow}]\n")
	status, _, errs := p.Cli(t, "policy", "reload")
	if status == 0 || !strings.Contains(errs, "policy.yaml:2:") {
		t.Errorf("acphost policy reload of a bad file: exit %d, %s", status, errs)
	}
	ask("a", "yes")
	s.Finish()
}

func TestPolicyChain_StrictestWins(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	p.File(t, "../config/policy.yaml", e2e.Rules)
	p.File(t, "../config/strict.yaml", "version: 1\nrules:\n  - {id: corp, effect: deny, path: [\"**/plans/**\"], reason: Plans are secret.}\n  - {id: rest, effect: allow, path: [\"/**\"]}\n")
	flags := p.Config(t, fmt.Sprintf(`permission:
  chain:
    - {command: [%[1]s], settings: {policy: %[2]s}}
    - {command: [%[1]s], settings: {policy: %[3]s}}
`, e2e.Program("permd"), filepath.Join(p.Home, "config", "strict.yaml"), filepath.Join(p.Home, "config", "policy.yaml")))
	s := p.Fixture(t, flags)
	for path, want := range map[string]string{"a": "yes", ".env": "no", "plans/b": "no"} {
		if got := e2e.Chosen(t, s.Ask(e2e.Edit(p.Path(path)), e2e.Options)); got != want {
			t.Errorf("%s was answered with %q, want %q", path, got, want)
		}
	}
	s.Signal(s.Daemon("permd"), syscall.SIGSTOP) // one of the two is enough
	if got := e2e.Chosen(t, s.Ask(e2e.Edit(p.Path("a")), e2e.Options)); got != "no" {
		t.Errorf("without one of the policies the answer is %q", got)
	}
	s.Finish()
}

func TestSockets_AgentCanChangeNothing(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	p.File(t, "secret.txt", "s3cret")
	p.File(t, "../config/policy.yaml", "version: 1\nrules: [{id: none, effect: deny, path: [\"/**\"]}, {id: nothing, effect: deny, command: [\"*\"]}]\n")
	tool, err := filepath.Abs(filepath.Join("..", ".tools", "bin", "grpcurl"))
	if err != nil {
		t.Fatal(err)
	}
	read, _ := json.Marshal(map[string]any{"context": map[string]any{"scope": strings.Repeat("0", 32), "roots": []any{map[string]any{"path": p.Work}}}, "path": p.Path("secret.txt")})
	hostile := fmt.Sprintf(`
for i in $(seq 100); do [ -n "$(find %[1]s/run -name '*.sock')" ] && break; sleep 0.05; done
try() { %[2]s -plaintext -connect-timeout 1 -max-time 2 -unix -d "$1" $s "$2" >>%[3]s 2>&1 && echo "$2 on $s" >>%[4]s; }
for s in $(find %[1]s/run -name '*.sock'; find %[1]s/tmp -type s); do
  case $s in
  %[1]s/run/*)
    try '{"name":"permission","command":["/bin/true"]}' %[5]sSwapHandler
    try '{"name":"permission"}' %[5]sRestartHandler
    try '{}' %[5]sReloadPolicy
    try '{"ids":["x"]}' %[5]sRevokeGrants
    ;;
  *)
    try '%[6]s' acphost.fs.v1.FileSystemService/ReadTextFile
    ;;
  esac
done
%[7]s handler restart permission >>%[3]s 2>&1 && echo "the command line" >>%[4]s
exec %[8]s`, p.Home, tool, p.Path("refusals"), p.Path("done"), controlService, read, e2e.Program("acphost"), e2e.Program("demoagent"))
	h := p.Start(t, p.Config(t, "permission: {policy: policy.yaml}\n"), []string{"sh", "-c", hostile})
	h.Initialize(`{}`).Result(nil)
	if done, err := os.ReadFile(p.Path("done")); err == nil {
		t.Errorf("the agent could do this:\n%s", done)
	}
	refusals, _ := os.ReadFile(p.Path("refusals"))
	if n := strings.Count(string(refusals), "PermissionDenied"); n < 4 {
		t.Errorf("the agent was refused %d verbs only:\n%s", n, e2e.Shorten(string(refusals)))
	}
	if strings.Contains(string(refusals), "s3cret") {
		t.Error("the agent read the file")
	}
	h.Finish()
}
