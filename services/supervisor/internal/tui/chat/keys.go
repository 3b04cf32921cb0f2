package chat

import (
	"context"
	"reflect"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
)

// quitTime is the time in which a second ctrl+c leaves the chat.
const quitTime = 2 * time.Second

// maxQueue limits the messages that wait for the end of a turn.
const maxQueue = 32

// key processes a key.
func (m *model) key(k tea.KeyPressMsg) tea.Cmd {
	defer func() { m.keyTime = m.now() }()
	name := k.Keystroke()
	switch name {
	case "ctrl+c":
		return m.interrupted()
	case "ctrl+z":
		m.o.Suspend()
		return nil
	case `ctrl+\`:
		m.o.Quit()
		return nil
	case "ctrl+o":
		m.expand()
		return nil
	}
	m.quitBy = time.Time{}
	prefixed := m.prefixed
	m.prefixed = false
	if m.confirming != nil {
		return m.confirming.key(m, k)
	}
	if m.search != nil {
		return m.search.key(m, k, name)
	}
	if q := m.question(); q != nil {
		if name == "tab" && !(m.questionWaits() && m.menu.open()) {
			if !m.questionWaits() && q.form != nil && q.form.next() {
				return nil
			}
			q.writing, q.ready, q.delayed = !m.questionWaits(), true, nil
			return nil
		}
		if !m.questionWaits() {
			q.ready = true
			return q.key(m, k)
		}
		q.writing = q.writing || !m.edit.Empty() || k.Text != ""
	} else if m.picker != nil {
		return m.picker.key(m, name)
	}
	if prefixed && name == "ctrl+e" {
		m.editVisually()
		return nil
	}
	return m.typeKey(k, name)
}

// fromTerminal reports whether a message is a response of the terminal to a query.
func fromTerminal(msg tea.Msg) bool {
	switch msg.(type) {
	case tea.CapabilityMsg, tea.ClipboardMsg, tea.CursorPositionMsg, tea.KeyboardEnhancementsMsg, tea.ModeReportMsg, tea.TerminalVersionMsg,
		tea.BackgroundColorMsg, tea.CursorColorMsg, tea.ForegroundColorMsg, tea.MouseClickMsg, tea.MouseReleaseMsg, tea.MouseMotionMsg, tea.MouseWheelMsg:
		return true
	}
	// Unknown responses have types of Bubble Tea's decoder.
	of := reflect.TypeOf(msg)
	return of != nil && of.PkgPath() == "github.com/charmbracelet/ultraviolet"
}

// ignoreResponse ignores keys as answers for a moment. An agent of the same user can open the terminal's device and
// send it a query, so that the terminal responds with text that the agent has chosen. Parts of such a response could be
// interpreted as keys.
func (m *model) ignoreResponse() {
	m.keyTime, m.confirming = m.now(), nil
	if q := m.question(); q != nil {
		q.ready, q.code, q.delayed = false, nil, nil
	}
}

// typeKey processes a key for the input.
func (m *model) typeKey(k tea.KeyPressMsg, name string) tea.Cmd {
	switch name {
	case "enter":
		if m.menu.open() && m.menu.moved {
			return m.menuTake()
		}
		return m.submit()
	case "alt+enter", "ctrl+j", "shift+enter":
		return m.typed("\n")
	case "tab":
		return m.menuTake()
	case "shift+tab":
		return m.nextMode()
	case "esc":
		return m.escape()
	case "pgup", "pgdown":
		if m.menu.open() {
			m.menu.moved = choose(&m.menu.at, len(m.menu.items), name)
		}
		return nil
	case "up", "down", "ctrl+p", "ctrl+n":
		if m.menu.open() {
			m.menu.moved = choose(&m.menu.at, len(m.menu.items), name)
			return nil
		}
		return m.upOrDown(name == "up" || name == "ctrl+p")
	case "ctrl+d":
		if m.edit.Empty() {
			return m.leave()
		}
		m.edit.Delete()
	case "ctrl+l":
		return tea.ClearScreen
	case "ctrl+r":
		m.beginSearch()
		return nil
	case "ctrl+x":
		m.prefixed = true
		return nil
	default:
		if !m.edit.key(name) {
			if k.Text == "" {
				return nil
			}
			return m.typed(k.Text)
		}
	}
	return m.completion()
}

// key moves the cursor or deletes, and reports whether the key does that.
func (e *editor) key(name string) bool {
	switch name {
	case "backspace", "ctrl+h", "shift+backspace":
		e.Backspace()
	case "delete":
		e.Delete()
	case "left", "ctrl+b":
		e.Left()
	case "right", "ctrl+f":
		e.Right()
	case "home", "ctrl+a":
		e.Home()
	case "end", "ctrl+e":
		e.End()
	case "alt+left", "ctrl+left", "alt+b":
		e.WordLeft()
	case "alt+right", "ctrl+right", "alt+f":
		e.WordRight()
	case "ctrl+w", "alt+backspace":
		e.DeleteWord()
	case "ctrl+u":
		e.DeleteToStart()
	case "ctrl+k":
		e.DeleteToEnd()
	default:
		return false
	}
	return true
}

// typed inserts text into the input.
func (m *model) typed(text string) tea.Cmd {
	if !m.edit.Insert(text) {
		m.warn("that is too much for the input; attach a file with @PATH")
	}
	return m.completion()
}

// paste processes text from the clipboard. It never counts as keys, and never answers a question.
func (m *model) paste(text string) tea.Cmd {
	m.keyTime = m.now()
	if m.confirming != nil {
		m.confirming = nil
	}
	if m.search != nil {
		m.search.words.Insert(strings.ReplaceAll(typed(text), "\n", " "))
		m.search.find(m.past)
		return nil
	}
	if q := m.question(); q != nil {
		if !m.questionWaits() && q.form != nil {
			q.form.paste(text)
			return nil
		}
		q.writing = true
	}
	return m.typed(text)
}

// interrupted processes ctrl+c: it cancels the turn, or clears the input. A second one leaves.
func (m *model) interrupted() tea.Cmd {
	if m.now().Before(m.quitBy) {
		m.interrupts = true
		return m.leave()
	}
	m.quitBy = m.now().Add(quitTime)
	switch {
	case m.confirming != nil:
		m.confirming = nil
	case m.search != nil:
		m.search = nil
	case m.own != nil:
		m.endOwn()
	case m.turn != nil:
		return m.cancel()
	case m.picker != nil:
		m.picker = nil
	case !m.edit.Empty():
		m.edit = editor{}
		m.menu = menu{}
	}
	return nil
}

// escape closes an open menu or similar, else cancels the turn.
func (m *model) escape() tea.Cmd {
	if m.menu.open() {
		m.menu = menu{hidden: true}
		return nil
	}
	return m.cancel()
}

// cancel asks the agent to end its turn.
func (m *model) cancel() tea.Cmd {
	if m.turn == nil {
		return nil
	}
	m.turn.cancelled = true
	return m.sup.cancelTurn(m.session.GetAgentId(), m.session.GetSessionId())
}

// leave ends the chat after all text is printed.
func (m *model) leave() tea.Cmd {
	if m.leaving {
		return nil
	}
	m.flush()
	m.leaving = true
	return nil
}

// upOrDown moves the cursor in the input, moves a queued message back into it, or shows an entry of the history.
func (m *model) upOrDown(up bool) tea.Cmd {
	if !up {
		if m.edit.Down(m.width - 2) {
			return nil
		}
		if text, ok := m.past.Forward(); ok {
			m.edit.Set(text)
		}
		return nil
	}
	if m.edit.Up(m.width - 2) {
		return nil
	}
	if n := len(m.queue); n > 0 && m.edit.Empty() {
		m.edit.Set(m.queue[n-1])
		m.queue = m.queue[:n-1]
		return nil
	}
	if text, ok := m.past.Back(m.edit.Text()); ok {
		m.edit.Set(text)
	}
	return nil
}

// submit runs the command or sends the message in the input.
func (m *model) submit() tea.Cmd {
	text := strings.TrimRight(m.edit.Text(), " \n\t")
	if strings.TrimSpace(text) == "" {
		return nil
	}
	if line, ok := strings.CutPrefix(text, "!"); ok {
		m.runOwn(line)
		return nil
	}
	if len(m.queue) >= maxQueue {
		m.warn("enough is queued; wait for the turn, or take one back with up")
		return nil
	}
	cmd, done := m.command(text)
	if !done && m.phase == broken {
		m.warn(m.hint("there is no session; /new begins one, /quit leaves"))
		return nil
	}
	if !done && m.o.Attach != nil && m.o.Attach.Follow != "" {
		m.warn(m.o.Attach.Follow)
		return nil
	}
	keep := m.past.Add(text)
	m.edit, m.menu = editor{}, menu{}
	if !done {
		m.queue = append(m.queue, text)
		cmd = m.sendQueued()
	}
	if keep == nil {
		return cmd
	}
	return tea.Batch(cmd, m.keep(keep))
}

// keep writes an entry to the history. An error is shown once, and disables further writes.
func (m *model) keep(write func() error) tea.Cmd {
	return m.sup.do(func(context.Context) tea.Msg {
		if err := write(); err != nil {
			return historyMsg{err: err}
		}
		return nil
	})
}
