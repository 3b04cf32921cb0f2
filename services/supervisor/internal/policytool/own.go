package policytool

import (
	"fmt"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// ownDecision returns the decision on an action that no policy is asked about, as the gate gives it; nil for all others.
func ownDecision(a *permissionv1.Action) *permissionv1.DecideResponse {
	for _, p := range a.GetPaths() {
		if p.GetProtected() {
			return &permissionv1.DecideResponse{
				Verdict: permissionv1.Verdict_VERDICT_DENY, Rule: "acphost/protected",
				Reason: fmt.Sprintf("%s belongs to acphost itself (its configuration, policy, state, keys or sockets), which no agent may touch; "+
					"no policy is asked", p.GetPath()),
			}
		}
	}
	if a.GetKind() == "tool.switch_mode" {
		return &permissionv1.DecideResponse{
			Verdict: permissionv1.Verdict_VERDICT_ASK, Rule: "acphost/mode",
			Reason: "whether an agent may work in another mode is for a person to say; no policy is asked",
		}
	}
	return nil
}
