package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/acphost/acphost/test/wire"
)

// reads is the agent's request for a file, for a session.
func (s *scene) reads(session, path string) *wire.Call {
	s.t.Helper()
	return s.agent.Send("fs/read_text_file", map[string]any{"sessionId": session, "path": path})
}

func TestAnAgentMayUseASessionBeforeItsAnswer(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.scene(t, nil)
	other := filepath.Join(p.home, "other")
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	file := p.file(t, "../other/a.txt", "other\n")
	s.reads("early", file).Refused(-32602) // nobody has opened it
	opening := s.Send("session/new", map[string]any{"cwd": other, "mcpServers": []any{}})
	asked := s.agent.Expect("session/new")
	if got := content(s.reads("early", file)); got != "other\n" {
		t.Errorf("before the answer the agent read %q", got)
	}
	s.agent.Reply(asked, map[string]any{"sessionId": "early"})
	opening.Result(nil)
	if got := content(s.reads("early", file)); got != "other\n" {
		t.Errorf("after the answer the agent read %q", got)
	}
	s.reads("s1", file).Refused(-32602) // another session's roots
	s.finish()
}

func TestRootsAreThoseOfTheRequestThatOpensASession(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.scene(t, nil)
	inner, more := p.file(t, "inner/a.txt", "inner\n"), p.file(t, "../more/b.txt", "more\n")
	loading := s.Send("session/load", map[string]any{"sessionId": "old", "cwd": filepath.Dir(inner), "additionalDirectories": []string{filepath.Dir(more)}, "mcpServers": []any{}})
	asked := s.agent.Expect("session/load")
	s.agent.Write(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"old","update":{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"replayed"}}}}`)
	s.Expect("session/update")
	s.agent.Reply(asked, nil) // null, as some answer
	loading.Result(nil)
	for path, want := range map[string]string{inner: "inner\n", more: "more\n"} {
		if got := content(s.reads("old", path)); got != want {
			t.Errorf("%s is %q to the agent, want %q", path, got, want)
		}
	}
	s.reads("old", p.file(t, "c.txt", "c\n")).Refused(-32602)
	// Loaded again with less, it has less.
	loading = s.Send("session/load", map[string]any{"sessionId": "old", "cwd": filepath.Dir(inner), "mcpServers": []any{}})
	s.agent.Reply(s.agent.Expect("session/load"), map[string]any{})
	loading.Result(nil)
	s.reads("old", more).Refused(-32602)
	s.finish()
}

func TestASecondVersionOfTheProtocolIsLeftAlone(t *testing.T) {
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
			p := newPlace(t)
			file := p.file(t, "a.txt", "a\n")
			st := p.newStage(t)
			h := p.start(t, nil, st.command)
			s := &scene{host: h, agent: st.play(t)}
			h.Write(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":2,"info":{"name":"e","version":"1"},"capabilities":{"x":` + odd + `}}}`)
			asked := s.agent.Expect("initialize")
			var got map[string]any
			asked.Decode(t, &got)
			if dig(got, "capabilities", "x", "a") != 2.0 || dig(got, "clientCapabilities", "fs", "readTextFile") != true {
				t.Errorf("the agent was offered %s", asked.Raw)
			}
			s.agent.Reply(asked, map[string]any{"protocolVersion": c.answer})
			h.ExpectWhere("the answer", func(m wire.Message) bool { return string(m.ID) == `"i"` })
			s.open("s1")
			if c.handled {
				if got := content(s.reads("s1", file)); got != "a\n" {
					t.Errorf("the agent read %q", got)
				}
			} else {
				s.forwards("fs/read_text_file", fmt.Sprintf(`{"sessionId":"s1","path":%q}`, file))
			}
			s.finish()
		})
	}
}
