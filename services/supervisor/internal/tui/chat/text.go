package chat

import (
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// style formats text with or without colours.
type style struct{ color bool }

func (s style) dim(text string) string    { return safetext.Paint(s.color, "2", text) }
func (s style) bold(text string) string   { return safetext.Paint(s.color, "1", text) }
func (s style) red(text string) string    { return safetext.Paint(s.color, "31", text) }
func (s style) yellow(text string) string { return safetext.Paint(s.color, "33", text) }
func (s style) cyan(text string) string   { return safetext.Paint(s.color, "36", text) }
func (s style) chosen(text string) string { return safetext.Paint(s.color, "7", text) }

// untabbed replaces tabs by spaces, because the width of a tab depends on the terminal.
func untabbed(text string) string { return strings.ReplaceAll(text, "\t", "    ") }

// fit shortens a line to a width.
func fit(text string, width int) string {
	return ansi.Truncate(text, max(width, 1), "…")
}

// wrap breaks lines at the ends of words. If there are more than rows rows, the last one reports the omission. Tabs
// become spaces.
func wrap(text string, width, rows int) []string {
	all := safetext.Wrap(untabbed(text), width, "")
	if len(all) <= rows {
		return all
	}
	return append(all[:rows-1], fmt.Sprintf("… %d more lines", len(all)-rows+1))
}

// hints returns descriptions of keys, in as many rows as they need.
func hints(width int, all ...string) []string {
	var rows []string
	for _, h := range all {
		if n := len(rows); n > 0 && safetext.Width(rows[n-1]+" · "+h) <= width {
			rows[n-1] += " · " + h
			continue
		}
		rows = append(rows, fit(h, width))
	}
	return rows
}

// dims dims rows.
func (s style) dims(rows []string) []string {
	for i, r := range rows {
		rows[i] = s.dim(r)
	}
	return rows
}

// lastRows returns the last rows.
func lastRows(all []string, rows int) []string {
	if rows < 1 {
		return nil
	}
	return all[max(0, len(all)-rows):]
}

// count formats a number: 1234 is "1.2k".
func count(n uint64) string {
	switch {
	case n < 1000:
		return fmt.Sprint(n)
	case n < 10_000:
		return fmt.Sprintf("%.1fk", float64(n/100)/10)
	case n < 1_000_000:
		return fmt.Sprintf("%dk", n/1000)
	}
	return fmt.Sprintf("%.1fM", float64(n/100_000)/10)
}

// duration formats a duration: "3s", "1m05s", "2h03m".
func duration(d time.Duration) string {
	s := int(d / time.Second)
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	}
	return fmt.Sprintf("%dh%02dm", s/3600, s/60%60)
}
