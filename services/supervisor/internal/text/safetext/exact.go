package safetext

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/acphost/acphost/internal/invisible"
)

// Exact returns, on one line, text that will be used as it is, such as a command or a path. It drops and cuts no
// characters, and escapes each invisible one, including spaces other than U+0020.
func Exact(text string) string { return escaped(text, func(r rune) bool { return !unseen(r) }) }

// ExactLines is Exact for several lines: line feeds and tabs are unchanged.
func ExactLines(text string) string {
	return escaped(text, func(r rune) bool { return r == '\n' || r == '\t' || !unseen(r) })
}

// Strict is Exact for text inside a sentence of acphost. It also escapes characters that combine with or move their
// neighbours, such as combining marks and letters of right-to-left scripts, and "…", so that only acphost can write "
// […] ".
func Strict(text string) string {
	return escaped(text, func(r rune) bool {
		return r != '…' && r != unicode.ReplacementChar && !unseen(r) && !unicode.Is(unicode.M, r) && !rightToLeft(r)
	})
}

// ASCII is for addresses: it escapes all characters except printable ASCII, so that look-alike letters are recognized.
func ASCII(text string) string {
	return escaped(text, func(r rune) bool { return r > ' ' && r < 0x7f })
}

// leftOut replaces the middle of a text.
const leftOut = " […] "

// MiddlePath is Middle for a path: it removes whole folders, and keeps the file name with the folders before it, so
// that paths in one tree can be distinguished. A name that is too long is shortened as by Middle.
func MiddlePath(path string, n int) string {
	runes := []rune(path)
	if len(runes) <= n {
		return path
	}
	keep := n - len([]rune(leftOut))
	head := 0 // after the last "/" of the first third
	for i, r := range runes[:max(0, keep/3)] {
		if r == '/' {
			head = i + 1
		}
	}
	tail := runes[len(runes)-max(0, keep-head):]
	at := slices.Index(tail, '/')
	if head == 0 || at < 0 || at > len(tail)/2 { // the names are longer than the limit
		return Middle(path, n)
	}
	return string(runes[:head]) + leftOut + string(tail[at:])
}

// Middle removes the middle of a text that is longer than n characters, and inserts " […] ".
func Middle(text string, n int) string {
	runes := []rune(text)
	if len(runes) <= n {
		return text
	}
	keep := n - len([]rune(leftOut))
	return string(runes[:(keep+1)/2]) + leftOut + string(runes[len(runes)-keep/2:])
}

// escaped escapes the characters of text for which keep returns false.
func escaped(text string, keep func(rune) bool) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case keep(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		default:
			fmt.Fprintf(&b, `\u{%x}`, r)
		}
	}
	return b.String()
}

// unseen reports whether a character is invisible.
func unseen(r rune) bool { return invisible.Is(r) || r != ' ' && unicode.Is(unicode.Zs, r) }

// rightToLeft reports whether a character is of a right-to-left script, so that it moves its neighbours.
func rightToLeft(r rune) bool {
	return 0x590 <= r && r <= 0x8ff || 0xfb1d <= r && r <= 0xfdff || 0xfe70 <= r && r <= 0xfeff ||
		0x10800 <= r && r <= 0x10fff || 0x1e800 <= r && r <= 0x1efff
}
