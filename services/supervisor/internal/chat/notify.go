package chat

import (
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
)

// Ways in which a chat calls a person who looks elsewhere.
const (
	NotifyAuto = "auto" // the bell, and the desktop's notice if the terminal can show one
	NotifyBell = "bell"
	NotifyOff  = "off"
)

const (
	// awayTime is how long nothing was typed until a person counts as away, on a terminal that does not tell its focus.
	awayTime = 10 * time.Second
	// noticeTime is the least time between two notices: agents choose when they ask.
	noticeTime = 3 * time.Second
)

// What a notice says. Nothing of an agent's is ever in one: it stands in an escape sequence.
const (
	noticeAsked = "acphost: a question waits"
	noticeEnded = "acphost: the turn has ended"
)

// attention is whether the person looks at the terminal.
type attention struct {
	known bool // the terminal tells
	here  bool
	last  time.Time // of a notice
	text  string    // a notice that is due
}

// focus takes what the terminal tells of its focus. The click or the keys that brought it are not for a question.
func (m *model) focus(here bool) {
	m.attention.known, m.attention.here = true, here
	if here {
		m.keyTime = m.now()
	}
}

// call has the person called, if they look elsewhere.
func (m *model) call(text string) {
	a := &m.attention
	here := a.here
	if !a.known {
		here = m.now().Sub(m.keyTime) < awayTime
	}
	if here || m.away || m.o.Notify == NotifyOff || m.o.Notify == "" || m.now().Sub(a.last) < noticeTime {
		return
	}
	a.last, a.text = m.now(), text
}

// notice is the command that calls, if a call is due.
func (m *model) notice() tea.Cmd {
	text := m.attention.text
	if text == "" {
		return nil
	}
	m.attention.text = ""
	if m.o.Notify == NotifyBell {
		return tea.Raw("\a")
	}
	return tea.Raw("\a" + desktopNotice(m.o.Env, text))
}

// desktopNotice is the escape sequence by which a terminal shows a notice on the desktop: OSC 777 for those that know it, else
// OSC 9, never both, which some would show twice. Empty: the terminal is known to show none.
func desktopNotice(env []string, text string) string {
	name := valueOf(env, "TERM")
	begins := func(all ...string) bool {
		for _, p := range all {
			if strings.HasPrefix(name, p) {
				return true
			}
		}
		return false
	}
	switch {
	case valueOf(env, "TMUX") != "" || begins("screen", "tmux", "linux", "vt"):
		return ""
	case valueOf(env, "VTE_VERSION") != "" || begins("rxvt", "foot"):
		return "\x1b]777;notify;acphost;" + text + "\x1b\\"
	}
	return "\x1b]9;" + text + "\x1b\\"
}
