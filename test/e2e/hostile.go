package e2e

import (
	"encoding/json"
	"fmt"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// Plays starts an agent that the test plays, under a name, up to its answer to initialize.
func (s *Server) Plays(name string) (*supervisorv1.Agent, *ScriptedAgent) {
	s.T.Helper()
	st := s.Stage(s.T)
	type result struct {
		agent *supervisorv1.Agent
		err   error
	}
	started := make(chan result, 1)
	go func() {
		resp, err := s.Agents.StartAgent(s.Ctx, &supervisorv1.StartAgentRequest{Command: st.Command, Cwd: s.Work, Name: name, Separate: true})
		started <- result{resp.GetAgent(), err}
	}()
	actor := st.Play(s.T)
	actor.Reply(actor.Expect("initialize"), json.RawMessage(`{"protocolVersion":1,"agentInfo":{"name":"puppet","version":"0.1"},"agentCapabilities":{"sessionCapabilities":{"close":{}}}}`))
	r := <-started
	if r.err != nil {
		s.T.Fatal(Explain(r.err))
	}
	return r.agent, actor
}

// Opens opens a session with an agent that the test plays, which assigns the id.
func (s *Server) Opens(agent *supervisorv1.Agent, actor *ScriptedAgent, id string) error {
	s.T.Helper()
	result := make(chan error, 1)
	go func() {
		_, err := s.Sessions.NewSession(s.Ctx, &supervisorv1.NewSessionRequest{AgentId: agent.GetId(), Cwd: s.Work})
		result <- err
	}()
	actor.Reply(actor.Expect("session/new"), map[string]any{"sessionId": id})
	return <-result
}

// Prompts begins a turn with an agent that the test plays.
func (s *Server) Prompts(agent *supervisorv1.Agent, session string) *Stream {
	s.T.Helper()
	return s.PromptWith(s.Ctx, &supervisorv1.PromptRequest{AgentId: agent.GetId(), SessionId: session, Prompt: []*supervisorv1.ContentBlock{Text("play")}})
}

// Update sends a session/update unchanged.
func (p *ScriptedAgent) Update(session, update string) {
	p.Write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%q,"update":%s}}`, session, update))
}

// Chunk is an update with a part of the answer.
func Chunk(words string) string {
	text, _ := json.Marshal(words) // a string always marshals
	return fmt.Sprintf(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":%s}}`, text)
}
