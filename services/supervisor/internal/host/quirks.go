package host

import (
	"slices"
	"strings"

	"github.com/acphost/acphost/services/supervisor/internal/link"
)

// knownQuirks are the workarounds that agents are known to need, by what the agent, or its program, calls itself.
//
// Gemini CLI (seen with 0.61) reads a file before it creates it and loses the error object of that read on the way, so
// that it can create a file only if the read of a missing one succeeds.
var knownQuirks = map[string][]string{
	"gemini": {link.QuirkCreateByReading},
}

// quirk tells whether a workaround is on: named by configuration, or known of the agent.
func (h *host) quirk(name, reported string) bool {
	if configured := h.config.GetAgent().GetQuirks(); len(configured) > 0 {
		return slices.Contains(configured, name)
	}
	for agent, quirks := range knownQuirks {
		if strings.HasPrefix(strings.ToLower(reported), agent) || strings.HasPrefix(strings.ToLower(h.agentName()), agent) {
			if slices.Contains(quirks, name) {
				return true
			}
		}
	}
	return false
}
