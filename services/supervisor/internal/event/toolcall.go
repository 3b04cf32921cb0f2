package event

import (
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

// toolCall reads a report of a tool call; nil: it does not say of which.
func toolCall(v []byte) *supervisorv1.ToolCallReport {
	r := &supervisorv1.ToolCallReport{}
	named := false
	members(v, func(name, v []byte) {
		switch string(name) {
		case "toolCallId":
			r.ToolCallId, named = text(v)
		case "title":
			r.Title = optionalText(v)
		case "name":
			r.Name = optionalText(v)
		case "kind":
			r.Kind = optionalText(v)
		case "status":
			r.Status = optionalText(v)
		case "content":
			r.Content, r.ContentSet = nil, isArray(v)
			if r.ContentSet {
				r.Content = toolCallContent(v)
			}
		case "locations":
			r.Locations, r.LocationsSet = nil, isArray(v)
			if r.LocationsSet {
				r.Locations = locations(v)
			}
		case "rawInput":
			r.RawInput = rawValue(v)
		case "rawOutput":
			r.RawOutput = rawValue(v)
		case "_meta":
			r.Meta = rawObject(v)
		}
	})
	if !named {
		return nil
	}
	if r.Name == nil && r.Meta != "" {
		if name := acp.MetaToolName([]byte(r.GetMeta())); name != "" {
			r.Name = &name
		}
	}
	return r
}

// toolCallContent reads what a tool call shows.
func toolCallContent(v []byte) []*supervisorv1.ToolCallContent {
	var out []*supervisorv1.ToolCallContent
	elements(v, func(v []byte) { out = append(out, contentItem(v)) })
	return out
}

func contentItem(v []byte) *supervisorv1.ToolCallContent {
	var kind, content, path, oldText, newText, terminal []byte
	members(v, func(name, v []byte) {
		switch string(name) {
		case "type":
			kind = v
		case "content":
			content = v
		case "path":
			path = v
		case "oldText":
			oldText = v
		case "newText":
			newText = v
		case "terminalId":
			terminal = v
		}
	})
	switch string(kind) {
	case `"content"`:
		if isObject(content) {
			return &supervisorv1.ToolCallContent{Item: &supervisorv1.ToolCallContent_Content{Content: block(content, noLimit)}}
		}
	case `"diff"`:
		at, ok := text(path)
		to, made := text(newText)
		if ok && made {
			return &supervisorv1.ToolCallContent{Item: &supervisorv1.ToolCallContent_Diff{
				Diff: &supervisorv1.Diff{Path: at, OldText: optionalText(oldText), NewText: to},
			}}
		}
	case `"terminal"`:
		if id, ok := text(terminal); ok {
			return &supervisorv1.ToolCallContent{Item: &supervisorv1.ToolCallContent_TerminalId{TerminalId: id}}
		}
	}
	return &supervisorv1.ToolCallContent{Item: &supervisorv1.ToolCallContent_Other{Other: raw(v)}}
}

// locations reads the places that a tool call is about. One without a path is left out.
func locations(v []byte) []*supervisorv1.Location {
	var out []*supervisorv1.Location
	elements(v, func(v []byte) {
		l := &supervisorv1.Location{}
		ok := false
		members(v, func(name, v []byte) {
			switch string(name) {
			case "path":
				l.Path, ok = text(v)
			case "line":
				l.Line = nil
				if n, whole := unsigned(v, 32); whole {
					line := uint32(n)
					l.Line = &line
				}
			}
		})
		if ok {
			out = append(out, l)
		}
	})
	return out
}
