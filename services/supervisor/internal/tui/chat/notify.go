package chat

import (
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
)

// Ways to notify a user without focus on the terminal.
const (
	NotifyAuto = "auto" // the bell, and a desktop notification if the terminal supports it
	NotifyBell = "bell"
	NotifyOff  = "off"
)

const (
	// awayTime is the time without input after which a user counts as away, on a terminal that does not report focus.
	awayTime = 10 * time.Second
	// noticeTime is the minimum time between two notifications, because agents choose when they ask.
	noticeTime = 3 * time.Second
)

// Texts of notifications. They never contain text of an agent, because they are part of an escape sequence.
const (
	noticeAsked = "acphost: a question waits"
	noticeEnded = "acphost: the turn has ended"
)

// attention tracks the focus of the terminal.
type attention struct {
	known bool // the terminal reports focus
	here  bool
	last  time.Time // time of the last notification
	text  string    // text of the next notification
}

// focus processes a report of the terminal about its focus. The click or the keys that caused it do not answer a
// question.
func (m *model) focus(here bool) {
	m.attention.known, m.attention.here = true, here
	if here {
		m.keyTime = m.now()
	}
}

// call requests a notification if the user is away.
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

// notice returns the command that sends a requested notification.
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

// desktopNotice returns the escape sequence for a desktop notification: OSC 777 for terminals that support it, else OSC
// 9. It never returns both, because some terminals would show two. It is empty if the terminal supports none.
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
