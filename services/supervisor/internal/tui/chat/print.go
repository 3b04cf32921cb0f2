package chat

import (
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
	"github.com/acphost/acphost/services/supervisor/internal/tui/render"
)

func (m *model) renderer() *render.Renderer { return render.New(m.drawing()) }

// drawing returns the options for printed text. Questions are shown where they are answered, and usage is in the
// status.
func (m *model) drawing() render.Options {
	return render.Options{
		Width: m.width, Color: m.o.Color, Markdown: true, Cwd: m.o.Cwd,
		History: true, Prompts: true, Asking: true, NoUsage: true, Brief: true,
	}
}

// viewRows is the maximum height of the lower part, and printRows the number of rows that are printed at once. If both
// together exceed the screen, Bubble Tea moves parts of the lower part into the scrollback.
func (m *model) viewRows() int { return max(m.height*2/3, 3) }

func (m *model) printRows() int { return max(m.height-m.viewRows(), 1) }

// print adds lines to the printed text. They must be escaped.
func (m *model) print(text string) {
	text = strings.TrimSuffix(text, "\n")
	if text == "" {
		return
	}
	text = untabbed(text)
	m.out = append(m.out, safetext.Wrap(text, m.width, "")...)
}

// drawn processes the renderer's output. The last line may be incomplete: it is work in progress until it ends.
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

// paused shows held back text after no more has arrived for a moment.
func (m *model) paused() {
	switch {
	case m.now().Sub(m.shownAt) < looseTime:
	case m.turn != nil:
		m.drawn(m.draw.Pause() + m.draw.FlushHeld()) // it may continue
	case m.openText:
		m.endLooseText()
	}
}

// endLooseText ends text outside of a turn, whose end is not reported.
func (m *model) endLooseText() {
	m.openText = false
	m.flush()
	if m.greeting != "" {
		m.note(m.greeting)
		m.greeting = ""
	}
}

// flush ends the current text.
func (m *model) flush() {
	m.drawn(m.draw.Flush())
	m.print(m.partial)
	m.partial = ""
}

// note, warn and fail print a message of acphost.
func (m *model) note(text string) { m.print(m.sty.dim(m.ownText(text))) }

func (m *model) warn(text string) { m.print(m.sty.yellow(m.ownText(text))) }

func (m *model) fail(text string) { m.print(m.sty.red(m.ownText(text))) }

func (m *model) ownText(text string) string {
	return safetext.Text(strings.TrimRight(text, "\n"))
}

func (msg noticeMsg) apply(m *model) tea.Cmd {
	if msg.bad {
		m.fail(msg.text)
	} else {
		m.note(msg.text)
	}
	return nil
}

// throttled delays a command while too many rows wait to be printed.
func (m *model) throttled(cmd tea.Cmd) tea.Cmd {
	if len(m.out) < maxOut {
		return cmd
	}
	m.delayedCmds = append(m.delayedCmds, cmd)
	return nil
}
