package transcript

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/sdk/plaintext"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
	"github.com/acphost/acphost/services/supervisor/internal/tui/render"
)

// tool processes a report about a tool call. announced means that it is a tool_call, not an update.
func (s *story) tool(t Entry, report *supervisorv1.ToolCallReport, announced bool) {
	id := report.GetToolCallId()
	h := s.tools.At(id)
	switch {
	case h == nil || client.Restarts(h.tool, announced):
		h = s.add(t, &heldItem{item: item{Kind: kindTool}, tool: &supervisorv1.ToolCall{ToolCallId: id}})
	case h.written && changesTool(h.tool, report):
		h = s.add(t, &heldItem{item: item{Kind: kindTool, Goes: true}, tool: h.tool})
	}
	s.tools.Keep(id, h, maxKnown)
	if report.GetContentSet() && !h.written {
		s.show(h, report.GetContent())
	}
	c := h.tool
	client.FoldToolCall(c, report)
	if h.written {
		h.forget()
		return
	}
	c.RawInput, c.RawOutput = first(c.GetRawInput(), maxPartRaw), first(c.GetRawOutput(), maxPartRaw)
	size := proto.Size(c)
	for _, old := range h.earlier {
		size += proto.Size(old)
	}
	s.grow(h, size-h.weight+512)
}

// changesTool reports whether a report changes a tool call that was already written.
func changesTool(c *supervisorv1.ToolCall, report *supervisorv1.ToolCallReport) bool {
	return report.GetStatus() != "" && report.GetStatus() != c.GetStatus() || report.Title != nil && report.GetTitle() != c.GetTitle() ||
		len(report.GetContent()) > 0
}

// show sets the content of a tool call. It keeps earlier content: changes of files, unless the new content has the same
// files, and the content at its end if it becomes empty after that, because the changes were made nevertheless.
func (s *story) show(h *heldItem, content []*supervisorv1.ToolCallContent) {
	cleared := len(content) == 0 && client.ToolCallEnded(h.tool.GetStatus())
	h.earlier = slices.DeleteFunc(append(h.earlier, h.tool.GetContent()...), func(old *supervisorv1.ToolCallContent) bool {
		d := old.GetDiff()
		if d == nil {
			return !cleared
		}
		return slices.ContainsFunc(content, func(c *supervisorv1.ToolCallContent) bool { return c.GetDiff().GetPath() == d.GetPath() })
	})
	if over := len(h.earlier) + len(content) - 2*maxParts; over > 0 {
		h.earlier = h.earlier[min(over, len(h.earlier)):]
	}
	for _, c := range content {
		id := c.GetTerminalId()
		if id == "" || slices.Contains(h.ids, id) || len(h.ids) >= maxParts {
			continue
		}
		if run := s.commands.At(id); run != nil && run.owner == nil && !run.written {
			h.ids = append(h.ids, id)
			run.owner = h
		}
	}
}

// content returns the current content of a tool call, and the earlier content that is kept.
func (h *heldItem) content() []*supervisorv1.ToolCallContent {
	return slices.Concat(h.earlier, h.tool.GetContent())
}

// finishTool completes the item of a tool call.
func (s *story) finishTool(h *heldItem) {
	c := h.tool
	h.Title = cmp.Or(c.GetTitle(), c.GetName(), c.GetToolCallId(), "tool call")
	h.Tool, h.Status, h.Mark = c.GetKind(), cmp.Or(c.GetStatus(), "pending"), statusMark(c.GetStatus())
	h.Parts = nil
	if p, ok := s.folder.places(c); ok {
		h.Parts = append(h.Parts, p)
	}
	h.Parts = append(h.Parts, s.folder.content(h.content())...)
	for _, id := range h.ids {
		if run := s.commands.At(id); run != nil {
			h.Parts = append(h.Parts, commandPart(run))
		}
	}
	raw := c.GetRawOutput()
	if o := client.ShownOutput(c, func(id string) bool { return s.commands.At(id) != nil }); o != nil && len(h.ids) == 0 {
		h.Parts = append(h.Parts, toolOutputPart(o))
		if o.GetText() != "" {
			raw = "" // the text is taken from it
		}
	}
	h.Parts = append(h.Parts, rawParts(c.GetRawInput(), raw)...)
}

// rawParts returns the raw input and output of a tool.
func rawParts(in, out string) (parts []part) {
	for _, p := range []part{{Kind: partRaw, Title: "input", Text: in}, {Kind: partRaw, Title: "output", Text: out}} {
		if p.Text != "" && p.Text != "{}" && p.Text != `""` {
			parts = append(parts, p)
		}
	}
	return parts
}

// toolOutputPart returns the output of a command that the agent ran itself. The tool call names the command.
func toolOutputPart(o *supervisorv1.ToolOutput) part {
	p := part{Kind: partOutput, Text: safetext.Text(string(plaintext.Text([]byte(o.GetText()))))}
	if o.GetOmitted() > 0 || o.GetTail() != "" {
		if n := o.GetOmitted(); n > 0 {
			p.Text += "\n… " + safetext.Number(n) + " bytes left out …\n"
		}
		p.Text += safetext.Text(string(plaintext.Text([]byte(o.GetTail()))))
	}
	if o.ExitCode != nil || o.GetSignal() != "" {
		p.Status, p.Mark = exitStatus(&supervisorv1.WatchOutputResponse{ExitCode: o.ExitCode, Signal: o.GetSignal()})
	}
	return p
}

// exitStatus describes the end of a command.
func exitStatus(o *supervisorv1.WatchOutputResponse) (string, mark) {
	text, failed := render.Exit(o)
	switch {
	case failed:
		return text, markBad
	case o.ExitCode != nil:
		return text, markGood
	}
	return text, markNone
}

// commandPart returns a command with the end of its output.
func commandPart(h *heldItem) part {
	p := part{Kind: partOutput, Title: h.command, Mark: markOpen, Status: "no end of it is recorded"}
	if h.Goes {
		p.Title += " (goes on)"
	}
	p.Rule = h.Rule
	text := safetext.Text(string(plaintext.Text(h.output)))
	if h.cut > 0 {
		text = "… " + safetext.Count(h.cut, "byte") + " left out\n" + text
	}
	p.Text = text
	switch o := h.ending; {
	case h.Status != "":
		p.Status, p.Mark = h.Status, h.Mark
	case o == nil:
	default:
		p.Status, p.Mark = exitStatus(o)
	}
	return p
}

// asked processes a question.
func (s *story) asked(t Entry, a *supervisorv1.Approval) {
	h := s.add(t, &heldItem{item: item{Kind: kindQuestion, Mark: markOpen, Status: "no answer is recorded"}, asked: a})
	s.questions.Keep(a.GetId(), h, maxKnown)
	s.grow(h, proto.Size(a))
	s.placed(h)
	s.decisions.questions = append(s.decisions.questions, h)
}

func (s *story) answered(t Entry, a *supervisorv1.ApprovalAnswer) {
	h := s.questions.At(a.GetId())
	s.decisions.questions = slices.DeleteFunc(s.decisions.questions, func(o *heldItem) bool { return o == h })
	if h == nil {
		h = s.add(t, &heldItem{item: item{Kind: kindQuestion}, asked: &supervisorv1.Approval{Id: a.GetId()}})
	} else if h.written {
		h = s.add(t, &heldItem{item: item{Kind: kindQuestion, Goes: true}, asked: h.asked})
	}
	h.Status = render.Answer(a, h.asked.GetPermission().GetOptions())
	switch a.GetOutcome() {
	case "allowed", "accepted":
		h.Mark = markGood
	case "denied", "declined":
		h.Mark = markBad
	default:
		h.Mark = markWarn
	}
}

// finishQuestion completes the item of a question. It omits content that its tool call shows.
func (s *story) finishQuestion(h *heldItem) {
	q := h.asked.GetPermission()
	h.Title = render.QuestionTitle(h.asked)
	if e := h.asked.GetElicitation(); e != nil {
		_, h.Said, _ = strings.Cut(first(strings.TrimSpace(e.GetMessage()), maxPartText), "\n")
		h.Title, _, _ = strings.Cut("The agent asks: "+cmp.Or(strings.TrimSpace(e.GetMessage()), "it wants to know something"), "\n")
		if e.GetMode() == "url" {
			h.Parts = append(h.Parts, part{Kind: partPlaces, Text: render.URL(e.GetUrl())})
		}
		if e.GetRequestedSchema() != "" {
			h.Parts = append(h.Parts, part{Kind: partRaw, Title: "the form", Text: first(e.GetRequestedSchema(), maxPartRaw)})
		}
		return
	}
	if q.GetReason() != "" && !q.GetFromAcphost() { // acphost's own questions contain the reason in their content
		h.Said = "Asked because: " + safetext.Line(q.GetReason())
	}
	about := s.tools.At(q.GetToolCallId())
	h.Parts = s.folder.content(q.GetContent())
	if about != nil {
		shown := s.folder.content(about.content())
		h.Parts = slices.DeleteFunc(h.Parts, func(p part) bool {
			return slices.ContainsFunc(shown, func(o part) bool { return reflect.DeepEqual(o, p) })
		})
	}
	if about == nil || about.tool.GetRawInput() != q.GetRawInput() {
		h.Parts = append(h.Parts, rawParts(first(q.GetRawInput(), maxPartRaw), "")...)
	}
}

// called processes a request of the agent to its client. Requests about terminals are shown by their results.
func (s *story) called(t Entry, e *supervisorv1.CallStarted) {
	if strings.HasPrefix(e.GetMethod(), "terminal/") {
		return
	}
	title := e.GetMethod()
	if e.GetPath() != "" {
		title += " " + s.folder.path(e.GetPath())
	}
	h := s.add(t, &heldItem{item: item{Kind: kindCall, Mark: markOpen, Title: first(title, maxTitle), Status: "no answer is recorded"}, action: actionOf(e.GetMethod()), path: s.folder.full(e.GetPath())})
	s.calls.Keep(e.GetId(), h, maxKnown)
	s.decisions.calls = append(s.decisions.calls, h)
}

func (s *story) returned(t Entry, e *supervisorv1.CallEnded) {
	failed := e.GetError() != "" || e.GetErrorCode() != 0
	why := "failed: " + cmp.Or(e.GetError(), "code "+counter(int(e.GetErrorCode())))
	switch {
	case failed && t.Command != "":
		s.add(t, &heldItem{item: item{Kind: kindCommand, Mark: markBad, Status: why, Rule: s.ran(t.Command)}, command: t.Command})
		return
	case t.Command != "":
		h := s.add(t, &heldItem{item: item{Kind: kindCommand, Rule: s.ran(t.Command)}, command: t.Command})
		if t.Terminal != "" {
			s.commands.Keep(t.Terminal, h, maxKnown)
		}
		return
	case strings.HasPrefix(e.GetMethod(), "terminal/") && !failed:
		return
	}
	h := s.calls.At(e.GetId())
	s.decisions.calls = slices.DeleteFunc(s.decisions.calls, func(o *heldItem) bool { return o == h })
	switch {
	case h == nil && !failed, h != nil && h.written && !failed:
		return
	case h == nil:
		h = s.add(t, &heldItem{item: item{Kind: kindCall, Title: e.GetMethod()}})
	case h.written:
		h = s.add(t, &heldItem{item: item{Kind: kindCall, Title: h.Title, Goes: true}})
	}
	h.Status, h.Mark = "done", markGood
	if failed {
		h.Status, h.Mark = why, markBad
	}
}

// output processes a piece of a command's output, or its end.
func (s *story) output(t Entry) {
	h := s.commands.At(t.Terminal)
	if h == nil {
		return
	}
	if h.written || h.owner != nil && h.owner.written {
		if t.Output.GetEnded() && len(t.Output.GetData()) == 0 && h.ending != nil {
			return
		}
		h = s.add(t, &heldItem{item: item{Kind: kindCommand, Goes: true}, command: h.command})
		s.commands.Keep(t.Terminal, h, maxKnown)
	}
	before := len(h.output)
	h.output = append(h.output, t.Output.GetData()...)
	if over := len(h.output) - maxOutput; over > 0 && len(h.output) > maxOutput*5/4 {
		h.cut += over
		h.output = slices.Clone(h.output[over:])
	}
	s.grow(h, len(h.output)-before)
	if t.Output.GetEnded() {
		h.ending = t.Output
	}
}
