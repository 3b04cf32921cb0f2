package transcript

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
)

// Markdown writes a document as Markdown. What was said stands in quotes, so that it cannot pass for more than that;
// pictures that it would have loaded, and HTML, are shown as they are written.
func Markdown(w io.Writer, d *Document) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Session %s\n\n- Agent: %s\n- Folder: %s\n", code(d.Header.Session), code(d.Header.Agent), code(d.Header.Cwd))
	for _, it := range d.Items {
		at := it.Time.UTC().Format(time.RFC3339)
		switch it.Kind {
		case User:
			fmt.Fprintf(&b, "\n## You, %s\n\n%s", at, quoted(it.Text))
		case Agent:
			fmt.Fprintf(&b, "\n### Agent, %s\n\n%s", at, quoted(it.Text))
		case Thought:
			fmt.Fprintf(&b, "\n### Thought, %s\n\n%s", at, quoted(it.Text))
		case Tool:
			fmt.Fprintf(&b, "\n- **Tool** %s%s, %s\n", code(it.Title), plainly(it.Tool, it.Status), at)
			for _, d := range it.Diffs {
				fmt.Fprintf(&b, "\n  %s (+%d -%d)\n\n%s", code(d.Path), d.Added, d.Removed, fenced(Changes(d), "diff"))
			}
			if it.Text != "" {
				b.WriteString("\n" + fenced(Harmless(it.Text), ""))
			}
		case Terminal:
			fmt.Fprintf(&b, "\n- **Command** %s%s, %s\n", code(it.Title), plainly(it.Status), at)
			if it.Text != "" {
				b.WriteString("\n" + fenced(output(it.Text), ""))
			}
		case Question:
			fmt.Fprintf(&b, "\n- **Question** %s%s, %s\n", code(it.Title), plainly(it.Status), at)
		case File:
			fmt.Fprintf(&b, "\n- **File** %s%s, %s\n", code(it.Title), plainly(it.Status), at)
		case Plan:
			fmt.Fprintf(&b, "\n- **Plan**, %s\n\n%s", at, fenced(Harmless(it.Text), ""))
		case End:
			fmt.Fprintf(&b, "\n*Turn ended: %s, %s*\n", escaped(line(strings.TrimSpace(it.Status+" "+it.Title))), at)
		default:
			fmt.Fprintf(&b, "\n- **Note** %s, %s\n", code(strings.TrimSpace(it.Title+" "+it.Text)), at)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// loads is what a viewer of Markdown would load or obey.
var loads = regexp.MustCompile(`<|!\[|\]\s*:`)

func escaped(text string) string {
	return loads.ReplaceAllStringFunc(text, func(s string) string {
		switch s {
		case "<":
			return "&lt;"
		case "![":
			return `!\[`
		}
		return `\` + s
	})
}

func quoted(text string) string {
	var b strings.Builder
	for _, l := range strings.Split(strings.TrimRight(Harmless(text), "\n"), "\n") {
		b.WriteString(strings.TrimRight("> "+escaped(l), " ") + "\n")
	}
	return b.String()
}

// code is a span of code on one line.
func code(text string) string {
	text = line(text)
	ticks := strings.Repeat("`", longest(text)+1)
	if strings.HasPrefix(text, "`") || strings.HasSuffix(text, "`") {
		text = " " + text + " "
	}
	if text == "" {
		return "(none)"
	}
	return ticks + text + ticks
}

// fenced is a block of code in a list.
func fenced(text, language string) string {
	text = Harmless(text)
	fence := strings.Repeat("`", max(3, longest(text)+1))
	var b strings.Builder
	b.WriteString("  " + fence + language + "\n")
	for _, l := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		b.WriteString("  " + l + "\n")
	}
	b.WriteString("  " + fence + "\n")
	return b.String()
}

// longest is the longest run of backticks.
func longest(text string) int {
	most, n := 0, 0
	for _, c := range text {
		if c != '`' {
			n = 0
			continue
		}
		n++
		most = max(most, n)
	}
	return most
}

func plainly(parts ...string) string { return escaped(bracketed(parts...)) }
