package client

import (
	"cmp"
	"strings"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"

	"google.golang.org/protobuf/proto"
)

// FoldToolCall applies a report to c, the same tool call. A member of the report replaces that of c, so an empty list
// or text clears it; a member that the report does not have stays. Two members are never cleared: the tool's name, and
// an input, because some agents ask for permission with an empty input after they have reported it. The session's
// state, recordings and all displays of tool calls use this function.
//
// c shares its lists with the report afterwards. Its terminal ids and paths do not change.
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
// tool call (it is a tool_call). Data of c does not apply to the new tool call. Ids repeat because a model may choose
// them, and some agents number their tool calls anew in each turn.
func Restarts(c *supervisorv1.ToolCall, announced bool) bool {
	return announced && ToolCallEnded(c.GetStatus())
}

// ToolCallEnded reports whether a tool call with this status has ended.
func ToolCallEnded(status string) bool { return status == "completed" || status == "failed" }

// LatestUsage returns the use of the context and the cost of the session, from the latest update and the previous
// usage, which may be nil. Many updates omit the cost; the previous cost then applies. The arguments are not changed.
func LatestUsage(before, latest *supervisorv1.ContextUsage) *supervisorv1.ContextUsage {
	if latest == nil || latest.Cost != nil || before == nil || before.Cost == nil {
		return latest
	}
	u := proto.CloneOf(latest)
	u.Cost, u.Currency = before.Cost, before.GetCurrency()
	return u
}

// AddTokens returns the sum of two usages. Either may be nil, and neither is changed. The result is nil if both are.
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

// sum adds without overflow: the result is at most the maximum.
func sum(a, b uint64) uint64 {
	if a+b < a {
		return ^uint64(0)
	}
	return a + b
}
