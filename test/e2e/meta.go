package e2e

import (
	"encoding/json"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// Metas asks the demo agent which _meta came when the session was opened, and which with the prompt: with this one.
func (s *Server) Metas(session, meta string) (opened, prompted string) {
	s.T.Helper()
	turn := s.PromptWith(s.Ctx, &supervisorv1.PromptRequest{SessionId: session, Prompt: []*supervisorv1.ContentBlock{Text("meta")}, Meta: meta})
	turn.Stopped("end_turn")
	var told struct{ Opened, Prompted json.RawMessage }
	if err := json.Unmarshal([]byte(turn.Said()), &told); err != nil {
		s.T.Fatalf("the agent said %q: %v", turn.Said(), err)
	}
	return string(told.Opened), string(told.Prompted)
}
