package gate

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/lazyregexp"
	"github.com/acphost/acphost/internal/paths"
	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// WorkspaceFolder is where a repository keeps what it has to say to acphost, below each root. Agents may not touch it.
const WorkspaceFolder = ".acphost"

// ProtectedBelow reports whether a path is, or lies in, the folder for acphost below one of the roots, each root in any of
// its spellings. File systems that ignore case are taken into account.
func ProtectedBelow(roots []string, path string) bool {
	if !namesWorkspaceFolder(path) { // most do not
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

// workspaceHas reports whether a file stands below a root.
func workspaceHas(root, name string) bool {
	_, err := os.Lstat(filepath.Join(root, name))
	return err == nil
}

// Protected reports whether a path is, or lies below, one of acphost's own files or folders: as written, or as it is seen
// from here once symbolic links are followed. The handler that opens the path looks again: it is the one to race.
func (g *Gate) Protected(path string) bool { return g.By(nil).Protected(path) }

// Protected is the Gate's.
func (g Sight) Protected(path string) bool { return g.own(nil, path) }

// ProtectedName is Protected for the path as written alone. That is enough if the handler that opens the path checks where
// the path leads. The handler need not know the files that Protect was given: these are checked here by what they are, too.
func (g *Gate) ProtectedName(path string) bool { return g.By(nil).ProtectedName(path) }

// ProtectedName is the Gate's.
func (g Sight) ProtectedName(path string) bool {
	clean := filepath.Clean(path)
	return g.covers(clean) || path != "" && g.isKey(clean)
}

// ProtectedCommand returns the protected path that a command names, in its arguments, its redirections or its working
// directory, which is the first root where it names none; "" if it names none. What its words stand for is looked up: patterns
// on the disk, braces, home folders, variables as far as they are known; so is what lies in the folders that it goes through.
// roots are the session's, in each of their spellings. A command can hide what it touches, so this is a fence, not a wall.
func (g *Gate) ProtectedCommand(c *permissionv1.Command, roots []string) string {
	return g.By(nil).ProtectedCommand(c, roots)
}

// ProtectedCommand is the Gate's.
func (g Sight) ProtectedCommand(c *permissionv1.Command, roots []string) string {
	if c == nil {
		return ""
	}
	protected, _, _ := g.keysOf(c, roots)
	return protected
}

// keysOf is ProtectedCommand. unclear: it names none, and may name a key file all the same, by what is only known when it
// runs; at is the first simple command that may, -1 if that is not known.
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
			dirs = g.moved(dirs, dir)
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
					k.elsewhere(w, dir)
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
			for _, to := range k.meant(argv[len(argv)-1], dirs[len(dirs)-1]) {
				if strings.ContainsRune(to, anything) {
					k.lost = true
				} else {
					dirs = g.moved(dirs, to)
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

// maxMoved bounds the directories that a line goes to and that are tried for its words, and maxTries how often that is done.
const (
	maxMoved = 8
	maxTries = 4096
)

// place is a directory, and where it really is.
type place struct{ dir, real string }

func (g Sight) newPlace(dir string) place {
	if dir == "" {
		return place{}
	}
	return place{dir, g.seen.Real(dir)}
}

// moved adds where a line goes from the last of some directories. Whether it gets there is not known: its words are tried in
// all of them.
func (g Sight) moved(dirs []place, to string) []place {
	to = g.reached(to, dirs[len(dirs)-1].dir)
	if len(dirs) >= maxMoved || slices.ContainsFunc(dirs, func(p place) bool { return p.dir == to }) {
		return dirs
	}
	return append(dirs, g.newPlace(to))
}

func changesDirectory(program string) bool {
	return program == "cd" || program == "chdir" || program == "pushd"
}

// protectedWord looks at every path that a word of a command line may spell.
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

// protectedName looks at what may be the name of a file, or a pattern for some.
func (g Sight) protectedName(name string, in place, roots []string) string {
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(in.dir, name)
	}
	led := g.ledFrom(spelled(name, in.real), in.real)
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
	default: // a word like any other, unless there is a file of that name
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

// alternatives are what a shell makes several words of.
var alternatives = lazyregexp.New(`\{[^{}/]*\}`)

// matched returns a key file that a pattern of the shell's stands for. It need not be there, so the pattern is all that
// counts, by either name of its folder.
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

// own reports whether a path is acphost's own, wherever that is: as written, or where it leads.
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

// newProtected takes each path as it is written and as it leads now.
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

func protectedReason(path string) string {
	return fmt.Sprintf("%s belongs to acphost itself (its configuration, policy, state, keys or sockets), which no agent may touch", path)
}
