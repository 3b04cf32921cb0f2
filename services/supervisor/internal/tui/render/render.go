// Package render formats a session's events as text for users: with Markdown and colours for a terminal, otherwise as
// plain lines.
//
// It knows the events of the supervisor's API. It must not know their source, or the destination of the text. It never
// moves the cursor and never changes earlier output, so its text can be appended to a terminal, a file or a scrolling
// view.
//
// Text of agents is untrusted. Control characters, escape sequences and characters that change the direction of text
// are escaped, each item has a limit, and text of an agent never has reverse video, which marks questions.
package render

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/acphost/acphost/internal/ordered"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// Options configure the format. The zero value is plain text.
type Options struct {
	// Width is the number of columns. 0 means that lines are not broken.
	Width int
	// Color enables bold, dim and the terminal's 16 colours. The caller checks NO_COLOR and TERM.
	Color bool
	// Markdown formats the agent's messages as Markdown. Otherwise they are plain text.
	Markdown bool
	// Cwd is the absolute folder that paths are shown relative to. Empty shows absolute paths.
	Cwd string
	// History shows events that an agent repeats while it loads a session.
	History bool
	// Prompts shows the user's prompts.
	Prompts bool
	// Asking means that the caller shows questions itself, with Renderer.Question. Only answers are shown.
	Asking bool
	// NoUsage omits the usage at the end of a turn.
	NoUsage bool
	// Brief shows a short tool call once, when it has ended, and a failure once, in the most informative form. Text
	// that is held back for that is returned before other text, and by Overdue.
	Brief bool
	// Verbose also shows less important events: successful calls of the agent, commands, new sessions.
	Verbose bool

	view *view // for questions; nil: the default limits
}

// Renderer shows the events of one session in order. It is not safe for concurrent use.
type Renderer struct {
	o Options

	kind    kind // kind of the last text
	stream  stream
	message string // id of the current message

	tools        ordered.Map[string, *tool]
	questions    ordered.Map[string, *supervisorv1.Approval]
	calls        ordered.Map[string, string] // subjects of unanswered requests
	terminals    ordered.Map[string, *terminal]
	handlers     ordered.Map[string, string]
	options      ordered.Map[string, string]
	plan         string
	mode         string
	title        string
	context      *supervisorv1.ContextUsage
	shownContext *supervisorv1.ContextUsage // the context usage that was shown last
	lastTerminal string                     // the terminal with the latest output
	omitted      omittedOutput

	heldBack      []string // tool calls that are held back
	failure       failure  // a failed call that is held back
	noticedReason string   // reason of a failure in a notice of acphost
}

// kind is a kind of text. A blank line separates different kinds.
type kind int

const (
	nothing kind = iota
	message      // message of the agent
	thought      // thought of the agent
	user         // message of the user
	summary      // summary of a compaction
	planned      // plan
	work         // tool calls, notes, questions: one per line
	asking       // question
)

// tool is the state of a tool call.
type tool struct {
	call   *supervisorv1.ToolCall
	shown  string // the status that was shown last
	places string
	output bool              // the output was shown
	seen   map[[32]byte]bool // contents that were shown, by digest
}

// New returns a Renderer without state.
func New(o Options) *Renderer {
	return &Renderer{o: o}
}

// SetWidth changes the number of columns for the text after the next Flush.
func (r *Renderer) SetWidth(width int) { r.o.Width = width }

// Flush ends the current message and returns all text that was held back. The next text begins on a new line.
func (r *Renderer) Flush() string { return r.endStream() + r.FlushHeld() }

// endStream ends the current message.
func (r *Renderer) endStream() string {
	if r.stream == nil {
		return ""
	}
	text := r.stream.end()
	r.stream, r.message = nil, ""
	return text
}

// Pause returns a word that was held back because it may continue. The caller calls it when no event has arrived for a
// moment. The message continues after it.
func (r *Renderer) Pause() string {
	if r.stream == nil {
		return ""
	}
	return r.stream.pause()
}

// Event returns the text of an event. It is often empty.
func (r *Renderer) Event(ev *supervisorv1.Event) string {
	if ev.GetHistory() && !r.o.History {
		return ""
	}
	switch e := ev.GetEvent().(type) {
	case *supervisorv1.Event_UserMessage:
		if r.o.Prompts {
			return r.chunk(user, e.UserMessage)
		}
	case *supervisorv1.Event_AgentMessage:
		return r.chunk(message, e.AgentMessage)
	case *supervisorv1.Event_AgentThought:
		return r.chunk(thought, e.AgentThought)
	case *supervisorv1.Event_ToolCall:
		return r.Tool(r.Report(e.ToolCall, true).GetToolCallId())
	case *supervisorv1.Event_ToolCallUpdate:
		return r.Tool(r.Report(e.ToolCallUpdate, false).GetToolCallId())
	case *supervisorv1.Event_Plan:
		return r.planEntries(e.Plan.GetEntries())
	case *supervisorv1.Event_QuestionAsked:
		return r.asked(e.QuestionAsked)
	case *supervisorv1.Event_QuestionAnswered:
		return r.answered(e.QuestionAnswered)
	case *supervisorv1.Event_TurnStarted:
		return r.turnStarted(e.TurnStarted)
	case *supervisorv1.Event_TurnEnded:
		return r.turnEnded(e.TurnEnded)
	case *supervisorv1.Event_CallStarted:
		return r.callStarted(ev, e.CallStarted)
	case *supervisorv1.Event_CallEnded:
		return r.callEnded(ev, e.CallEnded)
	case *supervisorv1.Event_CompactionSummary:
		return r.chunk(summary, &supervisorv1.MessageChunk{Content: e.CompactionSummary.GetContent(), MessageId: e.CompactionSummary.GetCompactionId()})
	}
	return r.lines(work, r.note(ev))
}

// Question formats a question for a user, without content that was shown with its tool call. The text begins on a new
// line.
func (r *Renderer) Question(a *supervisorv1.Approval) string {
	before := r.Flush() // the question omits the content that this shows
	o := r.o
	if o.Asking {
		o.view = &view{}
	}
	text := question(o, a, func(item *supervisorv1.ToolCallContent) bool {
		t, ok := r.tools.Get(a.GetPermission().GetToolCallId())
		return ok && t.seen[digest(item)]
	})
	return before + r.lines(asking, text)
}

// Output returns the text for a piece of a terminal's output: the first lines at once, the last ones at the end, and
// the exit code.
func (r *Renderer) Output(terminalID string, out *supervisorv1.WatchOutputResponse) string {
	t, ok := r.terminals.Get(terminalID)
	if !ok {
		t = &terminal{}
		r.terminals.Keep(terminalID, t, maxKept)
	}
	lines := t.output(r.o, out)
	if len(lines) == 0 {
		return ""
	}
	var b strings.Builder
	bar := toolIndent + r.o.paint(dim, "│") + " "
	if r.lastTerminal != terminalID && r.terminals.Len() > 1 {
		b.WriteString(bar + r.o.paint(dim, "terminal "+safetext.Line(terminalID)) + "\n")
	}
	r.lastTerminal = terminalID
	for _, l := range lines {
		b.WriteString(r.barred(bar, l))
	}
	if t.ended && len(t.tail) > 0 {
		r.omitted = omittedOutput{t.tail, t.hidden}
		t.tail = nil
	}
	return r.lines(work, b.String())
}

// barred formats a line of output after a bar, in as many rows as it needs.
func (r *Renderer) barred(bar, line string) string {
	line = strings.TrimRight(bar+line, " ")
	if r.o.Width <= 0 {
		return line + "\n"
	}
	return strings.Join(safetext.Wrap(line, r.o.Width, bar), "\n") + "\n"
}

// Tail returns the end of a terminal's output that Output has not returned yet: at most limit lines, including an
// incomplete one, and the number of lines before them. It returns nothing for a terminal that is unknown or has ended.
func (r *Renderer) Tail(terminalID string, limit int) (lines []string, hidden int) {
	t, ok := r.terminals.Get(terminalID)
	if !ok || t.ended {
		return nil, 0
	}
	return t.last(r.o, max(limit, 0))
}

// omitted is the output of a terminal that was not shown.
type omittedOutput struct {
	lines   []string
	dropped int // lines before these, which were not stored
}

// Omitted returns the number of stored lines of the last terminal that ended with omitted output.
func (r *Renderer) Omitted() int { return len(r.omitted.lines) }

// TakeOmitted returns the lines that Omitted counts, and discards them.
func (r *Renderer) TakeOmitted() string {
	left := r.omitted
	r.omitted = omittedOutput{}
	if len(left.lines) == 0 {
		return ""
	}
	var b strings.Builder
	bar := toolIndent + r.o.paint(dim, "│") + " "
	note := safetext.Count(len(left.lines), "line") + " that were left out"
	if left.dropped > 0 {
		note += ", the last of " + safetext.Number(len(left.lines)+left.dropped)
	}
	b.WriteString(bar + r.o.paint(dim, note+":") + "\n")
	for _, l := range left.lines {
		b.WriteString(r.barred(bar, l))
	}
	return r.lines(work, b.String())
}

// begin ends the previous text, and adds a blank line if the kind changes.
func (r *Renderer) begin(k kind) string {
	text := r.Flush()
	if r.kind != nothing && (r.kind != work && r.kind != asking || k != work) {
		text += "\n"
	}
	r.kind = k
	return text
}

// lines shows whole lines.
func (r *Renderer) lines(k kind, text string) string {
	if text == "" {
		return ""
	}
	return r.begin(k) + text
}

// chunk shows a piece of a message.
func (r *Renderer) chunk(k kind, c *supervisorv1.MessageChunk) string {
	text := Content(c.GetContent())
	if text == "" {
		return ""
	}
	_, isText := c.GetContent().GetContent().(*supervisorv1.ContentBlock_Text)
	before := ""
	if r.stream == nil || r.kind != k || c.GetMessageId() != r.message && c.GetMessageId() != "" && r.message != "" {
		if isText && strings.TrimSpace(text) == "" {
			return "" // a message does not begin with an empty piece
		}
		before = r.begin(k)
		r.stream = r.newStream(k)
	}
	r.message = cmp.Or(c.GetMessageId(), r.message)
	if !isText {
		return before + r.stream.object(safetext.Line(text))
	}
	return before + r.stream.add(text)
}

// Report folds a report into its tool call and returns the tool call, without its raw input and output. Later reports
// change it. Report shows nothing; see Tool. announced means that the report is a tool_call, not an update.
func (r *Renderer) Report(report *supervisorv1.ToolCallReport, announced bool) *supervisorv1.ToolCall {
	t, ok := r.tools.Get(report.GetToolCallId())
	if !ok || client.Restarts(t.call, announced) || announced && t.call.GetStatus() == statusCancelled {
		t = &tool{call: &supervisorv1.ToolCall{ToolCallId: report.GetToolCallId()}, shown: "-", seen: map[[32]byte]bool{}}
		r.tools.Keep(report.GetToolCallId(), t, maxKept)
	}
	client.FoldToolCall(t.call, report)
	t.call.RawInput, t.call.RawOutput = "", "" // not shown, and may be large
	return t.call
}

// Tool returns the new content of a tool call after a report.
func (r *Renderer) Tool(id string) string {
	t, ok := r.tools.Get(id)
	switch {
	case !ok:
		return ""
	case r.o.Brief:
		return r.brief(t)
	}
	return r.tool(t)
}

// tool shows the new content of a tool call.
func (r *Renderer) tool(t *tool) string {
	status := cmp.Or(t.call.GetStatus(), "pending")
	var b strings.Builder
	if status != t.shown {
		t.shown = status
		b.WriteString(toolLine(r.o, t.call) + "\n")
	}
	if places := locations(r.o, t.call); places != "" && places != t.places {
		t.places = places
		b.WriteString(indented(places, toolIndent))
	}
	for _, item := range t.call.GetContent() {
		d := digest(item)
		if t.seen[d] || len(t.seen) >= 256 {
			continue
		}
		if status == "failed" && r.alreadyShown(item) {
			continue
		}
		if text := toolContent(r.o, item, status); text != "" {
			t.seen[d] = true
			b.WriteString(indented(text, toolIndent))
		}
	}
	b.WriteString(r.showToolOutput(t))
	if b.Len() == 0 {
		return ""
	}
	text := b.String()
	if !strings.HasPrefix(text, toolIndent) {
		return r.lines(work, text)
	}
	// Repeat the line of the tool call, because it may be far above.
	return r.lines(work, toolLine(r.o, t.call)+"\n"+text)
}

func (r *Renderer) planEntries(entries []*supervisorv1.PlanEntry) string {
	key := planKey(entries)
	if key == r.plan {
		return ""
	}
	r.plan = key
	if len(entries) == 0 {
		return r.lines(planned, r.o.paint(dim, "The plan is empty now.")+"\n")
	}
	return r.lines(planned, r.o.paint(bold, "Plan")+"\n"+Plan(r.o, entries))
}

func (r *Renderer) asked(a *supervisorv1.Approval) string {
	r.questions.Keep(a.GetId(), a, maxKept)
	if r.o.Asking {
		return ""
	}
	return r.Question(a)
}

func (r *Renderer) answered(a *supervisorv1.ApprovalAnswer) string {
	asked, ok := r.questions.Get(a.GetId())
	r.questions.Delete(a.GetId())
	mark, s := "✓", green
	switch a.GetOutcome() {
	case "allowed", "accepted":
	case "denied", "declined":
		mark, s = "✗", red
	default:
		mark, s = "-", yellow
		r.unanswered(asked.GetPermission().GetToolCallId())
	}
	text := r.o.paint(s, mark) + " " + Answer(a, asked.GetPermission().GetOptions())
	if ok {
		text += ": " + r.o.paint(dim, QuestionSubject(asked))
	}
	return r.lines(work, text+"\n")
}

func (r *Renderer) turnStarted(e *supervisorv1.TurnStarted) string {
	if !r.o.Prompts {
		return ""
	}
	text := ""
	for i, block := range e.GetPrompt() {
		chunk := &supervisorv1.MessageChunk{Content: block, MessageId: fmt.Sprint("prompt ", i)}
		if _, ok := block.GetContent().(*supervisorv1.ContentBlock_Text); !ok || i == 0 {
			chunk.MessageId = ""
		}
		text += r.chunk(user, chunk)
	}
	return text + r.Flush()
}

func (r *Renderer) turnEnded(e *supervisorv1.TurnEnded) string {
	var b strings.Builder
	switch {
	case e.GetError() != nil:
		b.WriteString(AgentError(r.o, e.GetError()))
	case e.GetStopReason() != "end_turn":
		b.WriteString(r.o.paint(yellow, StopReason(e.GetStopReason())) + "\n")
	}
	if e.GetStopReason() == "cancelled" {
		r.cancelOpen()
	}
	context := r.context
	if context == r.shownContext {
		context = nil
	}
	r.shownContext = r.context
	if usage := Usage(e.GetUsage(), context); usage != "" && !r.o.NoUsage {
		b.WriteString(r.o.paint(dim, usage) + "\n")
	}
	text := r.Flush()
	if b.Len() > 0 {
		text += r.lines(work, b.String())
	}
	// The same plan in the next turn is shown again.
	r.plan = ""
	return text
}

// Context returns the latest context usage of the agent, or nil.
func (r *Renderer) Context() *supervisorv1.ContextUsage { return r.context }
