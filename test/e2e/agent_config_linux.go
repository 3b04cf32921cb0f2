package e2e

import (
	"encoding/json"
	"slices"
	"syscall"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// Drives has a command run an agent and hold a session, and returns what the session shows.
func (p *Place) Drives(t *testing.T, command string, flags, agent []string) string {
	t.Helper()
	words := "/read " + p.Path("missing")
	switch command {
	case "run":
		h := p.Start(t, flags, agent)
		h.Initialize(`{}`).Result(nil)
		var opened struct{ SessionID string }
		h.Request("session/new", map[string]any{"cwd": p.Work, "mcpServers": []any{}}, &opened)
		h.Request("session/prompt", map[string]any{"sessionId": opened.SessionID, "prompt": []any{map[string]any{"type": "text", "text": words}}}, nil)
		h.Close()
		h.ExpectExit()
	case "prompt":
		status, out, errs := p.Cli(t, slices.Concat([]string{"prompt"}, flags, []string{words, "--"}, agent)...)
		if status != 0 {
			t.Fatalf("status %d: %s%s", status, out, errs)
		}
	case "chat":
		x := p.Terminal(t, slices.Concat([]string{Program("acphost"), "chat"}, flags, []string{"--"}, agent))
		x.Shows("Demo agent 1.0.0", "❯", "Ask · Maxi")
		x.Says(words)
		x.Shows("read ", "Maxi · /help")
		x.Says("/quit")
		x.Exits()
	case "serve":
		s := p.Serve(t, slices.Concat(flags, []string{"--"}, agent))
		var id string
		testkit.Eventually(t, "the agent runs", func() bool {
			agents, err := s.Agents.ListAgents(s.Ctx, &supervisorv1.ListAgentsRequest{})
			if err != nil || len(agents.GetAgents()) != 1 || agents.GetAgents()[0].GetState() != supervisorv1.AgentState_AGENT_STATE_RUNNING {
				return false
			}
			id = agents.GetAgents()[0].GetId()
			return true
		})
		s.Prompt(s.Open(id).GetSessionId(), words).Stopped("end_turn")
		Send(t, s.Process, syscall.SIGTERM) // sidecars stay, so that not all processes of the place end
		if status := s.ExpectExit(); status != 0 {
			t.Errorf("the exit status is %d, want 0", status)
		}
	}
	_, out, _ := p.Cli(t, "sessions", "list", "--json")
	var listed struct {
		ID string `json:"session"`
	}
	if err := json.Unmarshal([]byte(out), &listed); err != nil {
		t.Fatalf("the sessions are %q: %v", out, err)
	}
	_, shown, errs := p.Cli(t, "sessions", "show", listed.ID)
	return shown + errs
}

// Fails has a command run an agent that does not answer, and returns what it says of that.
func (p *Place) Fails(t *testing.T, command string, flags, agent []string) string {
	t.Helper()
	args := slices.Concat(flags, []string{"--"}, agent)
	switch command {
	case "run":
		h := p.Start(t, flags, agent)
		e := h.Initialize(`{}`).Refused(-32603)
		h.Close()
		h.ExpectExit()
		return e.Message
	case "chat":
		x := p.Terminal(t, slices.Concat([]string{Program("acphost"), "chat"}, args))
		return x.Shows("initialize")
	case "prompt":
		_, _, errs := p.Cli(t, slices.Concat([]string{"prompt"}, flags, []string{"hello", "--"}, agent)...)
		return errs
	}
	_, _, errs := p.Cli(t, slices.Concat([]string{"serve"}, args)...)
	return errs
}
