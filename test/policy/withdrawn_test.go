package policy_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/e2e"
)

// TestWithdraw_ImmediatelyAfterRequest: an agent withdraws questions as soon as it has asked them. Each ends with an
// answer, either in acphost or in the editor, which gets the cancellation only after the question.
func TestWithdraw_ImmediatelyAfterRequest(t *testing.T) {
	t.Parallel()
	const count = 300
	p := e2e.NewPlace(t)
	s := p.Fixture(t, nil)
	var lines strings.Builder
	for i := range count {
		fmt.Fprintf(&lines, `{"jsonrpc":"2.0","id":%d,"method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"t","title":"x"},"options":[{"optionId":"yes","name":"Yes","kind":"allow_once"}]}}`+"\n", i)
		fmt.Fprintf(&lines, `{"jsonrpc":"2.0","method":"_pause","params":{"text":%q}}`+"\n", strings.Repeat("x", i*40)) // so that it is caught here and there
		fmt.Fprintf(&lines, `{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":%d}}`+"\n", i)
	}
	s.Agent.Write(strings.TrimSuffix(lines.String(), "\n"))
	ended := map[string]bool{}
	if !testkit.Poll(func() bool {
		for _, m := range s.Agent.Waiting() {
			ended[string(m.ID)] = true
		}
		asked := map[string]bool{}
		for _, m := range s.Waiting() {
			switch m.Method {
			case "session/request_permission":
				asked[string(m.ID)] = true
			case "$/cancel_request":
				var c struct{ RequestID json.RawMessage }
				m.Decode(t, &c)
				if asked[string(c.RequestID)] {
					ended[string(c.RequestID)] = true
				}
			}
		}
		return len(ended) == count
	}) {
		t.Fatalf("%d of %d questions never ended: the editor received their cancellations before the questions", count-len(ended), count)
	}
	// The editor answers all that it was asked; what was answered already is not answered again.
	for _, m := range s.Waiting() {
		if m.Method == "session/request_permission" {
			s.Reply(m, map[string]any{"outcome": map[string]any{"outcome": "cancelled"}})
		}
	}
	answered := map[string]bool{}
	for range count {
		m := s.Agent.Next()
		if answered[string(m.ID)] {
			t.Fatalf("a second answer: %s", m.Raw)
		}
		answered[string(m.ID)] = true
	}
	s.Notify("_over", map[string]any{})
	if m := s.Agent.Next(); m.Method != "_over" {
		t.Errorf("one answer too many: %s", m.Raw)
	}
	s.Finish()
}
