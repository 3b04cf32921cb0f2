package e2e

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"testing"
)

// mcpStart is what the audit keeps of the start of an MCP server.
type mcpStart struct {
	Verdict, Rule, Outcome string
	AnsweredBy             string `json:"answered_by"`
	Action                 struct {
		Kind, Method, Title string
		Command             struct{ Argv, Env []string }
		Roots               []string
	}
}

// McpStarts reads the starts of MCP servers in the audit.
func (p *Place) McpStarts(t *testing.T) (all []mcpStart) {
	t.Helper()
	data := Must(t, filepath.Join(p.Home, ".local", "state", "acphost", "audit.jsonl"))
	if bytes.Contains(data, []byte("hush")) {
		t.Errorf("the audit has the value of a variable:\n%s", data)
	}
	for line := range bytes.Lines(data) {
		var s mcpStart
		if err := json.Unmarshal(line, &s); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if s.Action.Kind == "mcp.start" {
			all = append(all, s)
		}
	}
	return all
}
