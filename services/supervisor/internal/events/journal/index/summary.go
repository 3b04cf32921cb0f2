package index

import (
	"strings"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/events/journal"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// maxTitle is the limit of a title, in bytes.
const maxTitle = 200

// summary collects the indexed data of a file from its entries.
type summary struct {
	journal.Session
	text []byte // the searchable text
}

func (s *summary) fold(e *journal.Entry) {
	if s.Started.IsZero() {
		s.Started = e.Time
	}
	if e.Time.After(s.Ended) {
		s.Ended = e.Time
	}
	switch {
	case e.Journal != nil:
		s.Session.Session, s.Agent, s.Cwd = e.Journal.Session, e.Journal.Agent, e.Journal.Cwd
		return
	case e.Dropped > 0:
		s.Lost += int(e.Dropped)
		return
	case e.Dir == "":
		return
	}
	s.Frames++
	switch {
	case e.Method == acp.MethodSessionPrompt && e.Dir == frame.ClientToAgent.String():
		s.Turns++
		_ = acp.Elements(acp.PromptOf(acp.Get(e.Frame, "params")), func(v []byte) bool {
			if text, ok := acp.String(acp.Get(v, "text")); ok {
				if s.Title == "" {
					s.Title = titleOf(text)
				}
				s.addText(text + "\n")
			}
			return true
		})
	// Acphost's own notices repeat commands.
	case e.Method == acp.MethodSessionUpdate && len(e.Frame) > 0 && e.Dir != frame.OursToClient.String():
		update := acp.UpdateOf(acp.Get(e.Frame, "params"))
		kind, _ := acp.String(acp.Get(update, "sessionUpdate"))
		switch kind {
		case "agent_message_chunk", "agentMessageChunk":
			if text, ok := acp.String(acp.Get(update, "content", "text")); ok {
				s.addText(text)
			}
		case "session_info_update", "sessionInfoUpdate":
			if title, ok := acp.String(acp.Get(update, "title")); ok && title != "" {
				s.Title = titleOf(title)
			}
		case "tool_call", "toolCall":
			if title, ok := acp.String(acp.Get(update, "title")); ok {
				s.addText("\n" + title + "\n")
			}
		}
	}
}

func (s *summary) addText(text string) {
	if room := maxText - len(s.text); room > 0 {
		s.text = append(s.text, strings.ToValidUTF8(text[:min(room, len(text))], "")...)
	}
}

// titleOf is a text's first line, shortened.
func titleOf(text string) string {
	text = strings.TrimSpace(text)
	if i := strings.IndexAny(text, "\r\n"); i >= 0 {
		text = text[:i]
	}
	text, cut := safetext.Prefix(text, maxTitle)
	if cut {
		text += "…"
	}
	return strings.ToValidUTF8(text, "?")
}
