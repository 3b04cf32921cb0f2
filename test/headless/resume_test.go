package headless_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/e2e"
)

func TestAgentKilled_SessionResumes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		without string
		method  string // how the session goes on; empty: it is gone
	}{
		"resumed": {"load", "session/resume"},
		"loaded":  {"resume", "session/load"},
		"gone":    {"load,resume", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := e2e.NewPlace(t)
			s := p.Serve(t, nil)
			agent := s.Start(p.Demo("-without", c.without, "-complain", "a word of the agent"))
			opened := s.Open(agent.GetId())
			id := opened.GetSessionId()
			if c.without == "load" { // what was chosen goes on, too
				if _, err := s.Sessions.SetMode(s.Ctx, &supervisorv1.SetModeRequest{SessionId: id, ModeId: "code"}); err != nil {
					t.Fatal(e2e.Explain(err))
				}
			}
			watching := s.Watch(&supervisorv1.WatchSessionRequest{SessionId: id})
			turn := s.Prompt(id, "/run echo begun; sleep 600")
			turn.Until("the terminal is shown", func(e *supervisorv1.Event) bool {
				return len(e.GetToolCallUpdate().GetContent()) > 0
			})
			if list, err := s.State.ListTerminals(s.Ctx, &supervisorv1.ListTerminalsRequest{}); err != nil || len(list.GetTerminals()) != 1 || !list.GetTerminals()[0].GetRunning() {
				t.Fatalf("the terminals are %v (%v), want one that runs", list, err)
			}
			if err := syscall.Kill(int(agent.GetPid()), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			e := turn.End().GetError()
			if e.GetKind() != supervisorv1.ErrorKind_ERROR_KIND_CRASHED || e.GetSignal() != "SIGKILL" || e.ExitCode != nil || !strings.Contains(strings.Join(e.GetStderrTail(), "\n"), "a word of the agent") {
				t.Errorf("the turn ended with %v, want that the agent was killed", e)
			}
			if !testkit.Poll(func() bool {
				list, err := s.State.ListTerminals(s.Ctx, &supervisorv1.ListTerminalsRequest{})
				for _, x := range list.GetTerminals() {
					if x.GetRunning() {
						return false
					}
				}
				return err == nil
			}) {
				t.Error("a command runs on after its agent is gone")
			}
			again := s.Running(agent.GetId(), 1)
			if again.GetPid() == agent.GetPid() || again.GetError().GetKind() != supervisorv1.ErrorKind_ERROR_KIND_CRASHED {
				t.Errorf("started again the agent is %v", again)
			}
			if c.method == "" {
				watching.Until("the session's end", func(e *supervisorv1.Event) bool { return e.GetSessionClosed() != nil })
				events, err := s.Sessions.Prompt(s.Ctx, &supervisorv1.PromptRequest{SessionId: id, Prompt: []*supervisorv1.ContentBlock{e2e.Text("repeat")}})
				if err == nil {
					_, err = events.Recv()
				}
				e2e.ExpectError(t, err, codes.NotFound, supervisorv1.ErrorKind_ERROR_KIND_SESSION_NOT_FOUND)
				s.Finish()
				return
			}
			watching.Until("the session goes on", func(e *supervisorv1.Event) bool { return e.GetSessionOpened().GetMethod() == c.method })
			turn = s.Prompt(id, "repeat after the end")
			turn.Stopped("end_turn")
			if want := id + ": after the end"; turn.Said() != want {
				t.Errorf("the agent sent %q, want %q", turn.Said(), want)
			}
			shown, err := s.State.GetSession(s.Ctx, &supervisorv1.GetSessionRequest{SessionId: id})
			if err != nil || shown.GetSession().GetTurns() != 2 || shown.GetSession().GetTurnActive() || c.without == "load" && shown.GetSession().GetMode() != "code" {
				t.Errorf("the session is %v (%v)", shown, err)
			}
			s.Finish()
		})
	}
}

func TestAgentExit_ReportedInTurn(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, nil)
	agent := s.Start(p.Demo())
	id := s.Open(agent.GetId()).GetSessionId()
	e := s.Prompt(id, "crash").End().GetError()
	if e.GetKind() != supervisorv1.ErrorKind_ERROR_KIND_CRASHED || e.ExitCode == nil || e.GetExitCode() != 3 || e.GetSignal() != "" || len(e.GetStderrTail()) < 2 ||
		e.GetStderrTail()[len(e.GetStderrTail())-1] != "demoagent: these are the last words" || e.GetMessage() == "" {
		t.Errorf("the turn ended with %v, want status 3 and the last words", e)
	}
	s.Finish()
}

func TestAgentExit_TooOftenStopsRestarts(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, nil)
	agent := s.Start(p.Demo())
	id := agent.GetId()
	failed := func() *supervisorv1.Agent {
		resp, err := s.Agents.GetAgent(s.Ctx, &supervisorv1.GetAgentRequest{AgentId: id})
		if err != nil {
			t.Fatal(e2e.Explain(err))
		}
		return resp.GetAgent()
	}
	killed := map[int64]bool{}
	if !testkit.Poll(func() bool {
		a := failed()
		if pid := a.GetPid(); pid > 0 && !killed[pid] && a.GetState() == supervisorv1.AgentState_AGENT_STATE_RUNNING {
			if err := syscall.Kill(int(pid), syscall.SIGKILL); err == nil {
				killed[pid] = true
			}
		}
		return a.GetState() == supervisorv1.AgentState_AGENT_STATE_FAILED
	}) {
		t.Fatalf("after %d ends the agent is %v, want it given up", len(killed), failed())
	}
	if a := failed(); len(killed) < 2 || a.GetPid() != 0 || a.GetError().GetKind() != supervisorv1.ErrorKind_ERROR_KIND_CRASHED {
		t.Errorf("after %d ends the agent is %v", len(killed), a)
	}
	_, err := s.Sessions.NewSession(s.Ctx, &supervisorv1.NewSessionRequest{AgentId: id, Cwd: p.Work})
	if status.Code(err) == codes.OK {
		t.Error("an agent that was given up opens a session")
	}
	// A person may start it nevertheless.
	again, err := s.Agents.RestartAgent(s.Ctx, &supervisorv1.RestartAgentRequest{AgentId: id})
	if err != nil || again.GetAgent().GetState() != supervisorv1.AgentState_AGENT_STATE_RUNNING {
		t.Errorf("restarted it is %v (%v)", again, e2e.Explain(err))
	}
	s.Finish()
}

func TestStopAgent_EndsTurns(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, nil)
	agent := s.Start(p.Demo()).GetId()
	var turns []*e2e.Stream
	for range 3 {
		turn := s.Prompt(s.Open(agent).GetSessionId(), "hang")
		turn.Says("hanging")
		turns = append(turns, turn)
	}
	if _, err := s.Agents.StopAgent(s.Ctx, &supervisorv1.StopAgentRequest{AgentId: agent}); err != nil {
		t.Fatal(e2e.Explain(err))
	}
	for _, turn := range turns {
		if e := turn.End().GetError(); e.GetKind() != supervisorv1.ErrorKind_ERROR_KIND_STOPPED {
			t.Errorf("the turn ended with %v, want that the agent was stopped", e)
		}
	}
	s.Finish()
}

func TestSession_ResumedByAnotherSupervisor(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	first := p.Serve(t, nil)
	id := first.Open(first.Start(p.Demo()).GetId()).GetSessionId()
	first.Prompt(id, "repeat here").Stopped("end_turn")
	first.Finish()

	second := p.Serve(t, nil)
	agent := second.Start(p.Demo()).GetId()
	if _, err := second.Sessions.ResumeSession(second.Ctx, &supervisorv1.ResumeSessionRequest{AgentId: agent, SessionId: id, Cwd: p.Work}); err != nil {
		t.Fatal(e2e.Explain(err))
	}
	turn := second.Prompt(id, "repeat there")
	turn.Stopped("end_turn")
	if want := fmt.Sprintf("%s: there", id); turn.Said() != want {
		t.Errorf("the agent sent %q, want %q", turn.Said(), want)
	}
	second.Finish()
}
