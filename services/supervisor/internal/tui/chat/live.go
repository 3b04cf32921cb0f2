package chat

import (
	"cmp"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
	"github.com/acphost/acphost/services/supervisor/internal/tui/render"
)

// live is the state of work in progress.
type live struct {
	tools []*supervisorv1.ToolCall // open tool calls, oldest first; m.draw folds them
	plan  []*supervisorv1.PlanEntry
	// planShown reports that the current plan was printed.
	planShown bool
	// thinking reports that the latest text is a thought.
	thinking bool
	// unanswered are the tool calls of the turn whose question ended without an answer, which was printed.
	unanswered map[string]bool
	// outputs are the terminals whose output is or was shown.
	outputs []string
	// spoke is the running terminal with the latest output.
	spoke spoken
}

// spoken is a terminal with its renderer.
type spoken struct {
	draw *render.Renderer // nil: none
	id   string
}

// spokeLast records that a terminal has new output, or has ended.
func (m *model) spokeLast(draw *render.Renderer, id string, ended bool) {
	m.live.spoke = spoken{draw, id}
	if ended {
		m.live.spoke = spoken{}
		if draw.Omitted() > 0 {
			m.cut = draw
		}
	}
}

// crashTime is the maximum time between the reports of an agent's end and of the end of its turn.
const crashTime = 5 * time.Second

// Limits of the state of work in progress.
const (
	maxTools      = 64
	maxOutputs    = 256
	maxUnanswered = 4096
)

func (l *live) endTurn() {
	l.tools, l.outputs, l.unanswered = nil, nil, nil
	l.planShown, l.thinking = true, false
}

// report updates a tool call, and reports whether it has ended.
func (l *live) report(c *supervisorv1.ToolCall) (ended bool) {
	i := l.index(c.GetToolCallId())
	if ended = done(c.GetStatus()); ended {
		if i >= 0 {
			l.tools = slices.Delete(l.tools, i, i+1)
		}
		return true
	}
	if i >= 0 {
		l.tools[i] = c
		return false
	}
	l.tools = append(l.tools, c)
	l.tools = l.tools[max(0, len(l.tools)-maxTools):]
	return false
}

// index returns the index of an open tool call, or -1.
func (l *live) index(id string) int {
	return slices.IndexFunc(l.tools, func(c *supervisorv1.ToolCall) bool { return c.GetToolCallId() == id })
}

// toolText formats a tool call on a line.
func toolText(c *supervisorv1.ToolCall) string {
	text := cmp.Or(short(c.GetTitle()), short(c.GetName()), short(c.GetToolCallId()))
	if k := short(c.GetKind()); k != "" && k != "other" {
		return k + ": " + text
	}
	return text
}

// done reports whether a tool call's status is final.
func done(status string) bool {
	return client.ToolCallEnded(status) || status == cancelled
}

// cancelled is the stop reason of a cancelled turn, and the status of its open tool calls.
const cancelled = "cancelled"

// short shortens a line of the agent for storage.
func short(text string) string {
	if len(text) > 500 {
		text = strings.ToValidUTF8(text[:500], "")
	}
	return safetext.Line(text)
}

// show processes an event of the session, and prints its text.
func (m *model) show(ev *supervisorv1.Event) tea.Cmd {
	s := m.session
	if s == nil { // while a history is loaded
		s = &supervisorv1.Session{}
	}
	switch e := ev.GetEvent().(type) {
	case *supervisorv1.Event_AvailableCommands:
		s.Commands = e.AvailableCommands.GetCommands()
		return nil
	case *supervisorv1.Event_CurrentMode:
		before := current(s, "mode")
		s.Mode = e.CurrentMode.GetModeId()
		if now := current(s, "mode"); now != before && m.setting == 0 {
			m.note("mode: " + safetext.Line(now))
		}
		return nil
	case *supervisorv1.Event_ConfigOptions:
		m.optionsChanged(s, e.ConfigOptions.GetOptions())
		return nil
	case *supervisorv1.Event_SessionInfo:
		if e.SessionInfo.Title != nil {
			s.Title = e.SessionInfo.GetTitle()
		}
		return nil
	case *supervisorv1.Event_Usage:
		s.Usage = e.Usage
		return nil
	case *supervisorv1.Event_SessionOpened:
		return m.sessionReopened(e.SessionOpened)
	case *supervisorv1.Event_SessionClosed:
		m.sessionClosed(e.SessionClosed)
		return nil
	case *supervisorv1.Event_QuestionAsked, *supervisorv1.Event_QuestionAnswered:
		return nil // the stream of questions contains them
	case *supervisorv1.Event_TurnStarted:
		if m.turn == nil && !ev.GetHistory() {
			m.beginTurn(ev) // a client that joined has sent a prompt
		}
		if m.turn != nil {
			return nil // a prompt of this chat: it was printed when it was sent
		}
	case *supervisorv1.Event_UserMessage:
		if m.turn != nil && !ev.GetHistory() {
			return nil // the same
		}
	case *supervisorv1.Event_TurnEnded:
		err := e.TurnEnded.GetError()
		if err.GetKind() == supervisorv1.ErrorKind_ERROR_KIND_CRASHED && m.now().Sub(m.crashed) < crashTime {
			m.crashed = time.Time{}
			return nil // it was shown already
		}
		m.tail = err.GetStderrTail()
		defer m.sayLogin(err)
		if !ev.GetHistory() {
			m.printOpen(e.TurnEnded.GetStopReason() == cancelled)
		}
		if m.turn != nil && m.turn.others && m.o.Attach == nil {
			m.drawn(m.draw.Event(ev))
			return m.endTurn()
		}
	case *supervisorv1.Event_Plan:
		m.live.plan, m.live.planShown = e.Plan.GetEntries(), ev.GetHistory()
		s.Plan = m.live.plan
		return nil // printed when the turn ends
	case *supervisorv1.Event_ToolCall:
		if !ev.GetHistory() {
			return m.reported(e.ToolCall, true)
		}
	case *supervisorv1.Event_ToolCallUpdate:
		if !ev.GetHistory() {
			return m.reported(e.ToolCallUpdate, false)
		}
	}
	_, m.live.thinking = ev.GetEvent().(*supervisorv1.Event_AgentThought)
	m.drawn(m.draw.Event(ev))
	m.shownAt = m.now()
	m.openText = m.openText || m.turn == nil
	return nil
}

// reported processes a report about a tool call, and watches its terminals. A tool call is printed when it has ended.
// Until then it is work in progress.
func (m *model) reported(r *supervisorv1.ToolCallReport, announced bool) tea.Cmd {
	m.live.thinking = false
	if m.live.index(r.GetToolCallId()) < 0 {
		m.flush() // the previous text is complete
	}
	ended := m.live.report(m.draw.Report(r, announced))
	var cmds []tea.Cmd
	content := r.GetContent()
	if m.replays() {
		content = nil // the output of those terminals is old
	}
	for _, c := range content {
		id := c.GetTerminalId()
		if id == "" || slices.Contains(m.live.outputs, id) || len(m.live.outputs) >= maxOutputs {
			continue
		}
		m.live.outputs = append(m.live.outputs, id)
		cmds = append(cmds, m.sup.output(id))
	}
	if len(cmds) > 0 || ended {
		m.drawTool(r.GetToolCallId()) // print the tool call above its output
	}
	return tea.Batch(cmds...)
}

// printOpen prints the tool calls that are open at the end of a turn, because no end will be reported. If the turn was
// cancelled, they are cancelled, too; for those with a question, that was or will be printed.
func (m *model) printOpen(wasCancelled bool) {
	for _, c := range m.live.tools {
		id := c.GetToolCallId()
		if wasCancelled {
			if m.live.unanswered[id] || slices.ContainsFunc(m.openQuestions, func(q *question) bool { return m.asksAbout(q.approval, id) }) {
				continue
			}
			c.Status = cancelled
		}
		m.drawTool(id)
	}
	m.live.tools = nil
}

// asksAbout reports whether a question is about a tool call of the session.
func (m *model) asksAbout(a *supervisorv1.Approval, toolCallID string) bool {
	return toolCallID != "" && a.GetPermission().GetToolCallId() == toolCallID && a.GetSessionId() == m.session.GetSessionId()
}

func (m *model) drawTool(id string) { m.drawn(m.draw.Tool(id) + m.draw.FlushHeld()) }

// apply processes a terminal's output.
func (msg outputMsg) apply(m *model) tea.Cmd {
	for _, out := range msg.pieces {
		m.drawn(m.draw.Output(msg.terminal, out))
		m.spokeLast(m.draw, msg.terminal, out.GetEnded())
	}
	if msg.err != nil {
		return nil // the command has ended, or the terminal belongs to the agent
	}
	return m.throttled(msg.next)
}

func (m *model) optionsChanged(s *supervisorv1.Session, now []*supervisorv1.ConfigOption) {
	before := map[string]string{}
	for _, o := range s.GetOptions() {
		before[o.GetId()] = optionValue(o)
	}
	s.Options = now
	for _, o := range now {
		if v, ok := before[o.GetId()]; ok && v != optionValue(o) && m.setting == 0 {
			m.note(safetext.Line(cmp.Or(o.GetName(), o.GetId())) + ": " + safetext.Line(optionValue(o)))
		}
	}
}

// optionValue formats an option's value.
func optionValue(o *supervisorv1.ConfigOption) string {
	if _, ok := o.GetCurrent().(*supervisorv1.ConfigOption_Enabled); ok {
		return map[bool]string{true: "on", false: "off"}[o.GetEnabled()]
	}
	return choiceName(o.GetChoices(), o.GetValue())
}

// sessionReopened continues a session that the supervisor resumed after its agent ended.
func (m *model) sessionReopened(o *supervisorv1.SessionOpened) tea.Cmd {
	s := m.session
	if s == nil {
		return nil
	}
	if o.GetModeId() != "" {
		s.Mode = o.GetModeId()
	}
	if len(o.GetModes()) > 0 {
		s.Modes = o.GetModes()
	}
	if len(o.GetOptions()) > 0 {
		s.Options = o.GetOptions()
	}
	if len(o.GetModels()) > 0 {
		s.Models, s.Model = o.GetModels(), o.GetModelId()
	}
	if m.phase == broken {
		m.phase = ready
		m.note("the session goes on")
	}
	return m.sendQueued()
}

func (m *model) sessionClosed(c *supervisorv1.SessionClosed) {
	if m.phase != ready {
		return
	}
	m.phase = broken
	m.warn("the session is closed: " + safetext.Line(c.GetReason()))
	if m.agent.GetState() == supervisorv1.AgentState_AGENT_STATE_RUNNING {
		m.note(m.hint("/new begins a new one, /quit leaves"))
	}
}

// printPlan prints the plan at the end of a turn, if the turn has changed it.
func (m *model) printPlan() {
	if m.live.planShown || len(m.live.plan) == 0 {
		return
	}
	m.live.planShown = true
	m.print(render.Plan(m.drawing(), m.live.plan))
}

// planRows returns the plan as a checklist. With little room, it omits completed steps at the beginning.
func (m *model) planRows(rows int) []string {
	plan := m.live.plan
	for len(plan) > rows && plan[0].GetStatus() == "completed" {
		plan = plan[1:]
	}
	plan = plan[:min(len(plan), max(rows, 0))]
	if len(plan) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(render.Plan(m.drawing(), plan), "\n"), "\n")
}

// current returns the name of the session's mode or model.
func current(s *supervisorv1.Session, what string) string { return choiceName(choicesOf(s, what)) }
