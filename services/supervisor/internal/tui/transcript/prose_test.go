package transcript

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/testkit"
)

func TestProse_Markdown(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"paragraphs", "one\ntwo\n\nthree", "<p>one\ntwo</p>\n<p>three</p>\n"},
		{"emphasis", "a **b *c*** ~~d~~ __e__ _f_", "<p>a <strong>b <em>c</em></strong> <del>d</del> <strong>e</strong> <em>f</em></p>\n"},
		{"names are no emphasis", "snake_case_name, 2 * 3 * 4, a*", "<p>snake_case_name, 2 * 3 * 4, a*</p>\n"},
		{"code", "run `go test ./...` or ``a ` b``", "<p>run <code>go test ./...</code> or <code>a ` b</code></p>\n"},
		{"code without an end", "a ` b ``", "<p>a ` b ``</p>\n"},
		{"escapes", `\*a\* \<b\>`, "<p>*a* &lt;b&gt;</p>\n"},
		{"headings", "# One\n### Two ##", "<h4>One</h4>\n<h4>Two</h4>\n"},
		{"a list in a list", "- a\n  - b\n  - c\n- d\n\ntext", "<ul>\n<li>a<ul>\n<li>b</li>\n<li>c</li>\n</ul>\n</li>\n<li>d</li>\n</ul>\n<p>text</p>\n"},
		{"numbers", "1. a\n   more\n2. b", "<ol>\n<li>a\nmore</li>\n<li>b</li>\n</ol>\n"},
		{"numbers that continue after other text", "3. c\n4. d", "<ol start=\"3\">\n<li>c</li>\n<li>d</li>\n</ol>\n"},
		{"items apart, with code", "1. a\n\n   ```\n   x\n   ```\n\n2. b", "<ol>\n<li>a<pre>x</pre>\n</li>\n<li>b</li>\n</ol>\n"},
		{"boxes", "- [ ] a\n- [x] b", "<ul>\n<li>☐ a</li>\n<li>☑ b</li>\n</ul>\n"},
		{"quotes", "> a\n> - b", "<blockquote>\n<p>a</p>\n<ul>\n<li>b</li>\n</ul>\n</blockquote>\n"},
		{"code blocks", "```go\nif a < b {\n\n\t**x**\n}\n```\nthen", "<pre>if a &lt; b {\n\n\t**x**\n}</pre>\n<p>then</p>\n"},
		{"a code block without an end", "~~~\na\n```", "<pre>a\n```</pre>\n"},
		{"tables", "| a | b |\n|---|:-:|\n| `x\\|y` | z |\n", "<table>\n<tr><th>a</th><th>b</th></tr>\n<tr><td><code>x|y</code></td><td>z</td></tr>\n</table>\n"},
		{"a rule", "a\n\n---\nb", "<p>a</p>\n<hr>\n<p>b</p>\n"},
		{"links and pictures are shown, and lead nowhere", "[a](https://x) ![b](https://y)", "<p>[a](https://x) ![b](https://y)</p>\n"},
		{"HTML is text", "<b onclick=x>hi</b> &amp;", "<p>&lt;b onclick=x&gt;hi&lt;/b&gt; &amp;amp;</p>\n"},
	} {
		if got := string(prose(tt.text)); got != tt.want {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
}

func TestProse_HostileTextIsFast(t *testing.T) {
	for _, piece := range []string{"**a ", "`b ``c ", "_c *d ", "> ", "- ", "- \n", "> - ", "| a ", "\\", "#", "1. a\n", "  - a\n", "```", "\n", "x\n", "|-\n"} {
		text := strings.Repeat(piece, (64<<10)/len(piece))
		testkit.TakesAtMost(t, 10*time.Second, fmt.Sprintf("%q", piece), func() { // it takes some hundredths of a second
			if got := prose(text); len(got) == 0 && strings.TrimSpace(text) != "" {
				t.Errorf("%q: nothing is left", piece)
			}
		})
	}
}

func FuzzProse(f *testing.F) {
	f.Add("- a\n  1. *b*\n> | x | y |\n|-|-|\n```\n\n# h")
	f.Add("**_`~~a~~`_** \\* [ ] <x>")
	f.Fuzz(func(t *testing.T, text string) {
		got := string(prose(text))
		if i := strings.IndexAny(got, "\x1b\u202e\x07\x00"); i >= 0 {
			t.Errorf("%q has %q", got, got[i])
		}
		elementsAreOurs(t, got)
	})
}
