package chat

import (
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/acphost/acphost/services/supervisor/internal/render"
	"github.com/acphost/acphost/services/supervisor/internal/safetext"
)

func (m *model) renderer() *render.Renderer { return render.New(m.drawing()) }

// drawing is how things look that scroll by. Questions are shown where they are answered, and what is used in the status.
func (m *model) drawing() render.Options {
	return render.Options{
		Width: m.width, Color: m.o.Color, Markdown: true, Cwd: m.o.Cwd,
		History: true, Prompts: true, Asking: true, NoUsage: true, Brief: true,
	}
}

// viewRows is how many rows the lower part has at most, and printRows how many are printed at once: Bubble Tea spills
// what is below into the scrollback when both do not fit on the screen together.
func (m *model) viewRows() int { return max(m.height*2/3, 3) }

func (m *model) printRows() int { return max(m.height-m.viewRows(), 1) }

// print adds lines to what scrolls by. They have been made harmless.
func (m *model) print(text string) {
	text = strings.TrimSuffix(text, "\n")
	if text == "" {
		return
	}
	text = untabbed(text)
	m.out = append(m.out, safetext.Wrap(text, m.width, "")...)
}

// drawn takes what the renderer gave out. Its last line may go on: it is under way until it ends.
func (m *model) drawn(text string) {
	text = m.partial + text
	end := strings.LastIndexByte(text, '\n') + 1
	m.partial = text[end:]
	if end == 1 {
		m.out = append(m.out, "")
		return
	}
	m.print(text[:end])
}

// paused shows what was held back of what is being said, where no more has come for a moment.
func (m *model) paused() {
	switch {
	case m.now().Sub(m.shownAt) < looseTime:
	case m.turn != nil:
		m.drawn(m.draw.Pause() + m.draw.Overdue()) // it may go on
	case m.loose:
		m.tighten()
	}
}

// tighten ends what was said outside of a turn: nothing tells that it is over but that no more comes.
func (m *model) tighten() {
	m.loose = false
	m.flush()
	if m.greeting != "" {
		m.note(m.greeting)
		m.greeting = ""
	}
}

// flush ends what is being said.
func (m *model) flush() {
	m.drawn(m.draw.Flush())
	m.print(m.partial)
	m.partial = ""
}

// note, warn and fail say something of acphost's own.
func (m *model) note(text string) { m.print(m.sty.dim(m.ownText(text))) }

func (m *model) warn(text string) { m.print(m.sty.yellow(m.ownText(text))) }

func (m *model) fail(text string) { m.print(m.sty.red(m.ownText(text))) }

func (m *model) ownText(text string) string {
	return safetext.Text(strings.TrimRight(text, "\n"))
}

func (msg noticeMsg) tell(m *model) tea.Cmd {
	if msg.bad {
		m.fail(msg.text)
	} else {
		m.note(msg.text)
	}
	return nil
}

// unhurried is a command that waits where more is to be printed than the terminal has taken.
func (m *model) unhurried(cmd tea.Cmd) tea.Cmd {
	if len(m.out) < maxOut {
		return cmd
	}
	m.held = append(m.held, cmd)
	return nil
}
