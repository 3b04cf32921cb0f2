package e2e_test

import (
	"strings"
	"sync"
	"syscall"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

func TestAnAgentThatDoesNotWantToEndIsEnded(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve(t, p.config(t, "agent: {stop_grace_ms: 200}\n"))
	deaf := s.start(p.demo("-ignore-end"))
	frozen := s.start(p.demo("-without", "audio"))
	turn := s.prompt(s.open(frozen.GetId()).GetSessionId(), "hang")
	turn.says("hanging")
	parent := s.prompt(s.open(deaf.GetId()).GetSessionId(), "/children")
	parent.stopped("end_turn")
	expectContains(t, "the agent's message", parent.said(), "children ok")
	testkit.Freeze(t, int(frozen.GetPid()))
	var wg sync.WaitGroup
	for _, id := range []string{deaf.GetId(), frozen.GetId()} {
		wg.Go(func() {
			resp, err := s.agents.StopAgent(s.ctx, &supervisorv1.StopAgentRequest{AgentId: id})
			if err != nil || resp.GetAgent().GetState() != supervisorv1.AgentState_AGENT_STATE_STOPPED {
				t.Errorf("stopped %s is %v (%v)", id, resp, explain(err))
			}
		})
	}
	wg.Wait()
	if e := turn.end().GetError(); e.GetKind() != supervisorv1.ErrorKind_ERROR_KIND_STOPPED {
		t.Errorf("the turn ended with %v, want that the agent was stopped", e)
	}
	s.finish()
}

func TestOneAgentsEndIsNoOthers(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve(t, nil)
	one, other := s.start(p.demo()), s.start(p.demo("-without", "audio"))
	going := s.prompt(s.open(other.GetId()).GetSessionId(), "slow 20 10")
	going.says("piece 0")
	if err := syscall.Kill(int(one.GetPid()), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.running(one.GetId(), 1)
	going.stopped("end_turn")
	if !strings.Contains(going.said(), "piece 19") {
		t.Errorf("the other agent said %q", going.said())
	}
	s.finish()
}

// What an agent says must not drive a person's terminal.
const escapes = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\u202eevil\u009b1m\r\x08"

func TestWhatAnAgentSaysDoesNotDriveATerminal(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for _, flags := range [][]string{nil, {"--json"}} {
		status, out, errs := p.cli(t, demoCommand("repeat "+escapes, flags...)...)
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
			t.Errorf("as JSON the agent said %q, want it whole", whole)
		}
	}
	x := p.terminal(t, append([]string{program("acphost")}, demoCommand("repeat "+escapes)...))
	if status := x.exits(); status != 0 {
		t.Errorf("the exit status is %d", status)
	}
	if title, _ := x.tmux("display-message", "-p", "#{pane_title}"); strings.Contains(title, "owned") {
		t.Errorf("the terminal has the title %q", title)
	}
	expectContains(t, "the terminal", x.all(), "evil")
}
