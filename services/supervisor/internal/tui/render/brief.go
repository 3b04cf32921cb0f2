package render

import (
	"slices"
	"strings"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// maxBegun limits the tool calls that are held back at once.
const maxBegun = 64

// failure is a failed call of the agent.
type failure struct {
	line string // a whole line; empty: none
	why  string
}

// FlushHeld returns the text that is held back under Options.Brief. The caller calls it when no event has arrived for a
// while, so that operations in progress are shown.
func (r *Renderer) FlushHeld() string {
	if len(r.heldBack) == 0 && r.failure.line == "" {
		return ""
	}
	begun, failed := r.heldBack, r.failure.line
	r.heldBack, r.failure = nil, failure{}
	text := ""
	for _, id := range begun {
		if t, ok := r.tools.Get(id); ok {
			text += r.tool(t)
		}
	}
	return text + r.lines(work, failed)
}

// cancelOpen marks the held back tool calls of a cancelled turn as cancelled.
func (r *Renderer) cancelOpen() {
	for _, id := range r.heldBack {
		if t, ok := r.tools.Get(id); ok {
			t.call.Status = statusCancelled
		}
	}
}

// unanswered records that a question about a tool call was not answered. This is shown, so the held back text of the
// tool call is dropped.
func (r *Renderer) unanswered(toolCallID string) {
	r.heldBack = slices.DeleteFunc(r.heldBack, func(id string) bool { return id == toolCallID })
}

// brief shows a tool call that has ended, and holds back a tool call in progress.
func (r *Renderer) brief(t *tool) string {
	id := t.call.GetToolCallId()
	switch t.call.GetStatus() {
	case "pending", "in_progress", "":
		text := r.endStream()
		if len(r.heldBack) == maxBegun && !slices.Contains(r.heldBack, id) {
			text += r.FlushHeld()
		}
		if !slices.Contains(r.heldBack, id) {
			r.heldBack = append(r.heldBack, id)
		}
		return text
	}
	if r.failure.line != "" && !(t.call.GetStatus() == "failed" && showsReason(t.call, r.failure.why)) {
		return r.Flush() + r.tool(t)
	}
	r.failure = failure{} // the tool call contains the reason
	// Other tool calls in progress remain held back.
	others := slices.DeleteFunc(r.heldBack, func(b string) bool { return b == id })
	r.heldBack = nil
	text := r.endStream() + r.tool(t)
	r.heldBack = others
	return text
}

// failed holds back the failure of a call, because the agent or acphost usually reports it, too.
func (r *Renderer) failed(line, why string) string {
	text := r.endStream()
	if why != "" && strings.Contains(r.noticedReason, why) {
		return text
	}
	if r.failure.line != "" {
		text += r.FlushHeld()
	}
	r.failure = failure{line: line, why: why}
	return text
}

// recordNotice records a notice of acphost about a failure, so that the failure is not shown again.
func (r *Renderer) recordNotice(n *supervisorv1.Notice) {
	if !r.o.Brief || !n.GetFromAcphost() {
		return
	}
	r.noticedReason, _ = safetext.Prefix(n.GetDescription(), maxText)
	if why := r.failure.why; why != "" && strings.Contains(r.noticedReason, why) {
		r.failure = failure{}
	}
}

// alreadyShown reports whether a tool call shows only the reason of its failure, and that was shown.
func (r *Renderer) alreadyShown(item *supervisorv1.ToolCallContent) bool {
	text := Content(item.GetContent())
	return len(r.noticedReason) > 8 && item.GetContent() != nil && strings.Contains(text, r.noticedReason) && len(text) < len(r.noticedReason)+32
}

// showsReason reports whether a tool call shows the reason of a failure.
func showsReason(c *supervisorv1.ToolCall, why string) bool {
	return why != "" && slices.ContainsFunc(c.GetContent(), func(item *supervisorv1.ToolCallContent) bool {
		return item.GetContent() != nil && strings.Contains(Content(item.GetContent()), why)
	})
}
