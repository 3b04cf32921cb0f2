package policy

import (
	"path"
	"slices"
	"strings"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// match is how sure it is that a rule's conditions hold.
type match uint8

const (
	no match = iota
	// maybe: it cannot be ruled out.
	maybe
	yes
)

// sureIf is for what is known for certain.
func sureIf(holds bool) match {
	if holds {
		return yes
	}
	return no
}

// criterion is a condition that rules may have.
type criterion struct {
	// holds reports how sure it is that the condition holds; yes for a rule that does not have it.
	holds func(r *rule, a *action) match
	// why says so in words; empty: there is nothing to say.
	why func(r *rule, a *action, held match) string
}

var (
	// allowing are the criteria of allow rules. What a rule does not cover anyway needs no doubt, so that comes last.
	allowing = []criterion{ofKind, ofSurroundings, ofAgent, ofMode, ofTool, ofRedirections,
		{(*rule).holdsAllowedCommand, (*rule).whyAllowedCommand},
		{(*rule).holdsAllowedPaths, (*rule).whyAllowedPaths},
		{(*rule).holdsAllowedWhen, (*rule).whyAllowedWhen},
		{func(r *rule, a *action) match { return sureIf(!r.doubtful(a)) }, (*rule).whyDoubts},
	}
	// forbidding are those of deny and ask rules.
	forbidding = []criterion{ofKind, ofAgent, ofMode, ofTool, ofRedirections,
		{(*rule).forbidsCommand, (*rule).whyForbiddenCommand},
		{func(r *rule, a *action) match { return forbidsPaths(r.paths, a) }, (*rule).whyForbiddenPaths},
		{(*rule).holdsForbiddenWhen, (*rule).whyForbiddenWhen},
	}
)

// criteria are those that count for an action: of one without a kind a deny or ask rule knows nothing else.
func (r *rule) criteria(a *action) []criterion {
	switch {
	case r.effect == "allow":
		return allowing
	case a.GetKind() == "":
		return forbidding[:1]
	}
	return forbidding
}

// matches reports how sure it is that all conditions of the rule hold. An allow rule matches for certain, or not.
func (r *rule) matches(a *action) match {
	sure := yes
	for _, c := range r.criteria(a) {
		if sure = min(sure, c.holds(r, a)); sure == no {
			break
		}
	}
	return sure
}

func (r *rule) holdsKind(a *action) match {
	if a.GetKind() == "" && r.effect != "allow" {
		return maybe
	}
	return sureIf(r.matchesKind(a.GetKind()))
}

// holdsSurroundings is for allow rules: a command is what it seems only where it is given nothing odd.
func (r *rule) holdsSurroundings(a *action) match {
	return sureIf(!a.command || a.harmlessSurroundings())
}

// holdsRedirections leaves redirections to the rule's commands, for an allow rule that has some.
func (r *rule) holdsRedirections(a *action) match {
	none := r.redirectNone || r.effect == "allow" && r.commands == nil && !r.redirectAny
	return sureIf(!none || !redirects(a))
}

func (r *rule) holdsAllowedCommand(a *action) match {
	return sureIf(r.commands == nil || r.allowsCommand(a))
}

// holdsAllowedPaths takes no command for its paths alone: it may touch others than those that are known.
func (r *rule) holdsAllowedPaths(a *action) match {
	return sureIf(r.paths == nil || r.paysForNothing(a) || r.allowsPaths(a) && (r.commands != nil || !a.command))
}

// holdsAllowedWhen has everything known, since a condition may look at anything; and one that does not say that it means
// commands does not.
func (r *rule) holdsAllowedWhen(a *action) match {
	if r.when == nil {
		return yes
	}
	if a.unclear || a.command && r.commands == nil && r.on == nil {
		return no
	}
	held, err := r.when.holds(a.Action)
	return sureIf(held && err == nil)
}

func (r *rule) holdsForbiddenWhen(a *action) match {
	if r.when == nil {
		return yes
	}
	held, _ := r.when.forbids(a)
	return held
}

// paysForNothing is for a rule whose path is there for redirections, and a command that has none.
func (r *rule) paysForNothing(a *action) bool {
	return r.redirectAny && r.commands != nil && len(a.paths) == 0 && !redirects(a)
}

func (r *rule) matchesNames(a *action) bool {
	return matchesName(r.agents, a.GetAgent()) && matchesName(r.modes, a.GetMode()) && matchesName(r.tools, a.GetTool())
}

func matchesName(patterns []string, name string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool { return starMatches(p, name) })
}

// starMatches matches a pattern where "*" stands for any characters.
func starMatches(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == name
	}
	if !strings.HasPrefix(name, parts[0]) {
		return false
	}
	name = name[len(parts[0]):]
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(name, part)
		if i < 0 {
			return false
		}
		name = name[i+len(part):]
	}
	return strings.HasSuffix(name, parts[len(parts)-1])
}

// redirects reports whether a command redirects to or from a file that is more than the null device.
func redirects(a *action) bool {
	for _, sub := range a.GetCommand().GetSubCommands() {
		if slices.ContainsFunc(sub.GetRedirections(), func(r *permissionv1.Redirection) bool { return !toNowhere(r) }) {
			return true
		}
	}
	return false
}

func toNowhere(r *permissionv1.Redirection) bool {
	return !r.GetDynamic() && r.GetPath() == "/dev/null" && (r.GetResolvedPath() == "" || r.GetResolvedPath() == "/dev/null")
}

func (r *rule) matchesKind(kind string) bool {
	return kind != "" && (r.on == nil || slices.ContainsFunc(r.on, func(g kindGlob) bool { return g.matches(kind) }))
}

func (r *rule) allowsPaths(a *action) bool {
	return !a.vague && len(a.paths) > 0 &&
		!slices.ContainsFunc(a.paths, func(p pathAccess) bool { return !r.allowsPath(a, &p) })
}

func (r *rule) allowsPath(a *action, p *pathAccess) bool {
	covers := func(spelling string) bool {
		return slices.ContainsFunc(r.paths, func(g glob) bool { return g.allows(a.roots, p, spelling) })
	}
	return (!p.internal || a.trusting) && covers(p.asked) && (p.resolved == p.asked || covers(p.resolved))
}

// allows reports whether the glob covers one spelling of a path.
func (g *glob) allows(roots []string, p *pathAccess, spelling string) bool {
	if !g.rooted {
		return matchesAny(g.exact, spelling)
	}
	if !p.inside {
		return false
	}
	// A root that is itself reached by a symbolic link has another real name, which is not known here. That the path lies
	// inside is known, and enough for a glob that covers all that is inside.
	return g.exact[0].everything || g.exact[0].belowAny(roots, spelling)
}

func forbidsPaths(globs []glob, a *action) match {
	if globs == nil {
		return yes
	}
	if slices.ContainsFunc(a.paths, func(p pathAccess) bool { return forbidsPath(globs, a, p) }) {
		return yes
	}
	if a.vague || a.opaque || a.adrift {
		return maybe
	}
	mayForbid := func(p pathAccess) bool {
		return slices.ContainsFunc(globs, func(g glob) bool { return g.mayForbid(a, &p) })
	}
	if word, _ := spelled(globs, a); word != "" || slices.ContainsFunc(a.paths, mayForbid) {
		return maybe
	}
	return no
}

func forbidsPath(globs []glob, a *action, p pathAccess) bool {
	return slices.ContainsFunc(globs, func(g glob) bool {
		return g.forbids(a, p.foldedAsked) || p.foldedResolved != p.foldedAsked && g.forbids(a, p.foldedResolved)
	})
}

func (g *glob) forbids(a *action, spelling string) bool {
	switch {
	case spelling == "":
		return false
	case !g.rooted:
		return matchesAny(g.folded, spelling)
	}
	return g.folded[0].belowAny(a.foldedRoots, spelling)
}

// mayForbid is for a path that really lies inside a root by a name of that root which is not known here: whatever part
// of it is the root, the rest may match.
func (g *glob) mayForbid(a *action, p *pathAccess) bool {
	if !g.rooted || !p.inside || p.foldedResolved == "" || inRoots(a.foldedRoots, p.foldedResolved) {
		return false
	}
	for rest := p.foldedResolved; ; {
		i := strings.IndexByte(rest, '/')
		if i < 0 {
			return g.folded[0].below("")
		}
		if rest = rest[i+1:]; g.folded[0].below(rest) {
			return true
		}
	}
}

// spelled returns the path that a word of the command reads like, and the glob that covers it; "" if there is none. The word
// need not be a path.
func spelled(globs []glob, a *action) (word, by string) {
	for _, word := range a.words {
		if i := slices.IndexFunc(globs, func(g glob) bool { return g.forbids(a, word) }); i >= 0 {
			return word, globs[i].source
		}
	}
	return "", ""
}

func (r *rule) allowsCommand(a *action) bool {
	if !a.certain {
		return false
	}
	runs := false
	for i, sub := range a.GetCommand().GetSubCommands() {
		if !plain(sub) || !a.inPlace(sub) || !r.allowsRedirections(a, sub) {
			return false
		}
		argv := sub.GetArgv()
		if len(argv) == 0 {
			continue // only redirections, and those to nowhere
		}
		if r.covering(a, i) < 0 {
			return false
		}
		runs = true
	}
	return runs
}

// covering is the first of the rule's commands that takes simple command i of the action; -1: none does. What an option makes
// a program do beside is allowed only by a rule that names it.
func (r *rule) covering(a *action, i int) int {
	argv, risk := a.GetCommand().GetSubCommands()[i].GetArgv(), a.risks[i]
	return slices.IndexFunc(r.commands, func(c command) bool { return c.begins(argv) && (risk == "" || risk == c.risk) })
}

// harmlessWrappers run the command that they are given under no other rights, environment or directory.
var harmlessWrappers = []string{
	"sh -c", "bash -c", "dash -c", "/bin/sh -c", "/bin/bash -c", "/usr/bin/sh -c", "/usr/bin/bash -c",
	"time", "timeout", "nice", "command", "eval", "exec", "stdbuf", "env",
}

// plain reports whether a simple command is what its argv says and nothing more.
func plain(sub *permissionv1.SubCommand) bool {
	return !sub.GetDynamic() && len(sub.GetAssignments()) == 0 &&
		!slices.ContainsFunc(sub.GetWrappers(), func(w string) bool { return !slices.Contains(harmlessWrappers, w) })
}

// inPlace reports whether a simple command is known to run inside the roots.
func (p *action) inPlace(sub *permissionv1.SubCommand) bool {
	dir := sub.GetCwd()
	return !sub.GetCwdUnknown() && (dir == "" || isPath(dir) && inRoots(p.roots, path.Clean(dir)))
}

// allowsRedirections reports whether the rule takes the files that a simple command redirects to: none, or those that
// its path covers, which must be among the action's.
func (r *rule) allowsRedirections(a *action, sub *permissionv1.SubCommand) bool {
	for _, redirection := range sub.GetRedirections() {
		if toNowhere(redirection) {
			continue
		}
		real := redirection.GetResolvedPath()
		if redirection.GetDynamic() || !r.redirectAny || r.paths == nil || !isPath(real) ||
			!slices.ContainsFunc(a.paths, func(p pathAccess) bool { return p.resolved == path.Clean(real) }) {
			return false
		}
	}
	return true
}

func (p prefix) begins(argv []string) bool {
	is := func(token, word string) bool { return token == "*" || token == word }
	return len(argv) >= len(p) && slices.EqualFunc(p, argv[:len(p)], is)
}

func (r *rule) forbidsCommand(a *action) match {
	if r.commands == nil {
		return yes
	}
	sure := no
	if a.unclear {
		sure = maybe
	}
	r.eachSpelling(a, func(_ int, w words, _ string) bool {
		for _, c := range r.commands {
			sure = max(sure, c.judge(w))
		}
		return sure != yes
	})
	return sure
}

// eachSpelling calls f with everything that a deny or ask rule's commands are held against, until f returns false. of is the
// index of the simple command, -1 for the whole; under are the wrappers that w begins with.
func (r *rule) eachSpelling(a *action, f func(of int, w words, under string) bool) {
	if !a.command || !f(-1, words{argv: a.GetCommand().GetArgv()}, "") {
		return
	}
	for of, sub := range a.GetCommand().GetSubCommands() {
		if !f(of, wordsOf(nil, sub), "") {
			return
		}
		// A rule may also name what a command is wrapped in: "sudo", "sh -c", "env rm".
		wrappers := sub.GetWrappers()
		for i := range wrappers {
			under := strings.Join(wrappers[i:], " ")
			if !f(of, wordsOf(strings.Fields(under), sub), under) {
				return
			}
		}
	}
}
