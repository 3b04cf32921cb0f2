package e2e_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

func TestASessionThatCannotBeResumedSaysWhyToEverybodyAndLater(t *testing.T) {
	t.Parallel()
	for method, without := range map[string]string{"session/resume": "load", "session/load": "resume"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			s := p.serve(t, nil)
			req := p.demo("-without", without)
			delete(req.Env, "DEMOAGENT_STATE") // its sessions end with the process
			agent := s.start(req).GetId()
			id := s.open(agent).GetSessionId()
			live := s.watch(&supervisorv1.WatchSessionRequest{SessionId: id})
			s.prompt(id, "crash").end()
			closed := live.until("the session's end", func(e *supervisorv1.Event) bool { return e.GetSessionClosed() != nil })
			if got := closed.GetSessionClosed().GetReason(); got != method+" failed" {
				t.Errorf("the session is closed for %q", got)
			}
			notice := live.seen[len(live.seen)-2].GetNotice()
			if notice.GetSeverity() != "error" || !notice.GetFromAcphost() || notice.GetTitle() != "The session could not be resumed" {
				t.Errorf("before that is told %v", live.seen[len(live.seen)-2])
			}
			expectContains(t, "the notice", notice.GetDescription(), agent, id, method, "the agent does not know the session")

			s.running(agent, 1)
			events, err := s.sessions.Prompt(s.ctx, &supervisorv1.PromptRequest{SessionId: id, Prompt: []*supervisorv1.ContentBlock{text("repeat")}})
			if err == nil {
				_, err = events.Recv()
			}
			expectError(t, err, codes.NotFound, supervisorv1.ErrorKind_ERROR_KIND_SESSION_NOT_FOUND)
			expectContains(t, "the next prompt's error", status.Convert(err).Message(), method, "the agent does not know the session")

			same := func(when string, s *server) {
				t.Helper()
				again := s.watch(&supervisorv1.WatchSessionRequest{SessionId: id, NoFollow: true})
				again.until("the session's end "+when, func(e *supervisorv1.Event) bool { return e.GetSessionClosed() != nil })
				if len(again.seen) != len(live.seen) {
					t.Fatalf("%s there are %d events, want %d", when, len(again.seen), len(live.seen))
				}
				for i, e := range again.seen {
					if !proto.Equal(e, live.seen[i]) {
						t.Errorf("%s event %d is %v, want %v", when, i, e, live.seen[i])
					}
				}
			}
			same("afterwards", s)
			s.finish()
			second := p.serve(t, nil)
			same("in the next supervisor", second)
			second.finish()
			status, shown, stderr := p.cli(t, "sessions", "show", id)
			if status != 0 {
				t.Fatalf("acphost sessions show ended with %d: %s", status, stderr)
			}
			shown = strings.Join(strings.Fields(shown), " ")
			expectContains(t, "what is shown of it", shown, "The session could not be resumed", "the agent does not know the session")
		})
	}
}
