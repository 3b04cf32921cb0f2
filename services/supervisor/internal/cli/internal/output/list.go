package output

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/safetext"
)

// Table is a list as people read it: a row for each item. On a terminal it fits the width: its long columns are cut, and then
// others are left out, which is said. Elsewhere it is whole, for programs.
type Table struct {
	empty string // what to say instead of a table without rows
	head  []string
	rows  [][]cell
	long  []string
	spare []string
}

// cell is one of a table.
type cell struct {
	text  string // on a terminal
	whole string // elsewhere
	style style
	time  time.Time
	timed bool
}

// Short is a cell of which a terminal shows so many characters at most. Elsewhere it is whole.
func Short(text string, most int) Part { return Part{text, most} }

// Part is a cell that is short on a terminal.
type Part struct {
	text string
	most int
}

// style is how a word looks on a terminal: the parameters of an escape sequence.
type style string

const (
	plainly style = ""
	bold    style = "1"
	faint   style = "2"
	red     style = "31"
	green   style = "32"
	yellow  style = "33"
)

// Word is a cell that is coloured on a terminal.
type Word struct {
	text  string
	style style
}

// Good is a word for what is well.
func Good(text string) Word { return Word{text, green} }

// Bad is a word for what has failed, or was denied.
func Bad(text string) Word { return Word{text, red} }

// Warn is a word for what somebody should look at.
func Warn(text string) Word { return Word{text, yellow} }

// Faint is a word of little interest.
func Faint(text string) Word { return Word{text, faint} }

// NewTable returns a table. Column titles are upper case. empty is a sentence without a full stop.
func NewTable(empty string, head ...string) *Table { return &Table{empty: empty, head: head} }

// Long names the columns that are cut where a table is too wide. All others, such as ids, stand whole or not at all.
func (t *Table) Long(titles ...string) *Table { t.long = titles; return t }

// Spare names the columns that are left out where a table is still too wide, the least important first.
func (t *Table) Spare(titles ...string) *Table { t.spare = titles; return t }

// Add adds a row. Numbers are written as they are, times as people read them, anything else as text that cannot move the
// cursor. What is empty, zero times included, becomes "-".
func (t *Table) Add(cells ...any) {
	row := make([]cell, len(cells))
	for i, c := range cells {
		switch c := c.(type) {
		case time.Time:
			row[i] = cell{time: c, timed: true}
		case *time.Time:
			row[i].timed = true
			if c != nil {
				row[i].time = *c
			}
		case string:
			row[i] = cell{text: Cell(c), whole: Whole(c)}
		case Part:
			row[i] = cell{text: OneLine(c.text, c.most), whole: Whole(c.text)}
		case Word:
			row[i] = cell{text: Cell(c.text), whole: Whole(c.text), style: c.style}
		default:
			row[i] = cell{text: Cell(fmt.Sprint(c)), whole: Whole(fmt.Sprint(c))}
		}
		if row[i].text == "-" {
			row[i].style = cmp.Or(row[i].style, faint)
		}
	}
	t.rows = append(t.rows, row)
}

// PrintTable prints a table to standard output, through a pager if it is longer than the screen, or to standard error that it is
// empty.
func PrintTable(call *command.Call, t *Table) error {
	if len(t.rows) == 0 {
		return PrintEmpty(call, t.empty)
	}
	terminal := call.Terminal(call.Stdout)
	lay := layout{color: Colored(call, terminal)}
	if terminal {
		lay.width, lay.today = Width(call), time.Now()
	}
	return Page(call, t.text(lay))
}

// PrintEmpty says on standard error that there is nothing to print, unless that is not known, since somebody could not be asked.
func PrintEmpty(call *command.Call, text string) error {
	if call.Status != 0 {
		return nil
	}
	_, err := fmt.Fprintln(call.Stderr, text)
	return err
}

// Text is the table for a screen of so many columns; empty: it has no rows. Times are left to the caller, who knows how old what
// it shows is.
func (t *Table) Text(columns int, color bool) string {
	if len(t.rows) == 0 {
		return ""
	}
	return t.text(layout{width: columns, today: time.Now(), color: color})
}

// layout is how a table is laid out: for a terminal of a width, or, with 0, whole.
type layout struct {
	width int
	today time.Time // times of this day have no date; zero: all have one
	color bool
}

// text is the table as lines.
func (t *Table) text(lay layout) string {
	head := slices.Clone(t.head)
	rows := make([][]cell, len(t.rows))
	for i, row := range t.rows {
		rows[i] = slices.Clone(row)
		for j := range row {
			c := &rows[i][j]
			if lay.width <= 0 {
				c.text = c.whole
			}
			if c.timed {
				c.text = shortMoment(c.time, lay.today)
				if head[j] == t.head[j] {
					head[j] += " (" + Zone(time.Now()) + ")"
				}
			}
		}
	}
	widths := make([]int, len(head))
	for j, title := range head {
		widths[j] = safetext.Width(title)
		for _, row := range rows {
			widths[j] = max(widths[j], safetext.Width(row[j].text))
		}
	}
	left := t.fit(lay.width, widths)
	var b strings.Builder
	line := func(row []cell) {
		var parts []string
		end := 0
		for j, c := range row {
			if widths[j] < 0 {
				continue
			}
			text := safetext.Fit(c.text, widths[j])
			for ; end > 0; end-- {
				parts[len(parts)-1] += " "
			}
			end = widths[j] - safetext.Width(text)
			if lay.color && c.style != plainly {
				text = safetext.Color(string(c.style), text)
			}
			parts = append(parts, text)
		}
		b.WriteString(strings.Join(parts, "  ") + "\n")
	}
	titles := make([]cell, len(head))
	for j, title := range head {
		titles[j] = cell{text: title, style: bold}
	}
	line(titles)
	for _, row := range rows {
		line(row)
	}
	if lay.width > 0 {
		for _, note := range left {
			if note = safetext.Fit(note, lay.width); lay.color {
				note = safetext.Color(string(faint), note)
			}
			b.WriteString(note + "\n")
		}
	}
	return b.String()
}

// A long column is wideEnough to read; where all spare columns are left out, it may become as narrow as leastLong.
const wideEnough, leastLong = 24, 6

// fit makes the widths of columns such that the table fits: of those that are left out -1. It returns what to say of these.
func (t *Table) fit(width int, widths []int) (say []string) {
	if width <= 0 {
		return nil
	}
	natural := slices.Clone(widths)
	for n := range len(t.spare) + 1 {
		copy(widths, natural)
		for _, title := range t.spare[:n] {
			widths[t.column(title)] = -1
		}
		if n > 0 {
			say = []string{"left out: " + strings.Join(t.spare[:n], ", ") + " (a wider terminal shows them)"}
		}
		if t.narrow(width, widths, wideEnough) {
			return say
		}
	}
	t.narrow(width, widths, leastLong)
	return say
}

func (t *Table) column(title string) int { return slices.Index(t.head, title) }

// narrow makes the widest long columns narrower, and reports whether the table fits then.
func (t *Table) narrow(width int, widths []int, least int) bool {
	total := -2
	for _, w := range widths {
		if w >= 0 {
			total += w + 2
		}
	}
	for total > width {
		widest := -1
		for _, title := range t.long {
			if j := t.column(title); widths[j] > least && (widest < 0 || widths[j] > widths[widest]) {
				widest = j
			}
		}
		if widest < 0 {
			return false
		}
		widths[widest]--
		total--
	}
	return true
}

// Zone names the time zone of this machine at a time: "CET", "UTC+3".
func Zone(at time.Time) string {
	name, seconds := at.Local().Zone()
	if strings.ContainsAny(name, "+-") || name == "" { // without a name of its own
		name = "UTC" + at.Local().Format("-07:00")
		if seconds == 0 {
			name = "UTC"
		}
	}
	return name
}

// shortMoment is a time as Moment has it, with no more of the date than today needs.
func shortMoment(t, today time.Time) string {
	text := Moment(t)
	if text == "-" || today.IsZero() {
		return text
	}
	t, today = t.Local(), today.Local()
	switch {
	case t.Year() == today.Year() && t.YearDay() == today.YearDay():
		return t.Format(time.TimeOnly)
	case t.Year() == today.Year():
		return t.Format("01-02 15:04")
	}
	return t.Format(time.DateOnly)
}
