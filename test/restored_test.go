package e2e_test

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// choose puts a session of the demo agent into what no session of its begins in.
func (s *server) choose(id string, options bool) {
	s.t.Helper()
	_, err := s.sessions.SetModel(s.ctx, &supervisorv1.SetModelRequest{SessionId: id, ModelId: "mini"})
	if err == nil && options {
		_, err = s.sessions.SetConfigOption(s.ctx, &supervisorv1.SetConfigOptionRequest{
			SessionId: id, ConfigId: "effort", To: &supervisorv1.SetConfigOptionRequest_Value{Value: "high"},
		})
	}
	if err == nil && options {
		_, err = s.sessions.SetConfigOption(s.ctx, &supervisorv1.SetConfigOptionRequest{
			SessionId: id, ConfigId: "thorough", To: &supervisorv1.SetConfigOptionRequest_Enabled{Enabled: true},
		})
	}
	if err == nil {
		_, err = s.sessions.SetMode(s.ctx, &supervisorv1.SetModeRequest{SessionId: id, ModeId: "code"})
	}
	if err != nil {
		s.t.Fatal(explain(err))
	}
}

func TestASessionKeepsItsModeModelAndOptionsWhenItsAgentIsStartedAgain(t *testing.T) {
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
			p := newPlace(t)
			s := p.serve(t, nil)
			req := p.demo("-without", c.without)
			req.Attended = true
			agent := s.start(req)
			id := s.open(agent.GetId()).GetSessionId()
			s.choose(id, c.options)
			if c.killed {
				if err := syscall.Kill(int(agent.GetPid()), syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			} else if _, err := s.agents.RestartAgent(s.ctx, &supervisorv1.RestartAgentRequest{AgentId: agent.GetId()}); err != nil {
				t.Fatal(explain(err))
			}
			s.running(agent.GetId(), 1)
			turn := s.prompt(id, "settings")
			turn.stopped("end_turn")
			want := "code, mini, low, false"
			if c.options {
				want = "code, mini, high, true"
			}
			if turn.said() != want {
				t.Errorf("the agent says that it is %q, want %q", turn.said(), want)
			}
			shown, err := s.state.GetSession(s.ctx, &supervisorv1.GetSessionRequest{SessionId: id})
			if err != nil || shown.GetSession().GetMode() != "code" || shown.GetSession().GetModel() != "mini" {
				t.Errorf("the session is %v (%v)", shown, err)
			}
			s.finish()
		})
	}
}

func TestASessionWhoseModeIsGoneTakesNoPromptUntilOneIsSet(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve(t, nil)
	began, back := p.path("began"), p.path("back")
	req := p.demo()
	// Once it has begun, the agent has no modes until they are back.
	req.Command = []string{"/bin/sh", "-c", fmt.Sprintf(`if [ -e %q ] && ! [ -e %q ]; then exec %q -without settings,config,modes; fi; : >%q; exec %q -without settings,config`,
		began, back, program("demoagent"), began, program("demoagent"))}
	req.Name = "demo"
	agent := s.start(req).GetId()
	id := s.open(agent).GetSessionId()
	s.choose(id, false)
	live := s.watch(&supervisorv1.WatchSessionRequest{SessionId: id})
	s.prompt(id, "crash").end()
	told := live.until("what is told of it", func(e *supervisorv1.Event) bool { return e.GetNotice().GetFromAcphost() }).GetNotice()
	if told.GetSeverity() != "error" || told.GetTitle() != "The session's mode could not be restored" {
		t.Errorf("it is told %v", told)
	}
	expectContains(t, "the notice", told.GetDescription(), agent, id, `"code"`, "session/set_mode", "the agent does not offer it")
	s.running(agent, 1)
	refused := func() error {
		events, err := s.sessions.Prompt(s.ctx, &supervisorv1.PromptRequest{SessionId: id, Prompt: []*supervisorv1.ContentBlock{text("settings")}})
		if err == nil {
			_, err = events.Recv()
		}
		return err
	}
	if err := refused(); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a prompt is answered with %v", err)
	} else {
		expectContains(t, "the prompt's error", status.Convert(err).Message(), "takes no prompt", `"code"`, "set its mode to go on")
	}
	if err := os.WriteFile(back, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.agents.RestartAgent(s.ctx, &supervisorv1.RestartAgentRequest{AgentId: agent}); err != nil {
		t.Fatal(explain(err))
	}
	turn := s.prompt(id, "settings")
	turn.stopped("end_turn")
	if want := "code, mini, low, false"; turn.said() != want {
		t.Errorf("the agent says that it is %q, want %q", turn.said(), want)
	}
	s.finish()
}
