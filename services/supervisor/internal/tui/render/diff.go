package render

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// Limits of a diff.
const (
	maxDiffText  = 1 << 20 // bytes of both texts; the lines of a larger one are only counted
	maxDiffLines = 60      // lines
)

// Diff formats a change of a file as a unified diff with three lines of context: whole lines, at most 60, and the
// number of omitted lines. For texts over 1 MiB, it shows only counts.
func Diff(o Options, d *supervisorv1.Diff) string {
	path := o.path(d.GetPath())
	old, text := d.GetOldText(), d.GetNewText()
	isNew := ""
	if d.OldText == nil {
		isNew = " (new)"
	}
	switch size := len(old) + len(text); {
	case size > maxDiffText && o.whole():
		return o.paint(bold, path) + isNew + "\n" + sides(o, old, text)
	case size > maxDiffText:
		o.hide(lineCount(old)+lineCount(text), 0)
		return fmt.Sprintf("%s%s %s\n", o.paint(bold, path), isNew,
			o.paint(dim, fmt.Sprintf("%s before, %d after: too much to compare here", safetext.Count(lineCount(old), "line"), lineCount(text))))
	}
	change, err := Compare(d)
	if err != nil {
		return fmt.Sprintf("%s%s %s\n", o.paint(bold, path), isNew, o.paint(dim, "cannot be compared"))
	}
	lines := make([]string, len(change.Lines))
	for i, l := range change.Lines {
		switch l.Sign {
		case '@':
			lines[i] = o.paint(cyan, "@@ "+l.Text+" @@")
		case '\\':
			lines[i] = o.paint(dim, `\ `+l.Text)
		default:
			s := map[byte]style{'+': green, '-': red}[l.Sign]
			lines[i] = o.paint(s, string(l.Sign)+o.codeLine(l.Text))
		}
	}
	head := fmt.Sprintf("%s%s", o.paint(bold, path), isNew)
	if change.Added+change.Removed == 0 {
		return head + " " + o.paint(dim, cmp.Or(change.Ends, "no change")) + "\n"
	}
	head += " " + o.paint(green, fmt.Sprintf("+%d", change.Added)) + " " + o.paint(red, fmt.Sprintf("-%d", change.Removed))
	if change.Ends != "" {
		head += " " + o.paint(dim, change.Ends)
	}
	head += "\n"
	return head + bounded(o, lines, maxDiffLines)
}

// Change is the result of Compare.
type Change struct {
	Lines          []ChangedLine
	Added, Removed int
	// Ends describes a change of the line ends of all lines, which Lines does not show then: "CRLF line ends become
	// LF". Empty means that they are unchanged.
	Ends string
}

// ChangedLine is a line of a change. Its sign is ' ', '+' or '-'; '@' before a group of lines, whose first line number
// is Text; '\\' after a line without a line feed, with a Text that states that.
type ChangedLine struct {
	Sign byte
	Text string
}

// Compare returns the added and removed lines of a change, with three lines of context. Unless a text has mixed line
// ends, CR LF is compared and shown as LF.
func Compare(d *supervisorv1.Diff) (c Change, err error) {
	old, text := d.GetOldText(), d.GetNewText()
	if was, is := lineEnds(old), lineEnds(text); was != mixedEnds && is != mixedEnds {
		if was != is && was != "" && is != "" {
			c.Ends = was + " line ends become " + is
		}
		old, text = strings.ReplaceAll(old, "\r\n", "\n"), strings.ReplaceAll(text, "\r\n", "\n")
	}
	unified, err := udiff.ToUnifiedDiff("", "", old, udiff.Lines(old, text), udiff.DefaultContextLines)
	if err != nil {
		return c, err
	}
	add := func(sign byte, text string) { c.Lines = append(c.Lines, ChangedLine{sign, text}) }
	for _, hunk := range unified.Hunks {
		if hunk.FromLine > 1 || len(unified.Hunks) > 1 {
			add('@', fmt.Sprintf("line %d", max(hunk.ToLine, 1)))
		}
		for _, l := range hunk.Lines {
			content, ended := strings.CutSuffix(l.Content, "\n")
			switch l.Kind {
			case udiff.Insert:
				add('+', content)
				c.Added++
			case udiff.Delete:
				add('-', content)
				c.Removed++
			default:
				add(' ', content)
				continue
			}
			if !ended {
				add('\\', "no line feed at the end")
			}
		}
	}
	return c, nil
}

const mixedEnds = "mixed"

// lineEnds returns the kind of line ends of a text: "LF", "CRLF", mixedEnds, or "" if it has none.
func lineEnds(text string) string {
	all, crlf := strings.Count(text, "\n"), strings.Count(text, "\r\n")
	switch {
	case all == 0:
		return ""
	case crlf == 0:
		return "LF"
	case crlf == all:
		return "CRLF"
	}
	return mixedEnds
}

// sides shows all lines of the old and the new text, which are too long to be compared.
func sides(o Options, old, text string) string {
	var b strings.Builder
	for _, side := range []struct {
		style
		mark, text string
	}{{red, "-", old}, {green, "+", text}} {
		for l := range strings.Lines(side.text) {
			b.WriteString(o.paint(side.style, side.mark+o.codeLine(strings.TrimSuffix(l, "\n"))) + "\n")
		}
	}
	return b.String()
}

// codeLine returns a line of a file, escaped and shortened.
func (o Options) codeLine(text string) string {
	if o.whole() {
		return strings.ReplaceAll(safetext.ExactLines(text), "\t", "    ")
	}
	return strings.ReplaceAll(safetext.Text(o.shortened(text, maxCode)), "\t", "    ")
}

// bounded returns the first lines, and the number of omitted lines.
func bounded(o Options, lines []string, limit int) string {
	var b strings.Builder
	for i, l := range lines {
		if i == limit && len(lines) > limit+1 && !o.whole() {
			o.hide(len(lines)-limit, 0)
			b.WriteString(o.paint(dim, o.left(safetext.Count(len(lines)-limit, "line")+" more")) + "\n")
			break
		}
		b.WriteString(l + "\n")
	}
	return b.String()
}

func lineCount(text string) int {
	n := strings.Count(text, "\n")
	if text != "" && !strings.HasSuffix(text, "\n") {
		n++
	}
	return n
}

// indented indents whole lines. The terminal breaks lines that are too long.
func indented(text, by string) string {
	if text == "" {
		return ""
	}
	var b strings.Builder
	for l := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		if l != "" {
			b.WriteString(by + l)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// path formats a path: relative if it is in the working directory.
func (o Options) path(path string) string { return safetext.Line(Relative(o.Cwd, path)) }

// Relative returns a path relative to a folder if it is in that folder, else the path. The folder may be empty.
func Relative(folder, path string) string {
	if folder != "" && filepath.IsAbs(path) {
		if rel, err := filepath.Rel(folder, path); err == nil && filepath.IsLocal(rel) {
			return rel
		}
	}
	return path
}
