package markdown

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// spelled writes what is read, spelled out.
type spelled struct{ strings.Builder }

func (s *spelled) Text(text string) { s.WriteString(text) }
func (s *spelled) Code(code string) { s.WriteString("<" + code + ">") }
func (s *spelled) Emphasis(e Emphasis, within func()) {
	fmt.Fprintf(s, "%d{", e)
	within()
	s.WriteByte('}')
}

func (s *spelled) Link(picture bool, _, address string, within func()) {
	fmt.Fprintf(s, "link %v %s{", picture, address)
	within()
	s.WriteByte('}')
}

func TestSpans_Styles(t *testing.T) {
	for text, want := range map[string]string{
		"a **b *c*** ~~d~~ __e__ _f_ ***g***":        "a 2{b 1{c}} 4{d} 2{e} 1{f} 3{g}",
		"snake_case_name, 2 * 3 * 4, a*, ~a~":        "snake_case_name, 2 * 3 * 4, a*, ~a~",
		"`a\nb` or ``a ` b`` and a ` b ```":          "<a b> or <a ` b> and a ` b ```",
		"[*a*](x) ![b](y) [c] ![d] [](z)":            "link false x{1{a}} link true y{b} [c] ![d] link false z{}",
		`\*a\* \<b\> \$ \u{1b} ` + "\\\u05d0 " + `\`: `*a* <b> $ \u{1b} ` + "\\\u05d0 " + `\`,
		"*" + strings.Repeat("a", 401) + "*":         "*" + strings.Repeat("a", 401) + "*",
	} {
		var got spelled
		s := Spans{W: &got}
		s.Begin()
		if n := s.Read(text, true); n != len(text) || got.String() != want {
			t.Errorf("%q: %d bytes are %q, want %q", text, n, got.String(), want)
		}
	}
}

func TestSpans_WaitForOpenSpan(t *testing.T) {
	for text, want := range map[string]int{"a *b": 2, "a `b": 2, "a [b](c": 2, "a **b*": 2, `a \`: 2, "a b": 3, "a * b": 5} {
		var got spelled
		s := Spans{W: &got}
		if n := s.Read(text, false); n != want || got.String() != text[:want] {
			t.Errorf("%q: %d bytes are taken, want %d: %q", text, n, want, got.String())
		}
	}
}

func TestFenceOf_ReadsCodeBlocks(t *testing.T) {
	f, ok := FenceOf("  ```` go")
	if !ok || f.Indent != 2 || f.Info != "go" || f.Code("    x") != "  x" || f.Code(" x") != "x" {
		t.Errorf("it is %+v, %v", f, ok)
	}
	for line, want := range map[string]bool{"````": true, "     ````` ": true, "      ````": false, "```": false, "````x": false, "~~~~": false} {
		if f.EndedBy(line) != want {
			t.Errorf("%q ends it: %v", line, !want)
		}
	}
	if _, ok := FenceOf("```a```"); ok {
		t.Error("a span of code is taken for a block")
	}
}

func TestCells_SplitRows(t *testing.T) {
	for row, want := range map[string][]string{
		"| a | b |":              {"a", "b"},
		`a|` + "`x|y`" + `|c\|d`: {"a", "`x|y`", "c|d"},
	} {
		if got := Cells(row); !slices.Equal(got, want) {
			t.Errorf("%q: %q", row, got)
		}
	}
	if n := len(Cells(strings.Repeat("|", 1000))); n != maxCells {
		t.Errorf("there are %d cells", n)
	}
}
