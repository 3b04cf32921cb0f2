package policy

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// The criteria that rules of every effect have, or that are used only once.
var (
	ofKind         = criterion{(*rule).holdsKind, (*rule).whyKind}
	ofSurroundings = criterion{(*rule).holdsSurroundings, (*rule).whySurroundings}
	ofRedirections = criterion{(*rule).holdsRedirections, (*rule).whyRedirections}
	ofAllowedPaths = criterion{(*rule).holdsAllowedPaths, (*rule).whyAllowedPaths}
	ofAllowedWhen  = criterion{(*rule).holdsAllowedWhen, (*rule).whyAllowedWhen}

	ofAgent = byName("agent", func(r *rule, a *action) ([]string, string, string) { return r.agents, a.GetAgent(), "" })
	ofMode  = byName("mode", func(r *rule, a *action) ([]string, string, string) {
		return r.modes, a.GetMode(), "the session's mode is not known"
	})
	ofTool = byName("tool", func(r *rule, a *action) ([]string, string, string) {
		if !strings.HasPrefix(a.GetKind(), "tool.") {
			return r.tools, a.GetTool(), "" // calls of an agent's client have no tool
		}
		return r.tools, a.GetTool(), "the agent does not name the tool"
	})
)

// byName returns the criterion that one of the rule's patterns matches a name of the action. missing is why the action
// may have a name that is not given; empty: it has none then.
func byName(what string, of func(r *rule, a *action) (patterns []string, name, missing string)) criterion {
	return criterion{
		holds: func(r *rule, a *action) match {
			patterns, name, missing := of(r, a)
			if !matchesName(patterns, name) && name == "" && missing != "" && r.effect != "allow" {
				return maybe
			}
			return sureIf(matchesName(patterns, name))
		},
		why: func(r *rule, a *action, held match) string {
			patterns, name, missing := of(r, a)
			is := what + " is " + cmp.Or(show(name), "not known")
			switch {
			case len(patterns) == 0:
				return ""
			case held == yes:
				return is
			case held == no:
				return fmt.Sprintf("%s, the rule is for %s", is, list(patterns))
			}
			return fmt.Sprintf("it cannot be told: %s, the rule is for %s", missing, list(patterns))
		},
	}
}

func (r *rule) whyKind(a *action, held match) string {
	switch {
	case held == maybe:
		return "it cannot be told: the action has no kind"
	case held == no && a.GetKind() == "":
		return "the action has no kind"
	case r.on == nil && r.notOn == nil:
		return ""
	case held == yes:
		return "on is " + show(r.kindOf(a))
	}
	var names []string
	for _, g := range r.on {
		names = append(names, string(g))
	}
	for _, g := range r.notOn {
		names = append(names, "!"+string(g))
	}
	return fmt.Sprintf("on is %s, the rule is for %s", show(r.kindOf(a)), list(names))
}

func (r *rule) whySurroundings(a *action, held match) string {
	if held == yes {
		return ""
	}
	for _, entry := range a.GetCommand().GetEnv() {
		if !shell.HarmlessVariable(entry) {
			name, _, _ := strings.Cut(entry, "=") // the value may be a secret
			return fmt.Sprintf("the request sets the variable %s, which may change what the command does", show(name))
		}
	}
	return fmt.Sprintf("the command runs in %s, which is not known to be inside the roots", show(a.GetCommand().GetCwd()))
}

func (r *rule) whyRedirections(_ *action, held match) string {
	switch {
	case held == no && r.redirectNone:
		return "the command redirects to a file, the rule says redirect: none"
	case held == no:
		return "the command redirects to a file, and the rule does not say redirect: any"
	case r.redirectNone:
		return "nothing is redirected to a file"
	}
	return ""
}

func (r *rule) whyAllowedCommand(a *action, held match) string {
	switch {
	case !r.byCommand():
		return ""
	case held == no:
		return r.whyCommandIsNotAllowed(a)
	}
	var covered []string
	for i, sub := range a.GetCommand().GetSubCommands() {
		switch {
		case len(sub.GetArgv()) == 0:
		case r.commands == nil:
			covered = append(covered, "it is known what "+code(sub.GetArgv())+" does, and the rule takes that")
		default:
			covered = append(covered, r.matchesCommand(r.covering(a, i), sub.GetArgv()))
		}
	}
	return listOf(covered, "; ")
}

func (r *rule) whyCommandIsNotAllowed(a *action) string {
	if !a.command && !a.unclear {
		return "the action runs no command"
	}
	if a.unclear {
		return "it cannot be told what runs: " + show(whyUnclear(a))
	}
	for i, sub := range a.GetCommand().GetSubCommands() {
		argv := sub.GetArgv()
		odd := slices.IndexFunc(sub.GetAssignments(), func(a string) bool { return !shell.HarmlessVariable(a) })
		switch {
		case sub.GetDynamic():
			return "it cannot be told: " + unknown(sub)
		case odd >= 0:
			name, _, _ := strings.Cut(sub.GetAssignments()[odd], "=")
			return fmt.Sprintf("the line sets the variable %s", show(name))
		case !plain(sub):
			return fmt.Sprintf("%s runs under %s", code(argv), show(strings.Join(sub.GetWrappers(), ", ")))
		case sub.GetCwdUnknown():
			return fmt.Sprintf("it is not known in which directory %s runs", code(argv))
		case !a.inPlace(sub):
			return fmt.Sprintf("%s runs in %s, which is not known to be inside the roots", code(argv), show(sub.GetCwd()))
		case !r.allowsRedirections(a, sub):
			return r.whyNotRedirection(a, sub)
		}
		why := r.effects.whyNot(a, i)
		switch {
		case len(argv) == 0:
		case r.commands == nil || r.covering(a, i) >= 0:
			switch {
			case why != "":
				return why
			case !r.holdsAlone(a, i):
				return "when is false for " + code(argv) + " alone"
			}
		case slices.ContainsFunc(r.commands, func(c command) bool { return c.begins(argv) }):
			return r.whyRisky(argv, a.risks[i])
		default:
			return code(argv) + " begins with none of its commands"
		}
	}
	return "the line runs no command"
}

// whyRisky returns the first risk of a simple command that none of the rule's commands names.
func (r *rule) whyRisky(argv, risks []string) string {
	for n := range risks {
		if !slices.ContainsFunc(r.commands, func(c command) bool { return c.begins(argv) && shell.Names(c.risks, risks[:n+1]) }) {
			return show(risks[n]) + ", which the rule does not name"
		}
	}
	return "no one command of the rule names all that is known against " + code(argv)
}

// whyNotRedirection returns which redirection the rule does not cover.
func (r *rule) whyNotRedirection(a *action, sub *permissionv1.SubCommand) string {
	for _, redirection := range sub.GetRedirections() {
		switch {
		case toNowhere(redirection), r.readsFrom(a, redirection):
		case redirection.GetDynamic():
			return "it cannot be told which file the command redirects to: that is only known when it runs"
		case !r.redirectAny:
			return fmt.Sprintf("the command redirects to a file, %s, and the rule does not say redirect: any", show(redirection.GetPath()))
		case r.paths == nil:
			return fmt.Sprintf("the command redirects to a file, %s, and the rule has no path that covers it", show(redirection.GetPath()))
		case !isPath(redirection.GetResolvedPath()) ||
			!slices.ContainsFunc(a.paths, func(p pathAccess) bool { return p.resolved == path.Clean(redirection.GetResolvedPath()) }):
			return fmt.Sprintf("it is not known where the redirection to %s leads", show(redirection.GetPath())) + a.whyUnresolved()
		}
	}
	return "the command redirects to a file"
}

func (r *rule) whyAllowedPaths(a *action, _ match) string {
	switch {
	case r.paths == nil, r.needsNoPaths(a):
		return ""
	case a.vague:
		return "it is not known where every path leads" + a.whyUnresolved() + because(a.GetUnparsed())
	case len(a.paths) == 0:
		return "the action names no path"
	case !r.byCommand() && a.command:
		return "the rule names paths alone, and the action runs a command, which may touch others"
	}
	var covered []string
	for i := range a.paths {
		p := &a.paths[i]
		by := slices.IndexFunc(r.paths, func(g glob) bool { return g.allows(a.roots, p, p.asked) })
		switch {
		case p.internal:
			return fmt.Sprintf("path %s is git's own: git runs what is written there", show(p.asked))
		case by < 0:
			return fmt.Sprintf("path %s matches none of its globs%s", show(p.asked), outside(r, p))
		case !r.allowsPath(a, p):
			return fmt.Sprintf("path %s leads to %s, which matches none of its globs", show(p.asked), show(p.resolved))
		}
		covered = append(covered, fmt.Sprintf("path %s matches %s", show(p.asked), r.paths[by].source))
	}
	return listOf(covered, "; ")
}

func outside(r *rule, p *pathAccess) string {
	if !p.inside && slices.ContainsFunc(r.paths, func(g glob) bool { return g.rooted }) {
		return " (it does not lie inside the session's roots)"
	}
	return ""
}

func (r *rule) whyAllowedWhen(a *action, held match) string {
	switch {
	case r.when == nil:
		return ""
	case held == yes:
		return "when is true"
	case a.unclear:
		return "it is not known in full what is done, so that when does not count" + because(whyUnclear(a))
	case a.command && !r.byCommand() && r.on == nil:
		return "the action runs a command, and neither on nor command says that when is about commands"
	}
	if _, err := r.when.holds(a.Action); err != nil {
		return "when failed: " + show(err.Error())
	}
	return "when is false"
}

func (r *rule) whyDoubts(a *action, held match) string {
	if held == no {
		why := show(r.whyDoubtful(a))
		if r.commands != nil && !r.effects.any() && !r.workspacePrograms && !slices.ContainsFunc(a.doubts, func(d doubts) bool { return d.beside != "" }) {
			why += "; a rule with workspace_programs: true takes it as it is"
		}
		return why
	}
	for _, d := range a.doubts {
		if r.workspacePrograms && d.all != "" {
			return show(d.all) + ", and the rule says workspace_programs"
		}
	}
	return ""
}

func (r *rule) whyForbiddenCommand(a *action, held match) string {
	switch subs := a.GetCommand().GetSubCommands(); {
	case r.commands == nil:
		return ""
	case held == no && !a.command:
		return "the action runs no command"
	case held == no && len(subs) == 1 && len(subs[0].GetArgv()) > 0:
		return code(subs[0].GetArgv()) + " begins with none of its commands"
	case held == no:
		return "no part of the line begins with one of its commands"
	}
	var found string
	r.eachSpelling(a, func(_ int, w words, under string) bool {
		j := slices.IndexFunc(r.commands, func(c command) bool { return c.judge(w) == held })
		switch {
		case j < 0:
			return true
		case held == maybe:
			found = fmt.Sprintf("it cannot be told whether %s is `%s`: part of it is only known when it runs", code(w.argv),
				strings.Join(r.commands[j].prefix, " "))
		case under != "":
			found = r.matchesCommand(j, w.argv) + " (under " + show(under) + ")"
		default:
			found = r.matchesCommand(j, w.argv)
		}
		return false
	})
	return cmp.Or(found, "it cannot be told what runs: "+show(whyUnclear(a)))
}

func (r *rule) whyForbiddenPaths(a *action, held match) string {
	switch {
	case r.paths == nil:
		return ""
	case held == no && len(a.paths) == 0 && !a.command:
		return "the action names no path"
	case held == no:
		return "no path matches"
	case held == yes:
		return r.whichPathIsForbidden(a)
	case a.GetUnparsed() != "" || a.GetCommand().GetUnparsed() != "":
		return "it cannot be told which paths are touched: " + show(whyUnclear(a))
	case a.opaque, a.cwdUnknown:
		return "it cannot be told which paths are touched: " + unseen(a)
	case a.vague && len(a.paths) == 0:
		return "it cannot be told: the action names no path"
	case a.vague:
		return "it cannot be told: " + unseen(a)
	}
	for i := range a.paths {
		p := &a.paths[i]
		if j := slices.IndexFunc(r.paths, func(g glob) bool { return g.mayForbid(a, p) }); j >= 0 {
			return fmt.Sprintf("path %s leads to %s, which may match %s", show(p.asked), show(p.resolved), r.paths[j].source)
		}
	}
	for i := range a.uses {
		if u := &a.uses[i]; u.forbidden(a, r.paths) == maybe {
			return "it cannot be told whether the command uses such a file: " + u.whyMaybe(a)
		}
	}
	word, by := spelled(r.paths, a)
	return fmt.Sprintf("a word of the command may name %s, which matches %s", show(word), by)
}

func (r *rule) whichPathIsForbidden(a *action) string {
	paths := slices.Clone(a.paths)
	for i := range a.uses {
		paths = append(paths, a.uses[i].pathAccess)
	}
	for _, p := range paths {
		for _, g := range r.paths {
			switch {
			case !g.limits.concern(&p):
			case g.limits.onlyKeys && g.forbids(a, p.foldedAsked):
				return fmt.Sprintf("path %s holds a private key", show(p.asked))
			case g.forbids(a, p.foldedAsked):
				return fmt.Sprintf("path %s matches %s", show(p.asked), g.source)
			case p.leads && (g.forbidsLeading(a, p.foldedAsked) || g.forbidsLeading(a, p.foldedResolved)):
				return fmt.Sprintf("path %s is a link, by which a folder elsewhere has a name of %s", show(p.asked), g.source)
			case g.forbids(a, p.foldedResolved):
				return fmt.Sprintf("path %s leads to %s, which matches %s", show(p.asked), show(p.resolved), g.source)
			}
		}
	}
	return ""
}

func (r *rule) whyForbiddenWhen(a *action, held match) string {
	if r.when == nil {
		return ""
	}
	switch _, err := r.when.forbids(a); {
	case err != nil:
		return "when failed: " + show(err.Error())
	case held == no:
		return "when is false"
	case held == maybe:
		return "when is false, but looks at what is not known in full" + because(whyUnclear(a))
	}
	return "when is true"
}

func (r *rule) matchesCommand(j int, argv []string) string {
	text := fmt.Sprintf("command[%d] `%s` matches", j, strings.Join(r.commands[j].prefix, " "))
	if !slices.Equal(r.commands[j].prefix, argv) {
		text += " " + code(argv)
	}
	return text
}

// whyUnclear returns why it is not fully known what runs.
func whyUnclear(a *action) string {
	switch {
	case a.GetUnparsed() != "":
		return a.GetUnparsed()
	case a.GetCommand().GetUnparsed() != "":
		return a.GetCommand().GetUnparsed()
	case a.vague && !a.unclear:
		return "it is not known where every path leads" + a.whyUnresolved()
	}
	return "the action does not say which command it runs"
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + show(why)
}
