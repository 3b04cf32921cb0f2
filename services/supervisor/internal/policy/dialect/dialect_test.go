package dialect

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestKnown_ReadsBuiltInDialects(t *testing.T) {
	all := known() // panics if one is not
	if len(all) < 9 {
		t.Errorf("got %d dialects", len(all))
	}
	for file, d := range all {
		if len(d.Notes) == 0 {
			t.Errorf("%s: nothing says where its facts come from", file)
		}
		if (len(d.Agents) == 0) != (file == commonFile) {
			t.Errorf("%s: it is for the agents %q", file, d.Agents)
		}
		if d.TitleIsCommand {
			t.Errorf("%s: titles of every version are for users to trust", file)
		}
		for _, a := range d.Agents {
			if Of(a) != d {
				t.Errorf("%s: an agent that calls itself %s has another dialect", file, a)
			}
		}
	}
}

func TestDialect_ChosenByAgentName(t *testing.T) {
	for name, file := range map[string]string{
		"@agentclientprotocol/claude-agent-acp": "agents/claude.json",
		"@zed-industries/claude-code-acp":       "agents/claude-code-acp.json",
		"OpenCode":                              "agents/opencode.json",
		"qwen-code":                             "agents/qwen.json",
		"Cline":                                 "agents/cline.json",
		"pi-acp":                                "agents/pi.json",
		"pilot":                                 "",
		"my-codex":                              "",
		"":                                      "",
	} {
		if got := Of(name); got != known()[file] {
			t.Errorf("%q: got the dialect of %v", name, got)
		}
	}
}

func TestParse_RejectsInvalidDialects(t *testing.T) {
	for text, want := range map[string]string{
		`{"members": {"Path": "path"}}`:                        `/members/Path: expected the name in lower case`,
		`{"members": {"a": "file"}}`:                           `/members/a: expected one of command, `,
		`{"tools": {"a/b": {"members": {"x": ""}}}}`:           `/tools/a~1b/members/x: expected one of`,
		`{"tools": {"a": {"kind": "write"}}}`:                  `/tools/a/kind: expected one of read, edit,`,
		`{"tools": {"a": {"input": "nothing"}}}`:               `/tools/a/input: expected one of`,
		`{"tools": {"": {}}}`:                                  `/tools: expected the names of tools`,
		`{"environment": ["A=1", "=1"]}`:                       `/environment/1: expected NAME=VALUE`,
		`{"titled": {"versions": [""]}}`:                       `/titled/versions: expected the versions`,
		`{"readings": ["guess"]}`:                              `/readings/0: expected one of requote, `,
		`{"members": {"a": "path"}, "environment": ["A=b"]}`:   ``,
		`{"tools": {"t": {"kind": "edit", "input": "patch"}}}`: ``,
	} {
		var d Dialect
		if err := json.Unmarshal([]byte(text), &d); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got := ""
		if m := d.Check(); m != nil {
			got = m.At + ": " + m.Message
		}
		if (want == "") != (got == "") || !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
	for _, text := range []string{`{"member": {}}`, `{"tools": {"a": {"doubts": "x"}}}`, `{"Members": {}}`} {
		if err := json.Unmarshal([]byte(text), &Dialect{}); err == nil {
			t.Errorf("%s: a member that a dialect does not have was taken", text)
		}
	}
}

func TestDialect_OverlayMerges(t *testing.T) {
	no := false
	below := &Dialect{
		Agents: []string{"x"}, Members: map[string]Meaning{"a": Path, "b": More}, Tools: map[string]Tool{"t": {Kind: "read"}},
		Readings: []Reading{Located}, Elsewhere: new(bool), Environment: []string{"A=1"},
	}
	*below.Elsewhere = true
	both := (&Dialect{Members: map[string]Meaning{"a": Note}, Tools: map[string]Tool{"u": {}}, Readings: []Reading{Located, Requote},
		Elsewhere: &no, TitleIsCommand: true, Environment: []string{"B=1"}}).Over(below)
	if both.Members["a"] != Note || both.Members["b"] != More || len(both.Tools) != 2 || len(both.Readings) != 2 || *both.Elsewhere ||
		!both.TitleIsCommand || len(both.Environment) != 2 {
		t.Errorf("got %+v", both)
	}
	if below.Members["a"] != Path || len(below.Tools) != 1 || len(below.Readings) != 1 || !*below.Elsewhere {
		t.Errorf("the one below was changed: %+v", below)
	}
	var none *Dialect
	if none.Over(below) != below || below.Over(nil) != below || none.Over(nil) != nil {
		t.Error("nothing over one, or one over nothing, is that one")
	}
}
