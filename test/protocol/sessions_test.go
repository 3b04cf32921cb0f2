package protocol_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

func TestSession_AgentUsesItBeforeAnswer(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, nil)
	other := filepath.Join(p.Home, "other")
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	file := p.File(t, "../other/a.txt", "other\n")
	s.Reads("early", file).Refused(-32602) // it was not opened
	opening := s.Send("session/new", map[string]any{"cwd": other, "mcpServers": []any{}})
	asked := s.Agent.Expect("session/new")
	if got := e2e.Content(s.Reads("early", file)); got != "other\n" {
		t.Errorf("before the answer the agent read %q", got)
	}
	s.Agent.Reply(asked, map[string]any{"sessionId": "early"})
	opening.Result(nil)
	if got := e2e.Content(s.Reads("early", file)); got != "other\n" {
		t.Errorf("after the answer the agent read %q", got)
	}
	s.Reads("s1", file).Refused(-32602) // another session's roots
	s.Finish()
}

func TestSession_RootsComeFromOpeningRequest(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, nil)
	inner, more := p.File(t, "inner/a.txt", "inner\n"), p.File(t, "../more/b.txt", "more\n")
	loading := s.Send("session/load", map[string]any{"sessionId": "old", "cwd": filepath.Dir(inner), "additionalDirectories": []string{filepath.Dir(more)}, "mcpServers": []any{}})
	asked := s.Agent.Expect("session/load")
	s.Agent.Write(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"old","update":{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"replayed"}}}}`)
	s.Expect("session/update")
	s.Agent.Reply(asked, nil) // null, as some answer
	loading.Result(nil)
	for path, want := range map[string]string{inner: "inner\n", more: "more\n"} {
		if got := e2e.Content(s.Reads("old", path)); got != want {
			t.Errorf("%s is %q to the agent, want %q", path, got, want)
		}
	}
	s.Reads("old", p.File(t, "c.txt", "c\n")).Refused(-32602)
	// Loaded again with less, it has less.
	loading = s.Send("session/load", map[string]any{"sessionId": "old", "cwd": filepath.Dir(inner), "mcpServers": []any{}})
	s.Agent.Reply(s.Agent.Expect("session/load"), map[string]any{})
	loading.Result(nil)
	s.Reads("old", more).Refused(-32602)
	s.Finish()
}

func TestVersion2_PassesUnchanged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		answer  int
		handled bool
	}{
		{"the agent agrees to it", 2, false},
		{"the agent knows the first alone", 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := e2e.NewPlace(t)
			file := p.File(t, "a.txt", "a\n")
			st := p.Stage(t)
			h := p.Start(t, nil, st.Command)
			s := &e2e.Fixture{Host: h, Agent: st.Play(t)}
			h.Write(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":2,"info":{"name":"e","version":"1"},"capabilities":{"x":` + odd + `}}}`)
			asked := s.Agent.Expect("initialize")
			var got map[string]any
			asked.Decode(t, &got)
			if e2e.Dig(got, "capabilities", "x", "a") != 2.0 || e2e.Dig(got, "clientCapabilities", "fs", "readTextFile") != true {
				t.Errorf("the agent was offered %s", asked.Raw)
			}
			s.Agent.Reply(asked, map[string]any{"protocolVersion": c.answer})
			h.ExpectWhere("the answer", func(m wire.Message) bool { return string(m.ID) == `"i"` })
			s.Open("s1")
			if c.handled {
				if got := e2e.Content(s.Reads("s1", file)); got != "a\n" {
					t.Errorf("the agent read %q", got)
				}
			} else {
				forwards(s, "fs/read_text_file", fmt.Sprintf(`{"sessionId":"s1","path":%q}`, file))
			}
			s.Finish()
		})
	}
}
