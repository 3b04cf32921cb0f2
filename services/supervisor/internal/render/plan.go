package render

import (
	"strings"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/safetext"
)

// maxPlan is how many steps of a plan are shown.
const maxPlan = 50

// Plan is a plan as a checklist: whole lines.
func Plan(o Options, entries []*supervisorv1.PlanEntry) string {
	var lines []string
	for _, e := range entries {
		mark, s := "☐", normal
		switch e.GetStatus() {
		case "completed":
			mark, s = "☑", dim
		case "in_progress":
			mark, s = "◐", bold
		}
		text := safetext.Line(e.GetContent())
		if e.GetPriority() == "high" && e.GetStatus() != "completed" {
			text += " (high)"
		}
		lines = append(lines, o.paint(s, mark+" "+text))
	}
	return bounded(o, lines, maxPlan)
}

// planKey tells plans apart.
func planKey(entries []*supervisorv1.PlanEntry) string {
	var b strings.Builder
	for _, e := range entries {
		b.WriteString(e.GetStatus() + "\x00" + e.GetPriority() + "\x00" + e.GetContent() + "\x00")
	}
	return b.String()
}
