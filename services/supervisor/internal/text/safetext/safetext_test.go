package safetext

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// evil holds what a terminal obeys: sequences, titles, controls of both kinds, bidirectional controls, separators, tags.
const evil = "a\x1b[2J\x1b]0;t\x07\rb\u009b31m\u202ec\u2066\u200f\x00\x08\x7f\u2028d\U000e0041\xff"

func TestLevels_EscapeControlCharacters(t *testing.T) {
	for _, tt := range []struct {
		name      string
		level     func(string) string
		text, got string
	}{
		{"text", Text, evil, `a\u{1b}[2J\u{1b}]0;t\u{7}\u{d}b\u{9b}31m\u{202e}c\u{2066}\u{200f}\u{0}\u{8}\u{7f}\u{2028}d\u{e0041}` + "\ufffd"},
		{"text keeps its lines", Text, "a\r\n\tb\n\r", "a\n\tb\n\\u{d}"},
		{"text keeps joiners and blanks", Text, "a\u200d\u00a0\u3000b", "a\u200d\u00a0\u3000b"},
		{
			"text escapes marks that have no form", Text,
			"e\u034f\u17b4\ufe00\u0301\ufe0f", `e\u{34f}\u{17b4}\u{fe00}` + "\u0301\ufe0f",
		},
		{"text bounds marks", Text, "e" + strings.Repeat("\u0301", 1000) + "x", "e" + strings.Repeat("\u0301", MaxMarks) + "x"},
		{"a line", Line, "\t a\r\nb\x1b \n", `a  b\u{1b}`},
		{"a line is bounded", Line, strings.Repeat("é", MaxLine+1), strings.Repeat("é", MaxLine) + "…"},
		{"blanks do not push a line out", Line, strings.Repeat("\n ", 5*MaxLine) + "a", "a"},
		{"exact", Exact, "a\n\t\r" + "\x1b\u202e\u200d\u00a0\u3164\u034f" + "…\u0301ש b", `a\n\t\r\u{1b}\u{202e}\u{200d}\u{a0}\u{3164}\u{34f}` + "…\u0301ש b"},
		{"exact lines", ExactLines, "a\n\tb\r\n\u200b", "a\n\tb\\r\n\\u{200b}"},
		{"strict", Strict, "a …\u0301ש\ufe0f\ufffd\n日", `a \u{2026}\u{301}\u{5e9}\u{fe0f}\u{fffd}\n日`},
	} {
		if got := tt.level(tt.text); got != tt.got {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.got)
		}
	}
}

func TestJSON_KeepsMeaning(t *testing.T) {
	data := []byte(`{"a` + "\u202e" + `":["` + "\u009b\U000e0041\x7f" + `",1]}`)
	got := JSON(data)
	if want := `{"a\u202e":["\u009b\udb40\udc41\u007f",1]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	var before, after any
	if err := json.Unmarshal(data, &before); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(got), &after); err != nil || !reflect.DeepEqual(before, after) {
		t.Errorf("got %v (%v), want %v", after, err, before)
	}
}

func TestFit_KeepsWholeCharacters(t *testing.T) {
	if got := Fit("日本語", 5); got != "日本…" {
		t.Errorf("got %q", got)
	}
	if got := Fit("ab", 2); got != "ab" {
		t.Errorf("got %q", got)
	}
	for path, want := range map[string]string{
		"/home/u/a.go": "/home/u/a.go",
		"/home/u/src/one/two/three/four/five/server/a.go": "/home/u/ […] /five/server/a.go",
		"/home/u/src/one/two/three/four/six/server/a.go":  "/home/u/ […] /six/server/a.go",
		"/home/" + strings.Repeat("x", 60) + "/a.go":      "/home/xxxxxxxx […] xxxxxxxx/a.go",
		strings.Repeat("x", 40):                           strings.Repeat("x", 14) + " […] " + strings.Repeat("x", 13),
	} {
		if got := MiddlePath(path, 32); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
	if got := Middle("123456789", 7); got != "1 […] 9" {
		t.Errorf("got %q", got)
	}
	if got, cut := Prefix("aé", 2); got != "a" || !cut {
		t.Errorf("got %q, %v", got, cut)
	}
}

func TestNumber_Formats(t *testing.T) {
	for want, got := range map[string]string{
		"0": Number(0), "999": Number(999), "1,000": Number(1000), "18,446,744,073,709,551,615": Number(uint64(1<<64 - 1)),
		"1 rule": Count(1, "rule"), "0 rules": Count(0, "rule"), "1,240 rules": Count(1240, "rule"),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add(evil, 3)
	f.Fuzz(func(t *testing.T, text string, size int) {
		whole := Text(text)
		for _, r := range whole + strings.ReplaceAll(Line(text), "\n", "\x00") {
			if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029' {
				t.Errorf("%U in %q", r, whole)
			}
		}
		if !utf8.ValidString(text) {
			return // a piece may end within a character only if it is whole later
		}
		var c Cleaner
		var got string
		for rest := text; rest != ""; {
			piece, _ := Prefix(rest, max(size&0xff, utf8.UTFMax))
			got += c.Add(piece)
			rest = rest[len(piece):]
		}
		if got += c.End(); got != whole {
			t.Errorf("in pieces %q, whole %q", got, whole)
		}
	})
}
