package policy

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/git"
	"github.com/acphost/acphost/internal/pathglob"
	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// The effects of a simple command come from its facts, which a table of programs provides. Facts describe the program
// that the command's name means on any machine. So they do not count for a program of the workspace, nor for a command
// with unusual variables: a rule treats those like a command without facts.

// maxUses limits the files of all facts of an action that are checked.
const maxUses = 5000

// effects are a rule's conditions on the effects of simple commands.
type effects struct {
	// reads and writes are nil if the rule does not have them.
	reads, writes     []glob
	runsCode, network *bool
}

func (e *effects) any() bool {
	return e.files() || e.runsCode != nil || e.network != nil
}

// files reports whether the rule has conditions on the files that commands use: an allow rule then allows only those.
func (e *effects) files() bool { return e.reads != nil || e.writes != nil }

// fileUse is a file or folder that a simple command uses.
type fileUse struct {
	pathAccess
	of                   int // the simple command's index
	recursive, onlyNames bool
	possible             bool // it may not be used at all
}

// writes reports whether the command may change the file.
func (u *fileUse) writes() bool { return u.access != permissionv1.Access_ACCESS_READ }

// does are the effects of a simple command. facts is nil if they are not known.
type does struct {
	facts *permissionv1.Facts
	uses  []fileUse
}

// prepareFacts sets the facts of simple command i.
func (p *action) prepareFacts(i int) {
	sub := p.GetCommand().GetSubCommands()[i]
	given := sub.GetFacts()
	if !given.GetKnown() || !onlyText(sub) || len(sub.GetArgv()) == 0 ||
		len(given.GetFiles()) > maxPaths || len(p.uses)+len(given.GetFiles()) > maxUses {
		return
	}
	uses := make([]fileUse, 0, len(given.GetFiles()))
	for _, f := range given.GetFiles() {
		if !isPath(f.GetPath()) || f.GetAccess() == permissionv1.Access_ACCESS_UNSPECIFIED {
			return
		}
		use := fileUse{of: i, recursive: f.GetRecursive(), onlyNames: f.GetMetadataOnly(), possible: f.GetPossible()}
		use.access, use.public, use.holdsKey = f.GetAccess(), f.GetPublic(), f.GetHoldsPrivateKey()
		use.spell(f.GetPath(), f.GetResolvedPath())
		use.inside, use.tracked = f.GetInsideRoots(), f.GetTracked()
		use.internal = use.writes() && (git.Own(use.asked) || git.Own(use.resolved))
		uses = append(uses, use)
	}
	p.uses = append(p.uses, uses...)
	program := sub.GetArgv()[0]
	ours := strings.Contains(program, "/") && sub.GetProgram().GetInsideRoots() // a bare name of such a program is a doubt instead
	if p.harmlessSurroundings() && undisguised(sub) && shell.InSystem(program) && !ours &&
		(len(uses) == 0 || !sub.GetCwdUnknown() && !p.GetCommand().GetCwdDoubtful()) {
		p.does[i] = does{given, uses}
	}
}

// onlyText reports whether words of a command that are known only at run time can only be text that it prints or
// compares, or pipes from other commands: each such word certainly is, or the command uses no files and nothing adds
// words to it.
func onlyText(sub *permissionv1.SubCommand) bool {
	if !sub.GetDynamic() {
		return true
	}
	certain := len(sub.GetDynamicWords()) > 0
	for _, i := range sub.GetDynamicWords() {
		certain = certain && i > 0 && (shell.TextWord(sub, int(i)) || shell.PipedWord(sub, int(i)))
	}
	return certain || !shell.DynamicWord(sub, 0) && len(sub.GetFacts().GetFiles()) == 0 && len(sub.GetWrappers()) == 0
}

// seen reports whether the effects of simple command i are certain.
func (p *action) seen(i int) bool { return p.does[i].facts != nil && p.doubts[i].all == "" }

// whyNot returns which of the rule's conditions does not cover the effects of simple command i, ignoring doubts about
// its program; empty: all do.
func (e *effects) whyNot(a *action, i int) string {
	if !e.any() {
		return ""
	}
	sub := a.GetCommand().GetSubCommands()[i]
	facts, shown := a.does[i].facts, code(sub.GetArgv())
	if facts == nil {
		return fmt.Sprintf("it is not known what %s does%s", shown, because(sub.GetFacts().GetUnknown()))
	}
	for _, flag := range []struct {
		is    bool
		want  *bool
		means string
	}{
		{facts.GetRunsCode(), e.runsCode, "runs code that is not in the line"},
		{facts.GetNetwork(), e.network, "talks to other machines"},
	} {
		switch {
		case flag.want == nil && flag.is && e.files(), flag.want != nil && !*flag.want && flag.is:
			return shown + " " + flag.means
		case flag.want != nil && *flag.want && !flag.is:
			return fmt.Sprintf("it is not so that %s %s", shown, flag.means)
		}
	}
	if !e.files() {
		return ""
	}
	if facts.GetChanges() {
		return shown + " changes more than files"
	}
	for _, use := range a.does[i].uses {
		if use.drops() {
			continue
		}
		globs, verb, field := e.reads, "reads", "reads"
		if use.writes() {
			globs, verb, field = e.writes, "writes", "writes"
		}
		if !use.allowed(a, globs) {
			return fmt.Sprintf("%s %s %s, which matches none of the rule's %s", shown, verb, use.shown(), field)
		}
	}
	return ""
}

// drops reports whether the command writes to the null device, which changes nothing: as a redirection to it does.
func (u *fileUse) drops() bool {
	return u.writes() && !u.recursive && u.asked == nowhere && u.resolved == nowhere
}

// allowed reports whether an allow rule's globs cover the file, as named and as resolved, and everything below it if
// that is used too.
func (u *fileUse) allowed(a *action, globs []glob) bool {
	covers := func(spelling string) bool {
		return slices.ContainsFunc(globs, func(g glob) bool {
			return g.allows(a.roots, &u.pathAccess, spelling) && (!u.recursive || g.coversBelow())
		})
	}
	return !u.internal && u.asked != "" && u.resolved != "" && covers(u.asked) && (u.resolved == u.asked || covers(u.resolved))
}

// coversBelow reports whether the glob matches everything below a folder that it matches.
func (g *glob) coversBelow() bool { return g.source == "**" || strings.HasSuffix(g.source, "/**") }

// forbids reports how certain it is that a command of the action has the effects that a deny or ask rule names.
func (e *effects) forbids(a *action) match {
	if !e.any() {
		return yes
	}
	sure := yes
	if e.reads != nil {
		sure = min(sure, e.forbidsFiles(a, e.reads, false))
	}
	if e.writes != nil {
		sure = min(sure, e.forbidsFiles(a, e.writes, true))
	}
	if e.runsCode != nil {
		sure = min(sure, forbidsFlag(a, *e.runsCode, (*permissionv1.Facts).GetRunsCode))
	}
	if e.network != nil {
		sure = min(sure, forbidsFlag(a, *e.network, (*permissionv1.Facts).GetNetwork))
	}
	return sure
}

func (e *effects) forbidsFiles(a *action, globs []glob, writes bool) match {
	sure := a.unseen()
	for i := range a.uses {
		if u := &a.uses[i]; u.writes() == writes {
			sure = max(sure, u.forbidden(a, globs))
		}
	}
	return sure
}

// unseen returns maybe unless the effects of every command are certain.
func (p *action) unseen() match {
	if p.unclear {
		return maybe
	}
	for i, sub := range p.GetCommand().GetSubCommands() {
		if len(sub.GetArgv()) > 0 && !p.seen(i) {
			return maybe
		}
	}
	return no
}

func forbidsFlag(a *action, want bool, flag func(*permissionv1.Facts) bool) match {
	sure := a.unseen()
	for i, sub := range a.GetCommand().GetSubCommands() {
		// A set flag is known, even if the other effects are not.
		if facts := sub.GetFacts(); flag(facts) == want && (want || a.seen(i) && len(sub.GetArgv()) > 0) {
			return yes
		}
	}
	return sure
}

// forbidden reports how certain it is that a deny or ask rule's globs match the file. Files that a command reads below
// a folder do not count here, because they are left out (leaveOut). Files that it writes there count if they may match.
func (u *fileUse) forbidden(a *action, globs []glob) match {
	switch {
	case forbidsPath(globs, a, u.pathAccess):
		if u.possible {
			return maybe
		}
		return yes
	case !slices.ContainsFunc(globs, func(g glob) bool { return g.limits.concern(&u.pathAccess) }):
	case u.resolved == "",
		slices.ContainsFunc(globs, func(g glob) bool { return g.mayForbid(a, &u.pathAccess) }),
		u.recursive && u.writes() && slices.ContainsFunc(globs, func(g glob) bool { return g.limits.concern(&u.pathAccess) && len(g.below(a, &u.pathAccess)) > 0 }):
		return maybe
	}
	return no
}

// whyMaybe returns why it is not certain which files are used.
func (u *fileUse) whyMaybe(a *action) string {
	switch {
	case u.resolved == "":
		return fmt.Sprintf("it is not known where %s leads", show(u.asked)) + a.whyUnresolved()
	case u.possible:
		return u.shown() + " may be among the names that another command of the line writes for it"
	case u.recursive && u.writes():
		return "it changes what lies below " + u.shown()
	}
	return u.shown() + " may be one, by another name of a root"
}

// whyForbiddenEffects returns which of the rule's conditions on effects hold, or why that is uncertain.
func (r *rule) whyForbiddenEffects(a *action, held match) string {
	switch {
	case !r.effects.any():
		return ""
	case held == no && !a.command:
		return "the action runs no command"
	case held == no:
		return "no command does what the rule names"
	case held == maybe && a.unclear:
		return "it cannot be told what runs: " + show(whyUnclear(a))
	}
	for i := range a.uses {
		u := &a.uses[i]
		globs, verb := r.effects.reads, "reads"
		if u.writes() {
			globs, verb = r.effects.writes, "writes"
		}
		if globs != nil && u.forbidden(a, globs) == held {
			return fmt.Sprintf("%s %s %s", code(a.GetCommand().GetSubCommands()[u.of].GetArgv()), verb, u.shown())
		}
	}
	for i, sub := range a.GetCommand().GetSubCommands() {
		if held == yes && r.effects.network != nil && *r.effects.network && sub.GetFacts().GetNetwork() {
			return code(sub.GetArgv()) + " talks to other machines"
		}
		if held == maybe && len(sub.GetArgv()) > 0 && !a.seen(i) {
			return fmt.Sprintf("it is not known what %s does%s", code(sub.GetArgv()), because(sub.GetFacts().GetUnknown()))
		}
	}
	return "a command does what the rule names"
}

// showsBeyond reports whether a command of git's shows contents of a repository that is larger than the session's roots.
func (p *action) showsBeyond() bool {
	return slices.ContainsFunc(p.uses, func(u fileUse) bool {
		dir := p.GetCommand().GetSubCommands()[u.of].GetRepository().GetGitDir()
		return u.tracked && isPath(dir) && !inRoots(p.roots, path.Dir(path.Clean(dir)))
	})
}

// maxLeftOut limits the globs of a decision.
const maxLeftOut = 200

// leaveOut returns globs of files that may lie below the folders which the action's commands or its search read, and
// that the deny rules of all parts forbid; with the verdict ask, also those of the ask rules. A rule counts if its
// other conditions hold, or may hold. The globs contain no ${root} or "~".
func leaveOut(parts []Part, a *action, of permissionv1.Verdict) []string {
	var through []*pathAccess
	for i := range a.uses {
		if u := &a.uses[i]; u.recursive && !u.writes() && !u.onlyNames {
			through = append(through, &u.pathAccess)
		}
	}
	for i := range a.paths {
		if a.paths[i].searched {
			through = append(through, &a.paths[i])
		}
	}
	if len(through) == 0 {
		return nil
	}
	var globs []string
	add := func(from []glob) {
		for _, folder := range through {
			for _, g := range from {
				if !g.limits.writes && !g.limits.onlyKeys {
					globs = append(globs, g.below(a, folder)...)
				}
			}
		}
	}
	for _, p := range parts {
		add(p.Policy.protected)
		rules := p.Policy.deny
		if of == ask {
			rules = slices.Concat(rules, p.Policy.ask)
		}
		for _, r := range rules {
			if (r.paths != nil || r.effects.reads != nil) && r.holdsButFiles(a) {
				add(r.paths)
				add(r.effects.reads)
			}
		}
	}
	return together(nil, globs)
}

// together returns the union of two lists of globs, without duplicates.
func together(globs, others []string) []string {
	has := map[string]bool{}
	all := make([]string, 0, len(globs))
	for _, g := range slices.Concat(globs, others) {
		if !has[g] {
			has[g] = true
			all = append(all, g)
		}
	}
	return all
}

// holdsButFiles reports whether all conditions of a deny or ask rule that do not concern files hold, or may hold.
func (r *rule) holdsButFiles(a *action) bool {
	return !slices.ContainsFunc(forbiddingButFiles, func(c criterion) bool { return c.holds(r, a) == no })
}

// below returns the forms of the glob that may match a file below a folder that is traversed, with the roots in place
// of ${root}; none if the glob certainly matches only files elsewhere.
func (g *glob) below(a *action, u *pathAccess) []string {
	texts := g.texts
	if g.rooted {
		texts = nil
		for _, root := range a.roots {
			texts = append(texts, strings.TrimSuffix(pathglob.Escape(root), "/")+"/"+g.texts[0])
		}
		if u.inside && u.foldedResolved != "" && !inRoots(a.foldedRoots, u.foldedResolved) {
			texts = append(texts, "/**/"+g.texts[0]) // the root has another, unknown name
		}
	}
	var found []string
	for _, text := range texts {
		if u.tracked || u.resolved == "" || mayLieBelow(text, u.foldedAsked) || mayLieBelow(text, u.foldedResolved) {
			if strings.HasPrefix(text, "/**") {
				text = text[1:]
			}
			found = append(found, strings.TrimSuffix(text, "/"))
		}
	}
	return found
}

// mayLieBelow reports whether a pattern may match a file below a folder, which is folded.
func mayLieBelow(text, dir string) bool {
	text = fold(text)
	first := strings.IndexAny(text, pathglob.Meta)
	if first < 0 {
		rest, below := tailBelow(dir, text)
		return below && rest != ""
	}
	fixed := text[:strings.LastIndexByte(text[:first], '/')]
	if fixed == "" {
		return true
	}
	_, below := tailBelow(dir, fixed)
	_, above := tailBelow(fixed, dir)
	return below || above
}
