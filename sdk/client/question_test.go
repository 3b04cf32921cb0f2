package client

import (
	"testing"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

func TestHowEnded_DescribesAnswer(t *testing.T) {
	for want, a := range map[string]*supervisorv1.ApprovalAnswer{
		"it was allowed by cli":             {Outcome: "allowed", AnsweredBy: "cli"},
		"it was cancelled by front":         {Outcome: "cancelled", AnsweredBy: "front"},
		"it was cancelled":                  {Outcome: "cancelled", AnsweredBy: "nobody"},
		"no user answered it in time":       {Outcome: "expired", AnsweredBy: "nobody"},
		"the agent withdrew it, or is gone": {Outcome: "withdrawn", AnsweredBy: "nobody"},
	} {
		if got := HowEnded(a); got != want {
			t.Errorf("%v: %q, want %q", a, got, want)
		}
	}
}
