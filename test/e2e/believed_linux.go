package e2e

import (
	"testing"

	"github.com/acphost/acphost/test/wire"
)

// Decided asks about an edit, and expects the option that a policy chooses, or "asked": a person is asked.
func (s *Fixture) Decided(t *testing.T, path, want string) {
	t.Helper()
	s.Answered(t, s.Ask(Edit(s.Path(path)), Options), want)
}

// Answered expects the option that a policy chooses, or "asked": a person is asked, and cancels.
func (s *Fixture) Answered(t *testing.T, request *wire.Call, want string) {
	t.Helper()
	if want == "asked" {
		s.Reply(s.Expect("session/request_permission"), map[string]any{"outcome": map[string]any{"outcome": "cancelled"}})
		want = "cancelled"
	}
	if got := Chosen(t, request); got != want {
		t.Errorf("the answer is %q, want %q", got, want)
	}
}
