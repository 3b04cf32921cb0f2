package doctor

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// checkWidth is the width of the column of checks. It is constant, because findings are printed one by one.
const checkWidth = 20

// levelWidth is the width of the column of levels.
const levelWidth = len(Warning)

// Printer writes findings for users, one by one.
type Printer struct {
	// Out receives the text.
	Out io.Writer
	// Color uses colours, for a terminal.
	Color bool

	area string
}

// Print writes one finding: its level, check and detail, and below it what to do.
func (p *Printer) Print(f Finding) {
	if f.Area != p.area {
		if p.area != "" {
			fmt.Fprintln(p.Out)
		}
		p.area = f.Area
		fmt.Fprintln(p.Out, p.paint("1", strings.ToUpper(f.Area[:1])+f.Area[1:]))
	}
	color := map[Level]string{OK: "32", Warning: "33", Problem: "31"}[f.Level]
	check := safetext.Text(f.Check)
	indent := strings.Repeat(" ", 2+levelWidth+2+max(checkWidth, utf8.RuneCountInString(check))+2)
	lines := strings.Split(f.Detail, "\n")
	fmt.Fprintf(p.Out, "  %s%s  %-*s  %s\n", p.paint(color, string(f.Level)), strings.Repeat(" ", levelWidth-len(f.Level)), checkWidth, check, safetext.Text(lines[0]))
	for _, line := range lines[1:] {
		fmt.Fprintf(p.Out, "%s%s\n", indent, safetext.Text(line))
	}
	if f.Todo != "" {
		fmt.Fprintf(p.Out, "%s%s %s\n", indent, p.paint("1", "→"), safetext.Text(f.Todo))
	}
}

// Summary writes the numbers of problems and warnings.
func (p *Printer) Summary(all []Finding) {
	count := map[Level]int{}
	for _, f := range all {
		count[f.Level]++
	}
	verdict, color := "everything is in order", "32"
	switch {
	case count[Problem] > 0:
		verdict, color = safetext.Count(count[Problem], "problem"), "31"
		if count[Warning] > 0 {
			verdict += ", " + safetext.Count(count[Warning], "warning")
		}
	case count[Warning] > 0:
		verdict, color = "no problem, "+safetext.Count(count[Warning], "warning"), "33"
	}
	fmt.Fprintf(p.Out, "\n%s\n", p.paint(color, verdict))
}

// Report returns all findings as one object for JSON.
func Report(all []Finding) any {
	wrong := slices.ContainsFunc(all, func(f Finding) bool { return f.Level == Problem })
	return struct {
		OK       bool      `json:"ok"`
		Findings []Finding `json:"findings"`
	}{!wrong, all}
}

func (p *Printer) paint(color, text string) string { return safetext.Paint(p.Color, color, text) }
