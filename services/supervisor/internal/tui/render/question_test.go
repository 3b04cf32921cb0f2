package render

import (
	"fmt"
	"strings"
	"testing"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line %d\n", i+1)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func TestQuestion_CountsOmittedText(t *testing.T) {
	text := func(s string) *supervisorv1.ToolCallContent {
		return &supervisorv1.ToolCallContent{Item: &supervisorv1.ToolCallContent_Content{Content: &supervisorv1.ContentBlock{
			Content: &supervisorv1.ContentBlock_Text{Text: &supervisorv1.TextContent{Text: s}},
		}}}
	}
	permission := func(p *supervisorv1.PermissionQuestion) *supervisorv1.Approval {
		return &supervisorv1.Approval{Permission: p}
	}
	old := "before"
	for _, c := range []struct {
		name   string
		asked  *supervisorv1.Approval
		unseen Hidden
		last   string // what is shown at its end, once all is shown
	}{
		{"a short command", permission(&supervisorv1.PermissionQuestion{RawInput: `{"command":"make"}`}), Hidden{}, "make"},
		{"a command of acphost's own question", permission(&supervisorv1.PermissionQuestion{
			FromAcphost: true, Content: []*supervisorv1.ToolCallContent{text("```sh\n" + numbered(84) + "\n```")},
		}), Hidden{Lines: 78}, "line 84"},
		{"a command of the agent's", permission(&supervisorv1.PermissionQuestion{
			RawInput: fmt.Sprintf(`{"command":%q}`, numbered(100)),
		}), Hidden{Lines: 40}, "line 100"},
		{"a diff", permission(&supervisorv1.PermissionQuestion{Content: []*supervisorv1.ToolCallContent{{
			Item: &supervisorv1.ToolCallContent_Diff{Diff: &supervisorv1.Diff{Path: "a", NewText: numbered(100) + "\n"}},
		}}}), Hidden{Lines: 40}, "+line 100"},
		{"a diff that is too long to compare", permission(&supervisorv1.PermissionQuestion{Content: []*supervisorv1.ToolCallContent{{
			Item: &supervisorv1.ToolCallContent_Diff{Diff: &supervisorv1.Diff{Path: "a", OldText: &old, NewText: strings.Repeat("x", 1<<20) + "\nend\n"}},
		}}}), Hidden{Lines: 3}, "+end"},
		{"a long line", permission(&supervisorv1.PermissionQuestion{RawInput: fmt.Sprintf(`{"command":%q}`, strings.Repeat("x", 5000)+" middle "+strings.Repeat("x", 5000)+" end")}), Hidden{Characters: 5916}, " middle "},
		{"a long input", permission(&supervisorv1.PermissionQuestion{RawInput: fmt.Sprintf(`{"query":%q}`, strings.Repeat("x", 5000)+" middle "+strings.Repeat("x", 5000)+" end")}), Hidden{Characters: 9424}, " middle "},
		{"a long title", permission(&supervisorv1.PermissionQuestion{Title: strings.Repeat("x", 500) + " end"}), Hidden{Characters: 104}, " end"},
		{"many places", permission(&supervisorv1.PermissionQuestion{Locations: []*supervisorv1.Location{
			{Path: "/a"}, {Path: "/b"}, {Path: "/c"}, {Path: "/d"}, {Path: "/e"}, {Path: "/f"}, {Path: "/end"},
		}}), Hidden{Lines: 1}, "/end"},
		{"something unknown", permission(&supervisorv1.PermissionQuestion{Content: []*supervisorv1.ToolCallContent{{
			Item: &supervisorv1.ToolCallContent_Other{Other: `{"type":"new","end":1}`},
		}}}), Hidden{Lines: 1}, `"end":1}`},
		{"a form's message", &supervisorv1.Approval{Elicitation: &supervisorv1.Elicitation{Message: numbered(1000)}}, Hidden{Lines: 532}, "line 1000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Unseen(Options{}, c.asked); got != c.unseen {
				t.Errorf("%+v is not seen, want %+v:\n%s", got, c.unseen, Question(Options{}, c.asked))
			}
			if c.unseen.Any() && strings.Contains(Question(Options{}, c.asked), c.last) {
				t.Error("it is shown as a rule")
			}
			whole := Whole(Options{}, c.asked)
			if !strings.Contains(whole, c.last) || strings.Contains(whole, "… ") || strings.Contains(whole, "too much") {
				t.Errorf("all of it is\n%.3000s", whole)
			}
		})
	}
	if whole := Whole(Options{}, permission(&supervisorv1.PermissionQuestion{RawInput: `{"command":"make","cwd":"/else\u202e"}`})); !strings.Contains(whole, `"cwd":"/else\u202e"`) {
		t.Errorf("the input is left out: %s", whole)
	}
}

func TestQuestion_ShowsDiffAndInput(t *testing.T) {
	old := "one\ntwo\nthree\n"
	diff := []*supervisorv1.ToolCallContent{{Item: &supervisorv1.ToolCallContent_Diff{Diff: &supervisorv1.Diff{
		Path: "/ws/q", OldText: &old, NewText: "one\n2\nthree\n",
	}}}}
	const patch = "Index: /ws/q\n====\n--- /ws/q\n+++ /ws/q\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
	at := func(paths ...string) (list []*supervisorv1.Location) {
		for _, p := range paths {
			list = append(list, &supervisorv1.Location{Path: p})
		}
		return list
	}
	const shown = "    q +1 -1\n     one\n    -two\n    +2\n     three\n"
	for _, c := range []struct {
		name string
		p    *supervisorv1.PermissionQuestion
		want string
	}{
		{"where a command runs", &supervisorv1.PermissionQuestion{RawInput: `{"command":"make","cwd":"/etc"}`}, "    $ make\n    in /etc\n"},
		{"in the session's own directory", &supervisorv1.PermissionQuestion{RawInput: `{"command":"make","cwd":"/ws"}`}, "    $ make\n    in /ws\n"},
		{"by other names", &supervisorv1.PermissionQuestion{RawInput: `{"workdir":"a","command":["make"],"directory":"b\u202e","working_directory":"c"}`},
			"    $ make\n    in a\n    in b\\u{202e}\n    in c\n"},
		{"what else a command is given", &supervisorv1.PermissionQuestion{
			RawInput: `{"command":"ls","sudo":true,"env":{"LD_PRELOAD":"/evil.so"},"background":"rm -rf ~\n","description":"List","timeout":5,"is_background":false}`,
		}, "    $ ls\n    with sudo: true\n    with env: {\"LD_PRELOAD\":\"/evil.so\"}\n    with background: rm -rf ~\n"},
		{"a command twice", &supervisorv1.PermissionQuestion{RawInput: `{"command":"rm x","cmd":"rm y","command":"ls","args":["-l"]}`},
			"    $ ls -l\n    with command: rm x\n    with cmd: rm y\n"},
		{"arguments that are none", &supervisorv1.PermissionQuestion{RawInput: `{"command":"ls","args":{"a":1},"description":["x"],"timeout":"x","run_in_background":true}`},
			"    $ ls\n    with args: {\"a\":1}\n    with description: [\"x\"]\n    with timeout: x\n    with run_in_background: true\n"},
		{"many members", &supervisorv1.PermissionQuestion{RawInput: `{"command":"ls","a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1,"k":1,"l":1}`},
			"    $ ls\n    with a: 1\n    with b: 1\n    with c: 1\n    with d: 1\n    with e: 1\n    with f: 1\n    with g: 1\n    with h: 1\n    with i: 1\n    with j: 1\n    …\n"},
		{"an input that cannot be read, beside a change", &supervisorv1.PermissionQuestion{Content: diff, RawInput: `["x"]`}, shown + "    input: [\"x\"]\n"},
		{"another file than the change's", &supervisorv1.PermissionQuestion{
			Title: "Edit q", Content: diff, RawInput: `{"file_path":"/ws/OTHER","content":"EVIL"}`, Locations: at("/ws/q", "/ws/third", "/ws/OTHER"),
		}, shown + "    also names: third, OTHER\n    with content: EVIL\n"},
		{"another edit", &supervisorv1.PermissionQuestion{Content: diff, RawInput: `{"file_path":"q","old_string":"two","new_string":"3"}`},
			shown + "    with old_string: two\n    with new_string: 3\n"},
		{"another patch", &supervisorv1.PermissionQuestion{Content: diff, RawInput: `{"diff":"--- /ws/q\n+++ /ws/p\n+2\n"}`},
			shown + "    with diff: --- /ws/q +++ /ws/p +2\n"},
		{"a place of which the title names a part", &supervisorv1.PermissionQuestion{Title: "Read notes.txt", Locations: at("/ws/notes", "/ws/notes.txt")}, "    notes\n"},
		{"what a fetch is given beside its text", &supervisorv1.PermissionQuestion{
			Title: "Fetch http://a/b", RawInput: `{"url":"http://a/b","prompt":"why?","method":"DELETE"}`,
			Content: []*supervisorv1.ToolCallContent{{Item: &supervisorv1.ToolCallContent_Content{Content: &supervisorv1.ContentBlock{
				Content: &supervisorv1.ContentBlock_Text{Text: &supervisorv1.TextContent{Text: "why?"}},
			}}}},
		}, "    why?\n    with method: DELETE\n"},
		{"what Claude Code sends of an edit", &supervisorv1.PermissionQuestion{
			Title: "Edit q", Content: diff, Locations: at("/ws/q"),
			RawInput: `{"file_path":"/ws/q","old_string":"two","new_string":"2","replace_all":false}`,
		}, shown},
		{"what Qwen Code sends of a file", &supervisorv1.PermissionQuestion{Content: diff, RawInput: `{"file_path":"/ws/q","content":"one\n2\nthree\n"}`}, shown},
		{"what OpenCode sends of an edit", &supervisorv1.PermissionQuestion{Content: diff, RawInput: fmt.Sprintf(`{"filepath":"/ws/q","diff":%q}`, patch)}, shown},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked := &supervisorv1.Approval{Permission: c.p}
			if _, got, _ := strings.Cut(Question(Options{Cwd: "/ws"}, asked), "\n"); got != c.want {
				t.Errorf("shown is\n%s\nwant\n%s", got, c.want)
			}
			if whole := Whole(Options{}, asked); c.p.GetRawInput() != "" && !strings.Contains(whole, "input: "+strings.TrimSpace(c.p.GetRawInput())) {
				t.Errorf("all of it is\n%s", whole)
			}
		})
	}
}

// The title is the agent's, and may contradict the command that an answer allows.
func TestQuestion_ShowsCommandThatTitleContradicts(t *testing.T) {
	asked := &supervisorv1.Approval{Permission: &supervisorv1.PermissionQuestion{
		Title: "Read a.txt", Kind: "read", RawInput: `{"command":"rm -rf b","description":"Read a.txt"}`,
		Locations: []*supervisorv1.Location{{Path: "/ws/a.txt"}},
	}}
	for name, got := range map[string]string{"question": Question(Options{}, asked), "whole": Whole(Options{}, asked)} {
		if !strings.HasPrefix(got, "? The agent asks: Read a.txt\n    $ rm -rf b\n") {
			t.Errorf("%s is\n%s\nwant the title as the agent's, and the command", name, got)
		}
	}
	if got := QuestionSubject(asked); got != "$ rm -rf b" {
		t.Errorf("subject = %q, want the command", got)
	}
	asked.Permission.RawInput = `{"command":" \n"}`
	if got := QuestionSubject(asked); got != "Read a.txt" {
		t.Errorf("subject without a command = %q, want the title", got)
	}
}

func TestQuestion_LongLineShowsEnd(t *testing.T) {
	asked := &supervisorv1.Approval{Permission: &supervisorv1.PermissionQuestion{
		RawInput: fmt.Sprintf(`{"command":%q}`, "echo "+strings.Repeat("ü", 3000)+"; rm -rf ~"),
	}}
	text := Question(Options{}, asked)
	if !strings.Contains(text, "$ echo ü") || !strings.HasSuffix(text, "; rm -rf ~\n") || strings.Contains(text, "\ufffd") {
		t.Errorf("shown is %s", text)
	}
	if got, want := Unseen(Options{}, asked), 3015-strings.Count(text, "ü")-15; got.Characters != want || got.Lines != 0 {
		t.Errorf("%+v is not seen, want %d characters", got, want)
	}
	if got := (Hidden{Lines: 1, Characters: 2000}).Count("more "); got != "1 more line and 2,000 more characters" {
		t.Errorf("it is shown as %q", got)
	}
}

func TestAnswer_ReportsMissingAnswerer(t *testing.T) {
	options := []*supervisorv1.PermissionOption{{OptionId: "y", Name: "Allow once"}, {OptionId: "n", Name: "Reject"}}
	for want, a := range map[string]*supervisorv1.ApprovalAnswer{
		"no user answered (Reject)":                      {Outcome: "expired", OptionId: "n", AnsweredBy: "nobody"},
		"allowed (Allow once), because no user answered": {Outcome: "allowed", OptionId: "y", AnsweredBy: "nobody"},
		"cancelled": {Outcome: "cancelled", AnsweredBy: "nobody"},
	} {
		if got := Answer(a, options); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestHidden_WithholdsAnswersThatAllow(t *testing.T) {
	for name, c := range map[string]struct {
		hidden Hidden
		kind   string
		want   bool
	}{
		"lines, allow once":   {Hidden{Lines: 1}, "allow_once", true},
		"characters, always":  {Hidden{Characters: 1}, "allow_always", true},
		"lines, unknown kind": {Hidden{Lines: 1}, "ask_her", true},
		"lines, reject":       {Hidden{Lines: 1}, "reject_once", false},
		"all is shown":        {Hidden{Members: 1}, "allow_once", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.hidden.Withholds(&supervisorv1.PermissionOption{Kind: c.kind}); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
	if !(Hidden{Lines: 1}).Withholds(nil) {
		t.Error("a form whose message is hidden can be accepted")
	}
}
