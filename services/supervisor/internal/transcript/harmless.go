package transcript

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// Harmless writes characters that a terminal obeys, or that change how others show, as escapes. Line feeds and tabs stay.
func Harmless(text string) string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	if !strings.ContainsFunc(text, func(c rune) bool { return !harmless(c) }) {
		return strings.ToValidUTF8(text, "\ufffd")
	}
	var b strings.Builder
	for _, c := range text {
		if harmless(c) {
			b.WriteRune(c)
		} else {
			fmt.Fprintf(&b, "\\u{%x}", c)
		}
	}
	return b.String()
}

func harmless(c rune) bool {
	switch c {
	case '\n', '\t', '\u200d', '\u200c', '\ufffd': // joiners belong to scripts and to pictures
		return true
	}
	return unicode.IsPrint(c) || unicode.Is(unicode.Zs, c)
}

// HarmlessJSON is JSON that means the same, without such characters.
func HarmlessJSON(line []byte) string {
	var b strings.Builder
	for _, c := range string(line) {
		switch {
		case harmless(c):
			b.WriteRune(c)
		case c > 0xffff:
			c -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+c>>10, 0xdc00+c&0x3ff)
		default:
			fmt.Fprintf(&b, `\u%04x`, c)
		}
	}
	return b.String()
}

// line is text on one line.
func line(text string) string {
	return strings.Map(func(c rune) rune {
		if c == '\n' || c == '\t' {
			return ' '
		}
		return c
	}, Harmless(text))
}

var sequences = regexp.MustCompile("\x1b\\[[0-?]*[ -/]*[@-~]|\x1b\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|\x1b[@-Z\\\\^_]")

// output is what a command wrote, without the sequences that colour it and move about.
func output(text string) string {
	return Harmless(sequences.ReplaceAllString(text, ""))
}
