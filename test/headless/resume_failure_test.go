package headless_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/e2e"
)

func TestSessionResume_FailureIsReported(t *testing.T) {
	t.Parallel()
	for method, without := range map[string]string{"session/resume": "load", "session/load": "resume"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			p := e2e.NewPlace(t)
			s := p.Serve(t, nil)
			req := p.Demo("-without", without)
			delete(req.Env, "DEMOAGENT_STATE") // its sessions end with the process
			agent := s.Start(req).GetId()
			id := s.Open(agent).GetSessionId()
			live := s.Watch(&supervisorv1.WatchSessionRequest{SessionId: id})
			s.Prompt(id, "crash").End()
			closed := live.Until("the session's end", func(e *supervisorv1.Event) bool { return e.GetSessionClosed() != nil })
			if got := closed.GetSessionClosed().GetReason(); got != method+" failed" {
				t.Errorf("the session is closed for %q", got)
			}
			notice := live.Seen[len(live.Seen)-2].GetNotice()
			if notice.GetSeverity() != "error" || !notice.GetFromAcphost() || notice.GetTitle() != "The session could not be resumed" {
				t.Errorf("before that the watcher receives %v", live.Seen[len(live.Seen)-2])
			}
			e2e.ExpectContains(t, "the notice", notice.GetDescription(), agent, id, method, "the agent does not know the session")

			s.Running(agent, 1)
			events, err := s.Sessions.Prompt(s.Ctx, &supervisorv1.PromptRequest{SessionId: id, Prompt: []*supervisorv1.ContentBlock{e2e.Text("repeat")}})
			if err == nil {
				_, err = events.Recv()
			}
			e2e.ExpectError(t, err, codes.NotFound, supervisorv1.ErrorKind_ERROR_KIND_SESSION_NOT_FOUND)
			e2e.ExpectContains(t, "the next prompt's error", status.Convert(err).Message(), method, "the agent does not know the session")

			same := func(when string, s *e2e.Server) {
				t.Helper()
				again := s.Watch(&supervisorv1.WatchSessionRequest{SessionId: id, NoFollow: true})
				again.Until("the session's end "+when, func(e *supervisorv1.Event) bool { return e.GetSessionClosed() != nil })
				if len(again.Seen) != len(live.Seen) {
					t.Fatalf("%s there are %d events, want %d", when, len(again.Seen), len(live.Seen))
				}
				for i, e := range again.Seen {
					if !proto.Equal(e, live.Seen[i]) {
						t.Errorf("%s event %d is %v, want %v", when, i, e, live.Seen[i])
					}
				}
			}
			same("afterwards", s)
			s.Finish()
			second := p.Serve(t, nil)
			same("in the next supervisor", second)
			second.Finish()
			status, shown, stderr := p.Cli(t, "sessions", "show", id)
			if status != 0 {
				t.Fatalf("acphost sessions show ended with %d: %s", status, stderr)
			}
			shown = strings.Join(strings.Fields(shown), " ")
			e2e.ExpectContains(t, "what is shown of it", shown, "The session could not be resumed", "the agent does not know the session")
		})
	}
}
