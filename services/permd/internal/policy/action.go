package policy

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/git"
	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

const (
	// maxPaths is how many paths an action may have; the contract says so.
	maxPaths = 1000
	// maxWords bounds the words of a command that are looked at as paths.
	maxWords = 2000
)

// action is an action prepared for many rules: what several of them need is worked out once.
type action struct {
	*permissionv1.Action
	roots       []string // clean and absolute
	foldedRoots []string
	paths       []pathAccess
	// vague: the paths may be more, or others, than those given.
	vague bool
	words []string // folded paths that words of the command spell
	// opaque: words may not be all.
	opaque bool
	// adrift: it is not known in which directory words are to be looked for.
	adrift  bool
	command bool // there is one
	certain bool // the command is known in full, and nothing about it could change what it does
	// unclear: the command may be more, or another, than what is given.
	unclear bool
	risks   [][]string // what is known against each simple command
	// does is what each simple command does, as far as that is known and it is the program that it is called. uses are the
	// files of all that are known, whatever their programs are.
	does []does
	uses []fileUse
	// alone are the actions of each simple command by itself, once they are needed.
	alone []*permissionv1.Action
	// doubts say of each simple command why it is not what its names say. trusting: they do not count, to find the rule
	// that would hold but for them.
	doubts   []doubts
	trusting bool
	// writesGit: a command may change what is git's own.
	writesGit bool
	// to is the machine that it connects to; nil: none, or it is not known.
	to *machine
}

// pathAccess is a path in all its forms. Forms that are not known are empty.
type pathAccess struct {
	asked, resolved             string
	foldedAsked, foldedResolved string
	inside                      bool
	// internal: it is git's own, and would be changed.
	internal bool
	// searched: all that lies below it is read by a tool of the agent's.
	searched bool
	// tracked: it stands for what git keeps, wherever that is in its repository.
	tracked bool
}

func newAction(a *permissionv1.Action) *action {
	p := &action{Action: a}
	for _, root := range slices.Concat(a.GetRoots(), a.GetResolvedRoots()) {
		if isPath(root) {
			root = path.Clean(root)
			if slices.Contains(p.roots, root) {
				continue
			}
			p.roots = append(p.roots, root)
			p.foldedRoots = append(p.foldedRoots, fold(root))
		}
	}
	p.preparePaths()
	p.prepareCommand()
	p.to = machineOf(a.GetEndpoint())
	return p
}

// whyUnresolved says why it is not known where a path leads, to be put behind that; empty: no reason is known.
func (p *action) whyUnresolved() string {
	if down := p.GetUnreachableHandler(); down != "" {
		return fmt.Sprintf(", since handler %s is down", show(down))
	}
	return ""
}

func (p *action) preparePaths() {
	given := p.GetPaths()
	if len(given) > maxPaths {
		given, p.vague = given[:maxPaths], true
	}
	p.paths = make([]pathAccess, len(given))
	for i, access := range given {
		to := &p.paths[i]
		to.inside, to.searched = access.GetInsideRoots(), access.GetRecursive()
		to.internal = access.GetAccess() != permissionv1.Access_ACCESS_READ && !onlyReads(p.GetKind()) &&
			(access.GetGitInternal() || git.Own(access.GetPath()) || git.Own(access.GetResolvedPath()))
		to.spell(access.GetPath(), access.GetResolvedPath())
		p.vague = p.vague || to.asked == "" || to.resolved == ""
	}
	p.vague = p.vague || p.GetUnparsed() != "" || (len(given) == 0 && namesPaths(p.GetKind()))
}

// spell takes over a path as it was asked for, and where it leads.
func (p *pathAccess) spell(asked, resolved string) {
	if isPath(asked) {
		p.asked = path.Clean(asked)
		p.foldedAsked = fold(p.asked)
	}
	if isPath(resolved) {
		p.resolved = path.Clean(resolved)
		p.foldedResolved = p.foldedAsked
		if p.resolved != p.asked {
			p.foldedResolved = fold(p.resolved)
		}
	}
}

func (p *action) prepareCommand() {
	command := p.GetCommand()
	p.command = command != nil
	p.unclear = p.GetUnparsed() != "" || command.GetUnparsed() != "" ||
		(!p.command && runsCommand(p.GetKind())) || (p.command && len(command.GetSubCommands()) == 0)
	p.certain = p.command && !p.unclear && p.harmlessSurroundings()
	if !p.command {
		return
	}
	p.does = make([]does, len(command.GetSubCommands()))
	for i, sub := range command.GetSubCommands() {
		p.risks = append(p.risks, shell.Risks(sub.GetArgv()))
		p.doubts = append(p.doubts, p.doubtsOf(sub))
		p.prepareFacts(i)
		p.opaque = p.opaque || sub.GetDynamic() && !p.seen(i)
		for _, redirection := range sub.GetRedirections() {
			p.opaque = p.opaque || redirection.GetDynamic()
			p.vague = p.vague || redirection.GetDynamic()
			p.addWord(sub, redirection.GetPath())
			p.addWord(sub, redirection.GetResolvedPath())
		}
		if p.seen(i) {
			continue // its words are not guessed at: what it uses is known
		}
		for _, word := range sub.GetResolvedWords() {
			p.addWord(sub, word.GetResolvedPath())
		}
		for i, word := range sub.GetArgv() {
			if i > 0 || strings.Contains(word, "/") {
				p.addArgument(sub, word)
				p.adrift = p.adrift || (sub.GetCwdUnknown() && !path.IsAbs(word) && !strings.HasPrefix(word, "-"))
			}
		}
	}
	p.opaque = p.opaque || p.unclear
}

// addArgument adds every path that a word may be taken for.
func (p *action) addArgument(sub *permissionv1.SubCommand, word string) {
	p.addWord(sub, word)
	spelled, all := shell.Spellings(word, false)
	for _, file := range spelled {
		if file != word {
			p.addWord(sub, file)
		}
	}
	p.opaque = p.opaque || !all
}

func (p *action) addWord(sub *permissionv1.SubCommand, word string) {
	switch {
	case word == "" || len(word) > 4096 || strings.Contains(word, "\x00"):
		return
	case len(p.words) >= maxWords:
		p.opaque = true
		return
	}
	if !path.IsAbs(word) {
		base := p.directory(sub)
		if !path.IsAbs(base) {
			return
		}
		word = base + "/" + word
	}
	p.words = append(p.words, fold(path.Clean(word)))
}

// directory is where a simple command runs, as far as it is known.
func (p *action) directory(sub *permissionv1.SubCommand) string {
	if path.IsAbs(sub.GetCwd()) {
		return sub.GetCwd()
	}
	base := p.GetCommand().GetCwd()
	if base == "" && len(p.roots) > 0 {
		base = p.roots[0]
	}
	if sub.GetCwd() != "" && base != "" {
		return base + "/" + sub.GetCwd()
	}
	return base
}

// harmlessSurroundings reports whether the environment and the directory that a command is given are such that an allow
// rule may go by the command alone.
func (p *action) harmlessSurroundings() bool {
	command := p.GetCommand()
	if slices.ContainsFunc(command.GetEnv(), func(entry string) bool { return !shell.HarmlessVariable(entry) }) {
		return false
	}
	cwd := command.GetCwd()
	return cwd == "" || isPath(cwd) && path.Clean(cwd) == strings.TrimSuffix(cwd, "/") && inRoots(p.roots, path.Clean(cwd))
}

func inRoots(roots []string, name string) bool {
	return slices.ContainsFunc(roots, func(root string) bool {
		_, below := tailBelow(root, name)
		return below
	})
}

func isPath(name string) bool { return path.IsAbs(name) && !strings.Contains(name, "\x00") }

// namesPaths reports whether actions of the kind are about paths, so that one without any is not fully known.
func namesPaths(kind string) bool {
	return oneOf(kind, "fs.read", "fs.write", "fs.list", "tool.read", "tool.edit", "tool.delete", "tool.move")
}

// onlyReads reports whether actions of the kind change none of their paths.
func onlyReads(kind string) bool {
	return oneOf(kind, "fs.read", "fs.list", "tool.read", "tool.search")
}

// runsCommand is the same for commands.
func runsCommand(kind string) bool { return kind == "terminal.create" || kind == "tool.execute" }
