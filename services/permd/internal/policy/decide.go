package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

const (
	allow = permissionv1.Verdict_VERDICT_ALLOW
	deny  = permissionv1.Verdict_VERDICT_DENY
	ask   = permissionv1.Verdict_VERDICT_ASK
)

// guard denies access to acphost's own files to agents, regardless of the rules.
func (p *Policy) guard(a *action) *permissionv1.DecideResponse {
	denied := func(file string) *permissionv1.DecideResponse {
		return &permissionv1.DecideResponse{Verdict: deny, Rule: Protected, Reason: show(file) + ": acphost's own files are not for agents"}
	}
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
	asked := func(file, why string) *permissionv1.DecideResponse {
		return &permissionv1.DecideResponse{Verdict: ask, Rule: Protected, Reason: show(file) + ": the command " + why + " acphost's own files"}
	}
	var suspected *permissionv1.DecideResponse
	for i := range a.uses {
		switch u := &a.uses[i]; u.forbidden(a, p.protected) {
		case yes:
			return denied(u.asked)
		case maybe:
			suspected = asked(u.asked, "may change or reach")
		}
	}
	if word, _ := spelled(p.protected, a); word != "" {
		return asked(word, "names")
	}
	return suspected
}

// isClear reports whether the action is known well enough to remember an answer to it.
func isClear(a *action) bool { return a.GetUnparsed() == "" && a.GetCommand().GetUnparsed() == "" }

// unseen returns in short which part of an action is not known; empty if the action is fully known.
func unseen(a *action) string {
	switch {
	case a.GetUnparsed() != "":
		return show(a.GetUnparsed())
	case a.GetCommand().GetUnparsed() != "":
		return "the line cannot be read in full: " + show(a.GetCommand().GetUnparsed())
	case a.opaque:
		var whys []string
		for _, sub := range a.GetCommand().GetSubCommands() {
			if why := unknown(sub); why != "" && !slices.Contains(whys, why) {
				whys = append(whys, why)
			}
		}
		return cmp.Or(listOf(whys, "; "), "a part of the command is only known when it runs")
	case a.cwdUnknown:
		for _, sub := range a.GetCommand().GetSubCommands() {
			if sub.GetCwdUnknown() && len(sub.GetArgv()) > 0 {
				return fmt.Sprintf("in which directory `%s` runs is only known when it runs", show(sub.GetArgv()[0]))
			}
		}
		return "it is not known in which directory a part of the command runs"
	case a.vague:
		for _, p := range a.GetPaths() {
			if !isPath(p.GetResolvedPath()) {
				return fmt.Sprintf("it is not known where %s leads", show(p.GetPath())) + a.whyUnresolved()
			}
		}
		return "it is not known where every path leads" + a.whyUnresolved()
	}
	return ""
}

// unknown returns which part of a simple command is known only at run time; empty: none. It repeats only the part of a word that a
// shell would expand: the text goes into records, and other words may be secrets.
func unknown(sub *permissionv1.SubCommand) string {
	program := "the command"
	if len(sub.GetArgv()) > 0 {
		program = "`" + show(sub.GetArgv()[0]) + "`"
	}
	if !sub.GetDynamic() {
		if slices.ContainsFunc(sub.GetRedirections(), (*permissionv1.Redirection).GetDynamic) {
			return "to which file " + program + " redirects is only known when it runs"
		}
		return ""
	}
	var words []string
	for _, i := range sub.GetDynamicWords() {
		if i == 0 {
			return "what " + program + " is, is only known when it runs"
		}
		if int(i) >= len(sub.GetArgv()) {
			continue
		}
		word := sub.GetArgv()[i]
		from := strings.IndexAny(word, "$`*?[{~")
		if from < 0 {
			continue
		}
		if from > 0 {
			word = "…" + word[from:]
		}
		if word = show(word); !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	if len(words) == 0 {
		return "a part of what " + program + " is given is only known when it runs"
	}
	return fmt.Sprintf("what %s is given by `%s` is only known when it runs", program, listOf(words, "`, `"))
}

// whyMaybe returns why it is not certain that a deny or ask rule matches an action.
func (r *rule) whyMaybe(a *action) string {
	if why := unseen(a); why != "" {
		return why
	}
	if r.hosts != nil && r.holdsHost(a) == maybe {
		return r.whyHost(a, maybe)
	}
	if r.paths != nil && forbidsPaths(r.paths, a) == maybe {
		return r.whyForbiddenPaths(a, maybe)
	}
	if r.effects.any() && r.effects.forbids(a) == maybe {
		return r.whyForbiddenEffects(a, maybe)
	}
	if a.command {
		return "the command may touch what the rule names"
	}
	return "it is not known in full"
}
