package safetext

import (
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// Width returns the number of columns of text without escape sequences. It counts as terminals outside East Asia do,
// independent of the environment, and counts characters that are displayed as one, such as a flag, as one.
func Width(text string) int { return ansi.StringWidth(text) }

// Fit shortens one line to a number of columns. A shortened line ends with "…". The text must be safe and without
// colours.
func Fit(text string, limit int) string {
	if Width(text) <= limit {
		return text
	}
	return ansi.Truncate(text, limit, "…")
}

// Head returns the longest beginning of text that fits into a number of columns.
func Head(text string, limit int) string { return ansi.Truncate(text, limit, "") }

// Cut returns text of at most n bytes. It shortens longer text to whole characters and appends "…", which counts.
func Cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	text, _ = Prefix(text, n-len("…"))
	return text + "…"
}

// Prefix returns the first n bytes of text, without an incomplete character, and whether it has shortened the text.
func Prefix(text string, n int) (string, bool) {
	if len(text) <= n {
		return text, false
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n], true
}
