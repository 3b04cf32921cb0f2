package client

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"

	"google.golang.org/protobuf/proto"
)

// Limits of a ToolOutput. Of a longer output, the beginning and the end are kept.
const (
	maxOutputHead = 32 << 10
	maxOutputTail = 32 << 10
	maxOutputDeep = 4 // depth to which a tool's raw output is searched
)

// executeKind is ACP's kind of the tools that run commands.
const executeKind = "execute"

// foldOutput applies a report to the output of a tool call's command. Streamed output has precedence over the raw
// output, which agents often cut.
func foldOutput(c *supervisorv1.ToolCall, r *supervisorv1.ToolCallReport) {
	if r.GetOutput() != nil {
		before := c.GetOutput()
		if before.GetTerminalId() == "" {
			before = nil // the earlier output was a raw output
		}
		c.Output = addOutput(before, r.GetOutput())
	}
	if r.GetRawOutput() == "" || c.GetKind() != executeKind {
		return
	}
	raw := parseRawOutput(r.GetRawOutput())
	switch {
	case raw == nil:
	case c.GetOutput().GetTerminalId() == "":
		c.Output = raw
	case c.GetOutput().ExitCode == nil && raw.ExitCode != nil:
		c.Output = proto.CloneOf(c.Output)
		c.Output.ExitCode = raw.ExitCode
	}
}

// addOutput returns the output followed by more. before may be nil, and is not changed.
func addOutput(before, more *supervisorv1.ToolOutput) *supervisorv1.ToolOutput {
	o := &supervisorv1.ToolOutput{}
	if before != nil {
		o = proto.CloneOf(before)
	}
	if more.GetTerminalId() != "" {
		o.TerminalId = more.GetTerminalId()
	}
	o.Ended = o.GetEnded() || more.GetEnded()
	if more.ExitCode != nil {
		o.ExitCode = more.ExitCode
	}
	if more.GetSignal() != "" {
		o.Signal = more.GetSignal()
	}
	if before == nil || more.GetReplaces() {
		o.Text, o.Omitted, o.Tail = "", 0, ""
		if more.GetTail() != "" { // more was combined from reports before
			o.Text, o.Omitted, o.Tail = more.GetText(), more.GetOmitted(), more.GetTail()
			return o
		}
	}
	add := more.GetText()
	if o.GetTail() == "" && o.GetOmitted() == 0 {
		if len(o.GetText())+len(add) <= maxOutputHead+maxOutputTail {
			o.Text += add
			return o
		}
		add = o.GetText() + add
		head := runeStart(add, maxOutputHead)
		o.Text, add = add[:head], add[head:]
	}
	o.Tail += add
	if len(o.GetTail()) > 2*maxOutputTail || o.GetOmitted() == 0 && len(o.GetTail()) > maxOutputTail {
		cut := runeStart(o.GetTail(), len(o.GetTail())-maxOutputTail)
		o.Omitted += uint64(cut)
		o.Tail = o.GetTail()[cut:]
	}
	return o
}

// runeStart returns the index of the first byte at or before i that begins a character.
func runeStart(s string, i int) int {
	for i > 0 && i < len(s) && !utf8.RuneStart(s[i]) {
		i--
	}
	return i
}

// parseRawOutput returns the output of the command according to a tool's raw output. nil: the form is unknown.
func parseRawOutput(raw string) *supervisorv1.ToolOutput {
	var v any
	if json.Unmarshal([]byte(raw), &v) != nil {
		return nil
	}
	text, found := outputText(v, maxOutputDeep)
	code, exited := exitCode(v, maxOutputDeep)
	if !found && !exited {
		return nil
	}
	o := addOutput(nil, &supervisorv1.ToolOutput{Text: strings.ToValidUTF8(text, "\uFFFD"), Ended: exited})
	if exited {
		o.ExitCode = &code
	}
	return o
}

// The names of members of raw outputs in different agents. Of several texts the first is used, because others repeat
// it.
var (
	textMembers = []string{"aggregated_output", "formatted_output", "output", "stdout", "result", "text", "content"}
	codeMembers = []string{"exit_code", "exitCode", "exit"}
)

// outputText finds the text in a raw output: the output is a text, has a text as a member, or is a list of these.
func outputText(v any, deep int) (text string, found bool) {
	if deep == 0 {
		return "", false
	}
	switch v := v.(type) {
	case string:
		return v, true
	case []any:
		var parts []string
		for _, item := range v {
			if part, ok := outputText(item, deep-1); ok {
				parts = append(parts, strings.TrimSuffix(part, "\n"))
			}
		}
		return strings.Join(parts, "\n"), len(parts) > 0
	case map[string]any:
		for _, name := range textMembers {
			part, ok := outputText(v[name], deep-1)
			if !ok {
				continue
			}
			if errors, ok := v["stderr"].(string); ok && name == "stdout" && errors != "" {
				part = strings.TrimSuffix(part, "\n") + "\n" + errors
			}
			return strings.TrimPrefix(part, "\n"), true
		}
		errors, ok := v["stderr"].(string)
		return errors, ok
	}
	return "", false
}

// exitCode finds the exit code in a raw output.
func exitCode(v any, deep int) (code uint32, found bool) {
	members, ok := v.(map[string]any)
	if !ok || deep == 0 {
		return 0, false
	}
	for _, name := range codeMembers {
		if n, ok := members[name].(float64); ok && n >= 0 && n <= 1<<31 && n == float64(uint32(n)) {
			return uint32(n), true
		}
	}
	return exitCode(members["metadata"], deep-1)
}

// ShownOutput returns the output and the result of a tool call's command that the agent ran itself. It is nil if the
// tool call already shows them, or if they are unknown. For a failed command whose text the tool call already shows, it
// contains only how the command ended. shows reports whether the output of a terminal is displayed separately; nil: no
// terminal is.
func ShownOutput(c *supervisorv1.ToolCall, shows func(terminalID string) bool) *supervisorv1.ToolOutput {
	o := c.GetOutput()
	text := normalizeSpace(o.GetText())
	held := text == ""
	for _, item := range c.GetContent() {
		if id := item.GetTerminalId(); id != "" && shows != nil && shows(id) {
			return nil
		}
		held = held || strings.Contains(normalizeSpace(item.GetContent().GetText().GetText()), text)
	}
	switch {
	case !held:
		return o
	case o.GetExitCode() != 0 || o.GetSignal() != "":
		return &supervisorv1.ToolOutput{TerminalId: o.GetTerminalId(), Ended: o.GetEnded(), ExitCode: o.ExitCode, Signal: o.GetSignal()}
	}
	return nil
}

// normalizeSpace returns a text with each run of white space replaced by one space, to compare texts regardless of
// their layout.
func normalizeSpace(text string) string { return strings.Join(strings.Fields(text), " ") }
