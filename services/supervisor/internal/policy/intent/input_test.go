package intent

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/acphost/acphost/internal/testkit"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/policy/dialect"
)

// askedBy is what an agent's question is read as.
func askedBy(s Session, report string) *permissionv1.Action {
	tc := acp.ToolCall{ID: "c"}
	tc.Merge([]byte(report))
	return Question(s, tc)
}

func TestInput_FindsPathsPatchesAndCommands(t *testing.T) {
	const unclear = "is not known"
	patch := func(lines ...string) string { return quote(strings.Join(lines, "\n") + "\n") }
	for _, tt := range []struct {
		name, agent, report string
		want                seen
	}{
		// What nobody knows.
		{"a patch in a member that nobody knows", "", `{"kind":"other","rawInput":{"input":` + patch("*** Begin Patch", "*** Update File: .env", "@@", "-a", "+b", "*** End Patch") + `}}`,
			seen{kind: "tool.other", paths: []string{"w /ws/.env"}, unparsed: unclear}},
		{"one in a list in an object in a list", "", `{"kind":"edit","rawInput":{"path":"a","steps":[{"do":[` + patch("*** Add File: ../x", "+a") + `]}]}}`,
			seen{kind: "tool.edit", paths: []string{"w /ws/a", "w /ws/../x outside"}, unparsed: unclear}},
		{"one in JSON in a text", "", `{"kind":"other","rawInput":{"payload":` + quote(`{"patches":[`+patch("--- a/x", "+++ b/x", "@@ -1 +1 @@")+`]}`) + `}}`,
			seen{kind: "tool.other", paths: []string{"w /ws/x"}, unparsed: unclear}},
		{"one in what is written where no file is named", "", `{"kind":"edit","rawInput":{"content":` + patch("*** Delete File: /own/config.yaml") + `}}`,
			seen{kind: "tool.edit", paths: []string{"w /own/config.yaml outside protected"}, unparsed: "deletes a file"}},
		{"the address of a file", "", `{"kind":"other","rawInput":{"x":{"y":["file:///etc/passwd"]}}}`,
			seen{kind: "tool.other", paths: []string{"w /etc/passwd outside"}, unparsed: unclear}},
		{"files and commands further in", "", `{"kind":"other","rawInput":{"actions":[{"filePath":"a"},{"command":"rm -rf b","cwd":"/etc"}]}}`,
			seen{kind: "tool.execute", commands: []string{"rm -rf b"}, cwd: "/etc", paths: []string{"w /ws/a"}, unparsed: unclear}},
		{"acphost's own file in a text that nobody knows", "", `{"kind":"other","rawInput":{"target":"/own/config.yaml"}}`,
			seen{kind: "tool.other", paths: []string{"w /own/config.yaml outside protected"}, unparsed: unclear}},
		{"a text that nobody knows is no path", "", `{"kind":"read","rawInput":{"path":"a","mode":"agent"}}`,
			seen{kind: "tool.read", paths: []string{"r /ws/a"}, unparsed: "mode is not known"}},
		{"numbers and what is empty name nothing", "", `{"kind":"read","rawInput":{"path":"a","level":3,"strict":false,"x":"","y":[],"z":{},"n":null}}`,
			seen{kind: "tool.read", paths: []string{"r /ws/a"}}},
		{"a switch that nobody knows", "", `{"kind":"edit","rawInput":{"path":"a","content":"x","delete":true}}`,
			seen{kind: "tool.edit", paths: []string{"w /ws/a"}, unparsed: "delete is not known"}},
		{"nothing but a text", "", `{"kind":"other","rawInput":{"prompt":"x"}}`, seen{kind: "tool.other", unparsed: "nothing but a text"}},
		{"a thought that names a file", "", `{"kind":"think","rawInput":{"thought":"x","path":"a"}}`,
			seen{kind: "tool.think", paths: []string{"w /ws/a"}, unparsed: "names a file"}},

		// What is written is not read.
		{"a patch in what is written", "", `{"kind":"edit","rawInput":{"path":"a.patch","content":` + patch("--- a/x", "+++ b/x", "*** Update File: /etc/y") + `}}`,
			seen{kind: "tool.edit", paths: []string{"w /ws/a.patch"}}},

		// Lists.
		{"files that are objects", "", `{"kind":"read","rawInput":{"files":[{"path":"a","start_line":1},{"path":"/etc/b"}]}}`,
			seen{kind: "tool.read", paths: []string{"r /ws/a", "r /etc/b outside"}}},
		{"files in a text", "", `{"kind":"read","rawInput":{"files":"[\"/etc/a\"]"},"locations":[{"path":"b"}]}`,
			seen{kind: "tool.read", paths: []string{"r /ws/b"}, unparsed: "files cannot be read"}},
		{"edits of files", "", `{"kind":"edit","rawInput":{"edits":[{"file_path":"a","old_string":"x","new_string":"y"},{"filePath":"../b","newText":"z"}]}}`,
			seen{kind: "tool.edit", paths: []string{"w /ws/a", "w /ws/../b outside"}}},
		{"edits of one file", "", `{"kind":"edit","rawInput":{"path":"a","edits":[{"oldText":"x","newText":"y"}]}}`,
			seen{kind: "tool.edit", paths: []string{"w /ws/a"}}},

		{"a file of a folder", "", `{"kind":"read","rawInput":{"path":"x.txt","cwd":"secret"}}`,
			seen{kind: "tool.read", paths: []string{"r /ws/x.txt", "r /ws/secret/x.txt", "r /ws/secret"}}},
		{"a name whose folder nobody knows", "", `{"kind":"read","rawInput":{"path":"secret","filename":"x.txt"}}`,
			seen{kind: "tool.read", paths: []string{"r /ws/secret"}, unparsed: "filename is not known"}},
		{"a path with blanks around it", "", `{"kind":"read","rawInput":{"path":" /etc/passwd"}}`, seen{kind: "tool.read", unparsed: "blanks around it"}},
		{"a path that begins with a variable", "", `{"kind":"read","rawInput":{"path":"$HOME/x"}}`, seen{kind: "tool.read", unparsed: "begins with $"}},

		// A move, and what looks like one.
		{"a source that is no path", "", `{"kind":"execute","rawInput":{"command":"ls","source":"agent"}}`,
			seen{kind: "tool.execute", commands: []string{"ls"}, unparsed: "source is not known"}},
		{"a source that can be nothing else", "", `{"kind":"read","rawInput":{"source":"./a"}}`, seen{kind: "tool.read", paths: []string{"r /ws/a"}}},
		{"a source of codex", "codex-acp", `{"kind":"execute","rawInput":{"call_id":"c","turn_id":"1","command":["ls"],"cwd":"/ws","source":"agent","parsed_cmd":[{"type":"list_files","path":"zz"}]}}`,
			seen{kind: "tool.execute", commands: []string{"ls"}, cwd: "/ws"}},
		{"a move", "", `{"kind":"move","rawInput":{"from":"a","to":"/etc/b"}}`, seen{kind: "tool.move", paths: []string{"w /ws/a", "w /etc/b outside"}}},
		{"both ends where the kind is another", "", `{"kind":"edit","rawInput":{"src":"a","dst":"b"}}`, seen{kind: "tool.edit", paths: []string{"w /ws/a", "w /ws/b"}}},

		// Addresses and patterns.
		{"an address", "", `{"kind":"fetch","rawInput":{"url":"https://example.com","prompt":"p"}}`, seen{kind: "tool.fetch"}},
		{"several", "", `{"kind":"fetch","rawInput":{"requests":[{"url":"https://a.org","prompt":"p"},{"url":"FILE:///etc/x"}]}}`,
			seen{kind: "tool.fetch", paths: []string{"w /etc/x outside"}}},
		{"an address that is none of the web", "", `{"kind":"fetch","rawInput":{"url":"gopher://x"}}`, seen{kind: "tool.fetch", unparsed: "url cannot be read"}},
		{"a pattern below the folder", "", `{"kind":"search","rawInput":{"pattern":"**/*.go","path":"src"}}`, seen{kind: "tool.search", paths: []string{"r /ws/src"}}},
		{"a pattern that leads out of it", "", `{"kind":"search","rawInput":{"pattern":"../**","path":"src"}}`,
			seen{kind: "tool.search", paths: []string{"r /ws/src"}, unparsed: "lead out"}},

		// Commands.
		{"commands that mean the same each for itself", "", `{"kind":"execute","rawInput":{"commands":["ls a","git status"]}}`,
			seen{kind: "tool.execute", commands: []string{"ls a", "git status"}}},
		{"commands that do not", "", `{"kind":"execute","rawInput":{"commands":["echo '","rm -rf a #'"]}}`,
			seen{kind: "tool.execute", commands: []string{"echo \nrm -rf a #"}, unparsed: "one after the other"}},
		{"a line that goes on", "", `{"kind":"execute","rawInput":{"commands":["echo \\","rm a"]}}`,
			seen{kind: "tool.execute", commands: []string{"echo rm a"}, unparsed: "one after the other"}},
		{"programs and their arguments", "", `{"kind":"execute","rawInput":{"commands":[{"command":"git","args":["log","a b"]},"ls"]}}`,
			seen{kind: "tool.execute", commands: []string{"git log a b", "ls"}}},
		{"one that runs elsewhere", "", `{"kind":"execute","rawInput":{"commands":[{"command":"ls","cwd":"/etc"},"ls"]}}`,
			seen{kind: "tool.execute", commands: []string{"ls", "ls"}, unparsed: "a way of its own"}},
		{"a text for the command", "", `{"kind":"execute","rawInput":{"command":"cat","content":"x"}}`,
			seen{kind: "tool.execute", commands: []string{"cat"}, unparsed: "a text beside the command"}},
		{"what runs it as somebody else", "", `{"kind":"execute","rawInput":{"command":"ls","sudo":true}}`,
			seen{kind: "tool.execute", commands: []string{"ls"}, unparsed: "sudo is not known"}},

		// The former adapters.
		{"the former adapter of Claude writes", "@zed-industries/claude-code-acp", `{"name":"mcp__acp__Write","kind":"edit","rawInput":{"file_path":"/ws/a","content":"x"}}`,
			seen{kind: "tool.edit", paths: []string{"w /ws/a"}}},
		{"it edits", "claude-code-acp", `{"name":"mcp__acp__Edit","kind":"edit","rawInput":{"file_path":"/ws/a","old_string":"x","new_string":"y","replace_all":true}}`,
			seen{kind: "tool.edit", paths: []string{"w /ws/a"}}},
		{"it runs a command", "claude-code-acp", `{"name":"mcp__acp__Bash","kind":"execute","rawInput":{"command":"git status","description":"d","timeout":1}}`,
			seen{kind: "tool.execute", commands: []string{"git status"}}},
		{"another adapter has a server of that name", "claude-agent-acp", `{"name":"mcp__acp__Write","kind":"edit","rawInput":{"file_path":"/ws/a","content":"x"}}`,
			seen{kind: "tool.edit", paths: []string{"w /ws/a"}, unparsed: "none of the agent's own"}},
		{"another agent has a tool of that name", "", `{"name":"Bash","kind":"other","rawInput":{"script":"ls"}}`,
			seen{kind: "tool.other", unparsed: unclear}},
		{"the former adapter of Codex explains a command", "codex-acp", `{"kind":"execute","rawInput":{"call_id":"c","turn_id":"1","command":["bash","-lc","ls"],"cwd":"/ws","reason":"r","available_decisions":["approved","abort"],"proposed_execpolicy_amendment":["ls"]},"content":[{"type":"content","content":{"type":"text","text":"r\nAvailable Decisions: approved"}}]}`,
			seen{kind: "tool.execute", commands: []string{"ls"}, cwd: "/ws"}},
		{"it asks for the network too", "codex-acp", `{"kind":"execute","rawInput":{"call_id":"c","turn_id":"1","command":["ls"],"cwd":"/ws","network_approval_context":{"host":"x","protocol":"https"}},"content":[{"type":"content","content":{"type":"text","text":"Network"}}]}`,
			seen{kind: "tool.execute", commands: []string{"ls"}, cwd: "/ws", unparsed: "network_approval_context"}},
		{"a member that says nothing does not ask for more", "codex-acp", `{"kind":"execute","rawInput":{"call_id":"c","turn_id":"1","command":["ls"],"cwd":"/ws","additional_permissions":null,"proposed_network_policy_amendments":[]}}`,
			seen{kind: "tool.execute", commands: []string{"ls"}, cwd: "/ws"}},

		// Cline.
		{"cline patches", "cline", `{"kind":"other","title":"apply_patch: 1 file","rawInput":{"input":` + patch("*** Begin Patch", "*** Update File: src/a.go", "@@", "-a", "+b", "*** End Patch") + `}}`,
			seen{kind: "tool.edit", paths: []string{"w /ws/src/a.go"}}},
		{"cline patches a file away", "cline", `{"kind":"edit","title":"apply_patch","rawInput":{"input":` + patch("*** Begin Patch", "*** Update File: a", "*** Move to: ../../x", "*** End Patch") + `}}`,
			seen{kind: "tool.edit", paths: []string{"w /ws/a", "w /ws/../../x outside"}, unparsed: "moves a file"}},
		{"cline's patch is the whole input", "cline", `{"kind":"other","title":"apply_patch","rawInput":` + patch("*** Begin Patch", "*** Add File: .env", "+A=1", "*** End Patch") + `}`,
			seen{kind: "tool.edit", paths: []string{"w /ws/.env"}}},
		{"cline patches nothing that is named", "cline", `{"kind":"other","title":"apply_patch","rawInput":{"input":"*** Begin Patch\n*** End Patch"}}`,
			seen{kind: "tool.edit", unparsed: "names no file"}},
		{"cline reads", "cline", `{"kind":"read","title":"read_files: a","rawInput":{"files":[{"path":"/ws/a","start_line":1,"end_line":null}]}}`,
			seen{kind: "tool.read", paths: []string{"r /ws/a"}}},
		{"cline runs commands", "cline", `{"kind":"execute","title":"run_commands: ls","rawInput":{"commands":["ls",{"command":"git","args":["status"]}]}}`,
			seen{kind: "tool.execute", commands: []string{"ls", "git status"}}},
		{"cline searches", "cline", `{"kind":"search","title":"search_codebase: TODO","rawInput":{"queries":["TODO"]}}`,
			seen{kind: "tool.search", paths: []string{"r /ws"}}},
		{"cline starts a sub-agent", "cline", `{"kind":"think","title":"spawn_agent","rawInput":{"systemPrompt":"x","task":"y"}}`,
			seen{kind: "tool.think", unparsed: "starts another"}},
		{"a tool of an MCP server of cline's", "cline", `{"kind":"other","title":"db__apply_patch: x","rawInput":{"input":` + patch("*** Update File: a") + `}}`,
			seen{kind: "tool.other", paths: []string{"w /ws/a"}, unparsed: "none of the agent's own"}},

		// Others.
		{"an extension of pi's asks", "pi-acp", `{"kind":"other","title":"Run rm?","rawInput":{"method":"confirm","title":"Run rm?","message":"rm -rf a"}}`,
			seen{kind: "tool.other", unparsed: "a question of its own"}},
		{"goose edits a file by what it calls a command", "goose", `{"kind":"edit","rawInput":{"path":"a","command":"view"}}`,
			seen{kind: "tool.execute", commands: []string{"view"}, paths: []string{"w /ws/a"}, unparsed: "does not call this one"}},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.want.check(t, askedBy(inSession(tt.agent), tt.report)) })
	}
}

func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

func TestPatch_Paths(t *testing.T) {
	for _, tt := range []struct {
		name, patch string
		paths       string
		doubt       string // contained in; empty: there is none
	}{
		{"unified", "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", "x x", ""},
		{"of plain names, with times", "--- src/x\t2024-01-01 00:00:00\n+++ src/x\t2024-01-02\n@@ -1 +1 @@\n", "src/x src/x", ""},
		{"with a name that has blanks", "--- my file\t\n+++ my file \n", "my file my file", ""},
		{"of a folder a", "--- a/x\n+++ a/x\n", "a/x a/x", ""},
		{"with CRLF", "--- a/../x\r\n+++ b/../x\r\n@@ -1 +1 @@\r\n", "../x ../x", ""},
		{"of the address of a file", "--- file:///etc/x\n+++ file:///etc/x\n", "file:///etc/x file:///etc/x", ""},
		{"a new file", "--- /dev/null\n+++ b/x\n", "x", ""},
		{"a file that goes", "--- a/x\n+++ /dev/null\n", "x", deletes},
		{"git's, of an empty file", "diff --git a/x y b/x y\nnew file mode 100644\n", "x y", ""},
		{"git's, of a file that goes", "diff --git a/x b/x\ndeleted file mode 100644\n", "x", deletes},
		{"git's, of a link", "diff --git a/x b/x\nnew file mode 120000\n--- /dev/null\n+++ b/x\n", "x x", "symbolic link"},
		{"git's, of a move", "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to /etc/y\n", "x /etc/y", moves},
		{"git's, of a copy", "diff --git a/x b/y\ncopy from x\ncopy to z\n", "z", "two names"},
		{"git's, with quotes", "diff --git \"a/\\303\\244\" \"b/\\303\\244\"\n", "", "two names"},
		{"a name in quotes", "--- \"a/x\"\n+++ \"b/\\056env\"\n", "", "in quotes"},
		{"apply_patch", "*** Begin Patch\n*** Add File: a\n+*** Delete File: b\n*** Update File: c\n*** Move to: ../../x\n*** End Patch", "a c ../../x", moves},
		{"apply_patch with CRLF and blanks", "*** Begin Patch\r\n  *** Delete File:  a b \r\n*** End Patch\r\n", "a b", deletes},
		{"apply_patch with lines that end in another way", "*** Begin Patch\r*** Update File: a\u2028*** Update File: b\v*** End Patch", "a b", ""},
		{"apply_patch of nothing", "*** Begin Patch\n*** End Patch", "", ""},
		{"a text with a rule", "--- \nhello\n--- a/x\nno header\n*** bold ***\n", "", ""},
		{"a removed line like a header in a hunk counts as one", "@@ -1,2 +1,2 @@\n--- a/y\n+++ b/y\n", "y y", ""},
	} {
		p := readPatch(tt.patch)
		doubts := strings.Join(p.doubts, "; ")
		if got := strings.Join(p.paths, " "); got != tt.paths || !strings.Contains(doubts, tt.doubt) || tt.doubt == "" && doubts != "" {
			t.Errorf("%s: got %q, doubts %q; want %q, %q", tt.name, got, doubts, tt.paths, tt.doubt)
		}
	}
}

// An agent of which nobody has heard, whose dialect is in the user's agents.json alone.
func TestDialect_FromConfiguration(t *testing.T) {
	d := &dialect.Dialect{}
	if err := jsonv2.Unmarshal([]byte(`{
		"tool_in_title": true, "environment": ["FROB_AGENT=1"], "members": {"why": "note"},
		"tools": {
			"frobnicate": {"kind": "edit", "members": {"object": "path", "frob": "text"}},
			"shoot": {"kind": "execute", "members": {"bullet": "command", "range": "directory", "smoke": "environment"}},
			"look": {"kind": "read", "input": "path"}
		}}`), d); err != nil {
		t.Fatal(err)
	}
	mine := inSession("frobber")
	mine.Configured = d
	for _, tt := range []struct {
		name, report string
		want         seen
	}{
		{"it edits", `{"title":"frobnicate: a.txt","rawInput":{"Object":"a.txt","frob":"x","why":{"so":"because"}}}`, seen{kind: "tool.edit", paths: []string{"w /ws/a.txt"}}},
		{"it runs", `{"title":"shoot","rawInput":{"bullet":"ls","range":"sub","smoke":{"FROB_AGENT":"1","A":"2"}}}`,
			seen{kind: "tool.execute", commands: []string{"ls"}, cwd: "/ws/sub", env: []string{"A=2"}}},
		{"it reads", `{"title":"look","rawInput":["a","b"]}`, seen{kind: "tool.read", paths: []string{"r /ws/a", "r /ws/b"}}},
		{"a tool that it does not have", `{"title":"aim","rawInput":{}}`, seen{kind: "unknown", unparsed: "none of the agent's own"}},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.want.check(t, askedBy(mine, tt.report)) })
	}
	other := askedBy(inSession("frobber"), `{"title":"frobnicate: a.txt","rawInput":{"object":"a.txt"}}`)
	if len(other.GetPaths()) != 0 || other.GetUnparsed() == "" {
		t.Errorf("another agent is read by that dialect too: %v", other)
	}
	call := Call(mine, "terminal/create", "terminal.create", []byte(`{"command":"ls","env":[{"name":"FROB_AGENT","value":"1"},{"name":"CLAUDECODE","value":"1"},{"name":"FROB_AGENT","value":"2"},{"name":"CLAUDECODE","value":"/x"}]}`))
	if got := call.GetCommand().GetEnv(); !slices.Equal(got, []string{"FROB_AGENT=2", "CLAUDECODE=/x"}) {
		t.Errorf("the environment that is judged is %q", got)
	}
}

func TestTitle_IsCommandInKnownVersions(t *testing.T) {
	s := inSession("gemini-cli")
	s.Version = "0.61.0"
	report := func(title, status, text string) string {
		return `{"kind":"execute","title":` + quote(title) + `,"status":` + quote(status) +
			`,"content":[{"type":"content","content":{"type":"text","text":` + quote(text) + `}}],"locations":[]}`
	}
	const here, trimmed = "[current working directory /elsewhere] (list [in /x])", "takes off or adds to"
	for name, tt := range map[string]struct {
		report, unclear string
		elsewhere       bool
	}{
		"in the session's folder":          {report: report("cat a.txt | head", "pending", here)},
		"in a folder that the model chose": {report: report("cat a.txt | head", "pending", "[in x] [current working directory /ws]"), elsewhere: true},
		"without a word on it":             {report: `{"kind":"execute","title":"ls","status":"pending","content":[]}`, elsewhere: true},
		"with another text beside it": {report: strings.Replace(report("ls", "pending", here), `"content":[`,
			`"content":[{"type":"content","content":{"type":"text","text":"[current working directory /ws]"}},`, 1), elsewhere: true},
		"once its output is there":           {report: report("cat a.txt | head", "completed", here), elsewhere: true},
		"with a space that does not break":   {report: report("cat .env\u00a0", "pending", here), unclear: trimmed},
		"with a carriage return":             {report: report("cat .env\r", "pending", here), unclear: trimmed},
		"with a byte order mark":             {report: report("\ufeffls", "pending", here), unclear: trimmed},
		"with a backslash at the end":        {report: report(`ls \`, "pending", here), unclear: trimmed},
		"with a shell in front":              {report: report("bash -c 'ls' | grep '; rm a; '", "pending", here), unclear: "begins with a shell"},
		"with the words of an older version": {report: report("ls [in sub] (list)", "pending", here), unclear: "("},
	} {
		t.Run(name, func(t *testing.T) {
			a := askedBy(s, tt.report)
			got := a.GetUnparsed() + a.GetCommand().GetUnparsed()
			if a.GetCommand() == nil || (got == "") != (tt.unclear == "") || !strings.Contains(got, tt.unclear) {
				t.Errorf("the command is %v, and unclear is %q, want %q", a.GetCommand(), got, tt.unclear)
			}
			if a.GetCommand().GetCwdDoubtful() != tt.elsewhere {
				t.Errorf("that it may run elsewhere is %v, want %v", !tt.elsewhere, tt.elsewhere)
			}
		})
	}
	for _, version := range []string{"", "0.35.3", "0.61.1"} {
		s.Version = version
		seen{kind: "tool.execute", unparsed: "does not say which"}.check(t, askedBy(s, report("ls", "pending", here)))
	}
}

func TestTitle_IsCommandOnlyIfConfigured(t *testing.T) {
	const report = `{"kind":"execute","title":"git status > out","content":[{"type":"content","content":{"type":"text","text":"why"}}],"locations":[]}`
	s := inSession("gemini-cli")
	seen{kind: "tool.execute", unparsed: "does not say which"}.check(t, askedBy(s, report))
	s.Configured = &dialect.Dialect{TitleIsCommand: true}
	a := askedBy(s, report)
	seen{kind: "tool.execute", commands: []string{"git status"}, paths: []string{"w /ws/out"}, unparsed: "in which directory the command runs"}.check(t, a)
	if !a.GetCommand().GetCwdDoubtful() {
		t.Error("Gemini CLI does not say where a command runs")
	}
	for name, report := range map[string]string{
		"one with an input":                   `{"kind":"execute","title":"ls","rawInput":{"x":1}}`,
		"one of another kind":                 `{"kind":"other","title":"ls"}`,
		"one without a title":                 `{"kind":"execute"}`,
		"one that cannot be read as it was":   `{"kind":"execute","title":"ls \ud800"}`,
		"one that says more than the command": `{"kind":"execute","title":"ls [in sub] (list"}`,
		"one that begins with a shell":        `{"kind":"execute","title":"bash -c 'ls' | grep '; rm a; '"}`,
		"one that begins with a shell's path": `{"kind":"execute","title":"/bin/sh\t-c ls"}`,
	} {
		if a := askedBy(s, report); a.GetUnparsed() == "" && a.GetCommand().GetUnparsed() == "" {
			t.Errorf("%s is understood: %v", name, a)
		}
	}
}

func TestOpenCode_QuestionAwaitsReport(t *testing.T) {
	s := inSession("OpenCode")
	tc := acp.ToolCall{Kind: "execute", RawInput: []byte(`{"command":"ls"}`)}
	if !s.Awaits(tc) || inSession("codex").Awaits(tc) || s.Awaits(acp.ToolCall{Kind: "edit", RawInput: []byte(`{"filepath":"a"}`)}) {
		t.Error("only a command of OpenCode's without a directory awaits a report")
	}
	tc.Reported = []byte(`{"command":"ls -l","cwd":"/ws"}`)
	if !s.Awaits(tc) {
		t.Error("the report of another command is enough")
	}
	tc.Reported = []byte(`{"command":"ls","cwd":"/ws"}`)
	if s.Awaits(tc) {
		t.Error("a report of the command is not enough")
	}
}

// What a hostile agent nests takes neither long nor much memory.
func TestInput_HostileNestingIsCheap(t *testing.T) {
	deep := func(open, inner, end string, n int) string {
		return strings.Repeat(open, n) + inner + strings.Repeat(end, n)
	}
	text := `"x"`
	for range 12 {
		text = quote("[" + text + "]")
	}
	forms := map[string]string{
		"lists":                  deep(`{"x":[`, `"/own/a"`, `]}`, 60),
		"paths in paths":         deep(`{"path":[`, `1`, `]}`, 60),
		"files that are objects": deep(`{"files":[{"x":1},`, `1`, `]}`, 60),
		"commands in commands":   deep(`{"commands":[`, `1`, `]}`, 60),
		"a command that is one":  deep(`{"command":`, `1`, `}`, 60),
		"ends":                   deep(`{"source":`, `1`, `}`, 60),
		"JSON in texts":          `{"x":` + text + `}`,
		"many members":           `{` + strings.TrimSuffix(strings.Repeat(`"a":"*** Add File: b",`, 20000), ",") + `}`,
		"many files":             `{"files":[` + strings.TrimSuffix(strings.Repeat(`{"path":"a"},`, 60000), ",") + `]}`,
		"many spellings":         manySpellings(),
		"a big patch":            `{"input":` + quote("*** Begin Patch\n"+strings.Repeat("--- a\n+++ b\n", 80000)) + `}`,
		"over the bound":         `{"x":"` + strings.Repeat("y", maxRawInput) + `","y":` + deep(`[`, `1`, `]`, 60) + `}`,
	}
	for name, raw := range forms {
		var a *permissionv1.Action
		testkit.TakesAtMost(t, 20*time.Second, name, func() {
			a = Question(inSession("cline"), acp.ToolCall{Kind: "other", Title: "x", RawInput: []byte(raw)})
		})
		if a.GetUnparsed() == "" || len(a.GetUnparsed()) > 64<<10 || len(a.GetPaths()) > maxPaths {
			t.Errorf("%s: %d bytes of doubts, %d paths", name, len(a.GetUnparsed()), len(a.GetPaths()))
		}
	}
}

// manySpellings names a member in all of its spellings, in many objects.
func manySpellings() string {
	var b strings.Builder
	b.WriteString(`{"x":[`)
	for n := range 4000 {
		name := []byte("filepath")
		for i := range name {
			if n>>i&1 == 1 {
				name[i] -= 'a' - 'A'
			}
		}
		fmt.Fprintf(&b, `{"filepath":"a","%s%s":"b"},`, name, strings.Repeat(" ", n>>8))
	}
	return strings.TrimSuffix(b.String(), ",") + `]}`
}
