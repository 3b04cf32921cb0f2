package client

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"

	"google.golang.org/protobuf/proto"
)

// Bounds of a ToolOutput: what is longer keeps its beginning and its end.
const (
	maxOutputHead = 32 << 10
	maxOutputTail = 32 << 10
	maxOutputDeep = 4 // how deep a tool's raw output is looked into
)

// executes is ACP's kind of tools that run commands.
const executes = "execute"

// foldOutput brings the output of a tool call's command up to date with a report. What was streamed counts for more than
// the raw output, which agents often cut.
func foldOutput(c *supervisorv1.ToolCall, r *supervisorv1.ToolCallReport) {
	if r.GetOutput() != nil {
		before := c.GetOutput()
		if before.GetTerminalId() == "" {
			before = nil // it was a raw output
		}
		c.Output = addOutput(before, r.GetOutput())
	}
	if r.GetRawOutput() == "" || c.GetKind() != executes {
		return
	}
	raw := rawOutput(r.GetRawOutput())
	switch {
	case raw == nil:
	case c.GetOutput().GetTerminalId() == "":
		c.Output = raw
	case c.GetOutput().ExitCode == nil && raw.ExitCode != nil:
		c.Output = proto.CloneOf(c.Output)
		c.Output.ExitCode = raw.ExitCode
	}
}

// addOutput is an output with more behind it. before may be nil, and is not changed.
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
		if more.GetTail() != "" { // it was put together from reports before
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

// runeStart is the first byte at or before i that begins a character.
func runeStart(s string, i int) int {
	for i > 0 && i < len(s) && !utf8.RuneStart(s[i]) {
		i--
	}
	return i
}

// rawOutput is what a tool's raw output says that its command printed; nil: nothing that is known.
func rawOutput(raw string) *supervisorv1.ToolOutput {
	var v any
	if json.Unmarshal([]byte(raw), &v) != nil {
		return nil
	}
	text, found := printed(v, maxOutputDeep)
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

// Members of raw outputs, as agents name them. Of several texts the first counts, since others repeat it.
var (
	textMembers = []string{"aggregated_output", "formatted_output", "output", "stdout", "result", "text", "content"}
	codeMembers = []string{"exit_code", "exitCode", "exit"}
)

// printed finds the text in a raw output: the output is a text, has it as a member, or is a list of such.
func printed(v any, deep int) (text string, found bool) {
	if deep == 0 {
		return "", false
	}
	switch v := v.(type) {
	case string:
		return v, true
	case []any:
		var parts []string
		for _, item := range v {
			if part, ok := printed(item, deep-1); ok {
				parts = append(parts, strings.TrimSuffix(part, "\n"))
			}
		}
		return strings.Join(parts, "\n"), len(parts) > 0
	case map[string]any:
		for _, name := range textMembers {
			part, ok := printed(v[name], deep-1)
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

// ShownOutput is what a tool call's command printed, and how it ended, if the agent ran it itself; nil if the tool call
// shows that by itself, or nothing is known. Of a command that failed it is the end alone if what the tool call shows
// holds the text. shows reports whether the output of a terminal is shown by itself; nil: none is.
func ShownOutput(c *supervisorv1.ToolCall, shows func(terminalID string) bool) *supervisorv1.ToolOutput {
	o := c.GetOutput()
	text := squeezed(o.GetText())
	held := text == ""
	for _, item := range c.GetContent() {
		if id := item.GetTerminalId(); id != "" && shows != nil && shows(id) {
			return nil
		}
		held = held || strings.Contains(squeezed(item.GetContent().GetText().GetText()), text)
	}
	switch {
	case !held:
		return o
	case o.GetExitCode() != 0 || o.GetSignal() != "":
		return &supervisorv1.ToolOutput{TerminalId: o.GetTerminalId(), Ended: o.GetEnded(), ExitCode: o.ExitCode, Signal: o.GetSignal()}
	}
	return nil
}

// squeezed is a text with one blank for every run of them, so that texts are the same that differ in how they are laid out.
func squeezed(text string) string { return strings.Join(strings.Fields(text), " ") }
