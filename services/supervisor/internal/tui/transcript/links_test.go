package transcript

import (
	"regexp"
	"strings"
	"testing"
)

// hostileLinks are links that run or open something, one each.
var hostileLinks = []string{
	"[x](javascript:alert(1))", "[x](JavaScript:alert(1))", "[x]( javascript:alert(1))", "[x](\tjavascript:alert(1))", "[x](java\tscript:alert(1))", "[x](java script:alert(1))",
	"[x](javascript&colon;alert(1))", "[x](&#106;avascript:alert(1))", "[x](&#x6A;avascript:alert(1))", "[x](&#0000106avascript:alert(1))", "[x](java&Tab;script:alert(1))",
	"[x](java&NewLine;script:alert(1))", "[x](java&#10;script:alert(1))", "[x](&amp;#106;avascript:alert(1))", `[x](javascript\:alert(1))`, `[x](j\avascript:alert(1))`,
	"[x](\njavascript:alert(1))", "[x](<javascript:alert(1)>)", "[x](< javascript:alert(1)>)", "[x](&lt;javascript:alert(1)&gt;)", "[x](javascript:alert(1) \"title\")",
	"[x](data:text/html,<script>alert(1)</script>)", "[x](data:text/html;base64,PHNjcmlwdD4=)", "[x](vbscript:msgbox(1))", "[x](file:///etc/passwd)", "[x](vscode://x/y)",
	"[x](ms-msdt:/id)", "[x](blob:https://x/y)", "[x](view-source:https://x)", "[a [b] c](javascript:alert(1))", "[![x](y)](javascript:alert(1))", "![[x](javascript:alert(1))](y)",
	"[`x`](javascript:alert(1))", "**[x](javascript:alert(1))**", "- [x](javascript:alert(1))", "> [x](javascript:alert(1))", "# [x](javascript:alert(1))", "| [x](javascript:alert(1)) |",
	`[x\\](javascript:alert(1))`, "[x](\u200bjavascript:alert(1))", "[x](java\u00adscript:alert(1))", "[ok](https://x) [x](javascript:alert(1))", "[x](\x01javascript:alert(1))",
	"![x](javascript:alert(1))", "![x](data:image/svg+xml,<svg/onload=alert(1)>)", "![x](https://tracker/x.png)", "![x][r]\n\n[r]: https://tracker/x.png",
	"[x][r]\n\n[r]: javascript:alert(1)", "[r]\n\n[r]:javascript:alert(1)", "[x][r]\n\n[r]:\n  javascript:alert(1)", "[x][r]\n\n[R] : <javascript:alert(1)>", "[x][r\ns]\n\n[r\ns]: javascript:alert(1)",
	"<javascript:alert(1)>", "<JAVASCRIPT:alert(1)>", "<data:text/html,x>", "<a href=javascript:alert(1)>x</a>", "<a href='java&#115;cript:alert(1)'>x</a>", "<img src=x onerror=alert(1)>",
	"<svg/onload=alert(1)>", "<iframe src=javascript:alert(1)>", "<!-- --><script>alert(1)</script>", "xmpp:me@example.com/?body=x",
}

// links of Markdown: inline, with the text before the address; definitions; text between angle brackets.
var (
	inlineLink  = regexp.MustCompile(`(?s)(^|[^\\])\]\(`)
	definition  = regexp.MustCompile(`(^|[^\\])\]\s*:`)
	picture     = regexp.MustCompile(`!\[`)
	chatAddress = regexp.MustCompile(`(?i)xmpp:`)
)

func TestLinks_RemovesDangerousLinks(t *testing.T) {
	for _, text := range hostileLinks {
		got := quoted(text)
		for _, m := range inlineLink.FindAllStringIndex(got, -1) {
			if to := got[m[1]:]; !strings.HasPrefix(to, "https://") && !strings.HasPrefix(to, "y)") {
				t.Errorf("%q became %q, which is a link", text, got)
			}
		}
		if definition.MatchString(got) || picture.MatchString(got) || strings.Contains(got, "<") || chatAddress.MatchString(got) {
			t.Errorf("%q became %q", text, got)
		}
		page := string(prose(text))
		elementsAreOurs(t, page)
		if strings.Contains(page, "href") && !strings.Contains(text, "href") || strings.Contains(page, "<a") {
			t.Errorf("%q became %q", text, page)
		}
		if one := plain(text); regexp.MustCompile(`(^|[^\\])[\[\]<]`).MatchString(one) {
			t.Errorf("on one line %q became %q", text, one)
		}
	}
}

func TestLinks_KeepsPages(t *testing.T) {
	for _, text := range []string{
		"[x](https://example.com/a?b=c#d)", "[x](http://example.com)", "[x](HTTPS://example.com)", "[x](mailto:me@example.com)", "[x](docs/a.md)", "[x](./a.md#b)", "[x](../a)", "[x](/a/b)",
		"[x](#part)", "[x](a.md \"a: title\")", "[x](https://example.com \"title\")", "[x](https://en.wikipedia.org/wiki/A_(b))", "see [x](a.md), [y](b.md)", "[x](src/main.go:12)", "[x]()",
		"[ ] a box", "f(a[i](b))", "`a[0](x)`",
	} {
		if got := strings.TrimSuffix(strings.TrimPrefix(quoted(text), "> "), "\n"); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func TestLinks_LimitsNumber(t *testing.T) {
	const link = "[a](http://x) "
	got := disableLinks(strings.Repeat(link, 1<<15))
	if !strings.HasPrefix(got, link) || !strings.HasSuffix(got, `[a]\(http://x) `) {
		t.Errorf("the first link is %q and the last %q: the first may stay, and the last is more than is looked at", got[:len(link)], got[len(got)-len(link)-1:])
	}
	if got := disableLinks("[a](" + strings.Repeat(" ", maxAddress) + "javascript:x)"); !strings.HasPrefix(got, `[a]\(`) {
		t.Errorf("a link whose address begins late stays: %.20q", got)
	}
}
