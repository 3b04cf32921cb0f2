package event

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/ordered"
)

// maxAgentTerminals bounds the terminals of an agent's own whose output is kept for a tool call: at most 64 KiB each.
const maxAgentTerminals = 64

// agentTerminals are the terminals that an agent runs itself, as ACP v2 has them: their output comes in updates of its
// own, and tool calls show them by their ids. It is told as the output of the first tool call that shows the terminal.
type agentTerminals struct {
	known ordered.Map[string, *agentTerminal]
}

type agentTerminal struct {
	toolCall string                 // which shows it; empty: none does yet
	before   *supervisorv1.ToolCall // has what was printed before one did; nil: nothing was
	partial  []byte                 // the beginning of a character that a chunk ended in
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

// shown notes which terminal a tool call shows, and adds what the terminal printed before to the report.
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

// report is an update of a terminal as a report of the tool call that shows it; nil: none does, or nothing was printed
// or ended.
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

// read reads what an update of a terminal says that it printed, and how it ended; nil: neither.
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

// characters are the whole characters of what was printed. A chunk may end within one, which is kept for the next.
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
