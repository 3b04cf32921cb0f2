package transcript

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// shownLines is how many lines of output or of a change are shown.
const shownLines = 12

// Text writes a document for a terminal.
func Text(w io.Writer, d *Document) error {
	if err := TextHeader(w, d); err != nil {
		return err
	}
	for _, it := range d.Items {
		if _, err := io.WriteString(w, "\n"+TextItem(it)); err != nil {
			return err
		}
	}
	return nil
}

// TextHeader writes what the session is.
func TextHeader(w io.Writer, d *Document) error {
	_, err := fmt.Fprintf(w, "session %s\nagent   %s\nfolder  %s\n", line(d.Header.Session), line(d.Header.Agent), line(d.Header.Cwd))
	return err
}

// TextItem is an item for a terminal, whole lines.
func TextItem(it Item) string {
	var b strings.Builder
	at := it.Time.Local().Format(time.TimeOnly)
	body := func(text string, first bool) {
		text = strings.TrimRight(text, "\n")
		if text == "" {
			return
		}
		all := strings.Split(text, "\n")
		more := 0
		if first && len(all) > shownLines {
			more, all = len(all)-shownLines, all[:shownLines]
		} else if !first && len(all) > shownLines {
			fmt.Fprintf(&b, "          [%d lines more]\n", len(all)-shownLines)
			all = all[len(all)-shownLines:]
		}
		for _, l := range all {
			b.WriteString("          " + l + "\n")
		}
		if more > 0 {
			fmt.Fprintf(&b, "          [%d lines more]\n", more)
		}
	}
	switch it.Kind {
	case User, Agent, Thought:
		name := map[Kind]string{User: "You", Agent: "Agent", Thought: "Thought"}[it.Kind]
		fmt.Fprintf(&b, "%s  %s\n", at, name)
		for _, l := range strings.Split(strings.TrimRight(Harmless(it.Text), "\n"), "\n") {
			b.WriteString("          " + l + "\n")
		}
	case Tool:
		fmt.Fprintf(&b, "%s  %s %s%s\n", at, mark(it.Status), line(it.Title), bracketed(it.Tool, it.Status))
		for _, d := range it.Diffs {
			fmt.Fprintf(&b, "          %s (+%d -%d)\n", line(d.Path), d.Added, d.Removed)
			body(Harmless(Changes(d)), true)
		}
		body(Harmless(it.Text), true)
	case Terminal:
		fmt.Fprintf(&b, "%s  $ %s (%s)\n", at, line(it.Title), line(it.Status))
		body(output(it.Text), false)
	case Question:
		fmt.Fprintf(&b, "%s  ? %s: %s\n", at, line(it.Title), line(it.Status))
	case File:
		fmt.Fprintf(&b, "%s  %s (%s)\n", at, line(it.Title), line(it.Status))
	case Plan:
		fmt.Fprintf(&b, "%s  Plan\n", at)
		body(Harmless(it.Text), true)
	case End:
		fmt.Fprintf(&b, "%s  -- turn ended: %s", at, line(it.Status))
		if it.Title != "" {
			b.WriteString(": " + line(it.Title))
		}
		b.WriteString("\n")
	default:
		fmt.Fprintf(&b, "%s  ! %s\n", at, line(it.Title))
		body(Harmless(it.Text), true)
	}
	return b.String()
}

func mark(status string) string {
	switch status {
	case "completed":
		return "[x]"
	case "failed":
		return "[!]"
	case "in_progress":
		return "[~]"
	}
	return "[ ]"
}

func bracketed(parts ...string) string {
	var some []string
	for _, p := range parts {
		if p != "" {
			some = append(some, line(p))
		}
	}
	if len(some) == 0 {
		return ""
	}
	return " (" + strings.Join(some, ", ") + ")"
}

// Changes is a diff's lines that differ, old ones first: what stays at either end is left out.
func Changes(d Diff) string {
	a, b := lines(d.Old), lines(d.New)
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	var out strings.Builder
	for _, l := range a {
		out.WriteString("- " + l + "\n")
	}
	for _, l := range b {
		out.WriteString("+ " + l + "\n")
	}
	return out.String()
}

// Printer prints items as they come: what is said goes on where it stopped.
type Printer struct {
	last  Kind
	shown map[string]string // what was printed last of an item that is brought up to date
}

// Item is what an item adds to what was printed.
func (p *Printer) Item(it Item) string {
	said := it.Kind == User || it.Kind == Agent || it.Kind == Thought
	if said && p.last == it.Kind {
		return strings.ReplaceAll(Harmless(it.Text), "\n", "\n          ")
	}
	var b strings.Builder
	if p.last == User || p.last == Agent || p.last == Thought {
		b.WriteString("\n")
	}
	if it.ID != "" {
		// A status is news; more output of the same command is not, until it ends.
		k := string(it.Kind) + it.ID
		if p.shown[k] == it.Status+it.Title {
			return ""
		}
		if p.shown == nil {
			p.shown = map[string]string{}
		}
		p.shown[k] = it.Status + it.Title
	}
	p.last = it.Kind
	text := TextItem(it)
	if said {
		text = strings.TrimSuffix(text, "\n")
	}
	return b.String() + "\n" + text
}
