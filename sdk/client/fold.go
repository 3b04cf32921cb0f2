package client

import (
	"cmp"
	"strings"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"

	"google.golang.org/protobuf/proto"
)

// FoldToolCall brings c up to date with a report of the same tool call. A member that the report has replaces the one of
// c, so that an empty list or text clears it; a member that it does not have stays. Two members are never cleared: the
// tool's name, and an input, since some agents ask for permission with an empty one after they have reported it. The
// session's state, recordings and everything that is shown of tool calls are folded here.
//
// c's lists are shared with the report. Its terminal ids and paths are left as they are.
func FoldToolCall(c *supervisorv1.ToolCall, r *supervisorv1.ToolCallReport) {
	if r.Title != nil {
		c.Title = r.GetTitle()
	}
	if r.GetName() != "" {
		c.Name = r.GetName()
	}
	if r.Kind != nil {
		c.Kind = r.GetKind()
	}
	if r.Status != nil {
		c.Status = r.GetStatus()
	}
	if r.GetContentSet() {
		c.Content = r.GetContent()
	}
	if r.GetLocationsSet() {
		c.Locations = r.GetLocations()
	}
	if in := r.GetRawInput(); in != "" && (c.GetRawInput() == "" || !emptyObject(in)) {
		c.RawInput = in
	}
	if out := r.GetRawOutput(); out != "" {
		c.RawOutput = out
	}
	foldOutput(c, r)
}

// emptyObject reports whether JSON text is an object without members.
func emptyObject(json string) bool {
	return len(json) >= 2 && json[0] == '{' && strings.Trim(json[1:len(json)-1], " \t\r\n") == ""
}

// Restarts reports whether a report begins another tool call with the id of c: c has ended, and the report announces a
// tool call (it is a tool_call). Nothing is known of the new one, since a model may choose the ids, and some agents number
// their tool calls anew in each turn.
func Restarts(c *supervisorv1.ToolCall, announced bool) bool {
	return announced && ToolCallEnded(c.GetStatus())
}

// ToolCallEnded reports whether a tool call with this status has ended.
func ToolCallEnded(status string) bool { return status == "completed" || status == "failed" }

// LatestUsage is how full the context is and what the session has cost, by the latest update and what was known before it
// (may be nil): many updates leave out the cost, which was said once and is not taken back. What is given stays as it is.
func LatestUsage(before, latest *supervisorv1.ContextUsage) *supervisorv1.ContextUsage {
	if latest == nil || latest.Cost != nil || before == nil || before.Cost == nil {
		return latest
	}
	u := proto.CloneOf(latest)
	u.Cost, u.Currency = before.Cost, before.GetCurrency()
	return u
}

// AddTokens is what two usages come to. Either may be nil, and both stay as they are; nil: both are.
func AddTokens(t, u *supervisorv1.TokenUsage) *supervisorv1.TokenUsage {
	if t == nil || u == nil {
		return cmp.Or(t, u)
	}
	return &supervisorv1.TokenUsage{
		Total:       sum(t.GetTotal(), u.GetTotal()),
		Input:       sum(t.GetInput(), u.GetInput()),
		Output:      sum(t.GetOutput(), u.GetOutput()),
		Thought:     sum(t.GetThought(), u.GetThought()),
		CachedRead:  sum(t.GetCachedRead(), u.GetCachedRead()),
		CachedWrite: sum(t.GetCachedWrite(), u.GetCachedWrite()),
	}
}

// sum adds without wrapping around.
func sum(a, b uint64) uint64 {
	if a+b < a {
		return ^uint64(0)
	}
	return a + b
}
