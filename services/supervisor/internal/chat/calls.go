package chat

import (
	"context"
	"errors"

	tea "charm.land/bubbletea/v2"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

func (s *supervisor) start(r *supervisorv1.StartAgentRequest) tea.Cmd {
	return s.do(func(ctx context.Context) tea.Msg {
		a, err := s.agents.StartAgent(ctx, r)
		return startedMsg{agent: a.GetAgent(), err: err}
	})
}

func (s *supervisor) restart(agentID string) tea.Cmd {
	return s.do(func(ctx context.Context) tea.Msg {
		a, err := s.agents.RestartAgent(ctx, &supervisorv1.RestartAgentRequest{AgentId: agentID})
		return startedMsg{agent: a.GetAgent(), err: err}
	})
}

// openSession opens a session: a stored one if id is not empty.
func (s *supervisor) openSession(a *supervisorv1.Agent, id, cwd, meta string) tea.Cmd {
	return s.do(func(ctx context.Context) tea.Msg { return s.opened(ctx, a, id, cwd, meta) })
}

// closeSession closes a session that was left. That it cannot be closed is nothing that a person could do anything about.
func (s *supervisor) closeSession(agentID, id string) tea.Cmd {
	return s.do(func(ctx context.Context) tea.Msg {
		_, _ = s.sessions.CloseSession(ctx, &supervisorv1.CloseSessionRequest{AgentId: agentID, SessionId: id})
		return nil
	})
}

func (s *supervisor) opened(ctx context.Context, a *supervisorv1.Agent, id, cwd, meta string) openedMsg {
	can := a.GetInfo().GetCapabilities()
	switch {
	case id == "":
		r, err := s.sessions.NewSession(ctx, &supervisorv1.NewSessionRequest{AgentId: a.GetId(), Cwd: cwd, Meta: meta})
		return openedMsg{session: r.GetSession(), how: "new", err: err}
	case can.GetLoadSession():
		r, err := s.sessions.LoadSession(ctx, &supervisorv1.LoadSessionRequest{AgentId: a.GetId(), SessionId: id, Cwd: cwd, Meta: meta})
		return openedMsg{session: r.GetSession(), how: "load", err: err}
	case can.GetResumeSession():
		r, err := s.sessions.ResumeSession(ctx, &supervisorv1.ResumeSessionRequest{AgentId: a.GetId(), SessionId: id, Cwd: cwd, Meta: meta})
		return openedMsg{session: r.GetSession(), how: "resume", err: err}
	}
	return openedMsg{how: "load", err: errors.New("this agent can neither load nor resume a session; leave --session out")}
}

func (s *supervisor) answer(r *supervisorv1.AnswerApprovalRequest) tea.Cmd {
	r.AnsweredBy = answeredBy
	return s.do(func(ctx context.Context) tea.Msg {
		a, err := s.approvals.AnswerApproval(ctx, r)
		return answeredMsg{id: r.GetId(), answer: a.GetAnswer(), err: err}
	})
}

func (s *supervisor) cancelTurn(agentID, sessionID string) tea.Cmd {
	return s.do(func(ctx context.Context) tea.Msg {
		_, err := s.sessions.CancelPrompt(ctx, &supervisorv1.CancelPromptRequest{AgentId: agentID, SessionId: sessionID})
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
			r, err := s.sessions.ListStoredSessions(ctx, &supervisorv1.ListStoredSessionsRequest{AgentId: agentID, Cwd: cwd, Cursor: cursor})
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
		r, err := s.state.GetSession(ctx, &supervisorv1.GetSessionRequest{AgentId: agentID, SessionId: sessionID})
		return sessionMsg{session: r.GetSession(), what: what, err: err}
	})
}

func (s *supervisor) setMode(agentID, sessionID, id string) tea.Cmd {
	return s.do(func(ctx context.Context) tea.Msg {
		r, err := s.sessions.SetMode(ctx, &supervisorv1.SetModeRequest{AgentId: agentID, SessionId: sessionID, ModeId: id})
		return sessionMsg{session: r.GetSession(), what: "mode", err: err}
	})
}

func (s *supervisor) setModel(agentID, sessionID, id string) tea.Cmd {
	return s.do(func(ctx context.Context) tea.Msg {
		r, err := s.sessions.SetModel(ctx, &supervisorv1.SetModelRequest{AgentId: agentID, SessionId: sessionID, ModelId: id})
		return sessionMsg{session: r.GetSession(), what: "model", err: err}
	})
}

func (s *supervisor) setOption(r *supervisorv1.SetConfigOptionRequest) tea.Cmd {
	return s.do(func(ctx context.Context) tea.Msg {
		got, err := s.sessions.SetConfigOption(ctx, r)
		return sessionMsg{session: got.GetSession(), what: "option " + r.GetConfigId(), err: err}
	})
}
