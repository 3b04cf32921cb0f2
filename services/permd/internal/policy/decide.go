package policy

import (
	"fmt"
	"slices"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

const (
	allow = permissionv1.Verdict_VERDICT_ALLOW
	deny  = permissionv1.Verdict_VERDICT_DENY
	ask   = permissionv1.Verdict_VERDICT_ASK
)

// Decide judges an action by this file alone. The same action gets the same answer from the same policy, always. A nil
// action is one of which nothing is known.
func (p *Policy) Decide(of *permissionv1.Action) *permissionv1.DecideResponse {
	return Decide([]Part{{Policy: p, Layer: permissionv1.Layer_LAYER_USER}}, of)
}

// asks is the verdict of the ask rules; nil if none matches. Of several, one that no remembered answer satisfies counts.
func (p *Policy) asks(a *action) *permissionv1.DecideResponse {
	var found *rule
	reason := ""
	for i := range p.ask {
		r := &p.ask[i]
		sure := r.forbids(a)
		if sure == no || (found != nil && (r.grantable || !found.grantable)) {
			continue
		}
		found, reason = r, orDefault(r.reason, "rule "+r.id+" asks")
		if sure == maybe {
			reason = fmt.Sprintf("rule %s may ask about this: %s", r.id, doubt(a))
		}
	}
	if found == nil {
		return nil
	}
	return &permissionv1.DecideResponse{Verdict: ask, Rule: found.id, Reason: reason, Grantable: found.grantable && isClear(a)}
}

// guard keeps acphost's own files from agents, whatever the rules.
func (p *Policy) guard(a *action) *permissionv1.DecideResponse {
	for _, access := range a.GetPaths() {
		if access.GetProtected() {
			return &permissionv1.DecideResponse{Verdict: deny, Rule: Protected, Reason: "acphost's own files are not for agents"}
		}
	}
	for i := range a.paths {
		access := &a.paths[i]
		if slices.ContainsFunc(p.protected, func(g glob) bool {
			return g.forbids(a, access.foldedAsked) || g.forbids(a, access.foldedResolved)
		}) {
			return &permissionv1.DecideResponse{Verdict: deny, Rule: Protected, Reason: "acphost's own files are not for agents"}
		}
	}
	if spells(p.protected, a) {
		return &permissionv1.DecideResponse{Verdict: ask, Rule: Protected, Reason: "the command names acphost's own files"}
	}
	return nil
}

// isClear reports whether the action is known well enough for a remembered answer to mean something.
func isClear(a *action) bool { return a.GetUnparsed() == "" && a.GetCommand().GetUnparsed() == "" }

// doubt says in short why it is not certain what an action does.
func doubt(a *action) string {
	switch {
	case a.GetUnparsed() != "":
		return a.GetUnparsed()
	case a.GetCommand().GetUnparsed() != "":
		return a.GetCommand().GetUnparsed()
	case a.opaque:
		return "a part of the command is only known when it runs"
	case a.adrift:
		return "it is not known in which directory a part of the command runs"
	case a.vague:
		return "it is not known where every path leads"
	case a.command:
		return "the command may touch what the rule names"
	}
	return "it is not known in full"
}

func orDefault(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
