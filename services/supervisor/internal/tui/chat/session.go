package chat

import (
	"cmp"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
	"github.com/acphost/acphost/services/supervisor/internal/tui/render"
)

func (msg startedMsg) apply(m *model) tea.Cmd {
	if msg.err != nil {
		m.sessionFailed(msg.err)
		return nil
	}
	m.agent = msg.agent
	return m.openSession(m.first(), m.o.Cwd)
}

// first returns the requested session, until a session was opened.
func (m *model) first() string {
	if m.opened {
		return ""
	}
	return m.o.Session
}

// openSession opens a session instead of the current one. If id is not empty, it is a stored session.
func (m *model) openSession(id, cwd string) tea.Cmd {
	m.phase, m.loading = opening, id
	return m.sup.openSession(m.agent, id, cwd, m.o.Meta)
}

func (msg openedMsg) apply(m *model) tea.Cmd {
	m.loading = ""
	if msg.err != nil {
		m.early = nil
		if m.session != nil && status.Code(msg.err) != codes.Aborted {
			m.phase = ready // the previous session is still open
			m.fail("the session did not open: " + problem(msg.err))
			m.sayLogin(agentError(msg.err))
			return nil
		}
		m.sessionFailed(msg.err)
		return nil
	}
	m.flush()
	left := m.session
	m.phase, m.session, m.failure = ready, msg.session, nil
	m.live = live{plan: msg.session.GetPlan()}
	early := m.early
	m.early = nil
	var cmds []tea.Cmd
	for _, ev := range early {
		if ev.GetSessionId() == m.session.GetSessionId() {
			cmds = append(cmds, m.show(ev))
		}
	}
	m.greet(msg.how)
	if left != nil && left.GetSessionId() != m.session.GetSessionId() {
		cmds = append(cmds, m.sup.closeSession(left.GetAgentId(), left.GetSessionId()))
	}
	if !m.opened {
		m.opened = true
		if m.o.Mode != "" {
			cmds = append(cmds, m.choose("mode", m.o.Mode))
		}
		if m.o.Model != "" {
			cmds = append(cmds, m.choose("model", m.o.Model))
		}
	}
	return tea.Batch(append(cmds, m.sendQueued())...)
}

func (m *model) greet(how string) {
	verb := map[string]string{"new": "new session", "load": "session loaded", "resume": "session resumed"}[how]
	text := verb + " with " + m.agentTitle()
	if v := m.agent.GetInfo().GetVersion(); v != "" {
		text += " " + safetext.Line(v)
	}
	if m.o.Where != "" {
		text += " " + m.o.Where
	}
	if t := m.session.GetTitle(); t != "" {
		text += ": " + safetext.Line(t)
	}
	m.greeting = text
	m.openText, m.shownAt = true, m.now()
	if how != "load" { // more of the history may arrive
		m.endLooseText()
	}
}

// sessionFailed prints the reason why there is no session.
func (m *model) sessionFailed(err error) {
	m.phase, m.failure = broken, &AgentError{Kind: agentError(err).GetKind(), text: safetext.Line(problem(err))}
	m.session, m.turn = nil, nil
	m.fail(render.WithoutStderrLine(problem(err), agentError(err).GetStderrTail()))
	m.printTail(agentError(err).GetStderrTail())
	switch {
	case m.sayLogin(agentError(err)):
	case agentError(err).GetKind() == supervisorv1.ErrorKind_ERROR_KIND_SESSION_NOT_FOUND:
		m.o.Session = "" // the agent will not find it later, either
		others := ""
		if m.agent.GetInfo().GetCapabilities().GetListSessions() {
			others = "/sessions shows those that the agent has stored, "
		}
		m.note(others + "/new begins a new session, /quit leaves")
	default:
		m.note("/new tries again, /quit leaves")
	}
}

// sayLogin prints the command for a login that the agent requires.
func (m *model) sayLogin(err *supervisorv1.AgentError) bool {
	if err.GetKind() != supervisorv1.ErrorKind_ERROR_KIND_AUTH_REQUIRED {
		return false
	}
	if name := m.o.Agent.GetPreset(); name != "" {
		m.warn("the agent wants you to log in: run \"acphost agents login " + name + "\" in another terminal, then /new here")
	} else {
		m.warn("the agent wants you to log in: do that with its own command in another terminal, then /new here. It offers:")
	}
	for _, a := range m.agent.GetInfo().GetAuthMethods() {
		text := "  " + safetext.Line(a.GetName())
		if d := safetext.Line(a.GetDescription()); d != "" {
			text += ": " + d
		}
		m.note(text)
	}
	return true
}

// printTail prints the last lines of an agent's standard error.
func (m *model) printTail(tail []string) {
	if len(tail) == 0 || slices.Equal(tail, m.tail) {
		return // already printed
	}
	m.tail = tail
	m.note("the last it said on standard error:")
	for _, l := range tail {
		m.note("  " + safetext.Line(l))
	}
}

func (m *model) agentTitle() string {
	i := m.agent.GetInfo()
	return cmp.Or(safetext.Line(i.GetTitle()), safetext.Line(m.agent.GetName()), safetext.Line(i.GetName()), safetext.Line(m.o.Agent.GetPreset()), "the agent")
}

// agentName returns the agent's name, shortened.
func (m *model) agentName() string {
	command := ""
	if c := m.o.Agent.GetCommand(); len(c) > 0 {
		command = c[0][strings.LastIndexByte(c[0], '/')+1:]
	}
	return cmp.Or(safetext.Line(m.agent.GetName()), safetext.Line(m.o.Agent.GetName()), safetext.Line(m.o.Agent.GetPreset()), safetext.Line(command), "agent")
}
