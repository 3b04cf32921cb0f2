package safetext

import (
	"slices"
	"strings"
	"testing"
)

func TestWrap_BreaksAtWords(t *testing.T) {
	for _, tt := range []struct {
		name, text, hang string
		width            int
		want             []string
	}{
		{"a short text is unchanged", "one two", "", 7, []string{"one two"}},
		{"nothing is a row", "", "", 7, []string{""}},
		{"a word goes to the next row", "one two three", "", 8, []string{"one two", "three"}},
		{"a word that just fits stays", "one two", "", 3, []string{"one", "two"}},
		{"a hyphen is no end of a word", "run --policy", "", 9, []string{"run", "--policy"}},
		{"line feeds end rows", "a\n\nb", "", 9, []string{"a", "", "b"}},
		{"the spaces that a line begins with stay", "    one two", "", 8, []string{"    one", "two"}},
		{"spaces within stay", "a   b", "", 9, []string{"a   b"}},
		{"a long word is broken within", "abcdefgh", "", 3, []string{"abc", "def", "gh"}},
		{"a long word begins on a new row", "ab cdefghij", "", 4, []string{"ab", "cdef", "ghij"}},
		{"rows that continue are indented", "one two three", "| ", 8, []string{"one two", "| three"}},
		{"an indent that leaves too little goes", "one two", "||||", 6, []string{"one", "two"}},
		{"wide characters count twice", "日本語", "", 4, []string{"日本", "語"}},
		{"a line may be broken beside wide characters", "ab日本", "", 4, []string{"ab日", "本"}},
		{"a wide character is not split between rows", "日本", "", 3, []string{"日", "本"}},
		{"marks stay with their letter", "e\u0301e\u0301e\u0301", "", 2, []string{"e\u0301e\u0301", "e\u0301"}},
		{"a picture of several parts is one", "👩‍👩‍👧👩‍👩‍👧", "", 2, []string{"👩‍👩‍👧", "👩‍👩‍👧"}},
		{"colours are taken up", "\x1b[31mred word\x1b[0m x", "", 4, []string{"\x1b[31mred\x1b[0m", "\x1b[31mword\x1b[0m", "x"}},
		{"colors continue after a line feed", "\x1b[2ma\nb\x1b[0m\nc", "", 4, []string{"\x1b[2ma\x1b[0m", "\x1b[2mb\x1b[0m", "c"}},
		{"colours are no columns", "\x1b[1mab\x1b[0m cd", "", 5, []string{"\x1b[1mab\x1b[0m cd"}},
		{"a character that is wider than the row is alone", "日", "", 1, []string{"日"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Wrap(tt.text, tt.width, tt.hang); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestWrap_BreaksHugeWords(t *testing.T) {
	text := strings.Repeat("x", 1<<20) + " " + strings.Repeat("日", 1<<18) + strings.Repeat(" ", 1<<20)
	if got, want := len(Wrap(text, 80, "")), 19_661; got != want {
		t.Errorf("%d rows, want %d", got, want)
	}
}

func FuzzWrap(f *testing.F) {
	f.Add("one two three", 8, "| ")
	f.Add("日本\u0301 \x1b[31mred\x1b[0m  x", 3, "")
	f.Add("0本", 2, "0")
	f.Fuzz(func(t *testing.T, text string, width int, hang string) {
		if width < 2 || width > 200 || len(text) > 10_000 {
			return
		}
		text = Text(strings.ReplaceAll(text, "\t", " "))
		hang = Line(hang)
		rows := Wrap(text, width, hang)
		for _, r := range rows {
			if Width(r) > width {
				t.Fatalf("%q at %d: %q has %d columns", text, width, r, Width(r))
			}
		}
		kept := func(s string) string { return strings.ReplaceAll(strings.ReplaceAll(s, " ", ""), "\n", "") }
		if hang == "" && kept(strings.Join(rows, "")) != kept(text) {
			t.Fatalf("%q at %d: characters are missing in %q", text, width, rows)
		}
	})
}
