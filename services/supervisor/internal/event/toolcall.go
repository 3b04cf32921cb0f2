package event

import (
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

// copyOf returns a copy of a tool call that shares its lists.
func copyOf(c *supervisorv1.ToolCall) *supervisorv1.ToolCall {
	return &supervisorv1.ToolCall{
		ToolCallId: c.GetToolCallId(), Title: c.GetTitle(), Kind: c.GetKind(), Status: c.GetStatus(), Name: c.GetName(),
		TerminalIds: c.GetTerminalIds(), Paths: c.GetPaths(), Content: c.GetContent(), Locations: c.GetLocations(),
		RawInput: c.GetRawInput(), RawOutput: c.GetRawOutput(),
	}
}

// toolCall reads a report of a tool call; nil: it does not say of which.
func toolCall(v []byte) *supervisorv1.ToolCallReport {
	r := &supervisorv1.ToolCallReport{}
	named := false
	members(v, func(name, v []byte) {
		if !acp.ReportSays(string(name), v) {
			return
		}
		switch string(name) {
		case "toolCallId":
			r.ToolCallId, named = acp.String(v)
		case "title":
			r.Title = optionalText(v)
		case "name":
			r.Name = optionalText(v)
		case "kind":
			r.Kind = optionalText(v)
		case "status":
			r.Status = optionalText(v)
		case "content":
			r.Content, r.ContentSet = listOf(v, contentItem), true
		case "locations":
			r.Locations, r.LocationsSet = locations(v), true
		case "rawInput":
			r.RawInput = raw(v)
		case "rawOutput":
			r.RawOutput = raw(v)
		case "_meta":
			r.Meta = rawObject(v)
		}
	})
	if !named {
		return nil
	}
	if r.GetName() == "" && r.Meta != "" {
		if name := acp.MetaToolName([]byte(r.GetMeta())); name != "" {
			r.Name = &name
		}
	}
	return r
}

func contentItem(v []byte) *supervisorv1.ToolCallContent {
	var kind, content, path, oldText, newText, terminal []byte
	read(v, "type", &kind, "content", &content, "path", &path,
		"oldText", &oldText, "newText", &newText, "terminalId", &terminal)
	switch string(kind) {
	case `"content"`:
		if isObject(content) {
			return &supervisorv1.ToolCallContent{Item: &supervisorv1.ToolCallContent_Content{Content: block(content, noLimit)}}
		}
	case `"diff"`:
		at, ok := acp.String(path)
		to, made := acp.String(newText)
		if ok && made {
			return &supervisorv1.ToolCallContent{Item: &supervisorv1.ToolCallContent_Diff{
				Diff: &supervisorv1.Diff{Path: at, OldText: optionalText(oldText), NewText: to},
			}}
		}
	case `"terminal"`:
		if id, ok := acp.String(terminal); ok {
			return &supervisorv1.ToolCallContent{Item: &supervisorv1.ToolCallContent_TerminalId{TerminalId: id}}
		}
	}
	return &supervisorv1.ToolCallContent{Item: &supervisorv1.ToolCallContent_Other{Other: raw(v)}}
}

// locations reads the places that a tool call is about. One without a path is left out.
func locations(v []byte) []*supervisorv1.Location {
	return listOf(v, func(v []byte) *supervisorv1.Location {
		l := &supervisorv1.Location{}
		ok := false
		read(v, "path", func(v []byte) { l.Path, ok = acp.String(v) }, "line", func(v []byte) {
			l.Line = nil
			if n, whole := unsigned(v, 32); whole {
				line := uint32(n)
				l.Line = &line
			}
		})
		return where(ok, l)
	})
}
