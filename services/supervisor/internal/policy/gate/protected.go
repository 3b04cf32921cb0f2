package gate

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/lazyregexp"
	"github.com/acphost/acphost/internal/paths"
	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// WorkspaceFolder is the folder with a repository's settings for acphost, below each root. Agents may not access it.
const WorkspaceFolder = ".acphost"

// ProtectedBelow reports whether a path is, or lies in, the WorkspaceFolder below one of the roots, each root in any of its spellings. It
// ignores case, because some file systems do.
func ProtectedBelow(roots []string, path string) bool {
	if !namesWorkspaceFolder(path) { // most paths do not
		return false
	}
	path = strings.ToLower(filepath.Clean(path))
	return slices.ContainsFunc(roots, func(root string) bool {
		return root != "" && paths.Below(strings.ToLower(filepath.Join(root, WorkspaceFolder)), path)
	})
}

// namesWorkspaceFolder reports whether a part of a path may be WorkspaceFolder, in any case.
func namesWorkspaceFolder(path string) bool {
	for i := range len(path) - len(WorkspaceFolder) + 1 {
		if path[i] == WorkspaceFolder[0] && strings.EqualFold(path[i:i+len(WorkspaceFolder)], WorkspaceFolder) {
			return true
		}
	}
	return false
}

// workspaceHas reports whether a file exists below a root.
func workspaceHas(root, name string) bool {
	_, err := os.Lstat(filepath.Join(root, name))
	return err == nil
}

// Protected reports whether a path is, or lies below, one of acphost's own files or folders: as written, or with symbolic links resolved by
// the supervisor. The handler that opens the path checks again, because links can change in between.
func (g *Gate) Protected(path string) bool { return g.By(nil).Protected(path) }

// Protected implements Gate.Protected.
func (g Sight) Protected(path string) bool { return g.own(nil, path) }

// ProtectedName is like Protected for the path as written. That is enough if the handler that opens the path checks where its links lead.
// The handler need not know the files that were passed to Protect: these are checked here by their identity, too.
func (g *Gate) ProtectedName(path string) bool { return g.By(nil).ProtectedName(path) }

// ProtectedName implements Gate.ProtectedName.
func (g Sight) ProtectedName(path string) bool {
	clean := filepath.Clean(path)
	return g.covers(clean) || path != "" && g.isKey(clean)
}

// ProtectedCommand returns the protected path that a command names, in its arguments, its redirections or its working directory (by default
// the first root); "": none. It expands words: patterns by the files on the disk, braces, home folders, and variables as far as they are
// known. It also checks the contents of folders that the command walks through. roots are the session's, in each of their spellings. A
// command can hide which files it touches, so this check is best effort.
func (g *Gate) ProtectedCommand(c *permissionv1.Command, roots []string) string {
	return g.By(nil).ProtectedCommand(c, roots)
}

// ProtectedCommand implements Gate.ProtectedCommand.
func (g Sight) ProtectedCommand(c *permissionv1.Command, roots []string) string {
	if c == nil {
		return ""
	}
	protected, _, _ := g.keysOf(c, roots)
	return protected
}

// keysOf implements ProtectedCommand. unclear: the command names no protected path, but may name a key file, depending on values that are
// only known when it runs. at is the first simple command that may do so; -1: not known.
func (g Sight) keysOf(c *permissionv1.Command, roots []string) (protected string, unclear bool, at int) {
	at = -1
	cwd := c.GetCwd()
	if cwd == "" && len(roots) > 0 {
		cwd = roots[0]
	}
	if g.own(roots, cwd) {
		return cwd, false, at
	}
	k := g.readKeys(c, roots)
	dirs, tries := []place{g.newPlace(cwd)}, maxTries
	for i, sub := range c.GetSubCommands() {
		if i > 0 && at < 0 && k.unclear {
			at = i - 1
		}
		if dir := sub.GetCwd(); dir != "" {
			dirs = g.appendDir(dirs, dir)
		}
		argv := sub.GetArgv()
		words := slices.Clone(argv)
		for _, r := range sub.GetRedirections() {
			words = append(words, r.GetPath())
			k.unclear = k.unclear || r.GetDynamic() && len(g.keyFiles()) > 0
		}
		for j, w := range words {
			for n, dir := range dirs {
				if n > 0 {
					if tries--; tries < 0 {
						break
					}
				}
				if p := k.protectedWord(w, dir); p != "" {
					return p, false, at
				}
				if j >= len(argv) || !opensNothing[argv[0]] {
					k.checkOtherProcess(w, dir)
				}
				if j >= len(argv) || !shell.DynamicWord(sub, j) && !k.lost {
					continue
				}
				was := k.unclear
				if p := k.word(w, dir); p != "" {
					return p, false, at
				}
				k.unclear = was || k.unclear && !opensNothing[argv[0]]
			}
		}
		if p := k.throughFolder(argv, dirs, i+1 < len(c.GetSubCommands())); p != "" {
			return p, false, at
		}
		if len(argv) > 1 && changesDirectory(argv[0]) {
			for _, to := range k.expand(argv[len(argv)-1], dirs[len(dirs)-1]) {
				if strings.ContainsRune(to, anything) {
					k.lost = true
				} else {
					dirs = g.appendDir(dirs, to)
				}
			}
		}
	}
	if at < 0 && k.unclear {
		at = len(c.GetSubCommands()) - 1
	}
	if p := k.files(c, dirs); p != "" {
		return p, false, at
	}
	inText := func(name string) bool { return strings.Contains(c.GetText(), name) }
	if i := slices.IndexFunc(g.protected, inText); i >= 0 {
		return g.protected[i], false, at
	}
	if key := g.keyNamed(inText); key != "" {
		return key, false, at
	}
	return "", k.unclear || c.GetUnparsed() != "" && len(g.keyFiles()) > 0 && strings.ContainsAny(c.GetText(), "$`*?[{~(\\"), at
}

// maxMoved limits the directories of a line in which its words are tried, and maxTries how often words are tried in further directories.
const (
	maxMoved = 8
	maxTries = 4096
)

// place is a directory, with its path as written and with links resolved.
type place struct{ dir, real string }

func (g Sight) newPlace(dir string) place {
	if dir == "" {
		return place{}
	}
	return place{dir, g.seen.Real(dir)}
}

// appendDir appends the directory that a line changes to from the last one. The change may fail, so words are tried in all directories.
func (g Sight) appendDir(dirs []place, to string) []place {
	to = g.resolve(to, dirs[len(dirs)-1].dir)
	if len(dirs) >= maxMoved || slices.ContainsFunc(dirs, func(p place) bool { return p.dir == to }) {
		return dirs
	}
	return append(dirs, g.newPlace(to))
}

func changesDirectory(program string) bool {
	return program == "cd" || program == "chdir" || program == "pushd"
}

// protectedWord checks every path that a word of a command line may spell.
func (k *keyReading) protectedWord(word string, in place) string {
	at := in.dir + "\x00" + word
	if k.seen[at] {
		return ""
	}
	k.seen[at] = true
	for _, w := range valuesOf(word) {
		if w != word {
			if k.spelled--; k.spelled < 0 {
				k.unclear = k.unclear || len(k.g.keyFiles()) > 0
				continue
			}
		}
		if p := k.g.protectedName(w, in, k.roots); p != "" {
			return p
		}
	}
	return ""
}

// protectedName checks a word that may be the name of a file, or a pattern for file names.
func (g Sight) protectedName(name string, in place, roots []string) string {
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(in.dir, name)
	}
	led := g.resolveLinks(spelled(name, in.real), in.real)
	if strings.ContainsAny(name, "*?[{") {
		if p := g.matched(path); p != "" {
			return p
		}
		if p := g.matched(led.path); led.by == ownProcess && p != "" {
			return p
		}
	}
	if led.path != "" && led.by != otherProcess && g.own(roots, led.path) {
		return led.path
	}
	switch {
	case strings.ContainsRune(name, '/'), name == ".", name == "..", strings.EqualFold(name, WorkspaceFolder):
		if g.own(roots, path) {
			return path
		}
	case name == "", in.dir == "", name[0] == '-':
	default: // an ordinary word, unless a file has that name
		for _, dir := range [...]string{in.dir, in.real} {
			p := filepath.Join(dir, name)
			if slices.Contains(g.protected, p) || g.keyNamed(func(key string) bool { return p == key }) != "" {
				return p
			}
		}
		if g.isKey(path) {
			return path
		}
	}
	return ""
}

// alternatives matches the brace expansions of a shell.
var alternatives = lazyregexp.New(`\{[^{}/]*\}`)

// matched returns a key file that matches a shell pattern. The key file need not exist, so only the pattern counts, with its folder as
// logWritten or resolved.
func (g Sight) matched(pattern string) string {
	if len(g.keyFiles()) == 0 {
		return ""
	}
	pattern = alternatives.ReplaceAllString(pattern, "*")
	patterns := []string{pattern}
	if dir := filepath.Dir(pattern); !strings.ContainsAny(dir, "*?[") {
		patterns = append(patterns, filepath.Join(g.seen.Real(dir), filepath.Base(pattern)))
	}
	for _, p := range patterns {
		if key := g.keyNamed(func(key string) bool { return matches(p, key) }); key != "" {
			return key
		}
	}
	return ""
}

func matches(pattern, name string) bool {
	ok, err := filepath.Match(pattern, name)
	return ok && err == nil
}

// own reports whether a path is one of acphost's own, as written or with links resolved.
func (g Sight) own(roots []string, path string) bool {
	if path == "" {
		return false
	}
	path = filepath.Clean(path)
	if g.covers(path) || ProtectedBelow(roots, path) {
		return true
	}
	real := g.seen.Real(path)
	return real != path && (g.covers(real) || ProtectedBelow(roots, real)) || g.isKey(path)
}

// newProtected returns each path as written and with links resolved.
func newProtected(own []string) []string {
	var out []string
	for _, p := range own {
		p = filepath.Clean(p)
		out = append(out, p)
		if real := paths.Real(p); real != p {
			out = append(out, real)
		}
	}
	return out
}

// protectedIn returns the first path of an action that is marked as protected.
func protectedIn(a *permissionv1.Action) string {
	for _, p := range a.GetPaths() {
		if p.GetProtected() {
			return p.GetPath()
		}
	}
	return ""
}
