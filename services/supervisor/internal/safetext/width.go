package safetext

import (
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// Width returns the number of columns that text without escape sequences takes. It counts as terminals outside East Asia do,
// whatever the environment says, and characters that are shown as one, such as a flag, as one.
func Width(text string) int { return ansi.StringWidth(text) }

// Fit cuts one line to so many columns. A line that was cut ends in "…". The text must be safe and without colours.
func Fit(text string, most int) string {
	if Width(text) <= most {
		return text
	}
	return ansi.Truncate(text, most, "…")
}

// Head returns as much of the beginning of text as fits into so many columns.
func Head(text string, most int) string { return ansi.Truncate(text, most, "") }

// Cut returns text, or, if it is longer than n bytes, a beginning of whole characters with "…" behind it: n bytes in all.
func Cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	text, _ = Prefix(text, n-len("…"))
	return text + "…"
}

// Prefix returns the first n bytes of text, less those of a character that does not fit, and whether it cut the text.
func Prefix(text string, n int) (string, bool) {
	if len(text) <= n {
		return text, false
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n], true
}
