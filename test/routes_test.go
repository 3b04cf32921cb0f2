package e2e_test

import (
	"fmt"
	"os"
	"slices"
	"testing"
)

// forwards sends a request of the agent's, expects it at the editor as it was sent, and the editor's answer at the agent.
func (s *scene) forwards(method, params string) {
	s.t.Helper()
	line := fmt.Sprintf(`{"jsonrpc":"2.0","id":"f","method":%q,"params":%s}`, method, params)
	s.agent.Write(line)
	if got := s.Expect(method); string(got.Raw) != line {
		s.t.Errorf("the editor got\n%s\nwant\n%s", got.Raw, line)
	}
	answer := `{"id":"f","result":{"odd":` + odd + `},"jsonrpc":"2.0"}`
	s.Write(answer)
	if got := s.agent.Next(); string(got.Raw) != answer {
		s.t.Errorf("the agent got\n%s\nwant\n%s", got.Raw, answer)
	}
}

func TestFilesThatAreLeftToTheEditorPassAsTheyAre(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.file(t, "a.txt", "on the disk\n")
	s := p.sceneWith(t, `{"fs":{"readTextFile":true,"writeTextFile":true}}`, []string{"--fs=front"}, nil)
	read := fmt.Sprintf(`{"sessionId":"s1","path":%q,"x":%s}`, p.path("a.txt"), odd)
	s.forwards("fs/read_text_file", read)
	s.forwards("fs/write_text_file", fmt.Sprintf(`{"path":%q,"content":"x","sessionId":"s1"}`, p.path("b.txt")))
	if _, err := os.Stat(p.path("b.txt")); err == nil {
		t.Error("a file was written that the editor should have")
	}
	// Terminals are served here all the same.
	s.agent.Request("terminal/run", params("command", "true"), nil)
	s.finish()
}

func TestEachMethodGoesWhereConfigurationSays(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.file(t, "a.txt", "a\n")
	s := p.sceneWith(t, `{"fs":{"readTextFile":true,"writeTextFile":true},"terminal":true}`,
		p.config(t, "routes: {fs/write_text_file: front, \"terminal/*\": deny, _acme/x: deny}\n"), nil)
	if got := content(s.read("a.txt")); got != "a\n" {
		t.Errorf("fsd read %q", got)
	}
	s.forwards("fs/write_text_file", fmt.Sprintf(`{"sessionId":"s1","path":%q,"content":"x"}`, p.path("b.txt")))
	for _, method := range []string{"terminal/create", "terminal/output", "terminal/run", "_acme/x"} {
		s.agent.Send(method, params("command", "touch made", "terminalId", "t")).Refused(-32601)
	}
	s.forwards("_acme/y", `{"sessionId":"s1"}`)
	s.finish()
	// A flag is stronger than the file.
	again := p.sceneWith(t, `{}`, slices.Concat(p.config(t, "routes: {\"fs/*\": deny}\n"), []string{"--fs=handler"}), nil)
	if got := content(again.read("a.txt")); got != "a\n" {
		t.Errorf("fsd read %q", got)
	}
	again.finish()
}

func TestARouteThatCannotBeFailsTheStart(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	st := p.newStage(t)
	h := p.start(t, p.config(t, "routes: {_acme/x: handler}\n"), st.command)
	st.play(t)
	expectContains(t, "the error", h.initialize(`{}`).Refused(-32603).Message, "_acme/x")
	if status := h.ExpectExit(); status != 1 {
		t.Errorf("the exit status is %d, want 1", status)
	}
}
