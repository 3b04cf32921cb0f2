package chat

import (
	"cmp"
	"time"

	tea "charm.land/bubbletea/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
	"github.com/acphost/acphost/services/supervisor/internal/tui/render"
)

// apply processes events of the watch stream.
func (msg watchMsg) apply(m *model) tea.Cmd {
	m.watches = true
	cmds := []tea.Cmd{m.begin()}
	for _, ev := range msg.events {
		if c := ev.GetCursor(); c != "" {
			m.watchCursor = c
		}
		cmds = append(cmds, m.watchSaw(ev))
	}
	if msg.err == nil {
		if len(msg.events) > 0 { // a stream that fails at once opens without an error, too
			m.retries = 0
		}
		return tea.Batch(append(cmds, msg.next)...)
	}
	if m.leaving || status.Code(msg.err) == codes.Unimplemented {
		return tea.Batch(cmds...)
	}
	cursor := m.watchCursor
	if c := status.Code(msg.err); c == codes.OutOfRange || c == codes.InvalidArgument {
		cursor = ""
	}
	at := ""
	if m.turn != nil {
		at = m.session.GetSessionId()
	}
	return tea.Batch(append(cmds, m.retry(m.sup.watch(cursor, at), msg.err))...)
}

func (m *model) watchSaw(ev *supervisorv1.Event) tea.Cmd {
	if a := ev.GetAgent(); a != nil {
		m.agentChanged(a)
		return nil
	}
	if h := ev.GetHandler(); h != nil {
		m.handlerChanged(h)
		return nil
	}
	switch {
	case ev.GetSessionId() == "", m.o.Attach != nil: // follow receives the events of the session
	case ev.GetSessionId() == m.loading:
		return m.show(ev) // show a history while it is loaded
	case m.phase == opening || m.phase == starting:
		if len(m.early) < maxEarly {
			m.early = append(m.early, ev)
		}
	case ev.GetSessionId() == m.session.GetSessionId():
		return m.show(ev)
	}
	return nil
}

// retry opens a stream again after a moment.
func (m *model) retry(cmd tea.Cmd, err error) tea.Cmd {
	m.retries++
	if m.retries == 20 && m.phase != broken { // otherwise the reason was shown already
		m.phase = broken
		if m.turn != nil {
			m.endTurn()
		}
		m.fail("the supervisor is gone: " + problem(err))
		m.note("/quit leaves")
	}
	if m.retries >= 20 {
		return nil
	}
	return m.sup.after(200*time.Millisecond, retryMsg{what: cmd})
}

func (m *model) agentChanged(a *supervisorv1.Agent) {
	if m.agent == nil || a.GetId() != m.agent.GetId() {
		return
	}
	before := m.agent.GetState()
	m.agent = a
	if before == a.GetState() {
		return
	}
	m.crashed = m.now()
	switch a.GetState() {
	case supervisorv1.AgentState_AGENT_STATE_BACKOFF, supervisorv1.AgentState_AGENT_STATE_FAILED, supervisorv1.AgentState_AGENT_STATE_STOPPED:
		m.flush()
		tail := a.GetError().GetStderrTail()
		if len(tail) == 0 {
			tail = a.GetStderrTail()
		}
		m.fail(cmp.Or(safetext.Line(render.WithoutStderrLine(a.GetError().GetMessage(), tail)), "the agent ended"))
		m.printTail(tail)
		if a.GetState() == supervisorv1.AgentState_AGENT_STATE_BACKOFF {
			m.note("it is started again…")
			return
		}
		m.phase = broken
		m.note(m.hint("/new starts it again, /quit leaves"))
	case supervisorv1.AgentState_AGENT_STATE_RUNNING:
		can := a.GetInfo().GetCapabilities()
		switch {
		case m.phase != broken:
			m.note("the agent runs again")
		case can.GetLoadSession() || can.GetResumeSession():
			m.note("the agent runs again; if the session does not go on, /new begins a new one")
		default:
			m.note("the agent runs again, and cannot go on with the session; /new begins a new one")
		}
	}
}

func (m *model) handlerChanged(h *supervisorv1.HandlerChanged) {
	switch h.GetState() {
	case "backoff", "failed":
		m.warn("the handler " + safetext.Line(h.GetName()) + " is not there: " + cmp.Or(safetext.Line(h.GetError()), h.GetState()))
	case "ready":
		if h.GetRestarts() > 0 {
			m.note("the handler " + safetext.Line(h.GetName()) + " is there again")
		}
	}
}
