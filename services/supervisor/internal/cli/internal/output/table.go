// Package output prints results of commands: lists as tables or as JSON, times and sizes for users, and events for a
// terminal or a program. It escapes text that is not acphost's own.
package output

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// PrintList prints a list as JSON lines or as a table.
func PrintList[T any](call *command.Call, asJSON bool, list []T, table func([]T) *Table) error {
	if asJSON {
		return PrintLines(call, list)
	}
	return PrintTable(call, table(list))
}

// PrintLines prints a list as JSON lines: one item in a line, with control characters escaped.
func PrintLines[T any](call *command.Call, list []T) error {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	for _, item := range list {
		if err := enc.Encode(item); err != nil {
			return err
		}
	}
	_, err := fmt.Fprint(call.Stdout, safetext.JSON(text.Bytes()))
	return err
}

// PrintJSON prints a value as indented JSON, with control characters escaped.
func PrintJSON(call *command.Call, v any) error {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := fmt.Fprint(call.Stdout, safetext.JSON(text.Bytes()))
	return err
}

// OrNone returns a process id, or "" for 0.
func OrNone[T int64 | uint32](pid T) string {
	if pid == 0 {
		return ""
	}
	return fmt.Sprint(pid)
}

// Moment formats a time for users, in local time.
func Moment(t time.Time) string {
	if t.IsZero() || t.Unix() == 0 { // protobuf's zero value
		return "-"
	}
	return t.Local().Format(time.DateTime)
}

// Cell returns text for a table: on one line, escaped, and "-" if empty.
func Cell(s string) string { return cmp.Or(safetext.Line(s), "-") }

// OneLine is Cell with a limit of characters.
func OneLine(text string, limit int) string { return cmp.Or(safetext.LineOf(text, limit), "-") }

// Whole is Cell without a limit, for outputs other than terminals.
func Whole(text string) string {
	const longest = 10 // characters of the longest escape
	return OneLine(text, longest*utf8.RuneCountInString(text))
}

// Completions appends a completion with its description to a list. It omits a word with characters that have a meaning
// in a shell, and removes such characters from the description: agents choose both, and a shell may insert them into
// the line or expand them.
func Completions(list []cobra.Completion, word, about string) []cobra.Completion {
	if word == "" || strings.ContainsFunc(word, actsInShell) {
		return list
	}
	shown := strings.Map(func(r rune) rune {
		if r != ' ' && r != '?' && actsInShell(r) {
			return '_'
		}
		return r
	}, OneLine(about, 60))
	return append(list, cobra.CompletionWithDesc(word, shown))
}

// actsInShell reports whether a character may have a meaning in some shell. Only characters that are known to be safe
// return false.
func actsInShell(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_./:=,+@%", r)
}

// Size formats a number of bytes for users.
func Size(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.0f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
