package draw

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

// wellFormed fails for what is no XML.
func wellFormed(tb testing.TB, svg string) {
	tb.Helper()
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			tb.Fatalf("%v:\n%s", err, svg)
		}
	}
}

func TestSVG_Line(t *testing.T) {
	for name, tt := range map[string]struct{ line, want string }{
		"plain":                           {"a <b>", `>a &lt;b&gt;</text>`},
		"a colour by name":                {"\x1b[32mok\x1b[0m x", `<tspan style="fill: #89d185">ok</tspan><tspan x="32.8"> x</tspan>`},
		"a bright colour":                 {"\x1b[91mx", `style="fill: #ff9d8a"`},
		"one of 256: by name":             {"\x1b[38;5;2mx", `style="fill: #89d185"`},
		"one of 256: of the cube":         {"\x1b[38;5;208mx", `style="fill: #ff8700"`},
		"one of 256: a grey":              {"\x1b[38;5;240mx", `style="fill: #585858"`},
		"any colour":                      {"\x1b[38;2;1;2;255mx", `style="fill: #0102ff"`},
		"any colour, with colons":         {"\x1b[38:2::1:2:255mx", `style="fill: #0102ff"`},
		"any colour, without its space":   {"\x1b[38:2:1:2:255mx", `style="fill: #0102ff"`},
		"one of 256, with colons":         {"\x1b[38:5:208mx", `style="fill: #ff8700"`},
		"a style after a color":           {"\x1b[38;5;208;1mx", `class="b" style="fill: #ff8700"`},
		"a background":                    {"ab\x1b[48;5;22mcd", `<rect x="32.8" y="16" width="16.8" height="20" fill="#005f00"/>`},
		"inverse":                         {"\x1b[7mx", `fill="#d4d4d4"/>` + "\n" + `<text x="16" y="30" xml:space="preserve"><tspan style="fill: #1e1e1e">x`},
		"bold without a colour":           {"\x1b[1mx", `class="b w"`},
		"faint":                           {"\x1b[2mx", `class="f"`},
		"a style that ends by itself":     {"\x1b[1;31ma\x1b[22mb", `<tspan x="24.4" style="fill: #f48771">b`},
		"a colour that ends by itself":    {"\x1b[1;31ma\x1b[39mb", `<tspan x="24.4" class="b w">b`},
		"a sequence without parameters":   {"\x1b[31ma\x1b[mb", `<tspan x="24.4">b`},
		"a link":                          {"\x1b]8;;https://example.com\x1b\\x\x1b]8;;\x1b\\", `>x</text>`},
		"other sequences":                 {"\x1b[2J\x1b[?25l\x1b(Bx\x0e\x07", `>x</text>`},
		"wide characters take two":        {"日本\x1b[1mx", `<tspan x="49.6" class="b w">x`},
		"an accent takes none":            {"e\u0301\x1b[1mx", `<tspan x="24.4" class="b w">x`},
		"a colour without its parameters": {"\x1b[38;5mx", `>x</text>`},
	} {
		t.Run(name, func(t *testing.T) {
			svg := SVG([]string{tt.line}, Options{Title: `"quoted" & <b>`, Still: true})
			wellFormed(t, svg)
			if !strings.Contains(svg, tt.want) {
				t.Errorf("it is drawn as\n%s\nwant in it\n%s", svg, tt.want)
			}
		})
	}
}

func TestSVG_StyleContinuesOnNextLine(t *testing.T) {
	svg := SVG([]string{"\x1b[31ma", "b", "\x1b[0mc"}, Options{})
	wellFormed(t, svg)
	if strings.Count(svg, `style="fill: #f48771"`) != 2 || !strings.Contains(svg, "animation-delay: 0.70s") {
		t.Errorf("it is drawn as\n%s", svg)
	}
}

func TestSVG_WidthOfLongestLine(t *testing.T) {
	for _, o := range []Options{{}, {Columns: 100}} {
		svg := SVG([]string{strings.Repeat("x", 50)}, o)
		want := map[int]string{0: `viewBox="0 0 452 52"`, 100: `viewBox="0 0 872 52"`}[o.Columns]
		if !strings.Contains(svg, want) {
			t.Errorf("it is drawn as\n%s\nwant %s", svg, want)
		}
	}
}

func FuzzSVG(f *testing.F) {
	for _, s := range []string{"\x1b[38;5;208;1mx\x1b[0m", "\x1b[38:2::1:2:3m", "\x1b]8;;x\x07y", "\x1b[;;;m\x1b[38;2;999;1;1mz", "\xff\x00", "\ufffe"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		wellFormed(t, SVG(strings.Split(text, "\n"), Options{Title: text}))
	})
}
