package e2e_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
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

func TestAPolicyOfYourOwnDecides(t *testing.T) {
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
		p := newPlace(t)
		p.file(t, "a.txt", "text")
		s := p.scene(t, p.config(t, `handlers:
  permission: {command: [`+program("businesshours")+`], settings: {paths: [`+p.work+`], from: 0, until: 0}}
`))
		if got := content(s.read("a.txt")); got != "text" {
			t.Errorf("read %q", got)
		}
		expectContains(t, "the agent's error", s.agent.Send("terminal/create", params("command", "ls")).Refused(-32603).Message, "rule elsewhere")
		s.Expect("session/update")
		write := s.write("a.txt", "new") // the office is always closed
		q := s.asked()
		expectContains(t, "the question", string(q.Raw), "the office is closed")
		s.choose(q, "allow_once")
		write.Result(nil)
		s.status(q, "in_progress")
		s.status(q, "completed")
		if got := p.lastDecision(t); got.Plugin != "businesshours 1.0.0" || got.Rule != "after-hours" {
			t.Errorf("the audit says %+v", got)
		}
		s.finish()
	})
	t.Run("in Node.js, which takes permd's place while the agent runs", func(t *testing.T) {
		p := newPlace(t)
		p.file(t, "a.txt", "text")
		s := p.scene(t, p.policy(t, rules, ""))
		if status, out, errs := p.cli(t, "handler", "swap", "permission", "--", nodePolicy(t)); status != 0 {
			t.Fatalf("exit %d\n%s%s", status, out, errs)
		}
		if got := content(s.read("a.txt")); got != "text" {
			t.Errorf("read %q", got)
		}
		expectContains(t, "the agent's error", s.read(".env").Refused(-32603).Message, "keys and credentials", "rule secrets")
		s.Expect("session/update")
		if got := chosen(t, s.ask(edit(p.path(".env")), options)); got != "no" {
			t.Errorf("the agent's question was answered with %q", got)
		}
		if got := p.lastDecision(t); got.Plugin != "policy-node 1.0.0" {
			t.Errorf("the audit says %+v", got)
		}
		if state := s.handler("permission"); !state.MutualTLS {
			t.Errorf("it is %+v, want mutual TLS", state)
		}
		if status, out, errs := p.cli(t, "handler", "swap", "permission", "--", "permd"); status != 0 {
			t.Fatalf("back: exit %d\n%s%s", status, out, errs)
		}
		if got := chosen(t, s.ask(edit(p.path("a.txt")), options)); got != "yes" {
			t.Errorf("with permd again the answer is %q", got)
		}
		s.finish()
	})
	t.Run("of a server over HTTP, and nothing is allowed without it", func(t *testing.T) {
		p := newPlace(t)
		p.file(t, "a.txt", "text")
		s := p.scene(t, p.config(t, `handlers:
  permission: {command: [`+program("policy-opa")+`], settings: {url: "`+opa.URL+`/v1/data/acphost/decision"}}
`))
		if got := content(s.read("a.txt")); got != "text" {
			t.Errorf("read %q", got)
		}
		expectContains(t, "the agent's error", s.read(".env").Refused(-32603).Message, "OPA says so")
		s.Expect("session/update")
		refusing.Store(true)
		s.read("a.txt").Refused(-32603)
		s.finish()
	})
	t.Run("several, and the strictest counts", func(t *testing.T) {
		p := newPlace(t)
		p.file(t, "../config/policy.yaml", "version: 1\nrules: [{id: all, effect: allow, path: [\"/**\"]}]\n")
		s := p.scene(t, p.config(t, "permission:\n  policy: policy.yaml\n  chain: [{command: ["+nodePolicy(t)+"]}, {command: [permd]}]\n"))
		if got := chosen(t, s.ask(edit(p.path(".env")), options)); got != "no" {
			t.Errorf("what one denies was answered with %q", got)
		}
		p.file(t, "a.txt", "text")
		if got := content(s.read("a.txt")); got != "text" {
			t.Errorf("read %q", got)
		}
		s.finish()
	})
}
