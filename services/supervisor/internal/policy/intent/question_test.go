package intent

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"google.golang.org/protobuf/proto"
)

// seen is an Action in short.
type seen struct {
	kind     string
	commands []string // each sub-command, its words joined with spaces; "<dynamic>" after one that is, "in /path" after one that runs elsewhere
	cwd      string
	env      []string
	paths    []string // "r /path" or "w /path", with " outside" or " protected" where it is
	unparsed string   // contained in; empty: the action is understood
}

func inSession(dialect string) Session {
	return Session{
		Agent: "configured", Dialect: dialect, SessionID: "s", Mode: "code", Roots: []string{"/ws", "/extra"},
		Place: func(path string) Place {
			path = filepath.Clean(path)
			inside := strings.HasPrefix(path, "/ws") || strings.HasPrefix(path, "/extra")
			if rest, ok := strings.CutPrefix(path, "/ws/link"); ok {
				return Place{Resolved: "/real/link" + rest}
			}
			return Place{Resolved: path, Inside: inside, Protected: strings.HasPrefix(path, "/own")}
		},
	}
}

func inShort(a *permissionv1.Action) seen {
	s := seen{kind: a.GetKind(), cwd: a.GetCommand().GetCwd(), env: a.GetCommand().GetEnv()}
	for _, sub := range a.GetCommand().GetSubCommands() {
		words := strings.Join(sub.GetArgv(), " ")
		if sub.GetDynamic() {
			words += " <dynamic>"
		}
		if sub.GetCwdUnknown() {
			words += " in ?"
		} else if sub.GetCwd() != "" {
			words += " in " + sub.GetCwd()
		}
		s.commands = append(s.commands, words)
	}
	for _, p := range a.GetPaths() {
		access := map[permissionv1.Access]string{permissionv1.Access_ACCESS_READ: "r", permissionv1.Access_ACCESS_WRITE: "w"}[p.GetAccess()]
		short := access + " " + p.GetPath()
		if !p.GetInsideRoots() {
			short += " outside"
		}
		if p.GetProtected() {
			short += " protected"
		}
		s.paths = append(s.paths, short)
	}
	s.unparsed = strings.Join(slices.DeleteFunc([]string{a.GetUnparsed(), a.GetCommand().GetUnparsed()}, func(s string) bool { return s == "" }), "; ")
	return s
}

func (s seen) check(t *testing.T, a *permissionv1.Action) {
	t.Helper()
	got := inShort(a)
	if s.unparsed == "" && got.unparsed != "" || !strings.Contains(got.unparsed, s.unparsed) {
		t.Errorf("unparsed: got %q, want %q", got.unparsed, s.unparsed)
	}
	got.unparsed, s.unparsed = "", ""
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", s) {
		t.Errorf("got  %+q\nwant %+q", got, s)
	}
	if _, err := proto.Marshal(a); err != nil {
		t.Errorf("the action cannot be sent: %v", err)
	}
}

const diffOf = `{"type":"diff","path":%q,"oldText":"a","newText":"b"}`

func diff(path string) string { return fmt.Sprintf(diffOf, path) }

func TestQuestion_NormalisesToolCall(t *testing.T) {
	for _, tt := range []struct {
		name    string
		dialect string
		report  string // the toolCall of the question, with all that was folded
		want    seen
	}{
		// How each agent says it.
		{"claude runs a line", "@zed-industries/claude-code-acp", `{"kind":"execute","title":"x","rawInput":{"command":"git status && rm -rf build","description":"d"}}`,
			seen{kind: "tool.execute", commands: []string{"git status", "rm -rf build"}}},
		{"claude writes a file", "claude-agent-acp", `{"kind":"edit","rawInput":{"file_path":"/ws/a","content":"c"},"content":[` + diff("/ws/a") + `],"locations":[{"path":"/ws/a","line":3}]}`,
			seen{kind: "tool.edit", paths: []string{"w /ws/a"}}},
		{"claude reads a file", "claude-agent-acp", `{"kind":"read","rawInput":{"file_path":"/ws/a","offset":1}}`,
			seen{kind: "tool.read", paths: []string{"r /ws/a"}}},
		{"claude writes a file by another name", "claude-agent-acp", `{"name":"Write","kind":"edit","rawInput":{"file_path":"/ws/a","path":"/ws/b","file_text":"c"},"content":[` + diff("/ws/a") + `],"locations":[{"path":"/ws/a"}]}`,
			seen{kind: "tool.edit", paths: []string{"w /ws/a", "w /ws/b"}}},
		{"claude edits a notebook", "@agentclientprotocol/claude-agent-acp", `{"name":"NotebookEdit","kind":"other","rawInput":{"notebook_path":"/ws/n.ipynb","new_source":"x"},"content":[]}`,
			seen{kind: "tool.edit", paths: []string{"w /ws/n.ipynb"}}},
		{"claude is blocked at a path", "claude-agent-acp", `{"name":"Bash","kind":"execute","rawInput":{"command":"ls /etc","command_description":"d"},"content":[{"type":"content","content":{"type":"text","text":"d"}}],"locations":[{"path":"/etc"}]}`,
			seen{kind: "tool.execute", commands: []string{"ls /etc"}, paths: []string{"w /etc outside"}}},
		{"a command with the path of a folder elsewhere", "claude-agent-acp", `{"kind":"execute","rawInput":{"command":"cat a","path":"/etc"}}`,
			seen{kind: "tool.execute", commands: []string{"cat a"}, paths: []string{"w /etc outside"}, unparsed: "that the command does not name"}},
		{"claude is blocked at a file that the command writes", "claude-agent-acp", `{"name":"Bash","kind":"execute","rawInput":{"command":"echo a >/etc/b"},"locations":[{"path":"/etc/b"}]}`,
			seen{kind: "tool.execute", commands: []string{"echo a"}, paths: []string{"w /etc/b outside"}}},
		{"a command with the path of the folder above", "claude-agent-acp", `{"kind":"execute","rawInput":{"command":"cat a / /b"},"locations":[{"path":"/"}]}`,
			seen{kind: "tool.execute", commands: []string{"cat a / /b"}, paths: []string{"w / outside"}}},
		{"a command with a location elsewhere", "claude-agent-acp", `{"kind":"execute","rawInput":{"command":"cat a"},"locations":[{"path":"/ws/a"},{"path":"/"}]}`,
			seen{kind: "tool.execute", commands: []string{"cat a"}, paths: []string{"w /ws/a", "w / outside"}, unparsed: "that the command does not name"}},
		{"claude searches", "claude-agent-acp", `{"kind":"search","rawInput":{"pattern":"**/*.go","path":"/ws/src"}}`,
			seen{kind: "tool.search", paths: []string{"r /ws/src"}}},
		{"claude fetches", "claude-agent-acp", `{"kind":"fetch","rawInput":{"url":"https://example.com/","prompt":"p"}}`,
			seen{kind: "tool.fetch"}},
		{"claude leaves plan mode", "claude-agent-acp", `{"kind":"switch_mode","rawInput":{"plan":"p"}}`,
			seen{kind: "tool.switch_mode"}},
		{"codex runs an argv through a login shell", "codex-acp", `{"kind":"execute","rawInput":{"command":["bash","-lc","go test ./... > /tmp/log"],"cwd":"/ws/sub","parsed_cmd":[]}}`,
			seen{kind: "tool.execute", commands: []string{"go test ./..."}, cwd: "/ws/sub", paths: []string{"w /tmp/log outside"}}},
		{"codex reads by a command", "codex-acp", `{"kind":"read","title":"Read a","rawInput":{"call_id":"c","turn_id":"1","command":["/bin/bash","-lc","cat a"],"cwd":"/ws","parsed_cmd":[{"type":"read","cmd":"cat a","name":"a","path":"a"}]},"locations":[{"path":"/ws/a"}]}`,
			seen{kind: "tool.execute", commands: []string{"cat a"}, cwd: "/ws", paths: []string{"w /ws/a"}}},
		{"codex asks for the network", "codex-acp", `{"kind":"execute","rawInput":{"command":["curl","x"],"cwd":"/ws","network_approval_context":{"host":"x","protocol":"https"}}}`,
			seen{kind: "tool.execute", commands: []string{"curl x"}, cwd: "/ws", unparsed: "more than the action itself"}},
		{"codex asks for a folder", "codex-acp", `{"kind":"edit","rawInput":{"changes":{"/ws/a":{"type":"add","content":"x"}},"grant_root":"/ws"},"content":[` + diff("/ws/a") + `]}`,
			seen{kind: "tool.edit", paths: []string{"w /ws/a"}, unparsed: "grant_root"}},
		{"codex moves a file", "codex-acp", `{"kind":"edit","rawInput":{"call_id":"c","changes":{"/ws/a":{"type":"update","unified_diff":"@@","move_path":"/etc/a"}},"reason":null},"content":[` + diff("/ws/a") + `],"locations":[{"path":"/ws/a"}]}`,
			seen{kind: "tool.edit", paths: []string{"w /ws/a", "w /etc/a outside"}, unparsed: "moves a file"}},
		{"codex deletes a file", "codex-acp", `{"kind":"edit","rawInput":{"changes":{"/ws/a":{"type":"delete","content":"x"},"/ws/b":{"delete":{}}}},"content":[` + diff("/ws/a") + `]}`,
			seen{kind: "tool.edit", paths: []string{"w /ws/a", "w /ws/b"}, unparsed: "deletes a file"}},
		{"codex asks for an MCP server", "codex-acp", `{"title":"server","content":[{"type":"content","content":{"type":"text","text":"?"}}],"rawInput":{"server_name":"server","id":1,"message":"?"}}`,
			seen{kind: "unknown", unparsed: "what kind of action"}},
		{"codex calls an MCP tool", "codex-acp", `{"title":"Tool: s/t","rawInput":{"server":"s","tool":"t","arguments":{"path":"/etc"}}}`,
			seen{kind: "unknown", paths: []string{"w /etc outside"}, unparsed: "arguments cannot be read"}},
		{"codex patches files", "codex-acp", `{"kind":"edit","rawInput":{"changes":{"/ws/a":{"update":{"move_path":"c"}},"/etc/b":{"add":{}}}},"content":[` + diff("/ws/a") + `]}`,
			seen{kind: "tool.edit", paths: []string{"w /ws/a", "w /ws/c", "w /etc/b outside"}, unparsed: "moves a file"}},
		{"codex's changes that are no object", "codex-acp", `{"kind":"edit","rawInput":{"changes":["/ws/a"]},"content":[` + diff("/ws/a") + `]}`,
			seen{kind: "tool.edit", paths: []string{"w /ws/a"}, unparsed: "changes cannot be read"}},
		{"gemini edits", "gemini-cli", `{"kind":"edit","title":"a: x => y","content":[` + diff("/ws/a") + `],"locations":[{"path":"/ws/a"}]}`,
			seen{kind: "tool.edit", paths: []string{"w /ws/a"}}},
		{"gemini deletes all that is in a file", "gemini-cli", `{"kind":"edit","content":[{"type":"diff","path":"/ws/a","oldText":"a","newText":"","_meta":{"kind":"delete"}}],"locations":[{"path":"/ws/a"}]}`,
			seen{kind: "tool.edit", paths: []string{"w /ws/a"}}},
		{"gemini runs a command and says so in the title alone", "gemini-cli", `{"kind":"execute","title":"git status","content":[{"type":"content","content":{"type":"text","text":"Shows the state."}}],"locations":[]}`,
			seen{kind: "tool.execute", unparsed: "does not say which"}},
		{"gemini calls an MCP tool", "gemini-cli", `{"kind":"other","title":"delete_everything (server)","content":[],"locations":[]}`,
			seen{kind: "tool.other", unparsed: "nothing but a title"}},
		{"opencode reads a file", "OpenCode", `{"kind":"read","rawInput":{"filePath":"/ws/a"}}`,
			seen{kind: "tool.read", paths: []string{"r /ws/a"}}},
		{"opencode edits a file", "OpenCode", `{"kind":"edit","title":"/ws/a","rawInput":{"filepath":"/ws/a","diff":"@@"},"locations":[{"path":"/ws/a"}],"content":[` + diff("/ws/a") + `]}`,
			seen{kind: "tool.edit", paths: []string{"w /ws/a"}}},
		{"opencode patches several files", "OpenCode", `{"kind":"edit","title":"2 files","rawInput":{"filepath":"a, b","diff":"@@","files":[{"filePath":"/ws/a","relativePath":"a","type":"update","patch":"@@"},{"filePath":"/ws/b","movePath":"/etc/b"}]},"locations":[{"path":"/ws/a"}],"content":[` + diff("/ws/a") + `]}`,
			seen{kind: "tool.edit", paths: []string{"w /ws/a", "w /ws/b", "w /etc/b outside"}, unparsed: "moves a file"}},
		{"opencode patches files that it does not name", "OpenCode", `{"kind":"edit","rawInput":{"filepath":"a, b","files":[{"relativePath":"a"}]},"content":[` + diff("/ws/a") + `]}`,
			seen{kind: "tool.edit", paths: []string{"w /ws/a"}, unparsed: "files cannot be read"}},
		{"opencode reads a file and does not say which", "OpenCode", `{"kind":"read","title":"read","rawInput":{},"locations":[]}`,
			seen{kind: "tool.read", unparsed: "which file"}},
		{"opencode leaves its directory", "OpenCode", `{"kind":"other","title":"/etc","rawInput":{"filepath":"/etc/a","parentDir":"/etc"},"locations":[{"path":"/etc/a"},{"path":"/etc"}]}`,
			seen{kind: "tool.other", paths: []string{"w /etc/a outside", "w /etc outside"}}},
		{"opencode leaves its directory for a command", "OpenCode", `{"kind":"other","rawInput":{"command":"ls /etc","directories":["/etc"],"patterns":["/etc/*"]}}`,
			seen{kind: "tool.execute", commands: []string{"ls /etc"}, paths: []string{"w /etc outside"}, unparsed: "in which directory"}},
		{"opencode does not say where it runs", "OpenCode", `{"kind":"execute","title":"bash","rawInput":{"command":"make > log > /ws/b"}}`,
			seen{kind: "tool.execute", commands: []string{"make"}, paths: []string{"w /ws/log", "w /ws/b"}, unparsed: "in which directory"}},
		{"qwen runs a line", "qwen-code", `{"kind":"execute","title":"ls","rawInput":{"command":"ls","description":"d","directory":"/ws/sub","is_background":false},"content":[],"locations":[],"_meta":{"toolName":"run_shell_command"}}`,
			seen{kind: "tool.execute", commands: []string{"ls"}, cwd: "/ws/sub"}},
		{"qwen writes a file", "qwen-code", `{"kind":"edit","rawInput":{"file_path":"/ws/a","content":"c"},"content":[` + diff("/ws/a") + `],"locations":[{"path":"/ws/a"}]}`,
			seen{kind: "tool.edit", paths: []string{"w /ws/a"}}},
		{"gemini asks for a file that a prompt names", "gemini-cli", `{"kind":"read","title":"Allow access to absolute path: /etc/passwd","content":[{"type":"content","content":{"type":"text","text":"/etc/passwd"}}],"locations":[]}`,
			seen{kind: "tool.read", unparsed: "which file"}},
		{"opencode runs a line", "OpenCode", `{"kind":"execute","rawInput":{"command":"ls","description":"d","workdir":"sub"}}`,
			seen{kind: "tool.execute", commands: []string{"ls"}, cwd: "/ws/sub"}},
		{"opencode's question hides the input", "OpenCode", `{"kind":"execute","title":"bash","rawInput":{}}`,
			seen{kind: "tool.execute", unparsed: "does not say which"}},

		// Content counts for more than the kind.
		{"a read with a command executes", "", `{"kind":"read","rawInput":{"command":"rm f","path":"/ws/f"}}`,
			seen{kind: "tool.execute", commands: []string{"rm f"}, paths: []string{"w /ws/f"}}},
		{"a thought with a diff edits", "", `{"kind":"think","content":[` + diff("/etc/passwd") + `]}`,
			seen{kind: "tool.edit", paths: []string{"w /etc/passwd outside"}}},
		{"a read with a diff writes all that it names", "", `{"kind":"read","content":[` + diff("/ws/a") + `],"locations":[{"path":"/ws/b"}]}`,
			seen{kind: "tool.edit", paths: []string{"w /ws/a", "w /ws/b"}}},
		{"a deletion with a diff contradicts itself", "", `{"kind":"delete","content":[` + diff("/ws/a") + `]}`,
			seen{kind: "tool.edit", paths: []string{"w /ws/a"}, unparsed: "calls it delete and shows an edit"}},
		{"a command and a diff are two things", "", `{"kind":"execute","rawInput":{"command":"ls"},"content":[` + diff("/ws/a") + `]}`,
			seen{kind: "tool.execute", commands: []string{"ls"}, paths: []string{"w /ws/a"}, unparsed: "a command and a diff"}},
		{"a read that names a text to write", "", `{"kind":"read","rawInput":{"path":"/ws/a","content":"x"}}`,
			seen{kind: "tool.read", paths: []string{"r /ws/a"}, unparsed: "a text to write"}},
		{"a search that names edits", "", `{"kind":"search","rawInput":{"path":"/ws/a","edits":[{"old_text":"x","new_text":"y"}]}}`,
			seen{kind: "tool.search", paths: []string{"r /ws/a"}, unparsed: "a text to write"}},
		{"a search for a text", "", `{"kind":"search","rawInput":{"path":"/ws/a","query":"x"}}`,
			seen{kind: "tool.search", paths: []string{"r /ws/a"}}},
		{"a tool of another kind than the agent says", "claude-agent-acp", `{"name":"NotebookEdit","kind":"read","rawInput":{"notebook_path":"/ws/n"}}`,
			seen{kind: "tool.read", paths: []string{"r /ws/n"}, unparsed: "is another kind"}},
		{"a relative address may be a file", "", `{"kind":"edit","rawInput":{"path":"/ws/a","uri":"sub/.env"}}`,
			seen{kind: "tool.edit", paths: []string{"w /ws/a", "w /ws/sub/.env"}}},
		{"a page need not have a scheme", "", `{"kind":"fetch","rawInput":{"url":"example.com/x"}}`, seen{kind: "tool.fetch"}},
		{"a kind that is missing is not guessed", "", `{"rawInput":{"path":"/ws/a"}}`,
			seen{kind: "unknown", paths: []string{"w /ws/a"}, unparsed: "what kind of action"}},
		{"a kind that ACP does not know", "", `{"kind":"Read","rawInput":{"path":"/ws/a"}}`,
			seen{kind: "unknown", paths: []string{"w /ws/a"}, unparsed: "what kind of action"}},
		{"a missing kind with a command executes", "", `{"rawInput":{"cmd":["ls","-l"]}}`,
			seen{kind: "tool.execute", commands: []string{"ls -l"}}},
		{"a title alone is nothing", "", `{"kind":"fetch","title":"https://example.com"}`,
			seen{kind: "tool.fetch", unparsed: "nothing but a title"}},
		{"a move without files", "", `{"kind":"move","rawInput":{"x":1}}`,
			seen{kind: "tool.move", unparsed: "which file"}},
		{"a move with both its files", "", `{"kind":"move","rawInput":{"source":"a","destination":"../b"}}`,
			seen{kind: "tool.move", paths: []string{"w /ws/a", "w /ws/../b outside"}}},

		// What cannot be read in one way only says so.
		{"two members name different commands", "", `{"kind":"execute","rawInput":{"command":"ls","cmd":"rm -rf /"}}`,
			seen{kind: "tool.execute", commands: []string{"ls"}, unparsed: "more than one command"}},
		{"an empty command does not hide another", "", `{"kind":"execute","rawInput":{"command":"","cmd":"rm -rf /"}}`,
			seen{kind: "tool.execute", commands: []string{"rm -rf /"}, unparsed: "more than one command"}},
		{"two members name the same command", "", `{"kind":"execute","rawInput":{"command":"ls","cmd":"ls"}}`,
			seen{kind: "tool.execute", commands: []string{"ls"}}},
		{"members that differ in case alone", "", `{"kind":"execute","rawInput":{"command":"ls","Command":"ls"}}`,
			seen{kind: "tool.execute", commands: []string{"ls"}, unparsed: "both command and Command"}},
		{"duplicate members", "", `{"kind":"execute","rawInput":{"command":"ls","command":"rm"}}`,
			seen{kind: "tool.execute", commands: []string{"ls"}, unparsed: "one way only"}},
		{"duplicate members further in", "", `{"kind":"read","rawInput":{"path":"/ws/a","deep":[{"x":1,"x":2}]}}`,
			seen{kind: "tool.read", paths: []string{"r /ws/a"}, unparsed: "one way only"}},
		{"arguments before their command", "", `{"kind":"execute","rawInput":{"args":["-rf","/"],"command":"rm"}}`,
			seen{kind: "tool.execute", commands: []string{"rm -rf /"}}},
		{"arguments after an argv", "", `{"kind":"execute","rawInput":{"command":["env","rm"],"args":["-rf"]}}`,
			seen{kind: "tool.execute", commands: []string{"rm -rf"}}},
		{"arguments beside a line", "", `{"kind":"execute","rawInput":{"command":"rm -rf","args":["/"]}}`,
			seen{kind: "tool.execute", commands: []string{"rm -rf /"}, unparsed: "both in its line and beside it"}},
		{"arguments that are not all text", "", `{"kind":"execute","rawInput":{"command":"rm","args":["-rf",1]}}`,
			seen{kind: "tool.execute", commands: []string{"rm"}, unparsed: "args cannot be read"}},
		{"a command that is a number", "", `{"kind":"execute","rawInput":{"command":1}}`,
			seen{kind: "tool.execute", unparsed: "command cannot be read"}},
		{"a command of nothing", "", `{"kind":"execute","rawInput":{"command":" # only a comment"}}`,
			seen{kind: "tool.execute", unparsed: "no command in it"}},
		{"a line that is no shell's", "", `{"kind":"execute","rawInput":{"command":"echo 'open"}}`,
			seen{kind: "tool.execute", unparsed: "not a well-formed line"}},
		{"a list of lines", "", `{"kind":"execute","rawInput":{"commands":["cd a","ls"]}}`,
			seen{kind: "tool.execute", commands: []string{"cd a", "ls in ?"}}},
		{"raw input that is a string", "", `{"kind":"read","rawInput":"/etc/passwd","locations":[{"path":"/ws/a"}]}`,
			seen{kind: "tool.read", paths: []string{"r /ws/a"}, unparsed: "no object"}},
		{"a path that is an object", "", `{"kind":"read","rawInput":{"path":{"of":"/etc"}},"locations":[{"path":"/ws/a"}]}`,
			seen{kind: "tool.read", paths: []string{"r /ws/a"}, unparsed: "path cannot be read"}},
		{"files that are objects", "", `{"kind":"edit","rawInput":{"files":[{"path":"/etc/a"}],"path":"/ws/a"}}`,
			seen{kind: "tool.edit", paths: []string{"w /etc/a outside", "w /ws/a"}}},
		{"a diff without a file", "", `{"kind":"edit","content":[{"type":"diff","newText":"b"},` + diff("/ws/a") + `]}`,
			seen{kind: "tool.edit", paths: []string{"w /ws/a"}, unparsed: "of which file"}},
		{"a location without a file", "", `{"kind":"read","locations":[{"line":1},{"path":"/ws/a"}]}`,
			seen{kind: "tool.read", paths: []string{"r /ws/a"}, unparsed: "a location does not say"}},

		// Patterns stand for files that nobody names.
		{"a path that is a pattern", "", `{"kind":"read","rawInput":{"paths":["src/**"]}}`,
			seen{kind: "tool.read", paths: []string{"r /ws/src/**"}, unparsed: "a path is a pattern"}},
		{"a pattern of one letter", "", `{"kind":"read","rawInput":{"path":"/ws/[.]env"}}`,
			seen{kind: "tool.read", paths: []string{"r /ws/[.]env"}, unparsed: "a path is a pattern"}},
		{"a pattern within a name", "", `{"kind":"read","rawInput":{"path":"/ws/[ij]d_rsa"}}`,
			seen{kind: "tool.read", paths: []string{"r /ws/[ij]d_rsa"}, unparsed: "a path is a pattern"}},
		{"alternatives", "", `{"kind":"edit","rawInput":{"path":"/ws/{a,.env}"}}`,
			seen{kind: "tool.edit", paths: []string{"w /ws/{a,.env}"}, unparsed: "a path is a pattern"}},
		{"the file of a route", "", `{"kind":"edit","rawInput":{"path":"/ws/app/[...slug]/[id].tsx"}}`,
			seen{kind: "tool.edit", paths: []string{"w /ws/app/[...slug]/[id].tsx"}}},
		{"files that are read beside those that are named", "", `{"kind":"read","rawInput":{"paths":["a"],"include":[".env"]}}`,
			seen{kind: "tool.read", paths: []string{"r /ws/a"}, unparsed: "more files than are named"}},
		{"a pattern that leads elsewhere", "", `{"kind":"search","rawInput":{"path":"/ws","include":"/etc/**"}}`,
			seen{kind: "tool.search", paths: []string{"r /ws"}, unparsed: "lead out of the folder"}},

		// Where it happens.
		{"relative paths belong to the session", "", `{"kind":"read","rawInput":{"paths":["a","./b/../c","../../etc/shadow"]}}`,
			seen{kind: "tool.read", paths: []string{"r /ws/a", "r /ws/./b/../c", "r /ws/../../etc/shadow outside"}}},
		{"an absolute path stays as it is asked for", "", `{"kind":"read","rawInput":{"path":"/ws/../etc/shadow"}}`,
			seen{kind: "tool.read", paths: []string{"r /ws/../etc/shadow outside"}}},
		{"file URLs are paths", "", `{"kind":"read","rawInput":{"path":"file:///ws/a%20b"},"locations":[{"path":"FILE://localhost/ws/c"}]}`,
			seen{kind: "tool.read", paths: []string{"r /ws/a b", "r /ws/c"}}},
		{"a file URL of another machine", "", `{"kind":"read","rawInput":{"path":"file://host/ws/a"},"locations":[{"path":"/ws/c"}]}`,
			seen{kind: "tool.read", paths: []string{"r /ws/c"}, unparsed: "a file of this machine"}},
		{"another URL for a path", "", `{"kind":"read","rawInput":{"path":"ssh://host/a"}}`,
			seen{kind: "tool.read", unparsed: "a URL stands where"}},
		{"a path behind an @, which pi takes off", "", `{"kind":"read","rawInput":{"path":"@/etc/passwd"}}`,
			seen{kind: "tool.read", paths: []string{"r /etc/passwd outside", "r /ws/@/etc/passwd"}}},
		{"a folder whose name begins with @", "", `{"kind":"read","rawInput":{"path":"@types/a.d.ts"}}`,
			seen{kind: "tool.read", paths: []string{"r /ws/types/a.d.ts", "r /ws/@types/a.d.ts"}}},
		{"a path at home behind an @", "", `{"kind":"read","rawInput":{"path":"@~/.ssh/id_ed25519"}}`,
			seen{kind: "tool.read", paths: []string{"r /ws/~/.ssh/id_ed25519", "r /ws/@~/.ssh/id_ed25519"}, unparsed: "begins with @"}},
		{"a file behind an @ that is written", "", `{"kind":"edit","rawInput":{"path":"@a","content":"x"}}`,
			seen{kind: "tool.edit", paths: []string{"w /ws/a", "w /ws/@a"}, unparsed: "begins with @"}},
		{"another blank in a path, which pi takes for a plain one", "", `{"kind":"read","rawInput":{"path":"a\u00a0b/passwd"}}`,
			seen{kind: "tool.read", unparsed: "blank beyond ASCII"}},
		{"a path at home", "", `{"kind":"read","rawInput":{"path":"~/.ssh/id_ed25519"}}`,
			seen{kind: "tool.read", unparsed: "begins with ~"}},
		{"a path with a NUL", "", `{"kind":"read","rawInput":{"path":"/ws/a\u0000/../../etc"}}`,
			seen{kind: "tool.read", unparsed: "NUL"}},
		{"a URL that hides a broken character", "", `{"kind":"read","rawInput":{"path":"file:///ws/%ff"}}`,
			seen{kind: "tool.read", unparsed: "not UTF-8"}},
		{"a working directory outside the roots", "", `{"kind":"execute","rawInput":{"command":"ls > out","cwd":"/etc"}}`,
			seen{kind: "tool.execute", commands: []string{"ls"}, cwd: "/etc", paths: []string{"w /etc/out outside"}}},
		{"two working directories", "", `{"kind":"execute","rawInput":{"command":"ls","cwd":"/ws","workdir":"/etc"}}`,
			seen{kind: "tool.execute", commands: []string{"ls"}, cwd: "/ws", unparsed: "more than one working directory"}},
		{"a working directory at home", "", `{"kind":"execute","rawInput":{"command":"ls","cwd":"~"}}`,
			seen{kind: "tool.execute", commands: []string{"ls"}, cwd: "~", unparsed: "the working directory: a path begins with ~"}},
		{"a folder without a command is what is worked on", "gemini", `{"kind":"search","rawInput":{"dir_path":"/ws/src"}}`,
			seen{kind: "tool.search", paths: []string{"r /ws/src"}}},
		{"redirections are paths", "", `{"kind":"execute","rawInput":{"command":"sort < in >> /etc/out 2>/dev/null"}}`,
			seen{kind: "tool.execute", commands: []string{"sort"}, paths: []string{"r /ws/in", "w /etc/out outside"}}},
		{"a redirection after a cd leads from there", "", `{"kind":"execute","rawInput":{"command":"cd / && echo x > etc/passwd && echo > /own/policy","cwd":"sub"}}`,
			seen{kind: "tool.execute", cwd: "/ws/sub", commands: []string{"cd /", "echo x in /", "echo in /"}, paths: []string{"w /etc/passwd outside", "w /own/policy outside protected"}}},
		{"a cd is relative to where the command runs", "", `{"kind":"execute","rawInput":{"command":"cd a && cd b && echo > ../x","cwd":"sub"}}`,
			seen{kind: "tool.execute", cwd: "/ws/sub", commands: []string{"cd a", "cd b in /ws/sub/a", "echo in /ws/sub/a/b"}, paths: []string{"w /ws/sub/a/b/../x"}}},
		{"a redirection after a cd that may fail leads nobody knows where", "", `{"kind":"execute","rawInput":{"command":"cd /tmp; echo x > a > /own/policy"}}`,
			seen{kind: "tool.execute", commands: []string{"cd /tmp", "echo x in ?"}, paths: []string{"w /own/policy outside protected"}, unparsed: "changes its directory"}},
		{"git in another folder", "", `{"kind":"execute","rawInput":{"command":"git -C lib push"}}`,
			seen{kind: "tool.execute", commands: []string{"git push in /ws/lib"}}},
		{"a cd through a link", "", `{"kind":"execute","rawInput":{"command":"cd link && rm x > y"}}`,
			seen{kind: "tool.execute", commands: []string{"cd link", "rm x in /real/link"}, paths: []string{"w /real/link/y outside"}}},
		{"what is only known when it runs", "", `{"kind":"execute","rawInput":{"command":"rm $X > $Y"}}`,
			seen{kind: "tool.execute", commands: []string{"rm $X <dynamic>"}}},
		{"the environment belongs to a command", "", `{"kind":"execute","rawInput":{"command":"ls","env":{"LD_PRELOAD":"/ws/x.so"}}}`,
			seen{kind: "tool.execute", commands: []string{"ls"}, env: []string{"LD_PRELOAD=/ws/x.so"}}},
		{"in every form", "", `{"kind":"execute","rawInput":{"command":"ls","env":[{"name":"A","value":"1"},{"name":"B","value":""}]}}`,
			seen{kind: "tool.execute", commands: []string{"ls"}, env: []string{"A=1", "B="}}},
		{"as a list of assignments too", "", `{"kind":"execute","rawInput":{"command":"ls","env":["A=1"]}}`,
			seen{kind: "tool.execute", commands: []string{"ls"}, env: []string{"A=1"}}},
		{"an environment that cannot be read", "", `{"kind":"execute","rawInput":{"command":"ls","env":"A=1"}}`,
			seen{kind: "tool.execute", commands: []string{"ls"}, unparsed: "env cannot be read"}},
		{"acphost's own files are marked", "", `{"kind":"edit","content":[` + diff("/own/policy.yaml") + `]}`,
			seen{kind: "tool.edit", paths: []string{"w /own/policy.yaml outside protected"}}},
		{"a path is there once, and a write counts", "", `{"kind":"search","rawInput":{"path":"/ws/a"},"content":[` + diff("a") + `],"locations":[{"path":"/ws/a"}]}`,
			seen{kind: "tool.edit", paths: []string{"w /ws/a"}}},
		{"null members are absent", "", `{"kind":"execute","rawInput":{"command":"ls","cmd":null,"args":null,"cwd":null,"env":null,"path":null}}`,
			seen{kind: "tool.execute", commands: []string{"ls"}}},
		{"a lone surrogate is no path", "", `{"kind":"read","rawInput":{"path":"/ws/\ud800"}}`,
			seen{kind: "tool.read", unparsed: "path cannot be read"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			report := []byte(tt.report)
			tc := acp.ToolCall{
				ID: "c", Content: acp.Get(report, "content"), Locations: acp.Get(report, "locations"), RawInput: acp.Get(report, "rawInput"),
			}
			tc.Kind, _ = acp.String(acp.Get(report, "kind"))
			tc.Title, _ = acp.String(acp.Get(report, "title"))
			tc.Name, _ = acp.String(acp.Get(report, "name"))
			tt.want.check(t, Question(inSession(tt.dialect), tc))
		})
	}
}

func TestQuestion_TextSearchIsRecursive(t *testing.T) {
	for _, tt := range []struct {
		dialect, report string
		want            bool
	}{
		{"", `{"kind":"search","rawInput":{"pattern":"KEY","path":"/ws"}}`, true},
		{"claude-agent-acp", `{"name":"Grep","kind":"search","rawInput":{"pattern":"KEY","path":"/ws","glob":".env"}}`, true},
		{"claude-agent-acp", `{"name":"Grep","kind":"search","rawInput":{"pattern":"KEY"}}`, true},
		{"claude-agent-acp", `{"name":"Glob","kind":"search","rawInput":{"pattern":"**/*.go","path":"/ws"}}`, false},
		{"qwen-code", `{"name":"list_directory","kind":"search","rawInput":{"path":"/ws"}}`, false},
		{"", `{"kind":"read","rawInput":{"path":"/ws/a"}}`, false},
		{"", `{"kind":"read","rawInput":{"path":"/ws","query":"KEY"}}`, true},
	} {
		report := []byte(tt.report)
		tc := acp.ToolCall{ID: "c", RawInput: acp.Get(report, "rawInput")}
		tc.Kind, _ = acp.String(acp.Get(report, "kind"))
		tc.Name, _ = acp.String(acp.Get(report, "name"))
		a := Question(inSession(tt.dialect), tc)
		if len(a.GetPaths()) != 1 || a.GetPaths()[0].GetRecursive() != tt.want {
			t.Errorf("%s %s: got %v, want recursive %v", tt.dialect, tt.report, a.GetPaths(), tt.want)
		}
	}
}

func TestQuestion_HasOrigin(t *testing.T) {
	tc := acp.ToolCall{ID: "c", Title: "the title", Kind: "read", RawInput: []byte(`{"path": "a"}`), Ambiguous: "it is ambiguous"}
	s := inSession("gemini-cli")
	s.ResolvedRoots = []string{"/real/ws", ""}
	a := Question(s, tc)
	if a.GetAgent() != "configured" || a.GetMode() != "code" || a.GetSessionId() != "s" || a.GetToolCallId() != "c" || a.GetTitle() != "the title" ||
		a.GetDoor() != permissionv1.Door_DOOR_REQUEST || !slices.Equal(a.GetRoots(), []string{"/ws", "/extra"}) || !slices.Equal(a.GetResolvedRoots(), []string{"/real/ws", ""}) || a.GetRawInput() != `{"path": "a"}` ||
		a.GetUnparsed() != "it is ambiguous" || a.GetPaths()[0].GetResolvedPath() != "/ws/a" {
		t.Errorf("got %v", a)
	}
}

func TestQuestion_RelativePathsNeedRoot(t *testing.T) {
	tc := acp.ToolCall{Kind: "execute", RawInput: []byte(`{"command":"ls > x","cwd":"sub"}`)}
	a := Question(Session{}, tc)
	for _, want := range []string{"the working directory is relative", "a path is relative"} {
		if !strings.Contains(a.GetUnparsed(), want) {
			t.Errorf("unparsed: %q, want %q in it", a.GetUnparsed(), want)
		}
	}
}

func TestQuestion_LimitsSize(t *testing.T) {
	list := make([]string, 0, 5000)
	for i := range 5000 {
		list = append(list, fmt.Sprintf(`{"path":"/ws/%d"}`, i))
	}
	places := 0
	s := inSession("")
	s.Place = func(string) Place { places++; return Place{} }
	a := Question(s, acp.ToolCall{Kind: "read", Locations: []byte("[" + strings.Join(list, ",") + "]")})
	if len(a.GetPaths()) != maxPaths || places != maxPaths || !strings.Contains(a.GetUnparsed(), "more than 1000 paths") {
		t.Errorf("%d paths, placed %d times, unparsed %q", len(a.GetPaths()), places, a.GetUnparsed())
	}

	big := strings.Repeat("é", 1<<20)
	a = Question(inSession(""), acp.ToolCall{ID: "c", Kind: "execute", Title: big, RawInput: []byte(`{"command":"echo ` + big + `"}`)})
	if a.GetRawInput() != "" || len(a.GetTitle()) > maxTitle || len(a.GetCommand().GetText()) > maxRawInput || a.GetKind() != "tool.execute" {
		t.Errorf("raw input of %d bytes, title of %d, command of %d", len(a.GetRawInput()), len(a.GetTitle()), len(a.GetCommand().GetText()))
	}
	for _, want := range []string{"raw input is over 1 MiB", "command is over 1 MiB"} {
		if !strings.Contains(a.GetUnparsed(), want) {
			t.Errorf("unparsed: %q, want %q in it", a.GetUnparsed(), want)
		}
	}
	if _, err := proto.Marshal(a); err != nil {
		t.Error(err)
	}
	a = Question(inSession(""), acp.ToolCall{Kind: "execute", RawInput: []byte(`{"command":["echo","` + big + `"]}`)})
	if n := proto.Size(a); n > 4<<20 {
		t.Errorf("the action has %d bytes", n)
	}
}

func FuzzQuestion(f *testing.F) {
	f.Add("codex", "execute", `{"command":["bash","-lc","ls > x"],"changes":{"a":1}}`, `[{"type":"diff","path":"a"}]`, `[{"path":"b"}]`)
	f.Add("", "read", `{"command":"ls","cmd":"rm","args":["x"],"env":{"A":"b"},"cwd":"~"}`, `[1,{"type":"diff"}]`, `[{"path":1}]`)
	f.Add("claude", "edit", `{"path":"file:///a%00","files":[{"path":1}],"Path":"x"}`, `[{"type":"diff","path":"~"}]`, `[]`)
	f.Fuzz(func(t *testing.T, dialect, kind, input, content, locations string) {
		tc := acp.ToolCall{ID: "c", Kind: kind, RawInput: []byte(input), Content: []byte(content), Locations: []byte(locations)}
		a := Question(inSession(dialect), tc)
		if _, err := proto.Marshal(a); err != nil {
			t.Errorf("the action cannot be sent: %v", err)
		}
		whole := a.GetUnparsed() == "" && a.GetCommand().GetUnparsed() == ""
		if !whole {
			return
		}
		switch a.GetKind() {
		case "tool.execute":
			if len(a.GetCommand().GetSubCommands()) == 0 {
				t.Error("a command without commands is said to be understood")
			}
		case "tool.read", "tool.edit", "tool.delete", "tool.move":
			if len(a.GetPaths()) == 0 {
				t.Error("an action on files without files is said to be understood")
			}
		case "unknown":
			t.Error("an unknown action is said to be understood")
		}
		for _, p := range a.GetPaths() {
			if !strings.HasPrefix(p.GetPath(), "/") {
				t.Errorf("path %q is not absolute", p.GetPath())
			}
		}
		if err := acp.Members([]byte(input), func(string, []byte) bool { return true }); err != nil && !empty([]byte(input)) {
			t.Errorf("input that cannot be read is said to be understood: %v", err)
		}
	})
}
