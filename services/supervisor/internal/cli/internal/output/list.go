package output

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// Table is a list for users with a row for each item. On a terminal it is fitted to the width: long columns are
// shortened, and then columns are omitted, with a notice. For other outputs it is complete.
type Table struct {
	empty string // printed for a table without rows
	head  []string
	rows  [][]cell
	long  []string
	spare []string
}

// cell is a cell of a table.
type cell struct {
	text  string // for a terminal
	whole string // for other outputs
	style style
	time  time.Time
	timed bool
}

// Short returns a cell of which a terminal shows at most limit characters. Other outputs are complete.
func Short(text string, limit int) Part { return Part{text, limit} }

// Part is a cell that is shortened on a terminal.
type Part struct {
	text  string
	limit int
}

// style is the style of a word on a terminal: the parameters of an escape sequence.
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

// Good returns a word for a good state.
func Good(text string) Word { return Word{text, green} }

// Bad returns a word for a failure or a denial.
func Bad(text string) Word { return Word{text, red} }

// Warn returns a word for a state that needs attention.
func Warn(text string) Word { return Word{text, yellow} }

// Faint returns an unimportant word.
func Faint(text string) Word { return Word{text, faint} }

// NewTable returns a table. Column titles are upper case. empty is a sentence without a full stop.
func NewTable(empty string, head ...string) *Table { return &Table{empty: empty, head: head} }

// Long sets the columns that are shortened if a table is too wide. Other columns, such as ids, are complete or omitted.
func (t *Table) Long(titles ...string) *Table { t.long = titles; return t }

// Spare sets the columns that are omitted if a table is still too wide, the least important first.
func (t *Table) Spare(titles ...string) *Table { t.spare = titles; return t }

// Add adds a row. Numbers are unchanged, times are formatted, and other values are escaped text. Empty values and zero
// times become "-".
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
			row[i] = cell{text: OneLine(c.text, c.limit), whole: Whole(c.text)}
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

// PrintTable prints a table to standard output, through a pager if it is longer than the screen. For an empty table it
// prints a notice to standard error.
func PrintTable(call *command.Call, t *Table) error {
	if len(t.rows) == 0 {
		return PrintEmpty(call, t.empty)
	}
	terminal := call.Terminal(call.Stdout)
	lay := layout{color: UseColor(call, terminal)}
	if terminal {
		lay.width, lay.today = Width(call), time.Now()
	}
	return Page(call, t.text(lay))
}

// PrintEmpty prints a notice about an empty result to standard error, unless a supervisor failed to answer, so that the
// result is unknown.
func PrintEmpty(call *command.Call, text string) error {
	if call.Status != 0 {
		return nil
	}
	_, err := fmt.Fprintln(call.Stderr, text)
	return err
}

// Text formats the table for a number of columns. It is empty without rows. It does not shorten times, because the
// caller knows the age of the data.
func (t *Table) Text(columns int, color bool) string {
	if len(t.rows) == 0 {
		return ""
	}
	return t.text(layout{width: columns, today: time.Now(), color: color})
}

// layout is the layout of a table. Width 0 means complete.
type layout struct {
	width int
	today time.Time // times of this day are shown without a date; zero: all times have one
	color bool
}

// text formats the table in lines.
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

// A long column is shortened to wideEnough. After all spare columns are omitted, it may be shortened to leastLong.
const wideEnough, leastLong = 24, 6

// fit sets the widths of columns so that the table fits. The width of an omitted column is -1. It returns a notice
// about these.
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

// narrow shortens the widest long columns, and reports whether the table fits then.
func (t *Table) narrow(width int, widths []int, minimum int) bool {
	total := -2
	for _, w := range widths {
		if w >= 0 {
			total += w + 2
		}
	}
	for total > width {
		widest := -1
		for _, title := range t.long {
			if j := t.column(title); widths[j] > minimum && (widest < 0 || widths[j] > widths[widest]) {
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

// Zone returns the name of this machine's time zone at a time: "CET", "UTC+3".
func Zone(at time.Time) string {
	name, seconds := at.Local().Zone()
	if strings.ContainsAny(name, "+-") || name == "" { // it has no name
		name = "UTC" + at.Local().Format("-07:00")
		if seconds == 0 {
			name = "UTC"
		}
	}
	return name
}

// shortMoment formats a time as Moment, without the parts of the date that are the same today.
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
