package chat

import (
	"context"
	"fmt"

	tea "charm.land/bubbletea/v2"
	"google.golang.org/grpc"

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

// openSession opens a session. If id is not empty, it is a stored session.
func (s *supervisor) openSession(a *supervisorv1.Agent, id, cwd, meta string) tea.Cmd {
	return s.do(func(ctx context.Context) tea.Msg {
		session, how, err := s.OpenSession(ctx, a, id, cwd, meta, true)
		if err != nil && how == "" {
			err = fmt.Errorf("%w; leave --session out", err)
		}
		return openedMsg{session: session, how: how, err: err}
	})
}

// closeSession closes a previous session. Errors are ignored, because the user cannot resolve them.
func (s *supervisor) closeSession(agentID, id string) tea.Cmd {
	return s.do(func(ctx context.Context) tea.Msg {
		_, _ = s.Sessions.CloseSession(ctx, &supervisorv1.CloseSessionRequest{AgentId: agentID, SessionId: id})
		return nil
	})
}

// answer answers a question.
func (s *supervisor) answer(id string, answer *supervisorv1.AnswerApprovalRequest) tea.Cmd {
	answer.Surface = supervisorv1.Surface_SURFACE_INPUT
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

// notes waits for a log line that is shown to the user.
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

// firstDrawn waits for the first frame. Before it, Bubble Tea assumes that a frame is as high as the terminal, and
// lines that are printed then overwrite the top of the terminal.
func (s *supervisor) firstDrawn(drawn <-chan struct{}) tea.Cmd {
	if drawn == nil {
		return nil
	}
	return s.do(func(ctx context.Context) tea.Msg {
		select {
		case <-ctx.Done():
		case <-drawn:
		}
		return printedMsg{}
	})
}

// maxStored limits the list of stored sessions.
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
			if cursor == r.GetNextCursor() || len(r.GetSessions()) == 0 { // an agent that returns the same page again
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

// asks returns a command that makes a call about a session. The message contains the session's state after the call,
// and the purpose of the call.
func asks[Q any, R interface{ GetSession() *supervisorv1.Session }](s *supervisor, what string, call func(context.Context, Q, ...grpc.CallOption) (R, error), r Q) tea.Cmd {
	return s.do(func(ctx context.Context) tea.Msg {
		got, err := call(ctx, r)
		return sessionMsg{session: got.GetSession(), what: what, err: err}
	})
}
