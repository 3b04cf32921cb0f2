package policy_test

import (
	"os"
	"strings"
	"testing"

	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

// TestTerminalContent_ReplacedByAgent: the text that represents a terminal is repeated only until the agent sends other
// content in its place, which must not be lost.
func TestTerminalContent_ReplacedByAgent(t *testing.T) {
	t.Parallel()
	s := e2e.NewPlace(t).Fixture(t, nil)
	gate := s.File(t, "go", "")
	id, mention := s.Terminal("echo running; while [ -e go ]; do sleep 0.05; done; echo ending")
	s.Agent.Write(mention)
	s.ExpectWhere("the first output", func(m wire.Message) bool { return strings.Contains(string(m.Raw), "running") })
	replaced := `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"tool_call_update","toolCallId":"c","content":[{"type":"content","content":{"type":"text","text":"what the agent made of it"}}]}}}`
	s.Agent.Write(replaced)
	s.ExpectWhere("what the agent made of it", func(m wire.Message) bool { return string(m.Raw) == replaced })
	if err := os.Remove(gate); err != nil {
		t.Fatal(err)
	}
	s.Agent.Request("terminal/wait_for_exit", e2e.Params("terminalId", id), nil)
	s.Agent.Request("terminal/release", e2e.Params("terminalId", id), nil)
	s.Agent.Notify("_over", map[string]any{})
	s.Expect("_over")
	for _, m := range s.Waiting() {
		if strings.Contains(string(m.Raw), "ending") {
			t.Errorf("the agent's content was replaced by %s", m.Raw)
		}
	}
	s.Finish()
}
