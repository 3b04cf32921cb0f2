package acp

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// The kinds of session/update that are folded. Older agents write them in camel case.
const (
	UpdateToolCall       = "tool_call"
	UpdateToolCallUpdate = "tool_call_update"
	UpdateToolCallChunk  = "tool_call_content_chunk" // ACP v2: one more item of content
	UpdateCurrentMode    = "current_mode_update"
	UpdateConfigOption   = "config_option_update"
	UpdateState          = "state_update" // ACP v2: the state of the session, such as idle
)

// UpdateKind returns the kind of a session/update in the protocol's spelling, if it is a kind that is folded. It
// returns other kinds unchanged, without an allocation.
func UpdateKind(kind []byte) string {
	switch string(kind) {
	case UpdateToolCall, "toolCall":
		return UpdateToolCall
	case UpdateToolCallUpdate, "toolCallUpdate":
		return UpdateToolCallUpdate
	case UpdateToolCallChunk, "toolCallContentChunk":
		return UpdateToolCallChunk
	case UpdateCurrentMode, "currentModeUpdate":
		return UpdateCurrentMode
	case UpdateConfigOption, "config_options_update", "configOptionUpdate", "configOptionsUpdate":
		return UpdateConfigOption
	case UpdateState:
		return UpdateState
	}
	return ""
}

// OfToolCall reports whether updates of a kind, as UpdateKind returns it, describe a tool call.
func OfToolCall(kind string) bool {
	return kind == UpdateToolCall || kind == UpdateToolCallUpdate || kind == UpdateToolCallChunk
}

// ToolCall is the merged state of all reports about a tool call. Raw members are copies, which are immutable once set.
type ToolCall struct {
	ID    string
	Title string
	// Name is the name of the tool in the report, or in its _meta (see MetaToolName).
	Name   string
	Kind   string
	Status string
	// Content, Locations and RawInput are JSON values, or nil if none was sent.
	Content, Locations, RawInput []byte
	// Reported is the rawInput of the latest update that had one. The rawInput of a permission request may contain
	// less.
	Reported []byte
	// Ambiguous says why readers may understand the reports differently. Empty means that they are unambiguous.
	Ambiguous string
}

// ToolCallEnded reports whether a tool call with this status has ended.
func ToolCallEnded(status string) bool { return status == "completed" || status == "failed" }

// ReportSays reports whether a member of a report replaces the member of the tool call. Null and values of another type
// do not: version 1 of the protocol reads null as a missing member.
func ReportSays(member string, value []byte) bool {
	switch member {
	case "toolCallId", "title", "name", "kind", "status":
		return len(value) > 0 && value[0] == '"'
	case "content", "locations":
		return len(value) > 0 && value[0] == '['
	}
	return len(value) > 0 && value[0] != 'n'
}

// EmptyInput reports whether a raw input is an empty object. It does not replace an input that was reported before:
// some agents ask for permission with an empty input after they have reported the tool call with its input.
func EmptyInput[T string | []byte](raw T) bool {
	if len(raw) < 2 || raw[0] != '{' {
		return false
	}
	for i := 1; i < len(raw)-1; i++ {
		if raw[i] != ' ' && raw[i] != '\t' && raw[i] != '\r' && raw[i] != '\n' {
			return false
		}
	}
	return true
}

// BeginsToolCall reports whether a report begins a tool call.
func BeginsToolCall(report []byte) bool {
	kind, _ := String(Get(report, "sessionUpdate"))
	return UpdateKind([]byte(kind)) == UpdateToolCall
}

// Size returns the approximate memory of the tool call, in bytes.
func (t *ToolCall) Size() int {
	n := len(t.ID) + len(t.Title) + len(t.Name) + len(t.Content) + len(t.Locations) + len(t.RawInput) + 128
	if len(t.Reported) > 0 && (len(t.RawInput) == 0 || &t.Reported[0] != &t.RawInput[0]) {
		n += len(t.Reported)
	}
	return n
}

// Merge folds a report into the tool call, by the rules of client.FoldToolCall of the SDK. Unlike an event, a ToolCall
// keeps the bytes that the agent wrote, because decisions depend on them. report is an update of kind tool_call,
// tool_call_update or tool_call_content_chunk, or the toolCall of a request_permission.
func (t *ToolCall) Merge(report []byte) {
	var twin, tool, update string
	var input, meta, item []byte
	err := Members(report, func(name string, v []byte) bool {
		if n := foldedTwin(name); n != "" {
			twin = n
		}
		if name == "content" && isObject(v) {
			item = v
		}
		if !ReportSays(name, v) {
			return true
		}
		switch name {
		case "toolCallId":
			setString(&t.ID, v)
		case "title":
			setString(&t.Title, v)
		case "name":
			setString(&tool, v)
		case "_meta":
			meta = v
		case "kind":
			setString(&t.Kind, v)
		case "status":
			setString(&t.Status, v)
		case "content":
			t.Content = slices.Clone(v)
		case "locations":
			t.Locations = slices.Clone(v)
		case "rawInput":
			if t.RawInput != nil && EmptyInput(v) {
				break
			}
			t.RawInput = slices.Clone(v)
			input = t.RawInput
		case "sessionUpdate":
			setString(&update, v)
		}
		return true
	})
	if update != "" && input != nil {
		t.Reported = input
	}
	if kind, _ := String(Get(item, "type")); kind != "content" && UpdateKind([]byte(update)) == UpdateToolCallChunk {
		t.Content = appended(t.Content, item) // texts are frequent, and decisions do not depend on them
	}
	if tool == "" {
		tool = MetaToolName(meta)
	}
	t.Name = cmp.Or(tool, t.Name)
	if err == nil && twin != "" {
		err = fmt.Errorf("a member differs from %q in case alone", twin)
	}
	if err != nil {
		t.Ambiguous = fmt.Sprintf("the agent's report of the tool call cannot be read in one way only: %v", err)
	}
}

// appended returns a copy of a JSON array with one more item. Nil is an empty array.
func appended(list, item []byte) []byte {
	if item == nil {
		return list
	}
	begun, before := bytes.CutSuffix(list, []byte("]"))
	comma := ","
	if begun = bytes.TrimRight(begun, " \t\r\n"); !before {
		begun, comma = []byte("["), ""
	} else if string(begun) == "[" {
		comma = ""
	}
	return slices.Concat(begun, []byte(comma), item, []byte("]"))
}

// MetaToolName returns the name of the tool in the _meta of a report, where Qwen Code and Claude write it, or "".
func MetaToolName(meta []byte) string {
	for _, path := range [...][]string{{"toolName"}, {"claudeCode", "toolName"}} {
		if name, ok := String(Get(meta, path...)); ok && name != "" {
			return name
		}
	}
	return ""
}

// foldedTwin returns the known member whose name differs only in case. Parsers that ignore case would use its value.
func foldedTwin(name string) string {
	for _, known := range [...]string{"toolCallId", "title", "name", "kind", "status", "content", "locations", "rawInput"} {
		if name != known && strings.EqualFold(name, known) {
			return known
		}
	}
	return ""
}

// ToolCallID returns the id in a report, or "".
func ToolCallID(report []byte) string {
	id, _ := String(Get(report, "toolCallId"))
	return id
}

func setString(into *string, raw []byte) {
	if s, ok := String(raw); ok {
		*into = s
	}
}

// ContentItem is one item of a tool call's content, with the members that decisions and display need.
type ContentItem struct {
	// Type is "content", "diff", "terminal", or another text of the agent.
	Type string
	// Path is the file of a diff.
	Path string
	// TerminalID is the id of a terminal.
	TerminalID string
	// Raw is the whole item.
	Raw []byte
}

// ContentItems returns the items of a tool call's content. It omits items that cannot be parsed.
func ContentItems(content []byte) []ContentItem {
	var items []ContentItem
	_ = Elements(content, func(v []byte) bool {
		it := ContentItem{Raw: v}
		if Members(v, func(name string, v []byte) bool {
			switch name {
			case "type":
				setString(&it.Type, v)
			case "path":
				it.Path, _ = Exact(v)
			case "terminalId":
				it.TerminalID, _ = Exact(v)
			}
			return true
		}) == nil {
			items = append(items, it)
		}
		return true
	})
	return items
}

// LocationPaths returns the paths of a tool call's locations.
func LocationPaths(locations []byte) []string {
	var paths []string
	_ = Elements(locations, func(v []byte) bool {
		if p, ok := Exact(Get(v, "path")); ok {
			paths = append(paths, p)
		}
		return true
	})
	return paths
}
