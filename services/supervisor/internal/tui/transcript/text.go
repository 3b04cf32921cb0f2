package transcript

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/events/journal"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
	"github.com/acphost/acphost/services/supervisor/internal/tui/render"
)

// Text prints the entries of a journal one by one, with the package for live output. It is not safe for concurrent use.
type Text struct {
	w io.Writer
	o render.Options
	r *render.Renderer

	turns     turns
	parts     int
	history   int     // omitted events since the last mention
	onlyHead  bool    // only the head was printed
	inHistory bool    // the current events are history
	shown     bool    // the Renderer has shown text, and separates the next
	started   []Entry // commands that were not shown yet
}

// NewText returns a Text that prints to w. look configures the events, but prompts, questions and usage are always
// shown. Verbose also shows calls about terminals and the available commands.
func NewText(w io.Writer, look render.Options) *Text {
	t := &Text{w: w, o: look}
	look.Prompts, look.Asking, look.NoUsage, look.Verbose = true, false, false, true
	t.r = render.New(look)
	return t
}

// Write prints an entry.
func (t *Text) Write(entry Entry) error {
	text := t.text(entry)
	if entry.Header == nil {
		text = t.separate(text)
	}
	_, err := io.WriteString(t.w, text)
	return err
}

// separate separates the first text from the head.
func (t *Text) separate(text string) string {
	if t.onlyHead && text != "" {
		t.onlyHead = false
		return "\n" + strings.TrimPrefix(text, "\n")
	}
	return text
}

// Close prints text that was held back.
func (t *Text) Close() error {
	_, err := io.WriteString(t.w, t.separate(t.ended()))
	return err
}

// ended ends open output.
func (t *Text) ended() string {
	text := t.skipped() + t.commands() + t.r.Flush()
	if t.turns.open {
		t.turns.open = false
		text += t.rule("the record ends here, within the turn")
	}
	return text
}

func (t *Text) text(entry Entry) string {
	switch {
	case entry.Header != nil:
		return t.header(entry)
	case entry.Event == nil:
		return t.commands() + t.output(entry.Terminal, entry.Output)
	case entry.Event.GetHistory() && !t.o.History:
		t.history++
		return ""
	}
	before := t.skipped()
	if again := entry.Event.GetHistory(); again != t.inHistory {
		if t.inHistory = again; again {
			before += t.rule("told again while the session was loaded")
		}
	}
	if entry.Event.GetToolCall() == nil && entry.Event.GetToolCallUpdate() == nil {
		return before + t.commands() + t.event(entry)
	}
	return before + t.event(entry) + t.commands() // it names the tool call that they belong to
}

func (t *Text) event(entry Entry) string {
	ev := entry.Event
	switch e := ev.GetEvent().(type) {
	case *supervisorv1.Event_SessionOpened:
		if e.SessionOpened.GetMethod() == acp.MethodSessionNew { // the head contains it
			text := t.r.Flush()
			t.show(ev) // this registers the tool call
			return text
		}
	case *supervisorv1.Event_TurnStarted:
		t.turns.begin(entry.Time)
		return t.rule(fmt.Sprintf("turn %d, %s", t.turns.n, local(entry.Time))) + t.show(ev)
	case *supervisorv1.Event_TurnEnded:
		text := t.show(ev)
		return text + t.rule(t.turns.end(entry.Time, e.TurnEnded))
	case *supervisorv1.Event_CallStarted:
		if strings.HasPrefix(e.CallStarted.GetMethod(), "terminal/") && !t.o.Verbose {
			return "" // its result is shown
		}
	case *supervisorv1.Event_CallEnded:
		return t.called(entry, e.CallEnded)
	case *supervisorv1.Event_AvailableCommands:
		if !t.o.Verbose {
			return ""
		}
	case *supervisorv1.Event_OtherUpdate:
		shown := t.show(ev)
		if shown != "" && ev.GetRaw() != "" {
			shown += t.beside(first(ev.GetRaw(), maxRawLine))
		}
		return shown
	}
	return t.show(ev)
}

// maxRawLine limits the bytes of an unknown update.
const maxRawLine = 400

// called shows the answer to a call: a command that was started, or an error.
func (t *Text) called(entry Entry, e *supervisorv1.CallEnded) string {
	failed := e.GetError() != "" || e.GetErrorCode() != 0
	switch {
	case failed && entry.Command != "" && !t.o.Verbose: // its begin was not shown
		ev := &supervisorv1.Event{AgentId: entry.Event.GetAgentId(), Event: &supervisorv1.Event_CallEnded{CallEnded: &supervisorv1.CallEnded{
			Id: e.GetId(), Method: "$ " + entry.Command, Error: e.GetError(), ErrorCode: e.GetErrorCode(),
		}}}
		return t.show(ev)
	case !failed && entry.Command != "":
		t.started = append(t.started, entry)
	}
	return t.show(entry.Event)
}

// commands shows the commands that were started, as the first lines of their terminals.
func (t *Text) commands() string {
	text := ""
	for _, entry := range t.started {
		line := "$ " + strings.ReplaceAll(safetext.Text(entry.Command), "\n", " ⏎ ")
		if entry.Terminal == "" {
			text += t.beside(line)
		} else {
			text += t.output(entry.Terminal, &supervisorv1.WatchOutputResponse{Data: []byte(line + "\n")})
		}
	}
	t.started = nil
	return text
}

func (t *Text) show(ev *supervisorv1.Event) string {
	text := t.r.Event(ev)
	t.shown = t.shown || text != ""
	return text
}

func (t *Text) output(terminal string, out *supervisorv1.WatchOutputResponse) string {
	t.shown = true
	return t.r.Output(terminal, out)
}

// header returns the header of a file: the first one describes the session, the others state that the recording
// continues.
func (t *Text) header(entry Entry) string {
	h := entry.Header
	t.parts++
	if t.parts > 1 {
		return t.ended() + t.rule("recorded again since "+local(entry.Time)+agentChange(h))
	}
	t.onlyHead = true
	return fmt.Sprintf("session %s\nagent   %s\nfolder  %s\nsince   %s\n",
		named(h.Session), named(h.Agent), named(h.Cwd), local(entry.Time))
}

func agentChange(h *journal.Header) string {
	if h.Acphost == "" {
		return ""
	}
	return ", by acphost " + safetext.Line(h.Acphost)
}

func named(text string) string { return cmp.Or(safetext.Line(text), "-") }

// skipped shows the number of omitted events of the history.
func (t *Text) skipped() string {
	n := t.history
	t.history = 0
	if n == 0 {
		return ""
	}
	return t.r.Flush() + t.faint(fmt.Sprintf("[%s that the agent told again when it loaded the session: see --history]", safetext.Count(n, "event"))) + "\n"
}

// rule returns a line between turns.
func (t *Text) rule(text string) string {
	text = t.r.Flush() + "\n" + t.faint("── "+text+" ──") + "\n"
	if !t.shown {
		text += "\n"
	}
	return text
}

// beside returns a line between the lines of tool calls.
func (t *Text) beside(text string) string {
	return t.r.Flush() + t.faint("    "+safetext.Line(text)) + "\n"
}

func (t *Text) faint(text string) string { return safetext.Paint(t.o.Color, "2", text) }

func local(t time.Time) string { return t.Local().Format(time.DateTime) }
