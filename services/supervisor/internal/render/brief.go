package render

import (
	"slices"
	"strings"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/safetext"
)

// maxBegun is how many tool calls are held back at once.
const maxBegun = 64

// failure is that a call of the agent's failed.
type failure struct {
	line string // whole; empty: none
	why  string
}

// Overdue returns what is held back, where Options.Brief has things held back: for when nothing has come for a while, so
// that what takes long is seen.
func (r *Renderer) Overdue() string {
	if len(r.begun) == 0 && r.failure.line == "" {
		return ""
	}
	begun, failed := r.begun, r.failure.line
	r.begun, r.failure = nil, failure{}
	text := ""
	for _, id := range begun {
		if t, ok := r.tools.Get(id); ok {
			text += r.tool(t)
		}
	}
	return text + r.lines(work, failed)
}

// leftOpen has what is held back of a cancelled turn's tool calls say that they were cancelled.
func (r *Renderer) leftOpen() {
	for _, id := range r.begun {
		if t, ok := r.tools.Get(id); ok {
			t.call.Status = statusCancelled
		}
	}
}

// withdrawn takes that no user answered what was asked about a tool call: that is said of it, and what is held back is not.
func (r *Renderer) withdrawn(toolCallID string) {
	r.begun = slices.DeleteFunc(r.begun, func(id string) bool { return id == toolCallID })
}

// brief shows a tool call that has ended, and holds back one that has not.
func (r *Renderer) brief(t *tool) string {
	id := t.call.GetToolCallId()
	switch t.call.GetStatus() {
	case "pending", "in_progress", "":
		text := r.endStream()
		if len(r.begun) == maxBegun && !slices.Contains(r.begun, id) {
			text += r.Overdue()
		}
		if !slices.Contains(r.begun, id) {
			r.begun = append(r.begun, id)
		}
		return text
	}
	if r.failure.line != "" && !(t.call.GetStatus() == "failed" && saysWhy(t.call, r.failure.why)) {
		return r.Flush() + r.tool(t)
	}
	r.failure = failure{} // the tool call says it
	// Others that are under way stay held back.
	others := slices.DeleteFunc(r.begun, func(b string) bool { return b == id })
	r.begun = nil
	text := r.endStream() + r.tool(t)
	r.begun = others
	return text
}

// failed holds back that a call failed: as a rule the agent says so too, or acphost has.
func (r *Renderer) failed(line, why string) string {
	text := r.endStream()
	if why != "" && strings.Contains(r.toldWhy, why) {
		return text
	}
	if r.failure.line != "" {
		text += r.Overdue()
	}
	r.failure = failure{line: line, why: why}
	return text
}

// noticed takes what acphost says of a failure: then nobody else needs to.
func (r *Renderer) noticed(n *supervisorv1.Notice) {
	if !r.o.Brief || !n.GetFromAcphost() {
		return
	}
	r.toldWhy, _ = safetext.Prefix(n.GetDescription(), maxText)
	if why := r.failure.why; why != "" && strings.Contains(r.toldWhy, why) {
		r.failure = failure{}
	}
}

// toldAlready reports whether all that a tool call shows is why it failed, and that was told.
func (r *Renderer) toldAlready(item *supervisorv1.ToolCallContent) bool {
	text := Content(item.GetContent())
	return len(r.toldWhy) > 8 && item.GetContent() != nil && strings.Contains(text, r.toldWhy) && len(text) < len(r.toldWhy)+32
}

// saysWhy reports whether a tool call shows why something failed.
func saysWhy(c *supervisorv1.ToolCall, why string) bool {
	return why != "" && slices.ContainsFunc(c.GetContent(), func(item *supervisorv1.ToolCallContent) bool {
		return item.GetContent() != nil && strings.Contains(Content(item.GetContent()), why)
	})
}
