package render

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

const document = "# A heading with `code`\n\nSome **bold words**, *slanted*, ***both***, ~~gone~~ and `a ** b`; 2 * 3 * 4 and snake_case_name stay.\n" +
	"\n- one\n- two has a text that is so long that it has to be broken into lines\n  - [ ] open\n  - [x] done\n1. first\n2. second\n\n" +
	"> quoted **text**\n> more\n\n---\n\n" +
	"A [link](https://example.com/a) and ![a picture](https://example.com/p.png) and [not a link] here.\n\n" +
	"| name | `size` |\n|------|-----:|\n| a.go | 12 |\n| 日本.go | **3** |\n\n" +
	"| no table\n\n" +
	"```go\n// main does it.\nfunc main() {\n\tfmt.Println(\"hello\", 42) /* not\n\tyet */ return\n}\n```\n\nunclosed **bold and `code\n\n" +
	"   ```\n   indented\n   ```\n\nThe *end* of it\n```python\nprint('open"

// whole is a whole message.
func whole(o Options, text string) string {
	m := newMarkdown(o)
	return m.add(text) + m.end()
}

func TestMarkdown_MatchesGoldenFiles(t *testing.T) {
	testkit.Golden(t, "markdown.ansi", whole(Options{Width: 60, Color: true}, document))
	testkit.Golden(t, "markdown.txt", whole(Options{Width: 60}, document))
}

func TestMarkdown_PiecesRenderTheSame(t *testing.T) {
	o := Options{Width: 60, Color: true}
	want := whole(o, document)
	for _, size := range []int{1, 2, 3, 7, 64} {
		m := newMarkdown(o)
		var got strings.Builder
		for rest := document; rest != ""; {
			piece, _ := safetext.Prefix(rest, size)
			if piece == "" {
				_, n := utf8.DecodeRuneInString(rest)
				piece = rest[:n]
			}
			rest = rest[len(piece):]
			got.WriteString(m.add(piece))
		}
		got.WriteString(m.end())
		if got.String() != want {
			t.Errorf("in pieces of %d bytes:\ngot  %q\nwant %q", size, got.String(), want)
		}
	}
}

func TestMarkdown_ShowsPartialLine(t *testing.T) {
	m := newMarkdown(Options{Width: 60, Color: true})
	if got := m.add("Words come one by o"); got != "Words come one by" {
		t.Errorf("got %q", got)
	}
	if got := m.add("ne, **bold"); got != " one," {
		t.Errorf("got %q", got)
	}
	if got := m.add("** too "); got != " \x1b[1mbold\x1b[0m too" {
		t.Errorf("got %q", got)
	}
}

func TestMarkdown_ShowsPartialWordOnPause(t *testing.T) {
	chunk := func(text string) *supervisorv1.Event {
		return &supervisorv1.Event{Event: &supervisorv1.Event_AgentMessage{AgentMessage: &supervisorv1.MessageChunk{
			Content: &supervisorv1.ContentBlock{Content: &supervisorv1.ContentBlock_Text{Text: &supervisorv1.TextContent{Text: text}}}}}}
	}
	r := New(Options{Width: 60, Color: true, Markdown: true})
	got := []string{r.Pause(), r.Event(chunk("Wait a mom")), r.Pause(), r.Pause(), r.Event(chunk("ent. ")), r.Flush()}
	if want := []string{"", "Wait a", " mom", "", "ent.", "\n"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestMarkdown_LimitsOpenSpan(t *testing.T) {
	m := newMarkdown(Options{Width: 60, Color: true})
	got := m.add("a **" + strings.Repeat("word ", 200))
	if !strings.Contains(got, "**word") {
		t.Errorf("got %q", got)
	}
}

func TestMarkdown_LinesFitWidth(t *testing.T) {
	const text = "Wörter und 日本語のとても長い文章 and anextremelylongwordthatdoesnotfitanywhereatall_at_all here, 👩‍👩‍👧‍👦 too.\n- " +
		"a list item 日本語のとても長い文章 with more text than fits\n> and a quote that is longer than the line is wide\n"
	for _, w := range []int{20, 33, 80} {
		for line := range strings.Lines(whole(Options{Width: w, Color: true}, text)) {
			line = stripped(strings.TrimSuffix(line, "\n"))
			if n := safetext.Width(line); n > w && !strings.Contains(line, "anextremely") {
				t.Errorf("at %d columns a line has %d: %q", w, n, line)
			}
		}
	}
}

func FuzzMarkdown(f *testing.F) {
	f.Add(document, 5, 40)
	f.Add("**a*b_`~~[x](y", 1, 20)
	f.Add("\x1b]0;title\a \u202eevil\r\n> - # ```", 2, 0)
	f.Fuzz(func(t *testing.T, text string, size, columns int) {
		if len(text) > 4<<10 {
			return
		}
		o := Options{Width: max(columns, 0) % 200, Color: true}
		harmlessText(t, whole(o, text))
		size = max(size, 1)%50 + 1
		m := newMarkdown(o)
		var got strings.Builder
		for rest := strings.ToValidUTF8(text, "\ufffd"); rest != ""; {
			piece, _ := safetext.Prefix(rest, size)
			if piece == "" {
				_, n := utf8.DecodeRuneInString(rest)
				piece = rest[:n]
			}
			rest = rest[len(piece):]
			got.WriteString(m.add(piece))
		}
		got.WriteString(m.end())
		harmlessText(t, got.String())
	})
}

func TestMarkdown_LongWordFillsLines(t *testing.T) {
	word := `{"report":{"ask":` + strings.Repeat("0123456789", 30) + "}}}"
	wide := strings.Repeat("日", 90)
	for _, pieces := range [][]string{{"see " + word + " there " + wide + "\n"}, strings.Split("see "+word+" there "+wide+"\n", "")} {
		r := New(Options{Width: 40, Markdown: true})
		var text strings.Builder
		for _, p := range pieces {
			text.WriteString(r.Event(saidText(p)))
		}
		text.WriteString(r.Flush())
		lines := strings.Split(strings.TrimSpace(text.String()), "\n")
		for i, l := range lines {
			if n := safetext.Width(l); n > 40 {
				t.Errorf("a line has %d columns: %q", n, l)
			} else if i > 0 && i < 7 && n < 38 {
				t.Errorf("line %d has %d columns only: %q", i, n, l)
			}
		}
		if got := strings.ReplaceAll(strings.ReplaceAll(text.String(), "\n", ""), " ", ""); got != "see"+word+"there"+wide {
			t.Errorf("it shows %q", got)
		}
	}
}
