package chat

import (
	"errors"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"
	"google.golang.org/protobuf/types/known/timestamppb"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/tui/render"
)

// turn is an active prompt.
type turn struct {
	number    int
	text      string // the text that was sent
	since     time.Time
	cancelled bool
	lags      int // how often its events were read from the record
	ended     bool
	others    bool // another client sent the prompt
	started   bool // in a joined session: its begin was received
}

// apply processes events of a turn that this chat began.
func (msg turnMsg) apply(m *model) tea.Cmd {
	if m.o.Attach != nil {
		return m.refused(msg)
	}
	if m.turn == nil || m.turn.number != msg.turn {
		if msg.err == nil {
			return msg.next // of a previous session: read to its end, so that the call ends
		}
		return nil
	}
	if msg.lags > m.turn.lags {
		m.turn.lags = msg.lags
		m.warn("the screen was slower than the agent; going on from the record")
	}
	var cmds []tea.Cmd
	for _, ev := range msg.events {
		if ev.GetTurnEnded() != nil {
			m.turn.ended = true
		}
		cmds = append(cmds, m.show(ev))
	}
	if msg.err == nil {
		return tea.Batch(append(cmds, m.throttled(msg.next))...)
	}
	return tea.Batch(append(cmds, m.turnOver(msg))...)
}

// turnOver processes the end of a turn's stream. The turn itself may continue.
func (m *model) turnOver(msg turnMsg) tea.Cmd {
	if m.turn.ended {
		return m.endTurn()
	}
	if !errors.Is(msg.err, io.EOF) {
		m.flush()
		m.fail(render.WithoutStderrLine(problem(msg.err), agentError(msg.err).GetStderrTail()))
		m.sayLogin(agentError(msg.err))
		m.printTail(agentError(msg.err).GetStderrTail())
	}
	return m.endTurn()
}

// endTurn processes the end of a turn for any reason.
func (m *model) endTurn() tea.Cmd {
	m.flush()
	m.printOpen(false) // of a turn that was interrupted
	m.printPlan()
	m.live.endTurn()
	if m.live.spoke.draw == m.draw {
		m.live.spoke = spoken{}
	}
	m.turn = nil
	if len(m.queue) == 0 && !m.replays() {
		m.call(noticeEnded)
	}
	return m.sendQueued()
}

func (m *model) sendQueued() tea.Cmd {
	if m.turn != nil || m.phase != ready || len(m.queue) == 0 {
		return nil
	}
	text := m.queue[0]
	m.queue = m.queue[1:]
	return m.send(text)
}

// send begins a turn with a text.
func (m *model) send(text string) tea.Cmd {
	m.endLooseText()
	m.turns++
	m.turn = &turn{number: m.turns, text: text, since: m.now()}
	caps := m.agent.GetInfo().GetCapabilities()
	cwd := m.o.Cwd
	content := func() ([]*supervisorv1.ContentBlock, error) { return blocks(text, cwd, caps) }
	if m.o.Attach != nil {
		return m.sup.promptJoined(m.turns, m.session.GetAgentId(), m.session.GetSessionId(), content)
	}
	m.live.endTurn()
	m.printPrompt(text)
	return m.sup.prompt(m.turns, m.session.GetAgentId(), m.session.GetSessionId(), content)
}

// printPrompt prints the user's prompt.
func (m *model) printPrompt(text string) {
	m.drawn(m.draw.Event(&supervisorv1.Event{
		Time:  timestamppb.New(m.now()),
		Event: &supervisorv1.Event_TurnStarted{TurnStarted: &supervisorv1.TurnStarted{Prompt: []*supervisorv1.ContentBlock{client.Text(text)}}},
	}))
	m.flush()
}
