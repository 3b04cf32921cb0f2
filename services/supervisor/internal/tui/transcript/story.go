package transcript

import (
	"cmp"
	"strings"
	"time"

	"github.com/acphost/acphost/internal/ordered"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
	"github.com/acphost/acphost/services/supervisor/internal/tui/render"
)

// Limits of the items that a story holds back.
const (
	maxHeld      = 4096    // items
	maxHeldBytes = 8 << 20 // of their content
	maxSaid      = 1 << 20 // bytes of a message; a longer one continues in another item
	maxKnown     = 1024    // known tool calls, questions, calls and commands each, written or not
	maxTitle     = 4 << 10 // bytes of a title that is kept after it was written
	maxOutput    = 256 << 10
)

// story converts the entries of a journal to items, and writes each once. It holds back a turn until it ends or is too
// large, so that later entries about a tool call, a question or a command can be added to its item.
type story struct {
	write   func(*item) error
	folder  folder
	history bool // include events that the agent repeated

	items  []*heldItem
	weight int
	err    error

	tools     ordered.Map[string, *heldItem]
	questions ordered.Map[string, *heldItem]
	calls     ordered.Map[string, *heldItem]
	commands  ordered.Map[string, *heldItem] // by terminal

	decisions decisions

	notes   *render.Renderer           // formats events of one or two lines, as in the live output
	context *supervisorv1.ContextUsage // latest value since the end of a turn
	turns   turns
	parts   int // number of files
	skipped int // events of the history
	at      time.Time
}

// heldItem is an item that was not written yet, or that later entries may refer to.
type heldItem struct {
	item
	words   strings.Builder
	message string // id of the message
	tool    *supervisorv1.ToolCall
	earlier []*supervisorv1.ToolCallContent // earlier content of the tool call that is still shown
	ids     []string                        // all terminals that the tool call has shown
	asked   *supervisorv1.Approval
	action  string // kind of action of a call
	path    string // path of a call
	command string
	output  []byte
	cut     int // bytes of output that were dropped
	ending  *supervisorv1.WatchOutputResponse
	owner   *heldItem // the tool call that shows the command
	weight  int
	written bool
}

func newStory(cwd string, o PageOptions, write func(*item) error) *story {
	return &story{
		write: write, folder: folder(cwd), history: o.History, decisions: decisions{records: o.Decisions},
		notes: render.New(render.Options{History: true, Prompts: true, Verbose: true}),
	}
}

// addEntry processes an entry.
func (s *story) addEntry(t Entry) error {
	s.decided(t.Time)
	s.at = t.Time
	switch {
	case s.err != nil:
		return s.err
	case t.Header != nil:
		s.part(t)
	case t.Event == nil:
		s.output(t)
	case t.Event.GetHistory() && !s.history:
		s.skipped++
	default:
		s.skip(t)
		s.event(t)
	}
	s.bound()
	return s.err
}

// close writes the items that were held back.
func (s *story) close() error {
	s.skip(Entry{})
	s.decided(s.at.Add(LateDecision))
	s.addPendingDecisions()
	s.unfinished()
	s.flush(0)
	return s.err
}

func (s *story) part(t Entry) {
	s.skip(t)
	s.addPendingDecisions()
	s.decisions.questions, s.decisions.calls = nil, nil
	s.unfinished()
	s.flush(0)
	if s.parts++; s.parts > 1 {
		s.add(t, &heldItem{item: item{Kind: kindNote, Title: "The session is recorded again from here on."}})
	}
	for _, m := range []*ordered.Map[string, *heldItem]{&s.tools, &s.questions, &s.calls, &s.commands} {
		m.Clear()
	}
}

// unfinished adds an item if the record ends within a turn.
func (s *story) unfinished() {
	if s.turns.open {
		s.turns.open = false
		s.add(Entry{}, &heldItem{item: item{Kind: kindEnd, Mark: markOpen, Title: "The record ends here, within the turn."}})
	}
}

// skip adds the number of omitted events of the history.
func (s *story) skip(t Entry) {
	if n := s.skipped; n > 0 {
		s.skipped = 0
		s.add(t, &heldItem{item: item{Kind: kindNote, Title: "What the agent told again when it loaded the session is left out (" + safetext.Count(n, "event") + ")."}})
	}
}

func (s *story) event(t Entry) {
	switch e := t.Event.GetEvent().(type) {
	case *supervisorv1.Event_TurnStarted:
		s.turns.begin(t.Time)
		s.add(t, &heldItem{item: item{Kind: kindTurn, Title: "Turn " + counter(s.turns.n)}})
		for _, b := range e.TurnStarted.GetPrompt() {
			s.message(t, kindUser, b, "")
		}
		if len(e.TurnStarted.GetPrompt()) > 0 {
			s.items[len(s.items)-1].message = "the prompt" // repeated text of the agent is separate
		}
	case *supervisorv1.Event_TurnEnded:
		s.turnEnded(t, e.TurnEnded)
	case *supervisorv1.Event_UserMessage:
		s.message(t, kindUser, e.UserMessage.GetContent(), e.UserMessage.GetMessageId())
	case *supervisorv1.Event_AgentMessage:
		s.message(t, kindAgent, e.AgentMessage.GetContent(), e.AgentMessage.GetMessageId())
	case *supervisorv1.Event_AgentThought:
		s.message(t, kindThought, e.AgentThought.GetContent(), e.AgentThought.GetMessageId())
	case *supervisorv1.Event_CompactionSummary:
		s.message(t, kindSummary, e.CompactionSummary.GetContent(), e.CompactionSummary.GetCompactionId())
	case *supervisorv1.Event_ToolCall:
		s.tool(t, e.ToolCall, true)
	case *supervisorv1.Event_ToolCallUpdate:
		s.tool(t, e.ToolCallUpdate, false)
	case *supervisorv1.Event_Plan:
		s.plan(t, e.Plan.GetEntries())
	case *supervisorv1.Event_QuestionAsked:
		s.asked(t, e.QuestionAsked)
	case *supervisorv1.Event_QuestionAnswered:
		s.answered(t, e.QuestionAnswered)
	case *supervisorv1.Event_CallStarted:
		s.called(t, e.CallStarted)
	case *supervisorv1.Event_CallEnded:
		s.returned(t, e.CallEnded)
	case *supervisorv1.Event_Usage:
		s.context = e.Usage
	case *supervisorv1.Event_SessionOpened:
		if text := s.notes.Event(t.Event); e.SessionOpened.GetMethod() != acp.MethodSessionNew { // the head contains it
			s.noted(t, text)
		}
	case *supervisorv1.Event_AvailableCommands:
	default:
		s.noted(t, s.notes.Event(t.Event))
	}
}

// add adds an item.
func (s *story) add(t Entry, h *heldItem) *heldItem {
	h.Time = s.at
	h.History = t.Event.GetHistory()
	s.items = append(s.items, h)
	s.grow(h, 512)
	return h
}

// grow adds n to the size of an item in bytes.
func (s *story) grow(h *heldItem, n int) {
	if !h.written {
		h.weight += n
		s.weight += n
	}
}

// bound writes the oldest half of the items if there are too many.
func (s *story) bound() {
	if len(s.items) > maxHeld || s.weight > maxHeldBytes {
		s.flush(len(s.items) / 2)
	}
}

// flush writes all items except for the last keep. It keeps the state of written items until all are written, because a
// question omits content that its tool call shows.
func (s *story) flush(keep int) {
	n := len(s.items) - keep
	for _, h := range s.items[:n] {
		s.weight -= h.weight
		h.written = true
		if h.owner == nil && s.err == nil {
			s.err = s.write(s.finished(h))
		}
	}
	for _, h := range s.items[:n] {
		h.forget()
	}
	s.items = append([]*heldItem(nil), s.items[n:]...)
}

// forget releases the memory that a written item does not need any more.
func (h *heldItem) forget() {
	h.Said, h.Parts, h.output, h.earlier, h.weight = "", nil, nil, nil, 0
	h.words = strings.Builder{}
	h.Title = first(h.Title, maxTitle)
	if c := h.tool; c != nil {
		h.tool = &supervisorv1.ToolCall{
			ToolCallId: first(c.GetToolCallId(), maxTitle), Title: first(c.GetTitle(), maxTitle), Name: first(c.GetName(), maxTitle),
			Kind: first(c.GetKind(), maxTitle), Status: first(c.GetStatus(), maxTitle),
		}
	}
	if a := h.asked; a != nil {
		h.asked = &supervisorv1.Approval{Id: a.GetId()}
		if q := a.GetPermission(); q != nil {
			h.asked.Permission = &supervisorv1.PermissionQuestion{Title: first(q.GetTitle(), maxTitle), FromAcphost: q.GetFromAcphost()}
		} else {
			h.asked.Elicitation = &supervisorv1.Elicitation{Message: first(a.GetElicitation().GetMessage(), maxTitle)}
		}
	}
}

// finished completes an item before it is written.
func (s *story) finished(h *heldItem) *item {
	switch {
	case h.tool != nil:
		s.finishTool(h)
	case h.asked != nil:
		s.finishQuestion(h)
	case h.Kind == kindCommand:
		p := commandPart(h)
		h.Title, h.Status, h.Mark = p.Title, p.Status, p.Mark
		p.Title, p.Status = "", ""
		if h.Parts = nil; p.Text != "" {
			h.Parts = []part{p}
		}
	case h.words.Len() > 0:
		h.Said = h.words.String()
	}
	return &h.item
}

// message processes a piece of a message.
func (s *story) message(t Entry, k kind, c *supervisorv1.ContentBlock, message string) {
	text := contentText(c)
	if text == "" {
		return
	}
	var last *heldItem
	if n := len(s.items); n > 0 {
		last = s.items[n-1]
	}
	goes := last != nil && last.Kind == k && last.History == t.Event.GetHistory() &&
		(last.message == message || message == "" && last.message != "the prompt" || last.message == "")
	if !goes || last.words.Len() > maxSaid {
		if strings.TrimSpace(text) == "" && !goes {
			return // a message does not begin with an empty piece
		}
		last = s.add(t, &heldItem{item: item{Kind: k, Goes: goes}})
	}
	last.message = cmp.Or(message, last.message)
	if !isText(c) { // on its own line
		if soFar := last.words.String(); soFar != "" && !strings.HasSuffix(soFar, "\n") {
			text = "\n" + text
		}
		text += "\n"
	}
	last.words.WriteString(text)
	s.grow(last, len(text))
}

func (s *story) plan(t Entry, entries []*supervisorv1.PlanEntry) {
	p := planPart(entries)
	if n := len(s.items); n > 0 && s.items[n-1].Kind == kindPlan {
		s.items[n-1].Parts = []part{p}
		return
	}
	h := s.add(t, &heldItem{item: item{Kind: kindPlan, Title: "Plan", Parts: []part{p}}})
	for _, st := range p.Steps {
		s.grow(h, len(st.Text)+64)
	}
	if len(entries) == 0 {
		h.Title, h.Parts = "The plan is empty now.", nil
	}
}

func (s *story) turnEnded(t Entry, e *supervisorv1.TurnEnded) {
	s.addPendingDecisions()
	h := &heldItem{item: item{Kind: kindEnd, Title: capital(s.turns.end(t.Time, e)), Status: render.Usage(e.GetUsage(), s.context)}}
	s.context = nil
	switch {
	case e.GetError() != nil:
		h.Mark = markBad
		h.Said = strings.TrimSpace(render.AgentError(render.Options{}, e.GetError()))
	case e.GetStopReason() != "end_turn":
		h.Mark = markWarn
		switch e.GetStopReason() {
		case "max_tokens", "max_turn_requests", "refusal":
			h.Said = render.StopReason(e.GetStopReason())
		}
	}
	s.add(t, h)
	s.flush(0)
}

// noted adds an item for an event of one or two lines.
func (s *story) noted(t Entry, text string) {
	if text = strings.TrimSpace(text); text == "" {
		return
	}
	title, rest, _ := strings.Cut(text, "\n")
	h := &heldItem{item: item{Kind: kindNote, Title: strings.TrimPrefix(title, "! "), Said: strings.TrimPrefix(strings.ReplaceAll(rest, "\n    ", "\n"), "    ")}}
	switch e := t.Event.GetEvent().(type) {
	case *supervisorv1.Event_Gap:
		h.Kind, h.Mark = kindLost, markWarn
	case *supervisorv1.Event_Notice:
		h.Said = first(e.Notice.GetDescription(), maxPartText)
		switch e.Notice.GetSeverity() {
		case "warning":
			h.Mark = markWarn
		case "error":
			h.Mark = markBad
		}
	case *supervisorv1.Event_Compaction:
		if e.Compaction.GetStatus() == "failed" {
			h.Mark = markBad
		}
	case *supervisorv1.Event_OtherUpdate:
		if raw := t.Event.GetRaw(); raw != "" {
			h.Parts = []part{{Kind: partRaw, Title: "the update", Text: first(raw, maxPartRaw)}}
		}
	}
	s.grow(s.add(t, h), len(text)+len(h.Said))
}
