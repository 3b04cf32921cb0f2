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

// allows reports whether an allow rule matches, for certain.
func (r *rule) allows(a *action) bool {
	switch {
	case !r.matchesKind(a.GetKind()):
		return false
	case a.command && !a.harmlessSurroundings():
		return false
	case !r.matchesNames(a), r.doubtful(a):
		return false
	case !r.redirectAny && redirects(a):
		return false
	case r.commands != nil && !r.allowsCommand(a):
		return false
	case r.paths != nil && !r.paysForNothing(a) && !r.allowsPaths(a):
		return false
	case r.paths != nil && r.commands == nil && a.command:
		// A command may touch other paths than those that are known, so paths alone do not make it harmless.
		return false
	}
	if r.when == nil {
		return true
	}
	// A condition may look at anything, so that everything must be known; and one that does not say that it means
	// commands does not.
	if a.unclear || (a.command && r.commands == nil && r.on == nil) {
		return false
	}
	held, err := r.when.holds(a.Action)
	return held && err == nil
}

// paysForNothing is for a rule whose path is there for redirections, and a command that has none.
func (r *rule) paysForNothing(a *action) bool {
	return r.redirectAny && r.commands != nil && len(a.paths) == 0 && !redirects(a)
}

// matches reports how sure it is that the rule matches, whatever its effect.
func (r *rule) matches(a *action) match {
	if r.effect != "allow" {
		return r.forbids(a)
	}
	if a.GetKind() != "" && r.allows(a) {
		return yes
	}
	return no
}

func (r *rule) matchesNames(a *action) bool {
	return matchesName(r.agents, a.GetAgent()) && matchesName(r.modes, a.GetMode()) && matchesName(r.tools, a.GetTool())
}

// toolUnknown reports whether an action is a tool's, and which is not said. Calls of an agent's client are no tool's.
func toolUnknown(a *action) bool {
	return a.GetTool() == "" && strings.HasPrefix(a.GetKind(), "tool.")
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

// forbids reports how sure it is that a deny or ask rule matches.
func (r *rule) forbids(a *action) match {
	if !r.matchesKind(a.GetKind()) {
		if a.GetKind() == "" {
			return maybe
		}
		return no
	}
	if !matchesName(r.agents, a.GetAgent()) || (r.redirectNone && redirects(a)) {
		return no
	}
	sure := yes
	if !matchesName(r.modes, a.GetMode()) {
		if a.GetMode() != "" {
			return no
		}
		sure = maybe // a mode that is not known may be the one
	}
	if !matchesName(r.tools, a.GetTool()) {
		if !toolUnknown(a) {
			return no
		}
		sure = maybe // likewise
	}
	if r.commands != nil {
		sure = min(sure, r.forbidsCommand(a))
	}
	if r.paths != nil && sure != no {
		sure = min(sure, forbidsPaths(r.paths, a))
	}
	if r.when != nil && sure != no {
		held, _ := r.when.forbids(a)
		sure = min(sure, held)
	}
	return sure
}

func (r *rule) matchesKind(kind string) bool {
	return kind != "" && (r.on == nil || slices.ContainsFunc(r.on, func(g kindGlob) bool { return g.matches(kind) }))
}

func (r *rule) allowsPaths(a *action) bool {
	if a.vague || len(a.paths) == 0 {
		return false
	}
	for i := range a.paths {
		if !r.allowsPath(a, &a.paths[i]) {
			return false
		}
	}
	return true
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
	for _, root := range roots {
		if tail, below := tailBelow(root, spelling); below && g.exact[0].below(tail) {
			return true
		}
	}
	// A root that is itself reached by a symbolic link has another real name, which is not known here. That the path lies
	// inside is known, and enough for a glob that covers all that is inside.
	return g.exact[0].everything
}

func forbidsPaths(globs []glob, a *action) match {
	if slices.ContainsFunc(a.paths, func(p pathAccess) bool { return forbidsPath(globs, a, p) }) {
		return yes
	}
	if a.vague || a.opaque || a.adrift {
		return maybe
	}
	for i := range a.paths {
		p := &a.paths[i]
		if slices.ContainsFunc(globs, func(g glob) bool { return g.mayForbid(a, p) }) {
			return maybe
		}
	}
	if spelled(globs, a) != "" {
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
	if spelling == "" {
		return false
	}
	if !g.rooted {
		return matchesAny(g.folded, spelling)
	}
	for _, root := range a.foldedRoots {
		if tail, below := tailBelow(root, spelling); below && g.folded[0].below(tail) {
			return true
		}
	}
	return false
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

// spelled returns the path that a word of the command reads like and that a glob covers; "" if there is none. The word need
// not be a path.
func spelled(globs []glob, a *action) string {
	for _, word := range a.words {
		if slices.ContainsFunc(globs, func(g glob) bool { return g.forbids(a, word) }) {
			return word
		}
	}
	return ""
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
		covered := false
		for j := range r.commands {
			covered = covered || r.covers(a, i, j)
		}
		if !covered {
			return false
		}
		runs = true
	}
	return runs
}

// covers reports whether the rule's command j takes simple command i of the action.
func (r *rule) covers(a *action, i, j int) bool {
	// What an option makes a program do beside is allowed only by a rule that names it.
	return r.commands[j].begins(a.GetCommand().GetSubCommands()[i].GetArgv()) && (a.risks[i] == "" || a.risks[i] == r.risks[j])
}

// harmlessWrappers run the command that they are given under no other rights, environment or directory.
var harmlessWrappers = []string{
	"sh -c", "bash -c", "dash -c", "/bin/sh -c", "/bin/bash -c", "/usr/bin/sh -c", "/usr/bin/bash -c",
	"time", "timeout", "nice", "command", "eval", "exec", "stdbuf", "env",
}

// plain reports whether a simple command is what its argv says and nothing more.
func plain(sub *permissionv1.SubCommand) bool {
	if sub.GetDynamic() || len(sub.GetAssignments()) > 0 {
		return false
	}
	for _, wrapper := range sub.GetWrappers() {
		if !slices.Contains(harmlessWrappers, wrapper) {
			return false
		}
	}
	return true
}

// inPlace reports whether a simple command is known to run inside the roots.
func (p *action) inPlace(sub *permissionv1.SubCommand) bool {
	switch dir := sub.GetCwd(); {
	case sub.GetCwdUnknown():
		return false
	case dir == "":
		return true
	default:
		return isPath(dir) && inRoots(p.roots, path.Clean(dir))
	}
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
	if len(argv) < len(p) {
		return false
	}
	for i, token := range p {
		if token != "*" && token != argv[i] {
			return false
		}
	}
	return true
}

func (r *rule) forbidsCommand(a *action) match {
	sure := no
	if a.unclear {
		sure = maybe
	}
	r.eachSpelling(a, func(_ int, w words, _ string) bool {
		for _, p := range r.commands {
			sure = max(sure, p.judge(w))
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
