package e2e

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/test/wire"
)

// GateRules are strict for files and commands: reading is free, secrets are denied, everything else is asked.
const GateRules = `
version: 1
rules:
  - {id: secrets, effect: deny, path: ["**/.env"], reason: Secrets stay where they are.}
  - {id: reading, effect: allow, on: [fs.read, fs.list], path: ["${root}/**"]}
  - {id: looking, effect: allow, command: ["ls", "echo"]}
  - {id: pushing, effect: ask, command: ["git push"], not_grantable: true, reason: Pushing is public.}
`

// Decision has the fields of an audit record that tests check.
type Decision struct {
	ID, Door, Verdict, Rule, Outcome, Option, Reason, Plugin, Agent string
	AnsweredBy                                                      string `json:"answered_by"`
	PolicyDigest                                                    string `json:"policy_digest"`
	SessionID                                                       string `json:"session_id"`
	Grants                                                          []string
	Reused                                                          bool
	Action                                                          struct {
		Kind  string
		Paths []struct{ Path string }
	}
}

// Decisions reads the audit.
func (p *Place) Decisions(t testing.TB) []Decision {
	t.Helper()
	f, err := os.Open(filepath.Join(p.Home, ".local", "state", "acphost", "audit.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var all []Decision
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var d Decision
		if err := json.Unmarshal(lines.Bytes(), &d); err != nil {
			t.Fatalf("the audit holds a line that is no JSON: %s", lines.Text())
		}
		all = append(all, d)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// OwnQuestion is a question that acphost asks the editor itself.
type OwnQuestion struct {
	wire.Message
	Params struct {
		SessionID string
		ToolCall  struct {
			ToolCallID, Title, Kind, Status string
			Content                         []struct {
				Type, Path, NewText string
				OldText             *string
				Content             struct{ Text string }
			}
			Locations []struct{ Path string }
		}
		Options []struct{ OptionID, Kind, Name string }
	}
}

// Asked expects a question of acphost's own, and the tool call that introduces it.
func (s *Fixture) Asked() OwnQuestion {
	s.T.Helper()
	call := s.Expect("session/update")
	var introduced struct {
		Update struct{ SessionUpdate, ToolCallID string }
	}
	call.Decode(s.T, &introduced)
	q := OwnQuestion{Message: s.Expect("session/request_permission")}
	if err := json.Unmarshal(q.Message.Params, &q.Params); err != nil {
		s.T.Fatal(err)
	}
	if introduced.Update.SessionUpdate != "tool_call" || introduced.Update.ToolCallID != q.Params.ToolCall.ToolCallID {
		s.T.Fatalf("the question is about a tool call that was not shown before it:\n%s\n%s", call.Raw, q.Raw)
	}
	return q
}

// Choose answers a question of acphost's own.
func (s *Fixture) Choose(q OwnQuestion, option string) {
	s.T.Helper()
	s.Reply(q.Message, map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": option}})
}

// Status expects the tool call of a question to change.
func (s *Fixture) Status(q OwnQuestion, want string) {
	s.T.Helper()
	m := s.ExpectWhere("an update to "+want, func(m wire.Message) bool {
		return m.Method == "session/update" && strings.Contains(string(m.Raw), q.Params.ToolCall.ToolCallID)
	})
	if !strings.Contains(string(m.Raw), `"status":"`+want+`"`) {
		s.T.Fatalf("the tool call's status is not %q: %s", want, m.Raw)
	}
}
