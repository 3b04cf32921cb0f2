package transcript

import (
	"strings"
	"time"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/events/journal"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
	"github.com/acphost/acphost/services/supervisor/internal/tui/render"
)

// Summary is the head of a page about a session. It needs a separate pass over the journal.
type Summary struct {
	// Header is the header of the first file.
	Header journal.Header
	// Title is the title from the agent, or the beginning of the first prompt.
	Title string
	// First and Last are the times of the first and the last message.
	First, Last time.Time
	// Turns counts the prompts, Tools the announced tool calls, Questions those that waited for a user.
	Turns, Tools, Questions int
	// Lost is the number of frames that are missing in the journal.
	Lost uint64
	// Model is the latest model, Tokens the usage of all turns, Context the latest cost and context usage. They are
	// empty if the agent does not report them.
	Model   string
	Tokens  *supervisorv1.TokenUsage
	Context *supervisorv1.ContextUsage

	turns []turnEntry
	more  int // turns that are not in the table of contents
}

// maxChapters limits the turns in a table of contents.
const maxChapters = 5000

// turnEntry is a turn in a table of contents.
type turnEntry struct {
	title            string
	at               time.Time
	tools, questions int
	history          bool // the agent repeated it
}

// chapter is a line of a table of contents.
type chapter struct{ Turn, Title, With string }

// Add processes an entry of a Reader.
func (s *Summary) Add(t Entry) error {
	if s.First.IsZero() {
		s.First = t.Time
	}
	s.Last = t.Time
	if t.Header != nil && s.Header.Version == 0 && s.Header.Session == "" {
		s.Header = *t.Header
	}
	if t.Event == nil {
		return nil
	}
	s.outline(t)
	if t.Event.GetHistory() {
		return nil
	}
	switch e := t.Event.GetEvent().(type) {
	case *supervisorv1.Event_TurnStarted:
		s.Turns++
		// otherwise it was not recorded
		if s.Title == "" && len(e.TurnStarted.GetPrompt()) > 0 && t.Event.GetRaw() != "" {
			s.Title = firstLine(e.TurnStarted.GetPrompt(), 400)
		}
	case *supervisorv1.Event_TurnEnded:
		s.Tokens = client.AddTokens(s.Tokens, e.TurnEnded.GetUsage())
	case *supervisorv1.Event_ToolCall:
		s.Tools++
	case *supervisorv1.Event_QuestionAsked:
		s.Questions++
	case *supervisorv1.Event_SessionInfo:
		if title := e.SessionInfo.GetTitle(); title != "" {
			s.Title = first(title, 400)
		}
	case *supervisorv1.Event_Usage:
		s.Context = client.LatestUsage(s.Context, e.Usage)
	case *supervisorv1.Event_SessionOpened:
		s.model(e.SessionOpened.GetOptions())
		if id := e.SessionOpened.GetModelId(); id != "" {
			s.Model = id
		}
	case *supervisorv1.Event_ConfigOptions:
		s.model(e.ConfigOptions.GetOptions())
	case *supervisorv1.Event_Gap:
		s.Lost += e.Gap.GetFrames()
	}
	return nil
}

// outline processes an event for the table of contents.
func (s *Summary) outline(t Entry) {
	now := &turnEntry{}
	if n := len(s.turns); n > 0 && s.more == 0 {
		now = &s.turns[n-1]
	}
	switch e := t.Event.GetEvent().(type) {
	case *supervisorv1.Event_TurnStarted:
		if len(s.turns) == maxChapters {
			s.more++
			return
		}
		started := turnEntry{at: t.Time, history: t.Event.GetHistory()}
		if t.Event.GetRaw() != "" {
			started.title = firstLine(e.TurnStarted.GetPrompt(), 100)
		}
		s.turns = append(s.turns, started)
	case *supervisorv1.Event_ToolCall:
		now.tools++
	case *supervisorv1.Event_QuestionAsked:
		now.questions++
	}
}

// chapters returns the table of contents of a page.
func (s *Summary) chapters(o PageOptions) (all []chapter) {
	for _, t := range s.turns {
		if t.history && !o.History {
			continue
		}
		with := []string{clock(t.at)}
		if t.tools > 0 {
			with = append(with, safetext.Count(t.tools, "tool call"))
		}
		if t.questions > 0 {
			with = append(with, safetext.Count(t.questions, "question"))
		}
		all = append(all, chapter{"Turn " + counter(len(all)+1), t.title, strings.Join(with, ", ")})
	}
	if s.more > 0 {
		all = append(all, chapter{With: "and " + safetext.Count(s.more, "turn") + " more"})
	}
	return all
}

// firstLine returns the first line of a prompt, limited to limit bytes.
func firstLine(prompt []*supervisorv1.ContentBlock, limit int) string {
	if len(prompt) == 0 {
		return ""
	}
	line, _, _ := strings.Cut(strings.TrimSpace(first(prompt[0].GetText().GetText(), limit)), "\n")
	return line
}

func (s *Summary) model(options []*supervisorv1.ConfigOption) {
	for _, o := range options {
		if o.GetCategory() == "model" && o.GetValue() != "" {
			s.Model = first(o.GetValue(), 200)
		}
	}
}

// field is a line of a page's head.
type field struct {
	Name, Value string
	Code        bool // an id or a path, shown as code
}

// fields returns the lines of a page's head.
func (s *Summary) fields() []field {
	fields := []field{{"Agent", s.Header.Agent, true}}
	add := func(name, value string, code bool) {
		if value != "" {
			fields = append(fields, field{name, value, code})
		}
	}
	add("Model", s.Model, true)
	add("Folder", s.Header.Cwd, true)
	add("Session", s.Header.Session, true)
	if !s.First.IsZero() {
		add("Time", stamp(s.First)+" to "+stamp(s.Last)+" ("+took(s.Last.Sub(s.First))+")", false)
	}
	with := ""
	if s.Questions > 0 {
		with = " and " + safetext.Count(s.Questions, "question")
	}
	add("Turns", counter(s.Turns)+", with "+safetext.Count(s.Tools, "tool call")+with, false)
	add("Usage", render.Usage(s.Tokens, s.Context), false)
	if s.Lost > 0 {
		add("Missing", safetext.Count(s.Lost, "frame")+" that the record lacks", false)
	}
	return fields
}

// heading returns the title of a page.
func (s *Summary) heading() string {
	if title := safetext.Line(s.Title); title != "" {
		return title
	}
	return "Session " + named(s.Header.Session)
}

// stamp formats a time in UTC, because pages are read elsewhere.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }
