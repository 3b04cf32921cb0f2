package intent

import (
	"fmt"
	"testing"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

func TestCodex_OtherQuestionsAreUnparsed(t *testing.T) {
	content := func(text string) string {
		return fmt.Sprintf(`"content":[{"type":"content","content":{"type":"text","text":%q}}]`, text)
	}
	for _, tt := range []struct {
		name, report string
		want         seen
	}{
		{"the network, for a host", `{"kind":"execute","title":"https network access to x.org","rawInput":{"command":"npm test","cwd":"/ws","url":"https://x.org"},` + content("https access to x.org") + `}`,
			seen{kind: "tool.execute", commands: []string{"npm test"}, cwd: "/ws", unparsed: "more than the action itself: url"}},
		{"the network, without a URL", `{"kind":"execute","rawInput":{"command":"npm test","cwd":"/ws"},` + content("socks5Tcp access to x.org") + `}`,
			seen{kind: "tool.execute", commands: []string{"npm test"}, cwd: "/ws", unparsed: "more than the command"}},
		{"more of the sandbox, with a command", `{"kind":"execute","rawInput":{"command":"npm test","cwd":"/ws","additionalPermissions":{"fileSystem":{"write":["/etc"]}}},"locations":[{"path":"/etc"}]}`,
			seen{kind: "tool.execute", commands: []string{"npm test"}, cwd: "/ws", paths: []string{"w /etc outside"}, unparsed: "additionalpermissions"}},
		{"more of the sandbox", `{"name":"request_permissions","kind":"other","title":"Additional sandbox permissions","rawInput":{"permissions":{"network":{"enabled":true}},"cwd":"/ws","environmentId":null},` + content("Enable network access") + `}`,
			seen{kind: "tool.other", paths: []string{"w /ws"}, unparsed: "more than the action itself: permissions"}},
		{"a tool of an MCP server", `{"kind":"execute","title":"mcp.s.t","rawInput":{"server":"s","tool":"t","arguments":{"command":"git status"}}}`,
			seen{kind: "tool.execute", commands: []string{"git status"}, unparsed: "arguments cannot be read"}},
		{"what an MCP server asks", `{"kind":"other","title":"Question from MCP server","rawInput":{"serverName":"s","description":"d","schema":{}},` + content("d") + `}`,
			seen{kind: "tool.other", unparsed: "a question of its own"}},
		{"a page to open", `{"kind":"fetch","title":"MCP server requests to open a URL","rawInput":{"serverName":"s","description":"d","url":"https://x.org"}}`,
			seen{kind: "tool.fetch", unparsed: "url"}},
		{"a plan", `{"kind":"switch_mode","title":"Implement this plan?","rawInput":{"plan":"p"}}`,
			seen{kind: "tool.switch_mode"}},
		{"a patch of which half is shown", `{"kind":"edit","content":[` + diff("/ws/a") + `],"locations":[{"path":"/ws/a"},{"path":"/ws/b"}]}`,
			seen{kind: "tool.edit", paths: []string{"w /ws/a", "w /ws/b"}, unparsed: "not shown in full"}},
		{"a patch that moves a file over another", `{"kind":"edit","content":[` + diff("/ws/a") + `,` + diff("/ws/a") + `],"locations":[{"path":"/ws/a"},{"path":"/ws/b"}]}`,
			seen{kind: "tool.edit", paths: []string{"w /ws/a", "w /ws/b"}, unparsed: "not shown in full"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var tc acp.ToolCall
			tc.Merge([]byte(tt.report))
			tt.want.check(t, Question(inSession("@agentclientprotocol/codex-acp"), tc))
		})
	}
}

func TestCodex_KeepsQuotesOfLine(t *testing.T) {
	for line, want := range map[string]string{
		`'/opt/my tool'`:       `'/opt/my tool'`,
		`"/opt/my tool"`:       `"/opt/my tool"`,
		`"/opt/my"/tool`:       `"/opt/my"/tool`,
		`ls 'a'"b"`:            `ls 'a'"b"`,
		`"ls '"'$x'"'"`:        `ls '$x'`,
		`'a ''^b'`:             `a ^b`,
		"'a\n''^b'":            "a\n^b",
		`"rm 'x' "'$y'" # 'z"`: `rm 'x' $y # 'z`,
	} {
		w := claim{line: line}
		w.requote()
		if w.line != want || (len(w.unclear) > 0) != (line != want) {
			t.Errorf("%s is read as %s, doubts %q; want %s", line, w.line, w.unclear, want)
		}
	}
}
