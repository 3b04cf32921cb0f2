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
	// maxPaths is the contract's limit of paths in an action.
	maxPaths = 1000
	// maxWords limits the words of a command that are checked as paths.
	maxWords = 2000
)

// action is an action prepared for many rules: values that several rules need are computed once.
type action struct {
	*permissionv1.Action
	roots       []string // clean and absolute
	foldedRoots []string
	paths       []pathAccess
	// vague: the list of paths may be incomplete or wrong.
	vague bool
	words []string // folded paths that the command's words may mean
	// opaque: words may be incomplete.
	opaque bool
	// cwdUnknown: the directory of relative words is unknown.
	cwdUnknown bool
	command    bool   // there is a command
	process    string // the kind of process actions; empty: no process does it
	certain    bool   // the command is fully known, and its environment and directory cannot change what it does
	// unclear: the command may be incomplete or wrong.
	unclear bool
	risks   [][]string // the known risks of each simple command
	// does are the effects of each simple command, if they are known and the program is the one that its name means.
	// uses are the files of all known effects, whatever the programs are.
	does []does
	uses []fileUse
	// alone are the actions of each simple command by itself, computed when needed.
	alone []*permissionv1.Action
	// doubts are, for each simple command, the reasons why it may not be the program that it names. trusting ignores
	// them, to find the rule that would allow the action without them.
	doubts   []doubts
	trusting bool
	// writesGit: a command may change files of git itself.
	writesGit bool
	// to is the machine that the action connects to; nil: none, or unknown.
	to *machine
}

// pathAccess is a path in all its forms. Unknown forms are empty.
type pathAccess struct {
	asked, resolved             string
	foldedAsked, foldedResolved string
	inside                      bool
	access                      permissionv1.Access
	// public: the file holds nothing secret.
	public bool
	// holdsKey: the file holds a private key, and its name does not say so.
	holdsKey bool
	// committed: the change puts nothing new at the path.
	committed bool
	// internal: the path belongs to git itself, and would be changed.
	internal bool
	// searched: a tool of the agent reads everything below it.
	searched bool
	// leads: it becomes a symbolic link, so that a folder elsewhere may get the name.
	leads bool
	// tracked: the access is to files in git's history, wherever they are in the repository.
	tracked bool
}

func newAction(a *permissionv1.Action) *action {
	p := &action{Action: a, process: processKind(a)}
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

// whyUnresolved returns the reason why a path could not be resolved, as a suffix; empty: unknown.
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
		to.inside = access.GetInsideRoots()
		to.leads = access.GetRecursive() && p.process != "" && access.GetAccess() == permissionv1.Access_ACCESS_WRITE
		to.searched = access.GetRecursive() && !to.leads
		to.access, to.committed = access.GetAccess(), access.GetCommitted()
		to.public, to.holdsKey = access.GetPublic(), access.GetHoldsPrivateKey()
		to.internal = access.GetAccess() != permissionv1.Access_ACCESS_READ && !onlyReads(p.GetKind()) && p.process != processGit &&
			(access.GetGitInternal() || git.Own(access.GetPath()) || git.Own(access.GetResolvedPath()))
		to.spell(access.GetPath(), access.GetResolvedPath())
		p.vague = p.vague || to.asked == "" || to.resolved == ""
	}
	p.vague = p.vague || p.GetUnparsed() != "" || (len(given) == 0 && namesPaths(p.GetKind()))
}

// spell sets the path as it was asked for, and as resolved.
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
			continue // its words are not interpreted: its files are known
		}
		for _, word := range sub.GetResolvedWords() {
			p.addWord(sub, word.GetResolvedPath())
		}
		for i, word := range sub.GetArgv() {
			if i > 0 || strings.Contains(word, "/") {
				p.addArgument(sub, word)
				p.cwdUnknown = p.cwdUnknown || (sub.GetCwdUnknown() && !path.IsAbs(word) && !strings.HasPrefix(word, "-"))
			}
		}
	}
	p.opaque = p.opaque || p.unclear
}

// addArgument adds every path that a word may mean.
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

// directory returns the directory of a simple command, if known.
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

// harmlessSurroundings reports whether the environment and the directory of a command allow an allow rule to judge the
// command alone.
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

// namesPaths reports whether actions of the kind have paths, so that an action without any is not fully known.
func namesPaths(kind string) bool {
	return oneOf(kind, "fs.read", "fs.write", "fs.list", "tool.read", "tool.edit", "tool.delete", "tool.move")
}

// onlyReads reports whether actions of the kind change none of their paths.
func onlyReads(kind string) bool {
	return oneOf(kind, "fs.read", "fs.list", "tool.read", "tool.search")
}

// runsCommand reports whether actions of the kind run a command.
func runsCommand(kind string) bool { return kind == "terminal.create" || kind == "tool.execute" }
