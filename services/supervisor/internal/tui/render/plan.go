package render

import (
	"strings"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// maxPlan limits the steps of a plan.
const maxPlan = 50

// Plan formats a plan as a checklist, in whole lines.
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

// planKey returns a key that identifies the content of a plan.
func planKey(entries []*supervisorv1.PlanEntry) string {
	var b strings.Builder
	for _, e := range entries {
		b.WriteString(e.GetStatus() + "\x00" + e.GetPriority() + "\x00" + e.GetContent() + "\x00")
	}
	return b.String()
}
