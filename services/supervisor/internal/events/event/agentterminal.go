package event

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"

	"github.com/acphost/acphost/internal/ordered"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

// maxAgentTerminals is the limit of an agent's own terminals whose output is kept for a tool call, with at most 64 KiB
// each.
const maxAgentTerminals = 64

// agentTerminals are the terminals that an agent runs itself (ACP v2): their output arrives in separate updates, and
// tool calls refer to them by their ids. It becomes the output of the first tool call that refers to the terminal.
type agentTerminals struct {
	known ordered.Map[string, *agentTerminal]
}

type agentTerminal struct {
	toolCall string                 // that refers to the terminal; empty: none yet
	before   *supervisorv1.ToolCall // the output before that; nil: none
	partial  []byte                 // the beginning of an incomplete character at the end of a chunk
}

func (a *agentTerminals) get(session, id string) *agentTerminal {
	key := reportKey(session, id)
	if id == "" || len(key) > maxKept {
		return nil
	}
	t := a.known.At(key)
	if t == nil {
		t = &agentTerminal{}
	}
	a.known.Keep(key, t, maxAgentTerminals)
	return t
}

// shown records the terminal of a tool call, and adds the terminal's earlier output to the report.
func (a *agentTerminals) shown(session string, r *supervisorv1.ToolCallReport) {
	for _, item := range r.GetContent() {
		if item.GetTerminalId() == "" {
			continue
		}
		t := a.get(session, item.GetTerminalId())
		if t == nil || t.toolCall != "" {
			return
		}
		t.toolCall = r.GetToolCallId()
		if r.Output == nil {
			r.Output = t.before.GetOutput()
		}
		t.before = nil
		return // a tool call has one output
	}
}

// report converts an update of a terminal to a report of its tool call; nil if none exists, or the update has no output
// and no end.
func (a *agentTerminals) report(session string, update []byte) *supervisorv1.ToolCallReport {
	id, _ := acp.String(acp.Get(update, "terminalId"))
	t := a.get(session, id)
	if t == nil {
		return nil
	}
	o := t.read(update)
	if o == nil {
		return nil
	}
	o.TerminalId = id
	r := &supervisorv1.ToolCallReport{ToolCallId: t.toolCall, Output: o}
	if t.toolCall != "" {
		return r
	}
	if t.before == nil {
		t.before = &supervisorv1.ToolCall{}
	}
	client.FoldToolCall(t.before, r)
	return nil
}

// read reads the output and the end of the command in an update of a terminal; nil: it has neither.
func (t *agentTerminal) read(update []byte) *supervisorv1.ToolOutput {
	o := &supervisorv1.ToolOutput{}
	data := acp.Get(update, "data")
	if whole := acp.Get(update, "output"); isObject(whole) || isNull(whole) {
		o.Replaces, t.partial = true, nil
		data = acp.Get(whole, "data")
	}
	if text, ok := acp.String(data); ok {
		if b, err := base64.StdEncoding.DecodeString(text); err == nil {
			o.Text = t.characters(b)
		}
	}
	if exit := acp.Get(update, "exitStatus"); isObject(exit) {
		o.Ended = true
		o.Text += strings.ToValidUTF8(string(t.partial), "\uFFFD")
		t.partial = nil
		exited(o, acp.Get(exit, "exitCode"), acp.Get(exit, "signal"))
	}
	return where(o.GetText() != "" || o.GetEnded() || o.GetReplaces(), o)
}

// characters returns the complete characters of the output. A chunk may end within a character, which is kept for the
// next chunk.
func (t *agentTerminal) characters(b []byte) string {
	b = append(t.partial, b...)
	end := len(b)
	for i := len(b) - 1; i >= 0 && i > len(b)-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				end = i
			}
			break
		}
	}
	t.partial = append([]byte(nil), b[end:]...)
	return strings.ToValidUTF8(string(b[:end]), "\uFFFD")
}
