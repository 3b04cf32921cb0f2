package e2e_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// running waits until an agent runs that was started again n times.
func (s *server) running(id string, n uint32) *supervisorv1.Agent {
	s.t.Helper()
	var agent *supervisorv1.Agent
	if !testkit.Poll(func() bool {
		resp, err := s.agents.GetAgent(s.ctx, &supervisorv1.GetAgentRequest{AgentId: id})
		agent = resp.GetAgent()
		return err == nil && agent.GetState() == supervisorv1.AgentState_AGENT_STATE_RUNNING && agent.GetRestarts() == n
	}) {
		s.t.Fatalf("the agent is %v, want it running after %d restarts", agent, n)
	}
	return agent
}

func TestASessionGoesOnAfterItsAgentWasKilled(t *testing.T) {
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
			p := newPlace(t)
			s := p.serve(t, nil)
			agent := s.start(p.demo("-without", c.without, "-complain", "a word of the agent"))
			opened := s.open(agent.GetId())
			id := opened.GetSessionId()
			if c.without == "load" { // what was chosen goes on, too
				if _, err := s.sessions.SetMode(s.ctx, &supervisorv1.SetModeRequest{SessionId: id, ModeId: "code"}); err != nil {
					t.Fatal(explain(err))
				}
			}
			watching := s.watch(&supervisorv1.WatchSessionRequest{SessionId: id})
			turn := s.prompt(id, "/run echo begun; sleep 600")
			turn.until("the terminal is shown", func(e *supervisorv1.Event) bool {
				return len(e.GetToolCallUpdate().GetContent()) > 0
			})
			if list, err := s.state.ListTerminals(s.ctx, &supervisorv1.ListTerminalsRequest{}); err != nil || len(list.GetTerminals()) != 1 || !list.GetTerminals()[0].GetRunning() {
				t.Fatalf("the terminals are %v (%v), want one that runs", list, err)
			}
			if err := syscall.Kill(int(agent.GetPid()), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			e := turn.end().GetError()
			if e.GetKind() != supervisorv1.ErrorKind_ERROR_KIND_CRASHED || e.GetSignal() != "SIGKILL" || e.ExitCode != nil || !strings.Contains(strings.Join(e.GetStderrTail(), "\n"), "a word of the agent") {
				t.Errorf("the turn ended with %v, want that the agent was killed", e)
			}
			if !testkit.Poll(func() bool {
				list, err := s.state.ListTerminals(s.ctx, &supervisorv1.ListTerminalsRequest{})
				for _, x := range list.GetTerminals() {
					if x.GetRunning() {
						return false
					}
				}
				return err == nil
			}) {
				t.Error("a command runs on after its agent is gone")
			}
			again := s.running(agent.GetId(), 1)
			if again.GetPid() == agent.GetPid() || again.GetError().GetKind() != supervisorv1.ErrorKind_ERROR_KIND_CRASHED {
				t.Errorf("started again the agent is %v", again)
			}
			if c.method == "" {
				watching.until("the session's end", func(e *supervisorv1.Event) bool { return e.GetSessionClosed() != nil })
				events, err := s.sessions.Prompt(s.ctx, &supervisorv1.PromptRequest{SessionId: id, Prompt: []*supervisorv1.ContentBlock{text("repeat")}})
				if err == nil {
					_, err = events.Recv()
				}
				expectError(t, err, codes.NotFound, supervisorv1.ErrorKind_ERROR_KIND_SESSION_NOT_FOUND)
				s.finish()
				return
			}
			watching.until("the session goes on", func(e *supervisorv1.Event) bool { return e.GetSessionOpened().GetMethod() == c.method })
			turn = s.prompt(id, "repeat after the end")
			turn.stopped("end_turn")
			if want := id + ": after the end"; turn.said() != want {
				t.Errorf("the agent said %q, want %q", turn.said(), want)
			}
			shown, err := s.state.GetSession(s.ctx, &supervisorv1.GetSessionRequest{SessionId: id})
			if err != nil || shown.GetSession().GetTurns() != 2 || shown.GetSession().GetTurnActive() || c.without == "load" && shown.GetSession().GetMode() != "code" {
				t.Errorf("the session is %v (%v)", shown, err)
			}
			s.finish()
		})
	}
}

func TestAnAgentThatExitsInATurnSaysHow(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve(t, nil)
	agent := s.start(p.demo())
	id := s.open(agent.GetId()).GetSessionId()
	e := s.prompt(id, "crash").end().GetError()
	if e.GetKind() != supervisorv1.ErrorKind_ERROR_KIND_CRASHED || e.ExitCode == nil || e.GetExitCode() != 3 || e.GetSignal() != "" || len(e.GetStderrTail()) < 2 ||
		e.GetStderrTail()[len(e.GetStderrTail())-1] != "demoagent: these are the last words" || e.GetMessage() == "" {
		t.Errorf("the turn ended with %v, want status 3 and the last words", e)
	}
	s.finish()
}

func TestAnAgentThatEndsTooOftenIsGivenUp(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve(t, nil)
	agent := s.start(p.demo())
	id := agent.GetId()
	failed := func() *supervisorv1.Agent {
		resp, err := s.agents.GetAgent(s.ctx, &supervisorv1.GetAgentRequest{AgentId: id})
		if err != nil {
			t.Fatal(explain(err))
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
	_, err := s.sessions.NewSession(s.ctx, &supervisorv1.NewSessionRequest{AgentId: id, Cwd: p.work})
	if status.Code(err) == codes.OK {
		t.Error("an agent that was given up opens a session")
	}
	// A person may start it all the same.
	again, err := s.agents.RestartAgent(s.ctx, &supervisorv1.RestartAgentRequest{AgentId: id})
	if err != nil || again.GetAgent().GetState() != supervisorv1.AgentState_AGENT_STATE_RUNNING {
		t.Errorf("restarted it is %v (%v)", again, explain(err))
	}
	s.finish()
}

func TestAnAgentThatIsStoppedEndsItsTurns(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve(t, nil)
	agent := s.start(p.demo()).GetId()
	var turns []*stream
	for range 3 {
		turn := s.prompt(s.open(agent).GetSessionId(), "hang")
		turn.says("hanging")
		turns = append(turns, turn)
	}
	if _, err := s.agents.StopAgent(s.ctx, &supervisorv1.StopAgentRequest{AgentId: agent}); err != nil {
		t.Fatal(explain(err))
	}
	for _, turn := range turns {
		if e := turn.end().GetError(); e.GetKind() != supervisorv1.ErrorKind_ERROR_KIND_STOPPED {
			t.Errorf("the turn ended with %v, want that the agent was stopped", e)
		}
	}
	s.finish()
}

func TestASessionIsResumedByAnotherSupervisor(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	first := p.serve(t, nil)
	id := first.open(first.start(p.demo()).GetId()).GetSessionId()
	first.prompt(id, "repeat here").stopped("end_turn")
	first.finish()

	second := p.serve(t, nil)
	agent := second.start(p.demo()).GetId()
	if _, err := second.sessions.ResumeSession(second.ctx, &supervisorv1.ResumeSessionRequest{AgentId: agent, SessionId: id, Cwd: p.work}); err != nil {
		t.Fatal(explain(err))
	}
	turn := second.prompt(id, "repeat there")
	turn.stopped("end_turn")
	if want := fmt.Sprintf("%s: there", id); turn.said() != want {
		t.Errorf("the agent said %q, want %q", turn.said(), want)
	}
	second.finish()
}
