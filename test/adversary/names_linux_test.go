package adversary

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/wire"
)

// TestQuestion_AgentCannotRewriteOrEnd: acphost shows its questions as tool calls of its own. An agent that learns the
// id must not be able to update the tool call, nor to close a session in acphost's name.
func TestQuestion_AgentCannotRewriteOrEnd(t *testing.T) {
	t.Parallel()
	s := openFixture(t, policy(askWrites, ""))
	call, asked, id := s.question("stolen")
	var q struct {
		ToolCall struct{ ToolCallID string }
	}
	if err := json.Unmarshal(asked.Params, &q); err != nil || q.ToolCall.ToolCallID == "" {
		t.Fatalf("the question has no tool call: %s", asked.Raw)
	}
	own := q.ToolCall.ToolCallID
	before, _ := s.person("approvals", "list", "--json")

	spelled := fmt.Sprintf(`\u%04x%s`, own[0], own[1:])
	n := 0
	forge := func(update string) {
		n++
		s.agent.Write(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":` + update + `}}`)
	}
	for _, id := range []string{own, spelled} {
		forge(`{"sessionUpdate":"tool_call_update","toolCallId":"` + id + `","title":"FORGED","status":"completed"}`)
		forge(`{"sessionUpdate":"tool_call","toolCallId":"` + id + `","title":"FORGED","kind":"read","content":[]}`)
		forge(`{"toolCallId":"` + id + `","sessionUpdate":"tool_\u0063all_update","title":"FORGED"}`)
		forge(`{"sessionUpdate":"tool_call_update","\u0074oolCallId":"` + id + `","title":"FORGED"}`)
		forge(`{"sessionUpdate":"tool_call_update","toolCallId":"x","toolCallId":"` + id + `","title":"FORGED"}`)
		forge(`{"sessionUpdate":"tool_call_update","toolCallId":"` + id + `","toolCallId":"x","title":"FORGED"}`)
		forge(`{"sessionUpdate":"agent_message_chunk","sessionUpdate":"tool_call_update","toolCallId":"` + id + `","title":"FORGED"}`)
		s.agent.Write(`{"jsonrpc":"2.0","method":"session\/update","params":{"sessionId":"s1","update":{"sessionUpdate":"plan","entries":[]},"update":{"sessionUpdate":"tool_call_update","toolCallId":"` + id + `","title":"FORGED"}}}`)
		s.agent.Write(`{"jsonrpc":"2.0","method":"session/request_permission","id":"forged-` + fmt.Sprint(n) + `","params":{"sessionId":"s1","toolCall":{"toolCallId":"` + id + `","title":"FORGED"},"options":[{"optionId":"allow_once","name":"FORGED","kind":"allow_once"}]}}`)
	}
	for _, method := range []string{"_acphost/session_closed", `_acphost\/session_closed`, `\u005facphost/session_closed`} {
		s.agent.Write(`{"jsonrpc":"2.0","method":"` + method + `","params":{"sessionId":"s1","reason":"FORGED"}}`)
	}
	s.agent.Write(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"that was all"}}}}`)
	for _, m := range s.Settled(func(m wire.Message) bool { return strings.Contains(string(m.Raw), "that was all") }) {
		var said struct{ Params any }
		if err := json.Unmarshal(m.Raw, &said); err != nil {
			t.Errorf("the editor got %s", m.Raw)
			continue
		}
		plain, _ := json.Marshal(said) // escapes are resolved, and of what is there twice the last counts
		again := strings.Contains(string(m.Raw), own) || strings.Contains(string(plain), own) || strings.Contains(string(m.Raw), spelled)
		closed := strings.Contains(m.Method, "_acphost/")
		if strings.Contains(string(m.Raw), "FORGED") && (again || closed) {
			t.Errorf("ATTACK SUCCEEDED: the editor was told in acphost's name: %s", m.Raw)
		}
	}
	after, _ := s.person("approvals", "list", "--json")
	if title(before, id) != title(after, id) || title(after, id) == "" {
		t.Errorf("ATTACK SUCCEEDED: the question was\n%s\nand is\n%s", before, after)
	}
	s.refuse(asked)
	call.Refused(-32603)
	notWritten(t, s.Path("stolen"))
	s.hand.leave()
	s.finish()
}

// title is what a person is asked by the question of an id.
func title(list, id string) string {
	all, err := testkit.JSONLines[struct {
		ID         string
		Permission struct{ Title string }
	}]([]byte(list))
	if err != nil {
		return ""
	}
	for _, q := range all {
		if q.ID == id {
			return q.Permission.Title
		}
	}
	return ""
}

// TestQuestion_AgentLearnsNoAnswerableID: an agent can read files and lists, which must not contain the ids that answer
// a question.
func TestQuestion_AgentLearnsNoAnswerableID(t *testing.T) {
	t.Parallel()
	s := openFixture(t, policy(askWrites, ""))
	call, asked, _ := s.question("stolen")
	// The same program as a person runs it, who may call.
	stage := s.NewStage(t)
	outside := &fixture{Place: s.Place, t: t, Process: wire.Start(t, wire.Options{Name: "a person", Command: []string{program("attacker"), "hand", stage.Path}, Env: s.Env()})}
	person := outside.awaitHand("a person", stage)
	person.s = s
	seen := 0
	for _, h := range []*hand{s.hand, s.command(), s.hand.spawn("stray")} {
		for _, address := range h.addresses() {
			list := h.try("call", address, services+"ApprovalService/ListApprovals", `{}`)[0]
			if list.Err != "" {
				continue
			}
			seen++
			for _, m := range regexp.MustCompile(`"id": *"([^"]+)"`).FindAllStringSubmatch(list.Got, -1) {
				for _, at := range person.addresses() {
					answer := person.try("call", at, services+"ApprovalService/AnswerApproval", fmt.Sprintf(`{"id": %q, "optionId": "allow_once"}`, m[1]))[0]
					if answer.Err == "" {
						t.Errorf("ATTACK SUCCEEDED: %s learned %q, and that answers", h.name, m[1])
					}
				}
			}
		}
		h.leave()
	}
	person.leave()
	outside.ExpectExit()
	if seen == 0 {
		t.Error("no agent could read at all")
	}
	if !t.Failed() {
		s.refuse(asked)
		call.Refused(-32603)
		s.finish()
	}
	notWritten(t, s.Path("stolen"))
}

// TestTerminal_EscapesQuestionText: an agent chooses the text of its questions, which may contain escape sequences.
func TestTerminal_EscapesQuestionText(t *testing.T) {
	t.Parallel()
	s := openFixture(t, policy(askWrites, ""))
	s.agent.Write(`{"jsonrpc":"2.0","id":"q","method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"t","title":"read\u001b[2K\u001b[1G harmless \u202e\u009b31m\rand \u0007more","kind":"edit","rawInput":{"command":"\u001b]0;x\u0007"}},"options":[{"optionId":"yes\u001b[8m","name":"Allow\u001b[8m","kind":"allow_once"}]}}`)
	s.Expect("session/request_permission")
	for _, args := range [][]string{{"approvals", "list"}, {"approvals", "list", "--json"}, {"agents", "running"}, {"sessions", "list"}, {"audit", "tail"}} {
		out, status := s.person(args...)
		if status != 0 {
			t.Errorf("%q: status %d: %s", args, status, out)
		}
		for _, c := range []string{"\x1b", "\x07", "\r", "\u009b", "\u202e"} {
			if args[len(args)-1] != "--json" && strings.Contains(out, c) {
				t.Errorf("ATTACK SUCCEEDED: %q writes %q: %q", args, c, out)
			}
			if args[len(args)-1] == "--json" && (c == "\x1b" || c == "\x07") && strings.Contains(out, c) {
				t.Errorf("ATTACK SUCCEEDED: %q writes %q", args, c)
			}
		}
	}
	s.finish()
}

// TestJSON_DuplicateMemberDoesNotEvadeRules: the value that was decided on has to be the value that is used.
func TestJSON_DuplicateMemberDoesNotEvadeRules(t *testing.T) {
	t.Parallel()
	s := openFixture(t, policy("version: 1\nrules: [{id: secret, effect: deny, path: [\"**/secret*\"]}, {id: all, effect: allow, path: [\"/**\"]}]\n", ""))
	s.noPerson()
	s.File(t, "secret.txt", "do not tell")
	secret, open := s.Path("secret.txt"), s.Path("open.txt")
	for i, p := range []string{
		`"path":"OPEN","path":"SECRET"`, `"path":"SECRET","path":"OPEN"`, `"path":"OPEN","\u0070ath":"SECRET"`, `"path":"OPEN","Path":"SECRET"`, `"PATH":"SECRET"`,
		`"path":"WORK/./secret.txt"`, `"path":"WORK/x/../secret.txt"`, `"path":"WORK//secret.txt"`, `"path":"WORK/secret.txt\u0000.png"`, `"path":"WORK/\u0073ecret.txt"`, `"path":"WORK/SECRET.TXT/../secret.txt"`,
		`"path":"/proc/self/rootWORK/secret.txt"`, `"path":"/proc/self/cwd/secret.txt"`,
	} {
		member := strings.NewReplacer("OPEN", open, "SECRET.TXT", "SECRET.TXT", "SECRET", secret, "WORK", s.Work).Replace(p)
		for _, method := range []string{"fs/read_text_file", "fs/write_text_file"} {
			id := fmt.Sprintf(`"%s-%d"`, method, i)
			s.agent.Write(`{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{"sessionId":"s1",` + member + `,"content":"overwritten"}}`)
			got := s.agent.ExpectWhere("an answer to "+member, func(m wire.Message) bool { return m.Method == "" && string(m.ID) == id })
			if strings.Contains(string(got.Result), "do not tell") {
				t.Errorf("ATTACK SUCCEEDED: %s gave %s", member, got.Raw)
			}
			if text, err := os.ReadFile(secret); err != nil || string(text) != "do not tell" {
				t.Fatalf("ATTACK SUCCEEDED: %s changed the file to %q (%v)", member, text, err)
			}
		}
	}
	s.finish()
}

// TestOwnFiles_OtherNamesAreDenied: the agent makes links to acphost's files, in a workspace that contains all of them.
func TestOwnFiles_OtherNamesAreDenied(t *testing.T) {
	t.Parallel()
	s := openFixture(t, policy("version: 1\nrules: [{id: all, effect: allow, path: [\"/**\"]}]\n", ""))
	s.noPerson()
	opened := s.Send("session/new", map[string]any{"cwd": s.Home, "mcpServers": []any{}})
	s.agent.Reply(s.agent.Expect("session/new"), map[string]any{"sessionId": "wide"})
	opened.Result(nil)
	rules := filepath.Join(s.Home, "config", "policy.yaml")
	before, err := os.ReadFile(rules)
	if err != nil {
		t.Fatal(err)
	}
	hard := s.Path("hard")
	linked := s.hand.try("link", rules, hard)[0].Err == ""
	if err := os.Symlink(filepath.Dir(rules), s.Path("soft")); err != nil {
		t.Fatal(err)
	}
	audit := filepath.Join(s.Home, ".local", "state", "acphost", "audit.jsonl")
	for _, path := range []string{hard, s.Path("soft/policy.yaml"), filepath.Join(s.Home, "config", "..", "config", "policy.yaml"), audit, fmt.Sprintf("/proc/%d/root%s", s.PID(), rules), "/proc/self/root" + rules} {
		if path == hard && !linked {
			continue
		}
		got := s.agent.Send("fs/write_text_file", map[string]any{"sessionId": "wide", "path": path, "content": "version: 1\n"}).Answer()
		if after, err := os.ReadFile(rules); err != nil || string(after) != string(before) || got.Error == nil && path != hard {
			t.Fatalf("ATTACK SUCCEEDED: by %s the rules are %q (%v): %s", path, after, err, got.Raw)
		}
	}
	s.finish()
}

// TestRuleFile_WrittenByAgentDoesNotLoosen: an agent of the same user can write rule files directly. Loosened rules
// take effect only after a person confirms them.
func TestRuleFile_WrittenByAgentDoesNotLoosen(t *testing.T) {
	t.Parallel()
	s := openFixture(t, policy(askWrites, ""))
	loose := "version: 1\nrules: [{id: all, effect: allow, path: [\"/**\"]}]\n"
	s.hand.try("write", filepath.Join(s.Home, "config", "policy.yaml"), loose)
	if err := os.MkdirAll(s.Path(".acphost"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.hand.try("write", s.Path(".acphost/policy.yaml"), loose)
	for range 3 {
		call, asked, _ := s.question("stolen")
		s.refuse(asked)
		call.Refused(-32603)
	}
	notWritten(t, s.Path("stolen"))
	s.hand.leave()
	s.finish()
}

// TestRead_SpecialFilesDoNotBlock asks fsd for a pipe without a writer, and for devices.
func TestRead_SpecialFilesDoNotBlock(t *testing.T) {
	t.Parallel()
	s := openFixture(t, nil)
	s.hand.try("fifo", s.Path("fifo"))
	own := s.own()
	if err := os.Symlink("/dev/zero", s.Path("zero")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"fifo", "zero", "."} {
		for _, method := range []string{"fs/read_text_file", "fs/write_text_file"} {
			if got := s.agent.Send(method, params("path", s.Path(name), "content", "x")).Answer(); got.Error == nil {
				t.Errorf("ATTACK SUCCEEDED: %s of %s: %.200s", method, name, got.Raw)
			}
		}
	}
	opened := s.Send("session/new", map[string]any{"cwd": "/", "mcpServers": []any{}})
	s.agent.Reply(s.agent.Expect("session/new"), map[string]any{"sessionId": "all"})
	opened.Result(nil)
	for name, pid := range own {
		for _, file := range []string{"environ", "mem", "fd/0", "maps"} {
			got := s.agent.Send("fs/read_text_file", map[string]any{"sessionId": "all", "path": fmt.Sprintf("/proc/%d/%s", pid, file)}).Answer()
			if got.Error == nil && strings.Contains(string(got.Result), s.Home) {
				t.Errorf("ATTACK SUCCEEDED: fsd read %s of %s: %.200s", file, name, got.Raw)
			}
		}
	}
	for _, file := range []string{"/proc/self/environ", "/proc/thread-self/environ", "/dev/stdin", "/proc/self/fd/0"} {
		if got := s.agent.Send("fs/read_text_file", map[string]any{"sessionId": "all", "path": file}).Answer(); got.Error == nil && len(got.Result) > 40 {
			t.Errorf("ATTACK SUCCEEDED: fsd read %s: %.200s", file, got.Raw)
		}
	}
	s.expectAlive(own)
	s.expectWork()
	s.hand.leave()
	s.finish()
}

// TestCommand_InheritsNoFiles: a command has no open files of acphost but standard input, output and error.
func TestCommand_InheritsNoFiles(t *testing.T) {
	t.Parallel()
	s := openFixture(t, nil)
	s.noPerson()
	out, allowed := s.runs("ls -l /proc/self/fd", s.Work)
	if !allowed {
		t.Fatal("it could not look")
	}
	for _, m := range regexp.MustCompile(`(\d+) -> (\S+)`).FindAllStringSubmatch(out, -1) {
		if m[2] != "/dev/null" && !strings.HasPrefix(m[2], "/dev/pts/") && !strings.HasPrefix(m[2], "/proc/") {
			t.Errorf("ATTACK SUCCEEDED: a command has %s", m[0])
		}
	}
	if !strings.Contains(out, "/dev/pts/") {
		t.Errorf("it saw no file at all: %q", out)
	}
	s.finish()
}
