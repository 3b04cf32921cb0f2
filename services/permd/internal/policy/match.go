package policy

import (
	"path"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/acphost/acphost/internal/pathglob"
	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// match is how certain it is that a rule's conditions hold.
type match uint8

const (
	no match = iota
	// maybe: it cannot be excluded.
	maybe
	yes
)

// sureIf converts a certain result to a match.
func sureIf(holds bool) match {
	if holds {
		return yes
	}
	return no
}

// criterion is a condition that rules may have.
type criterion struct {
	// holds reports how certain it is that the condition holds; yes for a rule without it.
	holds func(r *rule, a *action) match
	// why returns the reason as text; empty if none exists.
	why func(r *rule, a *action, held match) string
}

var (
	// allowingAround are the criteria of allow rules that do not concern simple commands, toAllow all their criteria.
	// Doubts come last, because they matter only if the rule covers the action otherwise.
	allowingAround = []criterion{ofKind, ofWalls, ofSurroundings, ofAgent, ofMode, ofTool, ofHost, ofRedirections, ofAllowedPaths, ofAllowedWhen}
	toAllow        = []criterion{ofKind, ofWalls, ofSurroundings, ofAgent, ofMode, ofTool, ofHost, ofRedirections,
		{(*rule).holdsAllowedCommand, (*rule).whyAllowedCommand}, ofAllowedPaths, ofAllowedWhen,
		{func(r *rule, a *action) match { return sureIf(!r.doubtful(a)) }, (*rule).whyDoubts},
	}
	// forbiddingButFiles are the criteria of deny and ask rules that do not concern files, forbidding all their
	// criteria.
	forbiddingButFiles = []criterion{ofKind, ofWalls, ofAgent, ofMode, ofTool, ofHost, ofRedirections,
		{(*rule).forbidsCommand, (*rule).whyForbiddenCommand},
		{(*rule).holdsForbiddenWhen, (*rule).whyForbiddenWhen},
	}
	forbidding = slices.Concat(forbiddingButFiles, []criterion{
		{func(r *rule, a *action) match { return forbidsPaths(r.paths, a) }, (*rule).whyForbiddenPaths},
		{func(r *rule, a *action) match { return r.effects.forbids(a) }, (*rule).whyForbiddenEffects},
	})
)

// byCommand reports whether the rule has conditions on simple commands, so that it may allow some commands of a line.
func (r *rule) byCommand() bool { return r.commands != nil || r.effects.any() }

// criteria returns the criteria that apply to an action. For an action without a kind, a deny or ask rule has no other
// criterion than the kind.
func (r *rule) criteria(a *action) []criterion {
	switch {
	case r.regardless(a):
		return allowingRegardless
	case r.effect == "allow":
		return toAllow
	case a.GetKind() == "":
		return forbidding[:1]
	}
	return forbidding
}

// matches reports how certain it is that all conditions of the rule hold. For an allow rule, the result is never maybe.
func (r *rule) matches(a *action) match {
	sure := yes
	for _, c := range r.criteria(a) {
		if sure = min(sure, c.holds(r, a)); sure == no {
			break
		}
	}
	if !r.concernsStart(a, sure) {
		return no
	}
	return sure
}

// concernsStart reports whether the rule applies to the start of a program by a process, if its conditions hold with a
// certainty. The actions of the program are decided later. So deny and ask rules apply only if they match for certain,
// and ask rules of a file without rules for processes only if they name commands: a rule that asks about each command
// is about the commands that the agent calls. All rules apply to other actions.
func (r *rule) concernsStart(a *action, sure match) bool {
	if a.process != processStart || r.effect == "allow" {
		return true
	}
	return sure == yes && (r.processes || r.effect == "deny" || r.byCommand() || r.paths != nil || r.when != nil)
}

func (r *rule) holdsKind(a *action) match {
	if a.GetKind() == "" && r.effect != "allow" {
		return maybe
	}
	return sureIf(r.matchesKind(r.kindOf(a)))
}

// holdsSurroundings is a criterion of allow rules: they cover a command only with a harmless environment and directory.
func (r *rule) holdsSurroundings(a *action) match {
	return sureIf(!a.command || a.harmlessSurroundings())
}

// holdsRedirections always holds for an allow rule on simple commands, because the rule checks redirections for each
// command.
func (r *rule) holdsRedirections(a *action) match {
	none := r.redirectNone
	if r.effect == "allow" {
		none = !r.byCommand() && !r.redirectAny
	}
	return sureIf(!none || !redirects(a))
}

func (r *rule) holdsAllowedCommand(a *action) match {
	return sureIf(!r.byCommand() || r.allowsCommand(a))
}

// holdsAllowedPaths does not cover a command by its paths alone: the command may use other paths than the known ones.
func (r *rule) holdsAllowedPaths(a *action) match {
	if r.paths == nil && a.process == processWrite && slices.ContainsFunc(a.paths, func(p pathAccess) bool { return p.internal }) {
		return no // git runs what is written there
	}
	return sureIf(r.paths == nil || r.needsNoPaths(a) || r.allowsPaths(a) && (r.byCommand() || !a.command))
}

// holdsAllowedWhen needs a fully known action, because a condition may read any field. A condition covers commands only
// if the rule declares that it concerns commands.
func (r *rule) holdsAllowedWhen(a *action) match {
	if r.when == nil {
		return yes
	}
	if a.unclear || a.command && !r.byCommand() && r.on == nil {
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

// needsNoPaths reports whether the rule's path is only for redirections, and the command has none.
func (r *rule) needsNoPaths(a *action) bool {
	return r.redirectAny && r.byCommand() && len(a.paths) == 0 && !redirects(a)
}

func (r *rule) matchesNames(a *action) bool {
	return matchesName(r.agents, a.GetAgent()) && matchesName(r.modes, a.GetMode()) && matchesName(r.tools, a.GetTool())
}

func matchesName(patterns []string, name string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool { return starMatches(p, name) })
}

// starMatches matches a pattern in which "*" matches any characters.
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

// redirects reports whether a command redirects to or from a file other than the null device.
func redirects(a *action) bool {
	for _, sub := range a.GetCommand().GetSubCommands() {
		if slices.ContainsFunc(sub.GetRedirections(), func(r *permissionv1.Redirection) bool { return !toNowhere(r) }) {
			return true
		}
	}
	return false
}

// nowhere is the null device: writing to it changes nothing.
const nowhere = "/dev/null"

func toNowhere(r *permissionv1.Redirection) bool {
	return !r.GetDynamic() && r.GetPath() == nowhere && (r.GetResolvedPath() == "" || r.GetResolvedPath() == nowhere)
}

func (r *rule) matchesKind(kind string) bool {
	matches := func(g kindGlob) bool { return g.matches(kind) }
	return kind != "" && (r.on == nil || slices.ContainsFunc(r.on, matches)) && !slices.ContainsFunc(r.notOn, matches)
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

// namesPaths reports whether globs that begin with a folder cover every path of the action, so that the rule was
// written for that place. "**/x" and a rule without paths name no place.
func (r *rule) namesPaths(a *action) bool {
	meant := *r
	meant.paths = slices.DeleteFunc(slices.Clone(r.paths), func(g glob) bool { return !g.anchored() })
	return meant.allowsPaths(a)
}

// anchored reports whether a glob begins with the name of a folder.
func (g *glob) anchored() bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(g.source, "/"), "/")
	return !g.rooted && first != "" && !strings.ContainsAny(first, pathglob.Meta)
}

// allows reports whether the glob covers one spelling of a path.
func (g *glob) allows(roots []string, p *pathAccess, spelling string) bool {
	if !g.rooted {
		return matchesAny(g.exact, spelling)
	}
	if !p.inside {
		return false
	}
	// A root that is itself reached by a symbolic link has another, unknown real name. It is known that the path lies
	// inside, which suffices for a glob that covers everything inside.
	return g.exact[0].Everything || g.exact[0].belowAny(roots, spelling)
}

func forbidsPaths(globs []glob, a *action) match {
	if globs == nil {
		return yes
	}
	if slices.ContainsFunc(a.paths, func(p pathAccess) bool { return forbidsPath(globs, a, p) }) {
		return yes
	}
	used := no
	for i := range a.uses {
		if used = max(used, a.uses[i].forbidden(a, globs)); used == yes {
			return yes
		}
	}
	switch {
	case onlyKeys(globs):
		return used
	case a.vague, a.opaque, a.cwdUnknown:
		return maybe
	}
	mayForbid := func(p pathAccess) bool {
		return slices.ContainsFunc(globs, func(g glob) bool { return g.mayForbid(a, &p) })
	}
	if word, _ := spelled(globs, a); used == maybe || word != "" || slices.ContainsFunc(a.paths, mayForbid) {
		return maybe
	}
	return no
}

func forbidsPath(globs []glob, a *action, p pathAccess) bool {
	return slices.ContainsFunc(globs, func(g glob) bool {
		forbids := func(spelling string) bool {
			return g.forbids(a, spelling) || p.leads && g.forbidsLeading(a, spelling)
		}
		return g.limits.concern(&p) && (forbids(p.foldedAsked) || p.foldedResolved != p.foldedAsked && forbids(p.foldedResolved))
	})
}

// forbidsLeading reports whether a name of the glob is that of a path, as a folder: a link of that name leads to files
// that the glob matches by it.
func (g *glob) forbidsLeading(a *action, spelling string) bool {
	switch {
	case spelling == "", g.limits.excepts(a, spelling):
		return false
	case !g.rooted:
		return matchesAny(g.folders, spelling)
	}
	return slices.ContainsFunc(g.folders, func(p pattern) bool { return p.belowAny(a.foldedRoots, spelling) })
}

func (g *glob) forbids(a *action, spelling string) bool {
	switch {
	case spelling == "", g.limits.excepts(a, spelling):
		return false
	case !g.rooted:
		return matchesAny(g.folded, spelling)
	}
	return g.folded[0].belowAny(a.foldedRoots, spelling)
}

// mayForbid handles a resolved path inside a root whose resolved name is unknown: it checks every possible rest of the
// path below a root.
func (g *glob) mayForbid(a *action, p *pathAccess) bool {
	if !g.rooted || !g.limits.concern(p) || !p.inside || p.foldedResolved == "" || inRoots(a.foldedRoots, p.foldedResolved) {
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

// spelled returns the path that a word of the command may mean, and the glob that covers it; "" if none exists. The
// word need not be a path.
func spelled(globs []glob, a *action) (word, by string) {
	for _, word := range a.words {
		if i := slices.IndexFunc(globs, func(g glob) bool { return g.forbids(a, word) }); i >= 0 {
			return word, globs[i].source
		}
	}
	return "", ""
}

func (r *rule) allowsCommand(a *action) bool {
	if !a.runs() {
		return false
	}
	for i := range a.GetCommand().GetSubCommands() {
		if !r.takes(a, i) {
			return false
		}
	}
	return true
}

// runs reports whether the action runs at least one command, and all its commands are known.
func (p *action) runs() bool {
	return p.certain && slices.ContainsFunc(p.GetCommand().GetSubCommands(), func(sub *permissionv1.SubCommand) bool {
		return len(sub.GetArgv()) > 0
	})
}

// takes reports whether an allow rule on simple commands covers command i, ignoring doubts about its program.
func (r *rule) takes(a *action, i int) bool {
	sub := a.GetCommand().GetSubCommands()[i]
	// If the facts are known, words that are known only at run time are text that is printed or compared.
	clear := plain(sub) || r.commands == nil && r.effects.any() && a.seen(i)
	if !clear || !a.inPlace(sub) && !a.placeless(i) || !r.allowsRedirections(a, sub) {
		return false
	}
	if len(sub.GetArgv()) == 0 {
		return true // only redirections and assignments, which change nothing
	}
	return (r.commands == nil || r.covering(a, i) >= 0) && r.effects.whyNot(a, i) == "" && r.holdsAlone(a, i)
}

// holdsAlone reports whether the rule's condition holds for simple command i by itself. So a condition that another
// command of the line satisfies does not allow a command that would not be allowed alone.
func (r *rule) holdsAlone(a *action, i int) bool {
	if r.when == nil || !r.when.ofCommand || !a.manyCommands() {
		return true
	}
	held, err := r.when.holds(a.only(i))
	return held && err == nil
}

// only returns the action with only simple command i.
func (p *action) only(i int) *permissionv1.Action {
	if p.alone == nil {
		p.alone = make([]*permissionv1.Action, len(p.GetCommand().GetSubCommands()))
	}
	if p.alone[i] == nil {
		command := shallow(p.GetCommand())
		command.SubCommands = p.GetCommand().GetSubCommands()[i : i+1]
		p.alone[i] = shallow(p.Action)
		p.alone[i].Command = command
	}
	return p.alone[i]
}

// shallow returns a shallow copy of a message.
func shallow[M proto.Message](m M) M {
	from := m.ProtoReflect()
	to := from.New()
	from.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		to.Set(field, value)
		return true
	})
	return to.Interface().(M)
}

// covering returns the index of the first of the rule's commands that covers simple command i of the action; -1: none.
// A risk of an option is allowed only by a rule that names it.
func (r *rule) covering(a *action, i int) int {
	argv, risks := a.GetCommand().GetSubCommands()[i].GetArgv(), a.risks[i]
	return slices.IndexFunc(r.commands, func(c command) bool { return c.begins(argv) && shell.Names(c.risks, risks) })
}

// harmlessWrappers run their command with unchanged rights and environment. "git -C" changes the directory, which the
// command states. Words that xargs and find add to a command are in argv, or the command is dynamic.
var harmlessWrappers = []string{
	"sh -c", "bash -c", "dash -c", "/bin/sh -c", "/bin/bash -c", "/usr/bin/sh -c", "/usr/bin/bash -c",
	"time", "timeout", "nice", "command", "eval", "exec", "stdbuf", "env", "git -C", "xargs", "find -exec",
}

// plain reports whether a simple command is exactly its argv.
func plain(sub *permissionv1.SubCommand) bool { return !sub.GetDynamic() && undisguised(sub) }

// undisguised reports whether no variable or wrapper changes what a simple command does.
func undisguised(sub *permissionv1.SubCommand) bool {
	return !slices.ContainsFunc(sub.GetAssignments(), func(a string) bool { return !shell.HarmlessVariable(a) }) &&
		!slices.ContainsFunc(sub.GetWrappers(), func(w string) bool { return !slices.Contains(harmlessWrappers, w) })
}

// inPlace reports whether a simple command is known to run inside the roots.
func (p *action) inPlace(sub *permissionv1.SubCommand) bool {
	dir := sub.GetCwd()
	return !sub.GetCwdUnknown() && (dir == "" || isPath(dir) && inRoots(p.roots, path.Clean(dir)))
}

// placeless reports whether the directory of simple command i does not matter: it is a builtin of the shell that uses
// no files.
func (p *action) placeless(i int) bool {
	sub := p.GetCommand().GetSubCommands()[i]
	return sub.GetCwdUnknown() && p.seen(i) && len(p.does[i].uses) == 0 && sub.GetProgram().GetBuiltin() && len(sub.GetWrappers()) == 0
}

// allowsRedirections reports whether the rule covers the files that a simple command redirects to: none, or files
// covered by its path, which must be among the action's. The rule's reads may also cover a file that the command
// redirects from.
func (r *rule) allowsRedirections(a *action, sub *permissionv1.SubCommand) bool {
	for _, redirection := range sub.GetRedirections() {
		if toNowhere(redirection) || r.readsFrom(a, redirection) {
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

func (r *rule) readsFrom(a *action, redirection *permissionv1.Redirection) bool {
	real := redirection.GetResolvedPath()
	return redirection.GetOperator() == "<" && !redirection.GetDynamic() && isPath(real) && r.effects.reads != nil && !a.vague &&
		slices.ContainsFunc(a.paths, func(p pathAccess) bool {
			use := fileUse{pathAccess: p}
			return p.resolved == path.Clean(real) && use.allowed(a, r.effects.reads)
		})
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

// eachSpelling calls f with all words that a deny or ask rule's commands are compared with, until f returns false. of
// is the index of the simple command, -1 for the whole line; under are the wrappers that w begins with.
func (r *rule) eachSpelling(a *action, f func(of int, w words, under string) bool) {
	if !a.command || !f(-1, words{argv: a.GetCommand().GetArgv()}, "") {
		return
	}
	for of, sub := range a.GetCommand().GetSubCommands() {
		if !f(of, wordsOf(nil, sub), "") {
			return
		}
		// A rule may also name the wrapper of a command: "sudo", "sh -c", "env rm".
		wrappers := sub.GetWrappers()
		for i := range wrappers {
			under := strings.Join(wrappers[i:], " ")
			if !f(of, wordsOf(strings.Fields(under), sub), under) {
				return
			}
		}
	}
}
