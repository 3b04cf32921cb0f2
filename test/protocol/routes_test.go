package protocol_test

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/acphost/acphost/test/e2e"
)

func TestRoutes_FilesLeftToEditorPassUnchanged(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	p.File(t, "a.txt", "on the disk\n")
	s := p.FixtureWith(t, `{"fs":{"readTextFile":true,"writeTextFile":true}}`, []string{"--fs=front"}, nil)
	read := fmt.Sprintf(`{"sessionId":"s1","path":%q,"x":%s}`, p.Path("a.txt"), odd)
	forwards(s, "fs/read_text_file", read)
	forwards(s, "fs/write_text_file", fmt.Sprintf(`{"path":%q,"content":"x","sessionId":"s1"}`, p.Path("b.txt")))
	if _, err := os.Stat(p.Path("b.txt")); err == nil {
		t.Error("a file was written that the editor should have")
	}
	// Terminals are served here nevertheless.
	s.Agent.Request("terminal/run", e2e.Params("command", "true"), nil)
	s.Finish()
}

func TestRoutes_FollowConfiguration(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	p.File(t, "a.txt", "a\n")
	s := p.FixtureWith(t, `{"fs":{"readTextFile":true,"writeTextFile":true},"terminal":true}`,
		p.Config(t, "routes: {fs/write_text_file: front, \"terminal/*\": deny, _acme/x: deny}\n"), nil)
	if got := e2e.Content(s.Read("a.txt")); got != "a\n" {
		t.Errorf("fsd read %q", got)
	}
	forwards(s, "fs/write_text_file", fmt.Sprintf(`{"sessionId":"s1","path":%q,"content":"x"}`, p.Path("b.txt")))
	for _, method := range []string{"terminal/create", "terminal/output", "terminal/run", "_acme/x"} {
		s.Agent.Send(method, e2e.Params("command", "touch made", "terminalId", "t")).Refused(-32601)
	}
	forwards(s, "_acme/y", `{"sessionId":"s1"}`)
	s.Finish()
	// A flag is stronger than the file.
	again := p.FixtureWith(t, `{}`, slices.Concat(p.Config(t, "routes: {\"fs/*\": deny}\n"), []string{"--fs=handler"}), nil)
	if got := e2e.Content(again.Read("a.txt")); got != "a\n" {
		t.Errorf("fsd read %q", got)
	}
	again.Finish()
}

func TestRoutes_InvalidFailsStart(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	st := p.Stage(t)
	h := p.Start(t, p.Config(t, "routes: {_acme/x: handler}\n"), st.Command)
	st.Play(t)
	e2e.ExpectContains(t, "the error", h.Initialize(`{}`).Refused(-32603).Message, "_acme/x")
	if status := h.ExpectExit(); status != 1 {
		t.Errorf("the exit status is %d, want 1", status)
	}
}

// forwards sends a request of the agent, and expects it unchanged at the editor, and the editor's response unchanged at
// the agent.
func forwards(s *e2e.Fixture, method, params string) {
	s.T.Helper()
	line := fmt.Sprintf(`{"jsonrpc":"2.0","id":"f","method":%q,"params":%s}`, method, params)
	s.Agent.Write(line)
	if got := s.Expect(method); string(got.Raw) != line {
		s.T.Errorf("the editor got\n%s\nwant\n%s", got.Raw, line)
	}
	answer := `{"id":"f","result":{"odd":` + odd + `},"jsonrpc":"2.0"}`
	s.Write(answer)
	if got := s.Agent.Next(); string(got.Raw) != answer {
		s.T.Errorf("the agent got\n%s\nwant\n%s", got.Raw, answer)
	}
}
