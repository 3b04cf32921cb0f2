package shell_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/shell"
)

func TestSpellings_PathsOfWord(t *testing.T) {
	for word, want := range map[string]string{
		"":                       "[]",
		"a/b":                    "[a/b]",
		"-":                      "[]",
		"-x":                     "[]",
		"--long":                 "[]",
		"-fa":                    "[a]",
		"-xvfa/b":                "[vfa/b fa/b a/b /b]",
		"-I/usr/x":               "[/usr/x]",
		"--file=a":               "[a]",
		"--set=a=b":              "[a=b b]",
		"if=a":                   "[if=a a]",
		"@a":                     "[@a a]",
		"name@a":                 "[name@a a]",
		"-d@a":                   "[@a a]",
		"f=@a;type=b":            "[f=@a;type=b f=@a type=b @a;type=b a;type=b @a a b]",
		"f=<a":                   "[f=<a <a a]",
		"-va:/b":                 "[a:/b a /b :/b]",
		"--path=a:b,c":           "[a:b,c a b c]",
		"fix: a, b":              "[fix: a, b]",
		"http://h/a:b":           "[http://h/a:b]",
		"file:///a/b%63":         "[file:///a/b%63 /a/bc]",
		"FILE://localhost/a":     "[FILE://localhost/a /a]",
		"--upload=file:a":        "[file:a a file]",
		"-Cfile://x/a":           "[file://x/a x/a ile://x/a le://x/a e://x/a]",
		strings.Repeat("a", 100): "[" + strings.Repeat("a", 100) + "]",
	} {
		got, all := shell.Spellings(word, false)
		if fmt.Sprint(got) != want || !all {
			t.Errorf("%q: got %q, %v, want %s", word, got, all, want)
		}
	}
	if got, _ := shell.Spellings("-x", true); fmt.Sprint(got) != "[-x]" {
		t.Errorf("an operand: got %q", got)
	}
	var many []string
	for i := range 200 {
		many = append(many, fmt.Sprint("f", i))
	}
	if got, all := shell.Spellings(strings.Join(many, ","), false); all || len(got) != 64 {
		t.Errorf("%d spellings of too many, all: %v", len(got), all)
	}
}
