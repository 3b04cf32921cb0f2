package intent

import (
	"fmt"
	"strings"
	"testing"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

func TestACommandIsShownIfPeopleCanReadAllOfIt(t *testing.T) {
	text := func(s string) string {
		return fmt.Sprintf(`[{"type":"content","content":{"type":"text","text":%q}}]`, s)
	}
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
		{"in a line of its own", "Run this:\ngit push\nThank you", "", `{"command":"git push"}`, true},
		{"its second place counts, too", "make sure: `make`", "", `{"command":"make"}`, true},
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

func TestAFileIsNamedAsItLeadsUnlessALinkHidesIt(t *testing.T) {
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
