package adversary

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/acphost/acphost/internal/sandbox"
	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/wire"
)

// kernelRules are the rules of the tests at the kernel: files of the workspace may be changed, but for .env, and two programs run.
const kernelRules = `
version: 1
rules:
  - {id: env, effect: deny, path: ["**/.env", "**/.env.*"]}
  - {id: files, effect: allow, on: [fs.read, fs.write, fs.list], path: ["${root}/**"]}
  - {id: no-id, effect: deny, command: ["id"]}
  - {id: run, effect: allow, command: ["echo", "touch a", "sh -c"]}
`

// needsSandbox skips a test of what only a kernel can do that asks.
func needsSandbox(t *testing.T) {
	t.Helper()
	if err := sandbox.Supported(); err != nil {
		t.Skipf("nothing can be confined here (%s): %v", runtime.GOARCH, err)
	}
}

// inSandbox returns flags for an agent in a sandbox that is under rules.
func inSandbox(mode, rules string) func(*wire.Place) []string {
	return policy(rules, "sandbox: {mode: "+mode+", require: true}")
}

// prompt begins a turn, and returns the agent's side of it.
func (s *scene) prompt() {
	s.t.Helper()
	s.Send("session/prompt", params("prompt", []any{map[string]any{"type": "text", "text": "go"}}))
	s.agent.Expect("session/prompt")
}

// TestTheSameRulesHoldAtTheKernel: an agent writes and runs by itself what it could not have written or run through its client.
func TestTheSameRulesHoldAtTheKernel(t *testing.T) {
	needsSandbox(t)
	t.Parallel()
	s := openScene(t, inSandbox("enforce", kernelRules), "ACPHOST_LOG=debug")
	s.prompt()
	h := s.hand
	s.File(t, ".env", "SECRET=1")
	h.refused("write", s.Path(".env"), "SECRET=2")
	h.refused("write", s.Path(".env.local"), "x")
	h.refused("link", s.Path(".env"), s.Path("other"))
	h.refused("write", filepath.Join(s.Home, "outside"), "x")
	for _, a := range h.try("write", s.Path("inside"), "x") {
		if a.Err != "" {
			t.Errorf("a file of the workspace: %s", a)
		}
	}
	h.refused("run", "/usr/bin/id")
	if got := h.try("run", "/bin/echo", "hello"); got[0].Err != "" || !strings.Contains(got[0].Got, "hello") {
		t.Errorf("a command that rules allow: %v", got)
	}
	if got, err := os.ReadFile(s.Path(".env")); err != nil || string(got) != "SECRET=1" {
		t.Errorf("ATTACK SUCCEEDED: .env has %q, %v", got, err)
	}
	out, _ := s.person("audit", "--json", "--door", "kernel")
	for _, want := range []string{`"rule":"env"`, `"rule":"no-id"`, `"rule":"run"`, `"rule":"files"`} {
		if !strings.Contains(out, want) {
			t.Errorf("the record has no %s:\n%s", want, out)
		}
	}
	s.finish()
}

var _ = json.Marshal
var _ = syscall.Kill
var _ = testkit.Poll
