package e2e

import (
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/wire"
)

// Watches follows a session that an editor drives.
func (s *Scene) Watches(session string) *Stream {
	s.T.Helper()
	events, err := s.Dial(s.T, s.PID()).Sessions.WatchSession(wire.Context(s.T), &supervisorv1.WatchSessionRequest{SessionId: session})
	if err != nil {
		s.T.Fatal(err)
	}
	return &Stream{T: s.T, Next: func() (*supervisorv1.Event, error) {
		m, err := events.Recv()
		return m.GetEvent(), err
	}}
}

// Turn begins one, and returns the editor's call and what the agent got.
func (s *Scene) Turn(session string) (*wire.Call, wire.Message) {
	s.T.Helper()
	call := s.Send("session/prompt", map[string]any{"sessionId": session, "prompt": []any{}})
	return call, s.Agent.Expect("session/prompt")
}

// Ended ends a turn.
func (s *Scene) Ended(call *wire.Call, asked wire.Message) {
	s.T.Helper()
	s.Agent.Reply(asked, map[string]any{"stopReason": "end_turn"})
	call.Result(nil)
}
