package transcript

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/events/journal"
)

// decision is an audit record of an action, some seconds after the beginning.
func decision(after int, door, verdict, outcome, rule string, a *permissionv1.Action) Decision {
	what := "write /w/a"
	if a.GetCommand() != nil {
		what = "run " + a.GetCommand().GetText() + " in /w"
	}
	return Decision{What: what, AuditRecord: &supervisorv1.AuditRecord{Time: timestamppb.New(began.Add(time.Duration(after) * time.Second)), Door: door, Verdict: verdict, Outcome: outcome, Rule: rule, Action: a}}
}

// at are entries, each a second after the one before.
func at(entries ...*journal.Entry) []*journal.Entry {
	for i, e := range entries {
		e.Time = began.Add(time.Duration(2*i) * time.Second)
	}
	return entries
}

func TestDecision_IsShownWithItsAction(t *testing.T) {
	write := func() *permissionv1.Action {
		return &permissionv1.Action{Kind: "fs.write", Paths: []*permissionv1.PathAccess{{Path: "/w/a", InsideRoots: true, ResolvedPath: "/w/a"}}}
	}
	run := func(text string) *permissionv1.Action {
		return &permissionv1.Action{Kind: "terminal.create", Command: &permissionv1.Command{Text: text, Cwd: "/w"}}
	}
	tool := func(id, kind, more string) *journal.Entry {
		return update(`{"sessionUpdate":"tool_call","toolCallId":"` + id + `","title":"T` + id + `","kind":"` + kind + `"` + more + `}`)
	}
	done := func(id string) *journal.Entry {
		return update(`{"sessionUpdate":"tool_call_update","toolCallId":"` + id + `","status":"completed"}`)
	}
	calls := func(id, method, params string) *journal.Entry {
		return entry("agent-to-handler", "gate", `{"id":`+id+`,"method":"`+method+`","params":{"sessionId":"s",`+params+`}}`)
	}
	own := func(title, more string) *journal.Entry {
		return entry("ours-to-front", "", `{"id":"acphost-1","method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"acphost-1","title":"`+title+`"`+more+`},"options":[{"optionId":"allow_once","kind":"allow_once","name":"Yes"}]}}`)
	}
	answered := entry("front-to-ours", "", `{"id":"acphost-1","result":{"outcome":{"outcome":"selected","optionId":"allow_once"}}}`)
	fine := func(id string) *journal.Entry { return entry("handler-to-agent", "fs", `{"id":`+id+`,"result":{}}`) }
	for name, tt := range map[string]struct {
		entries   []*journal.Entry
		decisions []Decision
		want      string
	}{
		"a call that a rule allowed": {
			at(calls("1", "fs/write_text_file", `"path":"/w/a","content":"x"`), fine("1")),
			[]Decision{decision(1, "call", "allow", "allowed", "edits", write())},
			"call fs/write_text_file /w/a|done {rule edits}",
		},
		"a call that acphost asked about": {
			at(tool("t", "edit", `,"locations":[{"path":"/w/a"}]`), calls("1", "fs/write_text_file", `"path":"/w/a","content":"x"`),
				own("write /w/a", `,"locations":[{"path":"/w/a"}]`), answered, fine("1"), done("t")),
			[]Decision{decision(5, "call", "ask", "allowed", "", write())},
			"question write /w/a|allowed (Yes) in the editor {no rule}\ntool Tt|completed [places /w/a]\ncall fs/write_text_file /w/a|done",
		},
		"a request of the agent that a person answered, and its effect": {
			at(tool("t", "edit", ""), entry("agent-to-front", "", `{"id":7,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"t"},"options":[{"optionId":"o","kind":"allow_once","name":"Yes"}]}}`),
				entry("front-to-agent", "", `{"id":7,"result":{"outcome":{"outcome":"selected","optionId":"o"}}}`), done("t")),
			[]Decision{decision(3, "request", "ask", "allowed", "careful", &permissionv1.Action{Kind: "tool.edit", ToolCallId: "t"})},
			"question The agent asks: Tt|allowed (Yes) in the editor {rule careful}\ntool Tt|completed",
		},
		"a request that a rule decided": {
			at(tool("t", "edit", ""), done("t")),
			[]Decision{decision(1, "request", "allow", "allowed", "edits", &permissionv1.Action{Kind: "tool.edit", ToolCallId: "t"})},
			"tool Tt|completed {rule edits}",
		},
		"commands": {
			at(calls("1", "terminal/create", `"command":"one"`), calls("2", "terminal/create", `"command":"two"`),
				entry("handler-to-agent", "terminal", `{"id":2,"result":{"terminalId":"2"}}`), entry("handler-to-agent", "gate", `{"id":1,"error":{"code":-32603,"message":"denied"}}`)),
			[]Decision{decision(3, "call", "deny", "denied", "no-one", run("one")), decision(3, "call", "allow", "allowed", "twos", run("two"))},
			"command two|no end of it is recorded {rule twos}\ncommand one|failed: denied {rule no-one}",
		},
		"a decision without another record": {
			at(entry("front-to-agent", "", `{"id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"go"}]}}`), entry("agent-to-front", "", `{"id":1,"result":{"stopReason":"end_turn"}}`)),
			[]Decision{decision(1, "call", "deny", "denied", "secrets", write()), decision(1, "call", "allow", "cancelled", "x", run("make")), {AuditRecord: &supervisorv1.AuditRecord{Time: timestamppb.New(began), Note: "torn"}}},
			"turn Turn 1\nuser |go\ndecision denied: write /w/a {rule secrets}\ndecision cancelled: run make in /w {rule x}\nend Turn 1 ended after 2.0 s: end_turn",
		},
	} {
		got := itemsWith(t, PageOptions{Decisions: tt.decisions}, tt.entries...)
		if got != tt.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, tt.want)
		}
	}
	for rule, r := range map[string]*supervisorv1.AuditRecord{
		"no rule: no rule matches":                     {Reason: "no rule matches"},
		"rule a, answered by a grant":                  {Rule: "a", AnsweredBy: "grant"},
		"rule a: one two":                              {Rule: "a", Reason: "one\ntwo"},
		"rule a: " + strings.Repeat("x", 300) + "…":    {Rule: "a", Reason: strings.Repeat("x", 400)},
		"no rule: it was allowed when the agent asked": {AnsweredBy: "earlier answer", Reason: "it was allowed when the agent asked"},
	} {
		if got := ruleOf(Decision{AuditRecord: r}); got != rule {
			t.Errorf("got %q, want %q", got, rule)
		}
	}
}
