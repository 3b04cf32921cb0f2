package transcript

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/render"
)

// tool takes a report on a tool call.
func (s *story) tool(t Told, report *supervisorv1.ToolCallReport) {
	h := s.tools.get(report.GetToolCallId())
	if h == nil || h.written && newsOf(h.tool, report) {
		before := h
		h = s.add(t, &holding{item: item{Kind: kindTool}, tool: &supervisorv1.ToolCall{ToolCallId: report.GetToolCallId()}})
		if before != nil { // its beginning was written
			h.tool, h.Goes = before.tool, true
		}
		s.tools.set(report.GetToolCallId(), h)
	}
	c := h.tool
	if report.Title != nil {
		c.Title = report.GetTitle()
	}
	if report.Name != nil {
		c.Name = report.GetName()
	}
	if report.Kind != nil {
		c.Kind = report.GetKind()
	}
	if report.Status != nil {
		c.Status = report.GetStatus()
	}
	if h.written {
		return
	}
	if report.GetLocationsSet() && len(report.GetLocations()) > 0 {
		c.Locations = report.GetLocations()
	}
	if in := report.GetRawInput(); in != "" {
		c.RawInput = first(in, maxPartRaw)
	}
	if out := report.GetRawOutput(); out != "" {
		c.RawOutput = first(out, maxPartRaw)
	}
	if report.GetContentSet() && len(report.GetContent()) > 0 {
		s.show(h, report.GetContent())
	}
	s.heavier(h, proto.Size(c)-h.weight+512)
}

// newsOf tells whether a report says more of a tool call that was written than that it is as it was.
func newsOf(c *supervisorv1.ToolCall, report *supervisorv1.ToolCallReport) bool {
	return report.GetStatus() != "" && report.GetStatus() != c.GetStatus() || report.Title != nil && report.GetTitle() != c.GetTitle() ||
		len(report.GetContent()) > 0
}

// show has a tool call show something else. What it showed of files and terminals before stays, unless it shows them anew:
// an agent that takes it back has done it nevertheless.
func (s *story) show(h *holding, content []*supervisorv1.ToolCallContent) {
	var kept []*supervisorv1.ToolCallContent
	for _, old := range h.tool.GetContent() {
		if d := old.GetDiff(); d != nil && !slices.ContainsFunc(content, func(c *supervisorv1.ToolCallContent) bool { return c.GetDiff().GetPath() == d.GetPath() }) {
			kept = append(kept, old)
		}
	}
	if over := len(kept) + len(content) - 2*maxParts; over > 0 {
		kept = kept[min(over, len(kept)):]
	}
	h.tool.Content = append(kept, content...)
	for _, c := range content {
		id := c.GetTerminalId()
		if id == "" || slices.Contains(h.ids, id) || len(h.ids) >= maxParts {
			continue
		}
		if run := s.commands.get(id); run != nil && run.owner == nil && !run.written {
			h.ids = append(h.ids, id)
			run.owner = h
		}
	}
}

// finishTool fills in the item of a tool call.
func (s *story) finishTool(h *holding) {
	c := h.tool
	h.Title = cmp.Or(c.GetTitle(), c.GetName(), c.GetToolCallId(), "tool call")
	h.Tool, h.Status, h.Mark = c.GetKind(), cmp.Or(c.GetStatus(), "pending"), statusMark(c.GetStatus())
	h.Parts = nil
	if p, ok := s.folder.places(c); ok {
		h.Parts = append(h.Parts, p)
	}
	h.Parts = append(h.Parts, s.folder.content(c.GetContent())...)
	for _, id := range h.ids {
		if run := s.commands.get(id); run != nil {
			h.Parts = append(h.Parts, commandPart(run))
		}
	}
	h.Parts = append(h.Parts, rawParts(c.GetRawInput(), c.GetRawOutput())...)
}

// rawParts are what went into a tool and came out of it, as the agent has it.
func rawParts(in, out string) (parts []part) {
	for _, p := range []part{{Kind: partRaw, Title: "input", Text: in}, {Kind: partRaw, Title: "output", Text: out}} {
		if p.Text != "" && p.Text != "{}" && p.Text != `""` {
			parts = append(parts, p)
		}
	}
	return parts
}

// commandPart is a command with the end of its output.
func commandPart(h *holding) part {
	p := part{Kind: partOutput, Title: h.command, Mark: markOpen, Status: "no end of it is recorded"}
	if h.Goes {
		p.Title += " (goes on)"
	}
	text := screened(string(h.output))
	if h.cut > 0 {
		text = "… " + counted(h.cut, "byte") + " left out\n" + text
	}
	p.Text = text
	switch o := h.ending; {
	case h.Status != "":
		p.Status, p.Mark = h.Status, h.Mark
	case o == nil:
	case o.ExitCode != nil && o.GetExitCode() == 0:
		p.Status, p.Mark = "exit code 0", markGood
	case o.ExitCode != nil:
		p.Status, p.Mark = "exit code "+counter(int(o.GetExitCode())), markBad
	case o.GetSignal() != "":
		p.Status, p.Mark = "ended by "+render.CleanLine(o.GetSignal()), markBad
	default:
		p.Status, p.Mark = "ended", markNone
	}
	return p
}

// asked takes a question.
func (s *story) asked(t Told, a *supervisorv1.Approval) {
	h := s.add(t, &holding{item: item{Kind: kindQuestion, Mark: markOpen, Status: "no answer is recorded"}, asked: a})
	s.questions.set(a.GetId(), h)
	s.heavier(h, proto.Size(a))
}

func (s *story) answered(t Told, a *supervisorv1.ApprovalAnswer) {
	h := s.questions.get(a.GetId())
	if h == nil {
		h = s.add(t, &holding{item: item{Kind: kindQuestion}, asked: &supervisorv1.Approval{Id: a.GetId()}})
	} else if h.written {
		h = s.add(t, &holding{item: item{Kind: kindQuestion, Goes: true}, asked: h.asked})
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

// finishQuestion fills in the item of a question. What its tool call shows is not shown again.
func (s *story) finishQuestion(h *holding) {
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
	if q.GetReason() != "" && !q.GetFromAcphost() { // acphost's own questions say it in what they show
		h.Said = "Asked because: " + render.CleanLine(q.GetReason())
	}
	about := s.tools.get(q.GetToolCallId())
	h.Parts = s.folder.content(q.GetContent())
	if about != nil {
		shown := s.folder.content(about.tool.GetContent())
		h.Parts = slices.DeleteFunc(h.Parts, func(p part) bool {
			return slices.ContainsFunc(shown, func(o part) bool { return reflect.DeepEqual(o, p) })
		})
	}
	if about == nil || about.tool.GetRawInput() != q.GetRawInput() {
		h.Parts = append(h.Parts, rawParts(first(q.GetRawInput(), maxPartRaw), "")...)
	}
}

// called takes a request of the agent's to its client. Those about terminals are told by what comes of them.
func (s *story) called(t Told, e *supervisorv1.CallStarted) {
	if strings.HasPrefix(e.GetMethod(), "terminal/") {
		return
	}
	title := e.GetMethod()
	if e.GetPath() != "" {
		title += " " + s.folder.path(e.GetPath())
	}
	s.calls.set(e.GetId(), s.add(t, &holding{item: item{Kind: kindCall, Mark: markOpen, Title: first(title, maxTitle), Status: "no answer is recorded"}}))
}

func (s *story) returned(t Told, e *supervisorv1.CallEnded) {
	failed := e.GetError() != "" || e.GetErrorCode() != 0
	why := "failed: " + cmp.Or(e.GetError(), "code "+counter(int(e.GetErrorCode())))
	switch {
	case failed && t.Command != "":
		s.add(t, &holding{item: item{Kind: kindCommand, Mark: markBad, Status: why}, command: t.Command})
		return
	case t.Command != "":
		h := s.add(t, &holding{item: item{Kind: kindCommand}, command: t.Command})
		if t.Terminal != "" {
			s.commands.set(t.Terminal, h)
		}
		return
	case strings.HasPrefix(e.GetMethod(), "terminal/") && !failed:
		return
	}
	h := s.calls.get(e.GetId())
	switch {
	case h == nil && !failed, h != nil && h.written && !failed:
		return
	case h == nil:
		h = s.add(t, &holding{item: item{Kind: kindCall, Title: e.GetMethod()}})
	case h.written:
		h = s.add(t, &holding{item: item{Kind: kindCall, Title: h.Title, Goes: true}})
	}
	h.Status, h.Mark = "done", markGood
	if failed {
		h.Status, h.Mark = why, markBad
	}
}

// output takes a piece of what a command wrote, or its end.
func (s *story) output(t Told) {
	h := s.commands.get(t.Terminal)
	if h == nil {
		return
	}
	if h.written || h.owner != nil && h.owner.written {
		if t.Output.GetEnded() && len(t.Output.GetData()) == 0 && h.ending != nil {
			return
		}
		h = s.add(t, &holding{item: item{Kind: kindCommand, Goes: true}, command: h.command})
		s.commands.set(t.Terminal, h)
	}
	before := len(h.output)
	h.output = append(h.output, t.Output.GetData()...)
	if over := len(h.output) - maxOutput; over > 0 && len(h.output) > maxOutput*5/4 {
		h.cut += over
		h.output = slices.Clone(h.output[over:])
	}
	s.heavier(h, len(h.output)-before)
	if t.Output.GetEnded() {
		h.ending = t.Output
	}
}
