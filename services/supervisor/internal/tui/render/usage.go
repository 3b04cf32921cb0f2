package render

import (
	"fmt"
	"strconv"
	"strings"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// Usage formats the usage of a turn and of the context, on one line without a line feed: "1,204 tokens (1,000 in, 204
// out) · context 12% of 200k · 0.12 USD". Both may be nil. The result may be empty.
func Usage(tokens *supervisorv1.TokenUsage, context *supervisorv1.ContextUsage) string {
	var parts []string
	if tokens != nil {
		part := safetext.Number(tokens.GetTotal()) + " tokens (" + safetext.Number(tokens.GetInput()) + " in, " + safetext.Number(tokens.GetOutput()) + " out"
		if n := tokens.GetThought(); n > 0 {
			part += ", " + safetext.Number(n) + " thought"
		}
		if n := tokens.GetCachedRead(); n > 0 {
			part += ", " + safetext.Number(n) + " from cache"
		}
		parts = append(parts, part+")")
	}
	if context.GetSize() > 0 {
		part := short(context.GetUsed()) + " of " + short(context.GetSize())
		if context.GetUsed() <= context.GetSize() {
			part = fmt.Sprintf("%.0f%% of %s", 100*float64(context.GetUsed())/float64(context.GetSize()), short(context.GetSize()))
		}
		parts = append(parts, "context "+part)
	}
	if context != nil && context.Cost != nil {
		cost := strconv.FormatFloat(context.GetCost(), 'f', 4, 64)
		cost = strings.TrimSuffix(strings.TrimSuffix(cost, "0"), "0")
		parts = append(parts, strings.TrimSpace(cost+" "+safetext.LineOf(context.GetCurrency(), 8)))
	}
	return strings.Join(parts, " · ")
}

// short formats an approximate number.
func short(n uint64) string {
	switch {
	case n >= 10_000_000:
		return fmt.Sprintf("%.0fM", float64(n)/1e6)
	case n >= 1_000_000:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/1e6), ".0") + "M"
	case n >= 1000:
		return fmt.Sprintf("%.0fk", float64(n)/1e3)
	}
	return strconv.FormatUint(n, 10)
}
