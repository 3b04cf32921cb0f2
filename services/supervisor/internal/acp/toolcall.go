package acp

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// The kinds of session/update that are folded; older agents write them in camel case.
const (
	UpdateToolCall       = "tool_call"
	UpdateToolCallUpdate = "tool_call_update"
	UpdateToolCallChunk  = "tool_call_content_chunk" // of ACP v2: one more item of content
	UpdateCurrentMode    = "current_mode_update"
	UpdateConfigOption   = "config_option_update"
	UpdateState          = "state_update" // of ACP v2: whether the session works on something
)

// UpdateKind returns the kind of a session/update in the protocol's spelling, for the kinds that are folded; every
// other is returned as it came. It does not allocate for those.
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

// OfToolCall reports whether an update of a kind, as UpdateKind returns it, is about a tool call.
func OfToolCall(kind string) bool {
	return kind == UpdateToolCall || kind == UpdateToolCallUpdate || kind == UpdateToolCallChunk
}

// ToolCall is a tool call as far as it is known: what an agent reported, update by update. Raw members alias nothing:
// they are copies, immutable once set.
type ToolCall struct {
	ID    string
	Title string
	// Name is the tool's, as the report says it or, where that does not, its _meta (see MetaToolName).
	Name   string
	Kind   string
	Status string
	// Content, Locations and RawInput are JSON values; nil where none was sent.
	Content, Locations, RawInput []byte
	// Reported is the rawInput of the latest update that had one. A question's own may say less than that.
	Reported []byte
	// Ambiguous says why what was reported cannot be trusted to mean one thing. Empty: it can.
	Ambiguous string
}

// ToolCallEnded reports whether a tool call with this status has ended.
func ToolCallEnded(status string) bool { return status == "completed" || status == "failed" }

// ReportSays reports whether a member of a tool call's report replaces what is known of the tool call. Null and values
// of another type do not: version 1 of the protocol reads null as an absent member.
func ReportSays(member string, value []byte) bool {
	switch member {
	case "toolCallId", "title", "name", "kind", "status":
		return len(value) > 0 && value[0] == '"'
	case "content", "locations":
		return len(value) > 0 && value[0] == '['
	}
	return len(value) > 0 && value[0] != 'n'
}

// EmptyInput reports whether a raw input is an empty object. It does not replace an input that was reported before: some
// agents ask for permission with an empty input after they have reported the tool call with its input.
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

// BeginsToolCall reports whether a report is of a tool call that begins.
func BeginsToolCall(report []byte) bool {
	kind, _ := String(Get(report, "sessionUpdate"))
	return UpdateKind([]byte(kind)) == UpdateToolCall
}

// Size is roughly what the tool call keeps in memory, in bytes.
func (t *ToolCall) Size() int {
	n := len(t.ID) + len(t.Title) + len(t.Name) + len(t.Content) + len(t.Locations) + len(t.RawInput) + 128
	if len(t.Reported) > 0 && (len(t.RawInput) == 0 || &t.Reported[0] != &t.RawInput[0]) {
		n += len(t.Reported)
	}
	return n
}

// Merge folds a report into the tool call, by the rules of client.FoldToolCall of the SDK. Unlike an event, a ToolCall keeps the bytes
// that the agent wrote, since decisions are made on them. report is an update of kind tool_call, tool_call_update or
// tool_call_content_chunk, or the toolCall of a request_permission.
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
		t.Content = appended(t.Content, item) // texts decide nothing, and come by the thousand
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

// appended is a copy of a JSON array with one more item. Nil is an empty array.
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

// MetaToolName is the tool's name in the _meta of a report, where Qwen Code and Claude write it; empty if there is none.
func MetaToolName(meta []byte) string {
	for _, path := range [...][]string{{"toolName"}, {"claudeCode", "toolName"}} {
		if name, ok := String(Get(meta, path...)); ok && name != "" {
			return name
		}
	}
	return ""
}

// foldedTwin returns the known member that name equals but for case; peers whose parsers ignore case would read it.
func foldedTwin(name string) string {
	for _, known := range [...]string{"toolCallId", "title", "name", "kind", "status", "content", "locations", "rawInput"} {
		if name != known && strings.EqualFold(name, known) {
			return known
		}
	}
	return ""
}

// ToolCallID returns the id in a report, empty if there is none.
func ToolCallID(report []byte) string {
	id, _ := String(Get(report, "toolCallId"))
	return id
}

func setString(into *string, raw []byte) {
	if s, ok := String(raw); ok {
		*into = s
	}
}

// ContentItem is one item of a tool call's content, as far as decisions and display need it.
type ContentItem struct {
	// Type is "content", "diff", "terminal", or what else the agent wrote.
	Type string
	// Path is a diff's file.
	Path string
	// TerminalID is a terminal's id.
	TerminalID string
	// Raw is the item itself.
	Raw []byte
}

// ContentItems returns the items of a tool call's content. What cannot be read is left out.
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
