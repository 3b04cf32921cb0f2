package console

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/acphost/acphost/internal/invisible"
)

// TestPage_EscapesInvisibleCharacters: the page has its own list of invisible characters, which has to contain all
// assigned characters of Go's list.
func TestPage_EscapesInvisibleCharacters(t *testing.T) {
	source, err := os.ReadFile("web/src/safe.ts")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(source), "const hidden =")
	line, _, ok := strings.Cut(strings.TrimSpace(rest), "/gu;")
	if !ok {
		t.Fatal("safe.ts has no list of hidden characters")
	}
	first, _, _ := strings.Cut(line, "|[\\ud800") // halves of surrogate pairs are no characters in Go
	escapes := regexp.MustCompile(`\\u\{?([0-9a-f]+)\}?`)
	pattern := escapes.ReplaceAllString(strings.TrimPrefix(first, "/"), `\x{$1}`)
	hidden, err := regexp.Compile("^(?:" + pattern + ")$")
	if err != nil {
		t.Fatal(err)
	}
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if r == '\t' || r == '\n' || r >= 0xd800 && r < 0xe000 {
			continue
		}
		known := unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) || invisible.Is(r) && unicode.IsPrint(r)
		if known && invisible.Is(r) && !hidden.MatchString(string(r)) {
			t.Errorf("the page does not escape U+%s", strings.ToUpper(strconv.FormatInt(int64(r), 16)))
		}
	}
}
