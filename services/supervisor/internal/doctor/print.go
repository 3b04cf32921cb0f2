package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// checkWidth is the width of the column of checks: findings are printed as they come, so it cannot follow from them.
const checkWidth = 20

// levelWidth is the width of the column of levels.
const levelWidth = len(Warning)

// Printer writes findings for people, as they come.
type Printer struct {
	// Out takes the text.
	Out io.Writer
	// Color uses colours, for a terminal.
	Color bool

	area string
}

// Print writes one finding: its level, what was looked at, what was found; below it, what to do.
func (p *Printer) Print(f Finding) {
	if f.Area != p.area {
		if p.area != "" {
			fmt.Fprintln(p.Out)
		}
		p.area = f.Area
		fmt.Fprintln(p.Out, p.paint("1", strings.ToUpper(f.Area[:1])+f.Area[1:]))
	}
	color := map[Level]string{OK: "32", Warning: "33", Problem: "31"}[f.Level]
	check := plain(f.Check)
	indent := strings.Repeat(" ", 2+levelWidth+2+max(checkWidth, utf8.RuneCountInString(check))+2)
	lines := strings.Split(f.Detail, "\n")
	fmt.Fprintf(p.Out, "  %s%s  %-*s  %s\n", p.paint(color, string(f.Level)), strings.Repeat(" ", levelWidth-len(f.Level)), checkWidth, check, plain(lines[0]))
	for _, line := range lines[1:] {
		fmt.Fprintf(p.Out, "%s%s\n", indent, plain(line))
	}
	if f.Todo != "" {
		fmt.Fprintf(p.Out, "%s%s %s\n", indent, p.paint("1", "→"), plain(f.Todo))
	}
}

// Summary writes what it all comes to.
func (p *Printer) Summary(all []Finding) {
	count := map[Level]int{}
	for _, f := range all {
		count[f.Level]++
	}
	verdict, color := "everything is in order", "32"
	switch {
	case count[Problem] > 0:
		verdict, color = number(count[Problem], "problem"), "31"
		if count[Warning] > 0 {
			verdict += ", " + number(count[Warning], "warning")
		}
	case count[Warning] > 0:
		verdict, color = "it works, with "+number(count[Warning], "warning"), "33"
	}
	fmt.Fprintf(p.Out, "\n%s\n", p.paint(color, verdict))
}

// PrintJSON writes all findings as one object.
func PrintJSON(w io.Writer, all []Finding) error {
	report := struct {
		OK       bool      `json:"ok"`
		Findings []Finding `json:"findings"`
	}{OK: true, Findings: all}
	for _, f := range all {
		report.OK = report.OK && f.Level != Problem
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(report)
}

func (p *Printer) paint(color, text string) string {
	if !p.Color {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

func number(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// plain keeps what an agent or a handler says of itself from moving the cursor.
func plain(s string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsControl(c) || unicode.Is(unicode.Cf, c) {
			return '?'
		}
		return c
	}, s)
}
