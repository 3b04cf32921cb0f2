// Package output prints results of commands: lists as tables or as JSON, times and sizes for people, and events for a
// terminal or a program. Text that is not acphost's own cannot act on a terminal.
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
	"github.com/acphost/acphost/services/supervisor/internal/safetext"
)

// PrintList prints a list, as JSON lines or as its table.
func PrintList[T any](call *command.Call, asJSON bool, list []T, table func([]T) *Table) error {
	if asJSON {
		return PrintLines(call, list)
	}
	return PrintTable(call, table(list))
}

// PrintLines prints a list as JSON lines: one item a line, in which nothing can act on a terminal.
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

// PrintJSON prints a value as indented JSON in which nothing can act on a terminal.
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

// OrNone returns a process's id, or nothing where there is no process.
func OrNone[T int64 | uint32](pid T) string {
	if pid == 0 {
		return ""
	}
	return fmt.Sprint(pid)
}

// Moment formats a time for people, in local time.
func Moment(t time.Time) string {
	if t.IsZero() || t.Unix() == 0 { // as protobuf tells a time that is not set
		return "-"
	}
	return t.Local().Format(time.DateTime)
}

// Cell returns text for a table: on one line, with nothing in it that a terminal obeys; nothing at all becomes "-".
func Cell(s string) string { return cmp.Or(safetext.Line(s), "-") }

// OneLine is Cell for at most so many characters.
func OneLine(text string, most int) string { return cmp.Or(safetext.LineOf(text, most), "-") }

// Whole is Cell without a limit, for what is no terminal.
func Whole(text string) string {
	const longest = 10 // characters of an escape
	return OneLine(text, longest*utf8.RuneCountInString(text))
}

// Completions adds a completion with what it is, for people, to others. A word that means something to a shell is left out,
// and of what it is such characters are not shown: agents choose both, and a shell may put them on the line as they are or
// expand them.
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

// actsInShell reports whether a character may mean something to some shell: every one but those that are known to mean nothing.
func actsInShell(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_./:=,+@%", r)
}

// Size formats a number of bytes for people.
func Size(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.0f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
