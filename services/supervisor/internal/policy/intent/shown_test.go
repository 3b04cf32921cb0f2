package intent

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

func TestShowsCommand_NeedsWholeCommand(t *testing.T) {
	texts := func(list ...string) string {
		var blocks []string
		for _, s := range list {
			blocks = append(blocks, fmt.Sprintf(`{"type":"content","content":{"type":"text","text":%q}}`, s))
		}
		return "[" + strings.Join(blocks, ",") + "]"
	}
	text := func(s string) string { return texts(s) }
	for _, tt := range []struct {
		name, title, content, input string
		want                        bool
	}{
		{"the title is the command", "git push", "", `{"command":"git push"}`, true},
		{"in backticks", "`git push`", "", `{"command":"git push"}`, true},
		{"behind a colon", "Run: git push", "", `{"command":"git push"}`, true},
		{"in a text", "Bash", text("```sh\ngit push\n```"), `{"command":"git push"}`, true},
		{"of an argv, the line", "git push", "", `{"command":["bash","-lc","git push"]}`, true},
		{"of an argv, the words", "git push origin", "", `{"command":["git","push","origin"]}`, true},
		{"behind a known word", "Run this:\ngit push", "", `{"command":"git push"}`, true},
		{"its second place counts, too", "run: `run`", "", `{"command":"run"}`, true},
		{"in a text of several lines", "", text("```bash\nif true\nthen\n    git push\nfi\n```"), `{"command":"if true\nthen\n    git push\nfi"}`, true},
		{"behind words that say the opposite", "Looks around, in particular not: git push", "", `{"command":"git push"}`, false},
		{"behind words on another line", "This is not run:\ngit push", "", `{"command":"git push"}`, false},
		{"before words that say the opposite", "`git push` is not run", "", `{"command":"git push"}`, false},
		{"with a second line that says the opposite", "git push\nis an example", "", `{"command":"git push"}`, false},
		{"its end behind spaces", "echo hello" + strings.Repeat(" ", 3000) + "; touch X", "", `{"command":"echo hello` + strings.Repeat(" ", 3000) + `; touch X"}`, false},
		{"its end behind a few spaces too many", "echo hello" + strings.Repeat(" ", 60) + "; touch X", "", `{"command":"echo hello` + strings.Repeat(" ", 60) + `; touch X"}`, false},
		{"its end behind tabs", "echo hello\t\t\t\t\t\t; touch X", "", `{"command":"echo hello\t\t\t\t\t\t; touch X"}`, false},
		{"its end behind empty lines", "echo hello\n\n\n\ntouch X", "", `{"command":"echo hello\n\n\n\ntouch X"}`, false},
		{"its end behind lines of one blank", "echo hello; \n \n \n \ntouch X", "", `{"command":"echo hello; \n \n \n \ntouch X"}`, false},
		{"its end behind continued lines", "echo hello" + strings.Repeat("      \\\n", 6) + "; touch X", "", `{"command":"echo hello` + strings.Repeat(`      \\\n`, 6) + `; touch X"}`, false},
		{"its end behind combining marks", "echo a" + strings.Repeat("\u0301", 200) + "; touch X", "", `{"command":"echo a` + strings.Repeat("\u0301", 200) + `; touch X"}`, false},
		{"with letters that have marks", "echo a\u0301 e\u0302\u0301", "", `{"command":"echo a\u0301 e\u0302\u0301"}`, true},
		{"on lines that go on", "docker run \\\n  --rm \\\n  x", "", `{"command":"docker run \\\n  --rm \\\n  x"}`, true},
		{"its end behind many lines", "echo hello" + strings.Repeat("\n:", 30) + "\ntouch X", "", `{"command":"echo hello` + strings.Repeat(`\n:`, 30) + `\ntouch X"}`, false},
		{"its end behind a comment", "echo hello # " + strings.Repeat("and so on ", 60) + "\ntouch X", "", `{"command":"echo hello # ` + strings.Repeat("and so on ", 60) + `\ntouch X"}`, false},
		{"its end behind blank letters", "echo hello" + strings.Repeat("\u3164", 9) + "; touch X", "", `{"command":"echo hello` + strings.Repeat("\u3164", 9) + `; touch X"}`, false},
		{"not within a long text", "", text(strings.Repeat("run\n", 5) + strings.Repeat(" ", 500) + "\ngit push"), `{"command":"git push"}`, false},
		{"behind a long text", "Read README.md", texts(strings.Repeat("a line\n", 3000), "git push"), `{"command":"git push"}`, false},
		{"behind many texts", "Read README.md", texts(append(slices.Repeat([]string{"x"}, 50), "git push")...), `{"command":"git push"}`, false},
		{"behind a long title", strings.Repeat("Read README.md ", 40), texts("git push"), `{"command":"git push"}`, false},
		{"behind a short text", "Bash", texts("It publishes the work.", "git push"), `{"command":"git push"}`, true},
		{"in a text for the model", "Read README.md", `[{"type":"content","content":{"type":"text","text":"git push","annotations":{"audience":["assistant"]}}}]`, `{"command":"git push"}`, false},
		{"behind a diff", "Edit", `[{"type":"diff","path":"/ws/a","newText":"x"},{"type":"content","content":{"type":"text","text":"git push"}}]`, `{"command":"git push"}`, false},
		{"a title says another one", "ls", "", `{"command":"git push"}`, false},
		{"no title at all", "", "", `{"command":"git push"}`, false},
		{"a part of it", "git", "", `{"command":"git push"}`, false},
		{"among other words", "echo git push", "", `{"command":"git push"}`, false},
		{"as the beginning of another", "git push --dry-run", "", `{"command":"git push"}`, false},
		{"in the middle of a word", "Look: remake", "", `{"command":"make"}`, false},
		{"far behind something else", "ls" + strings.Repeat("\n", 300) + "git push", "", `{"command":"git push"}`, false},
		{"behind what does not show", "ls \u202e`git push`", "", `{"command":"git push"}`, false},
		{"not its variables", "make", "", `{"command":"make","env":{"LD_PRELOAD":"/ws/x.so"}}`, false},
		{"harmless variables", "make", "", `{"command":"make","env":{"LC_ALL":"C"}}`, true},
		{"not its folder", "make", "", `{"command":"make","cwd":"/extra"}`, false},
		{"its folder", "make", text("Folder: /extra"), `{"command":"make","cwd":"/extra"}`, true},
		{"the session's folder", "make", "", `{"command":"make","cwd":"/ws"}`, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tc := acp.ToolCall{ID: "c", Title: tt.title, Kind: "execute", Content: []byte(tt.content), RawInput: []byte(tt.input)}
			if got := ShowsCommand(Question(inSession(""), tc), tc); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestShownFiles_ListsFilesOfQuestion(t *testing.T) {
	text := func(s string) string {
		return fmt.Sprintf(`[{"type":"content","content":{"type":"text","text":%q}}]`, s)
	}
	for _, tt := range []struct {
		title, content, path string
		want                 bool
	}{
		{"Read /ws/a.md", "", "/ws/a.md", true},
		{"Read a.md", "", "/ws/a.md", true},
		{"`sub/a.md`", "", "/ws/sub/a.md", true},
		{"Read File", text("a.md"), "/ws/a.md", true},
		{"Read a.md (lines 10-20)", "", "/ws/a.md", true},
		{"Read a.md:10-20", "", "/ws/a.md", true},
		{"Reading file: ./a.md", "", "/ws/a.md", true},
		{"List /ws", "", "/ws", true},
		{"Search for it", "", "/ws", true}, // the session's own folder
		{"Read a.md", "", "/ws/.env", false},
		{"Read a.md", "", "/ws/sub/a.md", false},
		{"Read File", "", "/ws/a.md", false},
		{"Read everything but a.md", "", "/ws/a.md", false},
		{"Read a.md is not what this does", "", "/ws/a.md", false},
		{"Read a.md" + strings.Repeat(" ", 100) + "/b", "", "/ws/a.md" + strings.Repeat(" ", 100) + "/b", false},
		{"Read a\u3164.md", "", "/ws/a\u3164.md", false},
	} {
		tc := acp.ToolCall{ID: "c", Title: tt.title, Kind: "read", Content: []byte(tt.content), RawInput: fmt.Appendf(nil, `{"file_path":%q}`, tt.path)}
		a := Question(inSession(""), tc)
		if len(a.GetPaths()) == 0 {
			a.Paths = []*permissionv1.PathAccess{{Path: tt.path}}
		}
		if got := len(ShownFiles(a, tc)) > 0; got != tt.want {
			t.Errorf("%q of %q: got %v, want %v", tt.title, tt.path, got, tt.want)
		}
	}
}

func TestShown_NamesFilesBehindLinks(t *testing.T) {
	action := func(path, resolved string) *permissionv1.Action {
		return &permissionv1.Action{Roots: []string{"/ws"}, ResolvedRoots: []string{"/real"},
			Paths: []*permissionv1.PathAccess{{Path: path, ResolvedPath: resolved}}}
	}
	call := action("/real/a", "/real/a")
	for name, tt := range map[string]struct {
		asked *permissionv1.Action
		want  bool
	}{
		"by its own name":            {action("/real/a", "/real/a"), true},
		"by the name of a root":      {action("/ws/a", "/real/a"), true},
		"through a link":             {action("/ws/b", "/real/a"), false},
		"nobody knows where it is":   {action("/real/a", ""), true},
		"another one":                {action("/ws/c", "/real/c"), false},
		"both by a link and by name": {&permissionv1.Action{Roots: []string{"/ws"}, ResolvedRoots: []string{"/real"}, Paths: append(action("/ws/b", "/real/a").Paths, action("/ws/a", "/real/a").Paths...)}, true},
	} {
		if got := NamesAsItLeads(tt.asked, call); got != tt.want {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
}
