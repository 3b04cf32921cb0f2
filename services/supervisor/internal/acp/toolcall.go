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
	UpdateCurrentMode    = "current_mode_update"
	UpdateConfigOption   = "config_option_update"
)

// UpdateKind returns the kind of a session/update in the protocol's spelling, for the kinds that are folded; every
// other is returned as it came. It does not allocate for those.
func UpdateKind(kind []byte) string {
	switch string(kind) {
	case UpdateToolCall, "toolCall":
		return UpdateToolCall
	case UpdateToolCallUpdate, "toolCallUpdate":
		return UpdateToolCallUpdate
	case UpdateCurrentMode, "currentModeUpdate":
		return UpdateCurrentMode
	case UpdateConfigOption, "config_options_update", "configOptionUpdate", "configOptionsUpdate":
		return UpdateConfigOption
	}
	return ""
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

// Ended tells whether the agent has reported the tool call's end.
func (t *ToolCall) Ended() bool { return t.Status == "completed" || t.Status == "failed" }

// BeginsToolCall tells whether a report is of a tool call that begins.
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

// Merge folds a report into the tool call: members that the report has replace the ones that stand, null and absent
// ones leave them. report is an update of kind tool_call or tool_call_update, or a request_permission's toolCall.
func (t *ToolCall) Merge(report []byte) {
	var twin string
	var input, meta []byte
	update, tool := false, ""
	err := Members(report, func(name string, v []byte) bool {
		if n := foldedTwin(name); n != "" {
			twin = n
		}
		if bytes.Equal(v, []byte("null")) {
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
			if v[0] == '[' {
				t.Content = slices.Clone(v)
			}
		case "locations":
			if v[0] == '[' {
				t.Locations = slices.Clone(v)
			}
		case "rawInput":
			if t.RawInput != nil && emptyObject(v) {
				break // some agents ask with an empty one about what they have shown before
			}
			t.RawInput = slices.Clone(v)
			input = t.RawInput
		case "sessionUpdate":
			update = true
		}
		return true
	})
	if update && input != nil {
		t.Reported = input
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

// MetaToolName is the tool's name in the _meta of a report, where Qwen Code and Claude write it; empty if there is none.
func MetaToolName(meta []byte) string {
	for _, path := range [...][]string{{"toolName"}, {"claudeCode", "toolName"}} {
		if name, ok := String(Get(meta, path...)); ok && name != "" {
			return name
		}
	}
	return ""
}

func emptyObject(raw []byte) bool {
	return len(raw) >= 2 && raw[0] == '{' && len(bytes.TrimSpace(raw[1:len(raw)-1])) == 0
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
	if len(content) < 2 {
		return nil
	}
	var items []ContentItem
	_ = Elements(content, func(v []byte) bool {
		it := ContentItem{Raw: v}
		if Members(v, func(name string, v []byte) bool {
			switch name {
			case "type":
				setString(&it.Type, v)
			case "path":
				setString(&it.Path, v)
			case "terminalId":
				setString(&it.TerminalID, v)
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
	if len(locations) < 2 {
		return nil
	}
	_ = Elements(locations, func(v []byte) bool {
		if p, ok := String(Get(v, "path")); ok {
			paths = append(paths, p)
		}
		return true
	})
	return paths
}
