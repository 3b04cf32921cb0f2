package chat

import (
	"context"
	"fmt"

	tea "charm.land/bubbletea/v2"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

func (s *supervisor) start(r *supervisorv1.StartAgentRequest) tea.Cmd {
	return s.do(func(ctx context.Context) tea.Msg {
		a, err := s.Agents.StartAgent(ctx, r)
		return startedMsg{agent: a.GetAgent(), err: err}
	})
}

func (s *supervisor) restart(agentID string) tea.Cmd {
	return s.do(func(ctx context.Context) tea.Msg {
		a, err := s.Agents.RestartAgent(ctx, &supervisorv1.RestartAgentRequest{AgentId: agentID})
		return startedMsg{agent: a.GetAgent(), err: err}
	})
}

// openSession opens a session: a stored one if id is not empty.
func (s *supervisor) openSession(a *supervisorv1.Agent, id, cwd, meta string) tea.Cmd {
	return s.do(func(ctx context.Context) tea.Msg {
		session, how, err := s.OpenSession(ctx, a, id, cwd, meta, true)
		if err != nil && how == "" {
			err = fmt.Errorf("%w; leave --session out", err)
		}
		return openedMsg{session: session, how: how, err: err}
	})
}

// closeSession closes a session that was left. That it cannot be closed is nothing that a person could do anything about.
func (s *supervisor) closeSession(agentID, id string) tea.Cmd {
	return s.do(func(ctx context.Context) tea.Msg {
		_, _ = s.Sessions.CloseSession(ctx, &supervisorv1.CloseSessionRequest{AgentId: agentID, SessionId: id})
		return nil
	})
}

// answer answers a question.
func (s *supervisor) answer(id string, answer *supervisorv1.AnswerApprovalRequest) tea.Cmd {
	return s.do(func(ctx context.Context) tea.Msg {
		a, err := s.Answer(ctx, id, answeredBy, answer)
		return answeredMsg{id: id, answer: a, err: err}
	})
}

func (s *supervisor) cancelTurn(agentID, sessionID string) tea.Cmd {
	return s.do(func(ctx context.Context) tea.Msg {
		_, err := s.Sessions.CancelPrompt(ctx, &supervisorv1.CancelPromptRequest{AgentId: agentID, SessionId: sessionID})
		if err != nil {
			return noticeMsg{text: "cancel: " + problem(err), bad: true}
		}
		return nil
	})
}

// notes waits for a line that a person should see.
func (s *supervisor) notes(lines <-chan string) tea.Cmd {
	if lines == nil {
		return nil
	}
	return s.do(func(ctx context.Context) tea.Msg {
		select {
		case <-ctx.Done():
			return nil
		case l := <-lines:
			return noteMsg(l)
		}
	})
}

// maxStored bounds the list of sessions to choose from.
const maxStored = 200

func (s *supervisor) stored(agentID, cwd string) tea.Cmd {
	return s.do(func(ctx context.Context) tea.Msg {
		m := storedMsg{}
		cursor := ""
		for len(m.sessions) < maxStored {
			r, err := s.Sessions.ListStoredSessions(ctx, &supervisorv1.ListStoredSessionsRequest{AgentId: agentID, Cwd: cwd, Cursor: cursor})
			if err != nil {
				return storedMsg{err: err}
			}
			m.sessions = append(m.sessions, r.GetSessions()...)
			if cursor == r.GetNextCursor() || len(r.GetSessions()) == 0 { // an agent that says the same for ever
				return m
			}
			if cursor = r.GetNextCursor(); cursor == "" {
				return m
			}
		}
		m.sessions, m.more = m.sessions[:maxStored], true
		return m
	})
}

// session asks for the session as it is now, for what.
func (s *supervisor) session(agentID, sessionID, what string) tea.Cmd {
	return s.do(func(ctx context.Context) tea.Msg {
		r, err := s.State.GetSession(ctx, &supervisorv1.GetSessionRequest{AgentId: agentID, SessionId: sessionID})
		return sessionMsg{session: r.GetSession(), what: what, err: err}
	})
}

func (s *supervisor) setMode(agentID, sessionID, id string) tea.Cmd {
	return s.do(func(ctx context.Context) tea.Msg {
		r, err := s.Sessions.SetMode(ctx, &supervisorv1.SetModeRequest{AgentId: agentID, SessionId: sessionID, ModeId: id})
		return sessionMsg{session: r.GetSession(), what: "mode", err: err}
	})
}

func (s *supervisor) setModel(agentID, sessionID, id string) tea.Cmd {
	return s.do(func(ctx context.Context) tea.Msg {
		r, err := s.Sessions.SetModel(ctx, &supervisorv1.SetModelRequest{AgentId: agentID, SessionId: sessionID, ModelId: id})
		return sessionMsg{session: r.GetSession(), what: "model", err: err}
	})
}

func (s *supervisor) setOption(r *supervisorv1.SetConfigOptionRequest) tea.Cmd {
	return s.do(func(ctx context.Context) tea.Msg {
		got, err := s.Sessions.SetConfigOption(ctx, r)
		return sessionMsg{session: got.GetSession(), what: "option " + r.GetConfigId(), err: err}
	})
}
