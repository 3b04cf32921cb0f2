package headless_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/e2e"
)

// bothHalves is the message of a teller in a turn.
const bothHalves = "first half, second half"

// longGrace waits for late updates as long as a loaded machine may need. A teller with -idle ends it at once.
const longGrace = "limits: {turn_grace_ms: 60000}\n"

// checkTold checks what a command printed of a teller's turn.
func checkTold(t *testing.T, format, out string) {
	t.Helper()
	want := bothHalves
	if format == "json" {
		want = "second half"
		if last := out[strings.LastIndexByte(strings.TrimSuffix(out, "\n"), '\n')+1:]; !strings.Contains(last, "turnEnded") {
			t.Errorf("the last event is %s, want the turn's end", last)
		}
	}
	if !strings.Contains(out, want) {
		t.Errorf("standard output is %q, want %q in it", out, want)
	}
}

func TestPrompt_PrintsUpdatesAfterAnswer(t *testing.T) {
	t.Parallel()
	for _, late := range []string{"0s", "150ms"} {
		for _, format := range []string{"final", "text", "json"} {
			t.Run(late+"/"+format, func(t *testing.T) {
				t.Parallel()
				p := e2e.NewPlace(t)
				flags := append(p.Config(t, longGrace), "--output", format, "go on", "--")
				status, out, errs := p.Cli(t, append(append([]string{"prompt"}, flags...), e2e.Role("teller", "-late", late, "-idle")...)...)
				if status != 0 {
					t.Errorf("the exit status is %d, want 0: %s", status, errs)
				}
				checkTold(t, format, out)
			})
		}
	}
	t.Run("default grace", func(t *testing.T) {
		t.Parallel()
		p := e2e.NewPlace(t)
		status, out, errs := p.Cli(t, append([]string{"prompt", "--output", "final", "go on", "--"}, e2e.Role("teller", "-late", "0s")...)...)
		if status != 0 {
			t.Errorf("the exit status is %d, want 0: %s", status, errs)
		}
		checkTold(t, "final", out)
		e2e.ExpectContains(t, "the record", p.Acphost(t, 0, "sessions", "show", "s1"), bothHalves)
	})
}

func TestSessionsPrompt_PrintsUpdatesAfterAnswer(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, p.Config(t, longGrace))
	p.Acphost(t, 0, append([]string{"agents", "start", "--name", "teller", "--"}, e2e.Role("teller", "-late", "150ms", "-idle")...)...)
	id := strings.TrimSpace(p.Acphost(t, 0, "sessions", "new", "teller"))
	for _, format := range []string{"text", "json"} {
		flags := []string{"sessions", "prompt", id, "go on"}
		if format == "json" {
			flags = append(flags, "--json")
		}
		checkTold(t, format, p.Acphost(t, 0, flags...))
	}
	s.Finish()
}

// TestServe_NextTurnEndsWaitForLateUpdates sets the grace to a minute, so that only the next turn can end the wait.
func TestServe_NextTurnEndsWaitForLateUpdates(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, p.Config(t, longGrace))
	agent := s.Start(&supervisorv1.StartAgentRequest{Command: e2e.Role("teller", "-late", "0s"), Cwd: p.Work})
	session := s.Open(agent.GetId())
	var turns []supervisorv1.SessionService_PromptClient
	for range 2 {
		var turn supervisorv1.SessionService_PromptClient
		testkit.Eventually(t, "the session takes a prompt", func() bool {
			var err error
			turn, err = s.Sessions.Prompt(s.Ctx, &supervisorv1.PromptRequest{
				AgentId: agent.GetId(), SessionId: session.GetSessionId(),
				Prompt: []*supervisorv1.ContentBlock{{Content: &supervisorv1.ContentBlock_Text{Text: &supervisorv1.TextContent{Text: "go on"}}}},
			})
			if err != nil {
				t.Fatal(err)
			}
			for {
				r, err := turn.Recv()
				if err != nil {
					return false // the turn before is under way
				}
				if strings.Contains(r.GetEvent().GetRaw(), "second half") {
					return true
				}
			}
		})
		turns = append(turns, turn)
	}
	r, err := turns[0].Recv()
	if err != nil || r.GetEvent().GetTurnEnded().GetStopReason() != "end_turn" {
		t.Errorf("got %v, %v, want the end of the first turn", r, err)
	}
	if _, err := turns[0].Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("got %v behind the end, want io.EOF", err)
	}
	s.Finish()
}
