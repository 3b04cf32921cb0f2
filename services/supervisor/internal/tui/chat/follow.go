package chat

import (
	"cmp"
	"context"
	"time"

	tea "charm.land/bubbletea/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// The part of a session's history that a chat shows when it joins, as named in ACP's proposal.
const (
	HistoryFull    = "full"    // all recorded events
	HistoryPending = "pending" // only open questions
	HistoryNone    = "none"    // nothing: earlier questions are shown elsewhere
)

// Attach is a live session of another client that a chat joins. The chat neither opens nor closes the session.
type Attach struct {
	// AgentID and SessionID identify the session.
	AgentID, SessionID string
	// History is one of the constants above. Default: HistoryFull.
	History string
	// Follow is the reason why the chat cannot send prompts: the session belongs to an editor. Default: it can.
	Follow string
}

// joined is the state of a joined session.
type joined struct {
	at          time.Time // earlier events are history
	cursor      string    // cursor of the last event
	promptShown bool      // a recorded prompt was shown, so the agent's repetition is not
	pending     bool      // earlier questions are being received
	history     bool      // the current event is history
}

// Messages about a joined session.
type (
	attachedMsg struct {
		agent   *supervisorv1.Agent
		session *supervisorv1.Session
		err     error
	}
	// followedMsg contains events of the session.
	followedMsg struct {
		events []*supervisorv1.Event
		next   tea.Cmd
		err    error
	}
)

// attach looks up the session to join.
func (s *supervisor) attach(a *Attach) tea.Cmd {
	return s.do(func(ctx context.Context) tea.Msg {
		res, err := s.State.GetSession(ctx, &supervisorv1.GetSessionRequest{AgentId: a.AgentID, SessionId: a.SessionID})
		if err != nil {
			return attachedMsg{err: err}
		}
		agent, err := s.Agents.GetAgent(ctx, &supervisorv1.GetAgentRequest{AgentId: res.GetSession().GetAgentId()})
		if err != nil { // the agent is known by its id only
			return attachedMsg{session: res.GetSession(), agent: &supervisorv1.Agent{Id: res.GetSession().GetAgentId(), Name: res.GetSession().GetAgentId()}}
		}
		return attachedMsg{session: res.GetSession(), agent: agent.GetAgent()}
	})
}

// follow subscribes to the events of a session after a cursor. An empty cursor means the beginning of the record.
func (s *supervisor) follow(agentID, sessionID, cursor string) tea.Cmd {
	return s.do(func(ctx context.Context) tea.Msg {
		events, err := s.WatchSession(ctx, &supervisorv1.WatchSessionRequest{AgentId: agentID, SessionId: sessionID, Cursor: cursor})
		if err != nil {
			return followedMsg{err: err}
		}
		return followedMsg{next: follow(s, events, func(all []*supervisorv1.Event, next tea.Cmd, err error) tea.Msg {
			return followedMsg{events: all, next: next, err: err}
		})}
	})
}

// promptJoined begins a turn. Its events arrive with all others of the session. The returned message reports only a
// rejection.
func (s *supervisor) promptJoined(number int, agentID, sessionID string, blocks func() ([]*supervisorv1.ContentBlock, error)) tea.Cmd {
	return s.do(func(ctx context.Context) tea.Msg {
		content, err := blocks()
		if err != nil {
			return turnMsg{turn: number, err: err}
		}
		ctx, leave := context.WithCancel(ctx)
		defer leave() // the turn continues, and follow receives its events
		turn, err := s.Prompt(ctx, &supervisorv1.PromptRequest{AgentId: agentID, SessionId: sessionID, Prompt: content})
		if err != nil {
			return turnMsg{turn: number, err: err}
		}
		for ev, err := range turn.Events() {
			if err != nil {
				return turnMsg{turn: number, err: err}
			}
			if ev.GetTurnStarted() != nil {
				return nil
			}
		}
		return nil
	})
}

func (msg attachedMsg) apply(m *model) tea.Cmd {
	if msg.err != nil {
		m.phase, m.failure = broken, &AgentError{Kind: agentError(msg.err).GetKind(), text: safetext.Line(problem(msg.err))}
		m.fail("the session cannot be joined: " + problem(msg.err))
		return m.leave()
	}
	a := m.o.Attach
	m.agent, m.session, m.phase, m.opened = msg.agent, msg.session, ready, true
	m.joined.at = m.now()
	text := "joined the session with " + m.agentTitle()
	if t := m.session.GetTitle(); t != "" {
		text += ": " + safetext.Line(t)
	}
	m.note(text)
	if a.Follow != "" {
		m.note(a.Follow)
	}
	cursor := ""
	if a.History != HistoryFull && a.History != "" {
		m.live.plan, m.live.planShown = m.session.GetPlan(), true
		if m.session.GetTurnActive() {
			m.turn = &turn{since: m.now(), others: true, started: true}
		}
		cursor = cmp.Or(m.session.GetCursor(), "now")
	}
	m.joined.cursor = cursor
	return m.sup.follow(m.session.GetAgentId(), m.session.GetSessionId(), cursor)
}

// apply processes events of the session.
func (msg followedMsg) apply(m *model) tea.Cmd {
	var cmds []tea.Cmd
	for _, ev := range msg.events {
		m.retries = 0
		m.joined.cursor = cmp.Or(ev.GetCursor(), m.joined.cursor)
		cmds = append(cmds, m.followed(ev))
	}
	if msg.err == nil {
		return tea.Batch(append(cmds, m.throttled(msg.next))...)
	}
	if c := status.Code(msg.err); m.leaving || m.phase == broken && (c == codes.OK || c == codes.NotFound) {
		return tea.Batch(cmds...)
	}
	return tea.Batch(append(cmds, m.retry(m.sup.follow(m.session.GetAgentId(), m.session.GetSessionId(), m.joined.cursor), msg.err))...)
}

// followed processes an event of a joined session. It shows turns of all clients.
func (m *model) followed(ev *supervisorv1.Event) tea.Cmd {
	if ev.GetHistory() && m.joined.promptShown {
		return nil // it is in the record
	}
	m.joined.history = ev.GetTime().AsTime().Before(m.joined.at)
	switch ev.GetEvent().(type) {
	case *supervisorv1.Event_TurnStarted:
		m.joined.promptShown = true
		m.beginTurn(ev)
		return nil
	case *supervisorv1.Event_TurnEnded:
		cmd := m.show(ev)
		if m.turn != nil && m.turn.started {
			return tea.Batch(cmd, m.endTurn())
		}
		return cmd
	}
	return m.show(ev)
}

// beginTurn shows the begin of a turn: a waiting one of this chat, or one of another client.
func (m *model) beginTurn(ev *supervisorv1.Event) {
	m.endLooseText()
	m.live.endTurn()
	m.drawn(m.draw.Event(ev))
	m.flush()
	if m.turn == nil {
		m.turn = &turn{since: m.now(), others: true}
		if m.replays() {
			m.turn.since = ev.GetTime().AsTime()
		}
	}
	m.turn.started = true
}

// refused processes the rejection of a prompt in a joined session. If another client's turn is active, the prompt waits
// for its end.
func (m *model) refused(msg turnMsg) tea.Cmd {
	if msg.err == nil {
		return nil
	}
	m.flush()
	m.fail(problem(msg.err))
	if m.turn == nil || m.turn.number != msg.turn {
		return nil // the other turn has ended
	}
	text := m.turn.text
	switch {
	case m.turn.started:
		m.turn.number, m.turn.text, m.turn.others = 0, "", true
		m.queue = append([]string{text}, m.queue...)
	default:
		m.turn = nil
		if m.edit.Empty() {
			m.edit.Set(text)
		}
	}
	return nil
}

// replays reports whether the displayed events are the history of a joined session.
func (m *model) replays() bool { return m.o.Attach != nil && m.joined.history }

// hint returns the advice if there is no session. For a joined session there is only one possible advice.
func (m *model) hint(text string) string {
	if m.o.Attach != nil {
		return "/quit leaves"
	}
	return text
}
