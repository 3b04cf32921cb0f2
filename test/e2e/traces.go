package e2e

import (
	"github.com/acphost/acphost/test/wire"
)

// Prompted sends a prompt with a _meta, and returns it and what the agent got.
func (s *Scene) Prompted(meta any) (*wire.Call, wire.Message) {
	s.T.Helper()
	call := s.Send("session/prompt", Params("prompt", []any{map[string]any{"type": "text", "text": "Go."}}, "_meta", meta))
	return call, s.Agent.Expect("session/prompt")
}

// Stop ends a turn.
func (s *Scene) Stop(call *wire.Call, prompt wire.Message) {
	s.T.Helper()
	s.Agent.Reply(prompt, map[string]any{"stopReason": "end_turn"})
	call.Result(nil)
}
