package headless_test

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/e2e"
)

func TestRestartAgent_RestoresSessionSettings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		without string
		options bool
		killed  bool // else a person has it started again
	}{
		"resumed, by options": {"settings", true, true},
		"loaded, by options":  {"settings,resume", true, false},
		"resumed, by methods": {"settings,config", false, false},
		"loaded, by methods":  {"settings,config,resume", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := e2e.NewPlace(t)
			s := p.Serve(t, nil)
			req := p.Demo("-without", c.without)
			req.Attended = true
			agent := s.Start(req)
			id := s.Open(agent.GetId()).GetSessionId()
			choose(s, id, c.options)
			if c.killed {
				if err := syscall.Kill(int(agent.GetPid()), syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			} else if _, err := s.Agents.RestartAgent(s.Ctx, &supervisorv1.RestartAgentRequest{AgentId: agent.GetId()}); err != nil {
				t.Fatal(e2e.Explain(err))
			}
			s.Running(agent.GetId(), 1)
			turn := s.Prompt(id, "settings")
			turn.Stopped("end_turn")
			want := "code, mini, low, false"
			if c.options {
				want = "code, mini, high, true"
			}
			if turn.Said() != want {
				t.Errorf("the agent states that it is %q, want %q", turn.Said(), want)
			}
			shown, err := s.State.GetSession(s.Ctx, &supervisorv1.GetSessionRequest{SessionId: id})
			if err != nil || shown.GetSession().GetMode() != "code" || shown.GetSession().GetModel() != "mini" {
				t.Errorf("the session is %v (%v)", shown, err)
			}
			s.Finish()
		})
	}
}

func TestRestartAgent_MissingModeBlocksPrompts(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, nil)
	began, back := p.Path("began"), p.Path("back")
	req := p.Demo()
	// Once it has begun, the agent has no modes until they are back.
	req.Command = []string{"/bin/sh", "-c", fmt.Sprintf(`if [ -e %q ] && ! [ -e %q ]; then exec %q -without settings,config,modes; fi; : >%q; exec %q -without settings,config`,
		began, back, e2e.Program("demoagent"), began, e2e.Program("demoagent"))}
	req.Name = "demo"
	agent := s.Start(req).GetId()
	id := s.Open(agent).GetSessionId()
	choose(s, id, false)
	live := s.Watch(&supervisorv1.WatchSessionRequest{SessionId: id})
	s.Prompt(id, "crash").End()
	notice := live.Until("the notice", func(e *supervisorv1.Event) bool { return e.GetNotice().GetFromAcphost() }).GetNotice()
	if notice.GetSeverity() != "error" || notice.GetTitle() != "The session's mode could not be restored" {
		t.Errorf("it receives %v", notice)
	}
	e2e.ExpectContains(t, "the notice", notice.GetDescription(), agent, id, `"code"`, "session/set_mode", "the agent does not offer it")
	s.Running(agent, 1)
	refused := func() error {
		events, err := s.Sessions.Prompt(s.Ctx, &supervisorv1.PromptRequest{SessionId: id, Prompt: []*supervisorv1.ContentBlock{e2e.Text("settings")}})
		if err == nil {
			_, err = events.Recv()
		}
		return err
	}
	if err := refused(); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a prompt is answered with %v", err)
	} else {
		e2e.ExpectContains(t, "the prompt's error", status.Convert(err).Message(), "takes no prompt", `"code"`, "set its mode to go on")
	}
	if err := os.WriteFile(back, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Agents.RestartAgent(s.Ctx, &supervisorv1.RestartAgentRequest{AgentId: agent}); err != nil {
		t.Fatal(e2e.Explain(err))
	}
	turn := s.Prompt(id, "settings")
	turn.Stopped("end_turn")
	if want := "code, mini, low, false"; turn.Said() != want {
		t.Errorf("the agent states that it is %q, want %q", turn.Said(), want)
	}
	s.Finish()
}

// choose puts a session of the demo agent into what no session of its begins in.
func choose(s *e2e.Server, id string, options bool) {
	s.T.Helper()
	_, err := s.Sessions.SetModel(s.Ctx, &supervisorv1.SetModelRequest{SessionId: id, ModelId: "mini"})
	if err == nil && options {
		_, err = s.Sessions.SetConfigOption(s.Ctx, &supervisorv1.SetConfigOptionRequest{
			SessionId: id, ConfigId: "effort", To: &supervisorv1.SetConfigOptionRequest_Value{Value: "high"},
		})
	}
	if err == nil && options {
		_, err = s.Sessions.SetConfigOption(s.Ctx, &supervisorv1.SetConfigOptionRequest{
			SessionId: id, ConfigId: "thorough", To: &supervisorv1.SetConfigOptionRequest_Enabled{Enabled: true},
		})
	}
	if err == nil {
		_, err = s.Sessions.SetMode(s.Ctx, &supervisorv1.SetModeRequest{SessionId: id, ModeId: "code"})
	}
	if err != nil {
		s.T.Fatal(e2e.Explain(err))
	}
}
