package policy

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/git"
	"github.com/acphost/acphost/internal/reason"
	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// doubts are the reasons why allow rules may not rely on the words of a simple command: they mean another program or
// file than they seem to, git runs programs that a repository names, or the words may change which programs git runs
// later. Empty: no doubt.
type doubts struct {
	all string
	// beside is all without the doubts that a rule with workspace_programs ignores.
	beside string
	// short is the reason for the user.
	short string
}

func (d doubts) of(r *rule) string {
	if r.workspacePrograms {
		return d.beside
	}
	return d.all
}

// certain returns a doubt that applies to every rule.
func certain(short, why string) doubts { return doubts{why, why, short} }

func (p *action) doubtsOf(sub *permissionv1.SubCommand) doubts {
	argv := sub.GetArgv()
	if len(argv) == 0 {
		return doubts{}
	}
	if shell.ConfiguresGit(argv) {
		p.writesGit = true
		return certain(reason.RepositoryChanged.String(), "it changes git's settings, by which git can be made to run programs")
	}
	if _, reads := shell.Generalisable(argv); !reads && p.touchesGit(sub) {
		p.writesGit = true
		return certain(reason.RepositoryChanged.String(), "it may change what is git's own, by which git can be made to run programs")
	}
	if word := p.leadsOut(sub); word != "" {
		return certain(reason.LinkOutside.With(show(word)), fmt.Sprintf("%s leads out of the workspace by a symbolic link", word))
	}
	return doubts{shell.Doubt(sub), shell.DoubtBeside(sub), reason.CommandUncertain.String()}
}

// leadsOut returns a word of a simple command that reads like a file in the session's roots, but leads out of them. It
// ignores the program itself, which is judged separately.
func (p *action) leadsOut(sub *permissionv1.SubCommand) string {
	for _, led := range sub.GetResolvedWords() {
		i := int(led.GetWord())
		if led.GetInsideRoots() || i == 0 || i >= len(sub.GetArgv()) {
			continue
		}
		spelled, _ := shell.Spellings(sub.GetArgv()[i], slices.Contains(sub.GetArgv()[1:i], "--"))
		for _, file := range spelled {
			if !path.IsAbs(file) {
				file = p.directory(sub) + "/" + file
			}
			if inRoots(p.roots, path.Clean(file)) {
				return sub.GetArgv()[i]
			}
		}
	}
	return ""
}

// doubtful reports whether a rule may not rely on the words of a command. Doubts about the words concern rules that
// judge them; a change by which git may run other programs concerns every rule.
func (r *rule) doubtful(a *action) bool {
	switch {
	case a.trusting || !a.command:
		return false
	case a.changesGit():
		return true
	}
	byWords := r.byCommand() || r.when != nil && r.when.ofCommand
	return byWords && slices.ContainsFunc(a.doubts, func(d doubts) bool { return d.of(r) != "" })
}

// changesGit reports whether git may run other programs afterwards, so that no rule allows the action.
func (p *action) changesGit() bool {
	return p.writesGit || slices.ContainsFunc(p.paths, func(p pathAccess) bool { return p.internal })
}

// touchesGit reports whether a simple command runs in a folder of git itself, or names a file there. If a root of the
// session lies there, every command may.
func (p *action) touchesGit(sub *permissionv1.SubCommand) bool {
	if git.Own(p.directory(sub)) || slices.ContainsFunc(p.roots, git.Own) {
		return true
	}
	leads := func(w *permissionv1.ResolvedWord) bool { return git.Own(w.GetResolvedPath()) }
	if slices.ContainsFunc(sub.GetResolvedWords(), leads) {
		return true
	}
	for _, word := range sub.GetArgv() {
		for part := range strings.FieldsFuncSeq(word, func(r rune) bool { return strings.ContainsRune("=@:, ", r) }) {
			if git.Own(part) || git.Own(strings.TrimLeft(part, "-")) {
				return true
			}
		}
	}
	return false
}

// doubtReason returns the reason of the first doubt about an action for the rule that covers each of its commands.
func (p *action) doubtReason(of func(i int) *rule) string {
	for i, d := range p.doubts {
		switch {
		case d.of(of(i)) == "":
		case p.manyCommands():
			return naming([]string{p.commandShown(i)}, d.short)
		default:
			return d.short
		}
	}
	return reason.GitRuns.String()
}

// whyDoubtful returns the doubts about an action for the rule that covers each of its commands; empty: none.
func (p *action) whyDoubtful(of func(i int) *rule) string {
	var whys []string
	for i, d := range p.doubts {
		why := d.of(of(i))
		if why != "" && p.manyCommands() {
			why = p.commandShown(i) + ": " + why
		}
		if why != "" {
			whys = append(whys, why)
		}
	}
	for _, path := range p.paths {
		if path.internal && len(whys) == 0 {
			whys = append(whys, "git runs what is written there: "+show(path.asked))
		}
	}
	return listOf(whys, "; ")
}

func (r *rule) whyDoubtful(a *action) string {
	return a.whyDoubtful(func(int) *rule { return r })
}
