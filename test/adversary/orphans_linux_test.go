package adversary

import (
	"fmt"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/wire"
)

// TestOrphan_IsRejectedAfterAgentEnds: without an editor a supervisor outlives its agents and starts them again.
// Processes that an agent left behind have all that time.
func TestOrphan_IsRejectedAfterAgentEnds(t *testing.T) {
	needsConfinement(t)
	t.Parallel()
	for _, how := range []string{"orphan", "stray"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := serve(t, wire.NewPlace(t))
			if s.hand == nil {
				t.Fatalf("it does not start: %s", s.Stderr())
			}
			own := s.own()
			stray := s.hand.spawn(how)
			addresses := stray.addresses()
			for _, address := range addresses {
				addresses = append(addresses, "held:"+address)
			}
			if err := stray.callsVerbs(addresses, "x"); err != nil {
				t.Fatalf("the stray could not call: %v", err)
			}
			s.kill(own["the guard"])
			if !testkit.Poll(func() bool { return stray.callsVerbs(addresses, "x") != nil || t.Failed() }) {
				t.Errorf("ATTACK SUCCEEDED: %s lives on and goes on calling", stray.name)
			}
			stray.expectEnd()
			if !runs(s.PID()) {
				t.Error("ATTACK SUCCEEDED: the supervisor is dead")
			}
			s.hand.leave()
			s.endServe()
		})
	}
}

// TestPrompt_RejectsItsAgent: "acphost prompt" is a supervisor, too, for one turn.
func TestPrompt_RejectsItsAgent(t *testing.T) {
	needsConfinement(t)
	t.Parallel()
	p := wire.NewPlace(t)
	puppet, side := p.NewStage(t), p.NewStage(t)
	command := []string{program("acphost"), "prompt", "play", "--", program("attacker"), "agent", puppet.Path, side.Path}
	s := &fixture{Place: p, t: t, Process: wire.Start(t, wire.Options{Name: "a person", Command: command, Dir: p.Work, Env: p.Env()})}
	s.raise(puppet, side)
	if s.agent == nil {
		t.Fatalf("it does not start: %s", s.Stderr())
	}
	s.agent.Reply(s.agent.Expect("initialize"), map[string]any{"protocolVersion": 1, "agentInfo": map[string]any{"name": "attacker", "version": "0.1"}})
	s.agent.Reply(s.agent.Expect("session/new"), map[string]any{"sessionId": "s1"})
	turn := s.agent.Expect("session/prompt")
	own := s.own()
	for _, h := range []*hand{s.hand, s.command(), s.hand.spawn("stray")} {
		for _, a := range h.try("limit", fmt.Sprint(own["the guard"]), "CORE") {
			if a.Err != "EPERM" {
				t.Errorf("ATTACK SUCCEEDED: %s, of the guard: %s, want EPERM", h.name, a)
			}
		}
		if err := h.callsVerbs(h.addresses(), "x"); err != nil {
			t.Errorf("%s could not call: %v", h.name, err)
		}
		h.leave()
	}
	s.agent.Reply(turn, map[string]any{"stopReason": "end_turn"})
	if got := s.ExpectExit(); got != 0 {
		t.Errorf("the exit status is %d: %s", got, s.Stderr())
	}
	s.ExpectNobody(t, nil)
}
