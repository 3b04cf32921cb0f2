package cli_test

import (
	"strings"
	"sync"
	"syscall"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/e2e"
)

func TestStubbornAgent_IsKilled(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, p.Config(t, "agent: {stop_grace_ms: 200}\n"))
	deaf := s.Start(p.Demo("-ignore-end"))
	frozen := s.Start(p.Demo("-without", "audio"))
	turn := s.Prompt(s.Open(frozen.GetId()).GetSessionId(), "hang")
	turn.Says("hanging")
	parent := s.Prompt(s.Open(deaf.GetId()).GetSessionId(), "/children")
	parent.Stopped("end_turn")
	e2e.ExpectContains(t, "the agent's message", parent.Said(), "children ok")
	testkit.Freeze(t, int(frozen.GetPid()))
	var wg sync.WaitGroup
	for _, id := range []string{deaf.GetId(), frozen.GetId()} {
		wg.Go(func() {
			resp, err := s.Agents.StopAgent(s.Ctx, &supervisorv1.StopAgentRequest{AgentId: id})
			if err != nil || resp.GetAgent().GetState() != supervisorv1.AgentState_AGENT_STATE_STOPPED {
				t.Errorf("stopped %s is %v (%v)", id, resp, e2e.Explain(err))
			}
		})
	}
	wg.Wait()
	if e := turn.End().GetError(); e.GetKind() != supervisorv1.ErrorKind_ERROR_KIND_STOPPED {
		t.Errorf("the turn ended with %v, want that the agent was stopped", e)
	}
	s.Finish()
}

func TestAgentExit_LeavesOtherAgents(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, nil)
	one, other := s.Start(p.Demo()), s.Start(p.Demo("-without", "audio"))
	going := s.Prompt(s.Open(other.GetId()).GetSessionId(), "slow 20 10")
	going.Says("piece 0")
	if err := syscall.Kill(int(one.GetPid()), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.Running(one.GetId(), 1)
	going.Stopped("end_turn")
	if !strings.Contains(going.Said(), "piece 19") {
		t.Errorf("the other agent sent %q", going.Said())
	}
	s.Finish()
}

// An agent's text must not control a person's terminal.
const escapes = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\u202eevil\u009b1m\r\x08"

func TestAgentOutput_EscapesTerminalSequences(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	for _, flags := range [][]string{nil, {"--json"}} {
		status, out, errs := p.Cli(t, e2e.DemoCommand("repeat "+escapes, flags...)...)
		if status != 0 {
			t.Errorf("the exit status is %d: %s", status, errs)
		}
		if strings.ContainsAny(out+errs, "\x1b\x07\r\x08\u202e\u009b") {
			t.Errorf("with %q the output holds what a terminal obeys: %q", flags, out+errs)
		}
		if !strings.Contains(out, "red") || !strings.Contains(out, "evil") {
			t.Errorf("with %q the output lacks the words: %q", flags, out)
		}
		if flags == nil {
			continue
		}
		whole := ""
		for line := range strings.Lines(out) {
			e := &supervisorv1.Event{}
			if err := protojson.Unmarshal([]byte(line), e); err != nil {
				t.Fatal(err)
			}
			whole += e.GetAgentMessage().GetContent().GetText().GetText()
		}
		if !strings.HasSuffix(whole, ": "+escapes) {
			t.Errorf("as JSON the agent sent %q, want it whole", whole)
		}
	}
	x := p.Terminal(t, append([]string{e2e.Program("acphost")}, e2e.DemoCommand("repeat "+escapes)...))
	if status := x.Exits(); status != 0 {
		t.Errorf("the exit status is %d", status)
	}
	if title, _ := x.Tmux("display-message", "-p", "#{pane_title}"); strings.Contains(title, "owned") {
		t.Errorf("the terminal has the title %q", title)
	}
	e2e.ExpectContains(t, "the terminal", x.All(), "evil")
}
