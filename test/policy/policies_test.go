package policy_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/acphost/acphost/test/e2e"
)

// nodePolicy is the example in Node.js, with its packages.
func nodePolicy(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", "examples", "policy-node"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules")); err != nil {
		t.Fatalf("the packages of examples/policy-node are not installed; run \"make test-deps\": %v", err)
	}
	return filepath.Join(dir, "main.js")
}

func TestOwnPolicy_Decides(t *testing.T) {
	t.Parallel()
	var refusing atomic.Bool
	opa := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Input struct {
				Kind  string
				Paths []struct {
					ResolvedPath string `json:"resolved_path"`
				}
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || r.URL.Path != "/v1/data/acphost/decision" || refusing.Load() {
			http.Error(w, "no", http.StatusInternalServerError)
			return
		}
		verdict := "ask"
		for _, p := range asked.Input.Paths {
			switch {
			case strings.HasSuffix(p.ResolvedPath, ".env"):
				verdict = "deny"
			case verdict != "deny" && strings.HasSuffix(p.ResolvedPath, "a.txt"):
				verdict = "allow"
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"result": map[string]any{"verdict": verdict, "rule": "from-opa", "reason": "OPA says so"}})
	}))
	t.Cleanup(opa.Close)

	t.Run("in Go", func(t *testing.T) {
		p := e2e.NewPlace(t)
		p.File(t, "a.txt", "text")
		s := p.Fixture(t, p.Config(t, `handlers:
  permission: {command: [`+e2e.Program("businesshours")+`], settings: {paths: [`+p.Work+`], from: 0, until: 0}}
`))
		if got := e2e.Content(s.Read("a.txt")); got != "text" {
			t.Errorf("read %q", got)
		}
		e2e.ExpectContains(t, "the agent's error", s.Agent.Send("terminal/create", e2e.Params("command", "ls")).Refused(-32603).Message, "rule elsewhere")
		s.Expect("session/update")
		write := s.WriteFile("a.txt", "new") // the office is always closed
		q := s.Asked()
		e2e.ExpectContains(t, "the question", string(q.Raw), "the office is closed")
		s.Choose(q, "allow_once")
		write.Result(nil)
		s.Status(q, "in_progress")
		s.Status(q, "completed")
		if got := lastDecision(t, p); got.Plugin != "businesshours 1.0.0" || got.Rule != "after-hours" {
			t.Errorf("the audit has %+v", got)
		}
		s.Finish()
	})
	t.Run("in Node.js, which takes permd's place while the agent runs", func(t *testing.T) {
		p := e2e.NewPlace(t)
		p.File(t, "a.txt", "text")
		s := p.Fixture(t, p.Policy(t, e2e.Rules, ""))
		if status, out, errs := p.Cli(t, "handler", "swap", "permission", "--", nodePolicy(t)); status != 0 {
			t.Fatalf("exit %d\n%s%s", status, out, errs)
		}
		if got := e2e.Content(s.Read("a.txt")); got != "text" {
			t.Errorf("read %q", got)
		}
		e2e.ExpectContains(t, "the agent's error", s.Read(".env").Refused(-32603).Message, "keys and credentials", "rule secrets")
		s.Expect("session/update")
		if got := e2e.Chosen(t, s.Ask(e2e.Edit(p.Path(".env")), e2e.Options)); got != "no" {
			t.Errorf("the agent's question was answered with %q", got)
		}
		if got := lastDecision(t, p); got.Plugin != "policy-node 1.0.0" {
			t.Errorf("the audit has %+v", got)
		}
		if state := s.Handler("permission"); !state.MutualTLS {
			t.Errorf("it is %+v, want mutual TLS", state)
		}
		if status, out, errs := p.Cli(t, "handler", "swap", "permission", "--", "permd"); status != 0 {
			t.Fatalf("back: exit %d\n%s%s", status, out, errs)
		}
		if got := e2e.Chosen(t, s.Ask(e2e.Edit(p.Path("a.txt")), e2e.Options)); got != "yes" {
			t.Errorf("with permd again the answer is %q", got)
		}
		s.Finish()
	})
	t.Run("of a server over HTTP, and nothing is allowed without it", func(t *testing.T) {
		p := e2e.NewPlace(t)
		p.File(t, "a.txt", "text")
		s := p.Fixture(t, p.Config(t, `handlers:
  permission: {command: [`+e2e.Program("policy-opa")+`], settings: {url: "`+opa.URL+`/v1/data/acphost/decision"}}
`))
		if got := e2e.Content(s.Read("a.txt")); got != "text" {
			t.Errorf("read %q", got)
		}
		e2e.ExpectContains(t, "the agent's error", s.Read(".env").Refused(-32603).Message, "OPA says so")
		s.Expect("session/update")
		refusing.Store(true)
		s.Read("a.txt").Refused(-32603)
		s.Finish()
	})
	t.Run("several, and the strictest counts", func(t *testing.T) {
		p := e2e.NewPlace(t)
		p.File(t, "../config/policy.yaml", "version: 1\nrules: [{id: all, effect: allow, path: [\"/**\"]}]\n")
		s := p.Fixture(t, p.Config(t, "permission:\n  policy: policy.yaml\n  chain: [{command: ["+nodePolicy(t)+"]}, {command: [permd]}]\n"))
		if got := e2e.Chosen(t, s.Ask(e2e.Edit(p.Path(".env")), e2e.Options)); got != "no" {
			t.Errorf("an action that one policy denies was answered with %q", got)
		}
		p.File(t, "a.txt", "text")
		if got := e2e.Content(s.Read("a.txt")); got != "text" {
			t.Errorf("read %q", got)
		}
		s.Finish()
	})
}
