package intent

import "testing"

func TestWhatClaudeAsksIsNormalised(t *testing.T) {
	const nowhere = "in which directory the command runs"
	replayed(t, "claude.ndjson", "@agentclientprotocol/claude-agent-acp", []question{
		{"Read /etc/hostname", seen{kind: "tool.read", paths: []string{"r /etc/hostname outside"}}},
		{"Edit a.txt", seen{kind: "tool.edit", paths: []string{"w /ws/a.txt"}}},
		{"Write new.txt", seen{kind: "tool.edit", paths: []string{"w /ws/new.txt"}}},
		// However the model spells it, the path is absolute and the member file_path.
		{"Write rel.txt", seen{kind: "tool.edit", paths: []string{"w /ws/rel.txt"}}},
		{"Write rel2.txt", seen{kind: "tool.edit", paths: []string{"w /ws/rel2.txt"}}},
		{"Write /home/ada/rel3.txt", seen{kind: "tool.edit", paths: []string{"w /home/ada/rel3.txt outside"}}},
		{"touch made && cd sub", seen{kind: "tool.execute", commands: []string{"touch made", "cd sub"}}},
		// The directory of the line before counts, and only the location tells of it.
		{"echo hi > out.txt", seen{kind: "tool.execute", commands: []string{"echo hi"}, paths: []string{"w /ws/sub/out.txt", "w /ws/out.txt"}, unparsed: nowhere}},
		{"touch /outside", seen{kind: "tool.execute", commands: []string{"touch /outside", "rm -f x"}}},
		{"NotebookEdit", seen{kind: "tool.edit", paths: []string{"w /ws/nb.ipynb"}}},
		{"Fetch http://127.0.0.1:1/page", seen{kind: "tool.fetch"}},
		{"Monitor", seen{kind: "tool.execute", commands: []string{"touch mon"}, paths: []string{"w /ws/sub/mon"}}},
		{"mcp__db__sql", seen{kind: "tool.other"}},
		// The model gives a tool more than it takes, so that it looks like another one.
		{"mcp__db__sql", seen{kind: "tool.execute", commands: []string{"git status"}, unparsed: "not known to run any"}},
		{"mcp__db__sql", seen{kind: "tool.other", paths: []string{"w /ws/a.txt"}, unparsed: "not known to work on files"}},
		{"Workflow", seen{kind: "tool.other"}},
		{"Approve Plan", seen{kind: "tool.switch_mode"}},
	})
}
