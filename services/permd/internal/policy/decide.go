package policy

import (
	"slices"

	"github.com/acphost/acphost/internal/reason"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

const (
	allow = permissionv1.Verdict_VERDICT_ALLOW
	deny  = permissionv1.Verdict_VERDICT_DENY
	ask   = permissionv1.Verdict_VERDICT_ASK
)

// guard denies access to acphost's own files to agents, regardless of the rules.
func (p *Policy) guard(a *action) *permissionv1.DecideResponse {
	decision := func(verdict permissionv1.Verdict, file string, why reason.Reason) *permissionv1.DecideResponse {
		var parts []string
		if a.command || len(a.paths) > 1 {
			parts = []string{show(file)}
		}
		return &permissionv1.DecideResponse{Verdict: verdict, Rule: Protected, Reason: naming(parts, why.String())}
	}
	denied := func(file string) *permissionv1.DecideResponse { return decision(deny, file, reason.ProtectedFile) }
	for _, access := range a.GetPaths() {
		if access.GetProtected() {
			return denied(access.GetPath())
		}
	}
	for i := range a.paths {
		access := &a.paths[i]
		if slices.ContainsFunc(p.protected, func(g glob) bool {
			return g.forbids(a, access.foldedAsked) || g.forbids(a, access.foldedResolved)
		}) {
			return denied(access.asked)
		}
	}
	var suspected *permissionv1.DecideResponse
	for i := range a.uses {
		switch u := &a.uses[i]; u.forbidden(a, p.protected) {
		case yes:
			return denied(u.asked)
		case maybe:
			suspected = decision(ask, u.asked, reason.ProtectedPossible)
		}
	}
	if word, _ := spelled(p.protected, a); word != "" {
		return decision(ask, word, reason.ProtectedNamed)
	}
	return suspected
}

// isClear reports whether the action is known well enough to remember an answer to it.
func isClear(a *action) bool { return a.GetUnparsed() == "" && a.GetCommand().GetUnparsed() == "" }

// whyMaybe returns why it is not certain that a deny or ask rule matches an action, and the detail.
func (r *rule) whyMaybe(a *action) (why, detail string) {
	if why := unknownReason(a); why != "" {
		return why, unseen(a)
	}
	files := reason.PathUnknown
	if a.command {
		files = reason.FilesUnknown
	}
	switch {
	case r.hosts != nil && r.holdsHost(a) == maybe:
		return reason.HostUnknown.String(), r.whyHost(a, maybe)
	case r.paths != nil && forbidsPaths(r.paths, a) == maybe:
		return files.String(), r.whyForbiddenPaths(a, maybe)
	case r.effects.any() && r.effects.forbids(a) == maybe:
		return reason.EffectUnknown.String(), r.whyForbiddenEffects(a, maybe)
	case a.command:
		return reason.EffectUnknown.String(), "the command may use files or hosts that the rule names"
	}
	return reason.RequestUnreadable.String(), "not all of the action is known"
}
