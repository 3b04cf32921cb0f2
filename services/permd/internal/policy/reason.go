package policy

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// reason is how one condition of a rule fares, in words.
type reason struct {
	matched match
	why     string
}

// allowing are the conditions of an allow rule, up to the first that does not hold.
func (r *rule) allowing(a *action) []reason {
	all := []reason{r.aboutKind(a)}
	for _, next := range []func(*action) reason{r.aboutSurroundings, r.aboutAgent, r.aboutMode, r.aboutTool, r.aboutRedirections,
		r.aboutAllowedCommand, r.aboutAllowedPaths, r.aboutAllowedWhen, r.aboutDoubts} {
		if all[len(all)-1].matched != yes {
			break
		}
		all = append(all, next(a))
	}
	return all
}

// forbidding are the conditions of a deny or ask rule.
func (r *rule) forbidding(a *action) []reason {
	all := []reason{r.aboutKind(a)}
	if all[0].matched != yes {
		return all
	}
	return append(all, r.aboutAgent(a), r.aboutMode(a), r.aboutTool(a), r.aboutRedirections(a), r.aboutForbiddenCommand(a),
		r.aboutForbiddenPaths(a), r.aboutForbiddenWhen(a))
}

func (r *rule) aboutKind(a *action) reason {
	kind := a.GetKind()
	switch {
	case kind == "" && r.effect == "allow":
		return reason{no, "the action has no kind"}
	case kind == "":
		return reason{maybe, "it cannot be told: the action has no kind"}
	case !r.matchesKind(kind):
		names := make([]string, len(r.on))
		for i, g := range r.on {
			names[i] = string(g)
		}
		return reason{no, fmt.Sprintf("on is %s, the rule is for %s", show(kind), list(names))}
	case r.on == nil:
		return reason{yes, ""}
	}
	return reason{yes, "on is " + show(kind)}
}

// aboutSurroundings is for allow rules: a command is what it seems only where it is given nothing odd.
func (r *rule) aboutSurroundings(a *action) reason {
	if !a.command || a.harmlessSurroundings() {
		return reason{yes, ""}
	}
	for _, entry := range a.GetCommand().GetEnv() {
		if !shell.HarmlessVariable(entry) {
			name, _, _ := strings.Cut(entry, "=") // the value may be a secret
			return reason{no, fmt.Sprintf("the request sets the variable %s, which may change what the command does", show(name))}
		}
	}
	return reason{no, fmt.Sprintf("the command runs in %s, which is not known to be inside the roots", show(a.GetCommand().GetCwd()))}
}

func (r *rule) aboutAgent(a *action) reason {
	switch {
	case len(r.agents) == 0:
		return reason{yes, ""}
	case !matchesName(r.agents, a.GetAgent()):
		return reason{no, fmt.Sprintf("agent is %s, the rule is for %s", orDefault(show(a.GetAgent()), "not known"), list(r.agents))}
	}
	return reason{yes, "agent is " + show(a.GetAgent())}
}

func (r *rule) aboutMode(a *action) reason {
	switch {
	case len(r.modes) == 0:
		return reason{yes, ""}
	case matchesName(r.modes, a.GetMode()):
		return reason{yes, "mode is " + orDefault(show(a.GetMode()), "not known")}
	case a.GetMode() == "" && r.effect != "allow":
		return reason{maybe, fmt.Sprintf("it cannot be told: the session's mode is not known, the rule is for %s", list(r.modes))}
	}
	return reason{no, fmt.Sprintf("mode is %s, the rule is for %s", orDefault(show(a.GetMode()), "not known"), list(r.modes))}
}

func (r *rule) aboutTool(a *action) reason {
	switch {
	case len(r.tools) == 0:
		return reason{yes, ""}
	case matchesName(r.tools, a.GetTool()):
		return reason{yes, "tool is " + orDefault(show(a.GetTool()), "not known")}
	case toolUnknown(a) && r.effect != "allow":
		return reason{maybe, fmt.Sprintf("it cannot be told: the agent does not name the tool, the rule is for %s", list(r.tools))}
	}
	return reason{no, fmt.Sprintf("tool is %s, the rule is for %s", orDefault(show(a.GetTool()), "not known"), list(r.tools))}
}

func (r *rule) aboutRedirections(a *action) reason {
	switch {
	case r.redirectNone && redirects(a):
		return reason{no, "the command redirects to a file, the rule says redirect: none"}
	case r.effect == "allow" && r.commands == nil && !r.redirectAny && redirects(a):
		return reason{no, "the command redirects to a file, and the rule does not say redirect: any"}
	case r.redirectNone:
		return reason{yes, "nothing is redirected to a file"}
	}
	return reason{yes, ""}
}

// aboutAllowedCommand mirrors allowsCommand.
func (r *rule) aboutAllowedCommand(a *action) reason {
	if r.commands == nil {
		return reason{yes, ""}
	}
	if !r.allowsCommand(a) {
		return reason{no, r.whyCommandIsNotAllowed(a)}
	}
	var covered []string
	for i, sub := range a.GetCommand().GetSubCommands() {
		for j, p := range r.commands {
			if len(sub.GetArgv()) > 0 && r.covers(a, i, j) {
				covered = append(covered, matchesCommand(j, p, sub.GetArgv()))
				break
			}
		}
	}
	return reason{yes, listOf(covered, "; ")}
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
		switch {
		case sub.GetDynamic():
			return "it cannot be told: " + unknown(sub)
		case len(sub.GetAssignments()) > 0:
			name, _, _ := strings.Cut(sub.GetAssignments()[0], "=")
			return fmt.Sprintf("the line sets the variable %s", show(name))
		case !plain(sub):
			return fmt.Sprintf("%s runs under %s", code(argv), show(strings.Join(sub.GetWrappers(), ", ")))
		case sub.GetCwdUnknown():
			return fmt.Sprintf("it is not known in which directory %s runs", code(argv))
		case !a.inPlace(sub):
			return fmt.Sprintf("%s runs in %s, which is not known to be inside the roots", code(argv), show(sub.GetCwd()))
		case !r.allowsRedirections(a, sub):
			return r.whyNotTo(a, sub)
		}
		if len(argv) == 0 || slices.ContainsFunc(indicesOf(r.commands), func(j int) bool { return r.covers(a, i, j) }) {
			continue
		}
		if slices.ContainsFunc(r.commands, func(p prefix) bool { return p.begins(argv) }) {
			return show(a.risks[i]) + ", which the rule does not name"
		}
		return code(argv) + " begins with none of its commands"
	}
	return "the line runs no command"
}

// whyNotTo says which redirection the rule does not take.
func (r *rule) whyNotTo(a *action, sub *permissionv1.SubCommand) string {
	for _, redirection := range sub.GetRedirections() {
		switch {
		case toNowhere(redirection):
		case redirection.GetDynamic():
			return "it cannot be told which file the command redirects to: that is only known when it runs"
		case !r.redirectAny:
			return fmt.Sprintf("the command redirects to a file, %s, and the rule does not say redirect: any", show(redirection.GetPath()))
		case r.paths == nil:
			return fmt.Sprintf("the command redirects to a file, %s, and the rule has no path that covers it", show(redirection.GetPath()))
		case !isPath(redirection.GetResolvedPath()) ||
			!slices.ContainsFunc(a.paths, func(p pathAccess) bool { return p.resolved == path.Clean(redirection.GetResolvedPath()) }):
			return fmt.Sprintf("it is not known where the redirection to %s leads", show(redirection.GetPath()))
		}
	}
	return "the command redirects to a file"
}

// aboutAllowedPaths mirrors allowsPaths and what goes with it.
func (r *rule) aboutAllowedPaths(a *action) reason {
	switch {
	case r.paths == nil, r.paysForNothing(a):
		return reason{yes, ""}
	case a.vague:
		return reason{no, "it is not known where every path leads" + because(a.GetUnparsed())}
	case len(a.paths) == 0:
		return reason{no, "the action names no path"}
	case r.commands == nil && a.command:
		return reason{no, "the rule names paths alone, and the action runs a command, which may touch others"}
	}
	var covered []string
	for i := range a.paths {
		p := &a.paths[i]
		if p.internal {
			return reason{no, fmt.Sprintf("path %s is git's own: git runs what is written there", show(p.asked))}
		}
		by := slices.IndexFunc(r.paths, func(g glob) bool { return g.allows(a.roots, p, p.asked) })
		if by < 0 {
			return reason{no, fmt.Sprintf("path %s matches none of its globs%s", show(p.asked), outside(r, p))}
		}
		if p.resolved != p.asked && !slices.ContainsFunc(r.paths, func(g glob) bool { return g.allows(a.roots, p, p.resolved) }) {
			return reason{no, fmt.Sprintf("path %s leads to %s, which matches none of its globs", show(p.asked), show(p.resolved))}
		}
		covered = append(covered, fmt.Sprintf("path %s matches %s", show(p.asked), r.paths[by].source))
	}
	return reason{yes, listOf(covered, "; ")}
}

func outside(r *rule, p *pathAccess) string {
	if !p.inside && slices.ContainsFunc(r.paths, func(g glob) bool { return g.rooted }) {
		return " (it does not lie inside the session's roots)"
	}
	return ""
}

func (r *rule) aboutAllowedWhen(a *action) reason {
	switch {
	case r.when == nil:
		return reason{yes, ""}
	case a.unclear:
		return reason{no, "it is not known in full what is done, so that when does not count" + because(whyUnclear(a))}
	case a.command && r.commands == nil && r.on == nil:
		return reason{no, "the action runs a command, and neither on nor command says that when is about commands"}
	}
	held, err := r.when.holds(a.Action)
	switch {
	case err != nil:
		return reason{no, "when failed: " + show(err.Error())}
	case !held:
		return reason{no, "when is false"}
	}
	return reason{yes, "when is true"}
}

// aboutDoubts comes last: what a rule does not cover anyway needs no doubt.
func (r *rule) aboutDoubts(a *action) reason {
	if r.doubtful(a) {
		why := show(r.whyDoubtful(a))
		if r.commands != nil && !r.workspacePrograms && !slices.ContainsFunc(a.doubts, func(d doubts) bool { return d.beside != "" }) {
			why += "; a rule with workspace_programs: true takes it as it is"
		}
		return reason{no, why}
	}
	for _, d := range a.doubts {
		if r.workspacePrograms && d.all != "" {
			return reason{yes, show(d.all) + ", and the rule says workspace_programs"}
		}
	}
	return reason{yes, ""}
}

// aboutForbiddenCommand mirrors forbidsCommand.
func (r *rule) aboutForbiddenCommand(a *action) reason {
	if r.commands == nil {
		return reason{yes, ""}
	}
	sure := r.forbidsCommand(a)
	switch {
	case sure == no && !a.command:
		return reason{no, "the action runs no command"}
	case sure == no:
		if subs := a.GetCommand().GetSubCommands(); len(subs) == 1 && len(subs[0].GetArgv()) > 0 {
			return reason{no, code(subs[0].GetArgv()) + " begins with none of its commands"}
		}
		return reason{no, "no part of the line begins with one of its commands"}
	}
	var found string
	r.eachSpelling(a, func(_ int, w words, under string) bool {
		for j, p := range r.commands {
			if p.judge(w) != sure {
				continue
			}
			found = matchesCommand(j, p, w.argv)
			if sure == maybe {
				found = fmt.Sprintf("it cannot be told whether %s is `%s`: part of it is only known when it runs", code(w.argv), strings.Join(p, " "))
			} else if under != "" {
				found += " (under " + show(under) + ")"
			}
			return false
		}
		return true
	})
	if found == "" {
		found = "it cannot be told what runs: " + show(whyUnclear(a))
	}
	return reason{sure, found}
}

// aboutForbiddenPaths mirrors forbidsPaths.
func (r *rule) aboutForbiddenPaths(a *action) reason {
	if r.paths == nil {
		return reason{yes, ""}
	}
	sure := forbidsPaths(r.paths, a)
	if sure == no {
		if len(a.paths) == 0 && !a.command {
			return reason{no, "the action names no path"}
		}
		return reason{no, "no path matches"}
	}
	for i := range a.paths {
		p := &a.paths[i]
		for j := range r.paths {
			g := &r.paths[j]
			switch {
			case sure == yes && g.forbids(a, p.foldedAsked):
				return reason{yes, fmt.Sprintf("path %s matches %s", show(p.asked), g.source)}
			case sure == yes && g.forbids(a, p.foldedResolved):
				return reason{yes, fmt.Sprintf("path %s leads to %s, which matches %s", show(p.asked), show(p.resolved), g.source)}
			}
		}
	}
	switch {
	case a.GetUnparsed() != "" || a.GetCommand().GetUnparsed() != "":
		return reason{maybe, "it cannot be told which paths are touched: " + show(whyUnclear(a))}
	case a.opaque:
		return reason{maybe, "it cannot be told which paths are touched: " + unseen(a)}
	case a.adrift:
		return reason{maybe, "it cannot be told which paths are touched: " + unseen(a)}
	case a.vague && len(a.paths) == 0:
		return reason{maybe, "it cannot be told: the action names no path"}
	case a.vague:
		return reason{maybe, "it cannot be told: " + unseen(a)}
	}
	for i := range a.paths {
		p := &a.paths[i]
		for j := range r.paths {
			if r.paths[j].mayForbid(a, p) {
				return reason{maybe, fmt.Sprintf("path %s leads to %s, which may match %s", show(p.asked), show(p.resolved), r.paths[j].source)}
			}
		}
	}
	for _, word := range a.words {
		for j := range r.paths {
			if r.paths[j].forbids(a, word) {
				return reason{maybe, fmt.Sprintf("a word of the command may name %s, which matches %s", show(word), r.paths[j].source)}
			}
		}
	}
	return reason{maybe, "it cannot be told which paths are touched"}
}

func (r *rule) aboutForbiddenWhen(a *action) reason {
	if r.when == nil {
		return reason{yes, ""}
	}
	switch sure, err := r.when.forbids(a); {
	case err != nil:
		return reason{maybe, "when failed: " + show(err.Error())}
	case sure == no:
		return reason{no, "when is false"}
	case sure == maybe:
		return reason{maybe, "when is false, but looks at what is not known in full" + because(whyUnclear(a))}
	}
	return reason{yes, "when is true"}
}

func matchesCommand(j int, p prefix, argv []string) string {
	text := fmt.Sprintf("command[%d] `%s` matches", j, strings.Join(p, " "))
	if !slices.Equal(p, argv) {
		text += " " + code(argv)
	}
	return text
}

// whyUnclear is why it is not known in full what runs.
func whyUnclear(a *action) string {
	switch {
	case a.GetUnparsed() != "":
		return a.GetUnparsed()
	case a.GetCommand().GetUnparsed() != "":
		return a.GetCommand().GetUnparsed()
	case a.vague && !a.unclear:
		return "it is not known where every path leads"
	}
	return "the action does not say which command it runs"
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + show(why)
}
