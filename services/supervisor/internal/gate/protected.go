package gate

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/paths"
)

// WorkspaceFolder is where a repository keeps what it has to say to acphost, below each root. Agents may not touch it.
const WorkspaceFolder = ".acphost"

// ProtectedBelow tells whether a path is, or lies in, the folder for acphost below one of the roots, each root in any of
// its spellings. File systems that ignore case are taken into account.
func ProtectedBelow(roots []string, path string) bool {
	path = strings.ToLower(filepath.Clean(path))
	for _, root := range roots {
		if root == "" {
			continue
		}
		own := strings.ToLower(filepath.Join(root, WorkspaceFolder))
		if paths.Below(own, path) {
			return true
		}
	}
	return false
}

// workspaceHas tells whether a file stands below a root.
func workspaceHas(root, name string) bool {
	_, err := os.Lstat(filepath.Join(root, name))
	return err == nil
}

// Protected tells whether a path is, or lies below, one of acphost's own files or folders: as written, or as it is seen
// from here once symbolic links are followed. The handler that opens the path looks again: it is the one to race.
func (g *Gate) Protected(path string) bool {
	if path == "" {
		return false
	}
	clean := filepath.Clean(path)
	return g.protected.holds(clean) || g.covers(clean) || g.isKey(clean)
}

// ProtectedName is Protected for a path as written alone: enough where the handler that opens it looks where it leads. That
// it knows the files that Protect was told of is not taken for granted.
func (g *Gate) ProtectedName(path string) bool {
	clean := filepath.Clean(path)
	return g.covers(clean) || path != "" && g.isKey(clean)
}

// ProtectedCommand returns the protected path that a command names, in its arguments, its redirections or its working
// directory, which is the first root where it names none; "" if it names none. roots are the session's, in each of their
// spellings. A command can hide what it touches, so this is a fence, not a wall.
func (g *Gate) ProtectedCommand(c *permissionv1.Command, roots []string) string {
	if c == nil {
		return ""
	}
	cwd := c.GetCwd()
	if cwd == "" && len(roots) > 0 {
		cwd = roots[0]
	}
	if g.own(roots, cwd) {
		return cwd
	}
	dirs, tries := []place{newPlace(cwd)}, maxTries
	for _, sub := range c.GetSubCommands() {
		if dir := sub.GetCwd(); dir != "" {
			dirs = moved(dirs, dir)
		}
		words := sub.GetArgv()
		for _, r := range sub.GetRedirections() {
			words = append(words[:len(words):len(words)], r.GetPath())
		}
		for _, w := range words {
			for i, dir := range dirs {
				if i > 0 {
					if tries--; tries < 0 {
						break
					}
				}
				if p := g.protectedWord(w, dir, roots); p != "" {
					return p
				}
			}
		}
		if len(words) > 1 && changesDirectory(words[0]) {
			dirs = moved(dirs, words[len(words)-1])
		}
	}
	for _, p := range g.protected {
		if strings.Contains(c.GetText(), p) {
			return p
		}
	}
	for _, k := range g.keyFiles() {
		for _, p := range [...]string{k.asked, k.real} {
			if strings.Contains(c.GetText(), p) {
				return p
			}
		}
	}
	return ""
}

// maxMoved bounds the directories that a line goes to and that are tried for its words, and maxTries how often that is done.
const (
	maxMoved = 8
	maxTries = 4096
)

// place is a directory, and where it really is.
type place struct{ dir, real string }

func newPlace(dir string) place {
	if dir == "" {
		return place{}
	}
	return place{dir, paths.Real(dir)}
}

// moved adds where a line goes from the last of some directories. Whether it gets there is not known: its words are tried in
// all of them.
func moved(dirs []place, to string) []place {
	if !filepath.IsAbs(to) {
		to = filepath.Join(dirs[len(dirs)-1].dir, to)
	}
	if len(dirs) >= maxMoved || slices.ContainsFunc(dirs, func(p place) bool { return p.dir == to }) {
		return dirs
	}
	return append(dirs, newPlace(to))
}

func changesDirectory(program string) bool {
	switch program {
	case "cd", "chdir", "pushd":
		return true
	}
	return false
}

// protectedWord looks at a word of a command line as a path, at what follows "=" in it, and at what follows a "@", as curl
// has it.
func (g *Gate) protectedWord(word string, in place, roots []string) string {
	for w := word; ; {
		if p := g.protectedName(w, in, roots); p != "" {
			return p
		}
		if behind, ok := strings.CutPrefix(w, "@"); ok {
			if p := g.protectedName(behind, in, roots); p != "" {
				return p
			}
		}
		_, after, found := strings.Cut(w, "=")
		if !found {
			return ""
		}
		w = after
	}
}

// protectedName looks at what may be the name of a file, or a pattern for some.
func (g *Gate) protectedName(name string, in place, roots []string) string {
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(in.dir, name)
	}
	if strings.ContainsAny(name, "*?[{") {
		if p := g.matched(path); p != "" {
			return p
		}
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
			if slices.Contains(g.protected, p) || slices.ContainsFunc(g.keyFiles(), func(k keyFile) bool { return p == k.asked || p == k.real }) {
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
var alternatives = regexp.MustCompile(`\{[^{}/]*\}`)

// matched returns a key file that a pattern of the shell's stands for. It need not be there, so the pattern is all that
// counts, by either name of its folder.
func (g *Gate) matched(pattern string) string {
	keys := g.keyFiles()
	if len(keys) == 0 {
		return ""
	}
	pattern = alternatives.ReplaceAllString(pattern, "*")
	patterns := []string{pattern}
	if dir := filepath.Dir(pattern); !strings.ContainsAny(dir, "*?[") {
		patterns = append(patterns, filepath.Join(paths.Real(dir), filepath.Base(pattern)))
	}
	for _, p := range patterns {
		for _, k := range keys {
			for _, file := range [...]string{k.asked, k.real} {
				if ok, err := filepath.Match(p, file); ok && err == nil {
					return file
				}
			}
		}
	}
	return ""
}

// own tells whether a path is acphost's own, wherever that is: as written, or where it leads.
func (g *Gate) own(roots []string, path string) bool {
	if path == "" {
		return false
	}
	path = filepath.Clean(path)
	if g.covers(path) || ProtectedBelow(roots, path) {
		return true
	}
	real := paths.Real(path)
	return real != path && (g.covers(real) || ProtectedBelow(roots, real)) || g.isKey(path)
}

type protectedPaths []string

// newProtected takes each path as it is written and as it leads now.
func newProtected(own []string) protectedPaths {
	var out protectedPaths
	for _, p := range own {
		p = filepath.Clean(p)
		out = append(out, p)
		if real := paths.Real(p); real != p {
			out = append(out, real)
		}
	}
	return out
}

func (ps protectedPaths) holds(path string) bool {
	if len(ps) == 0 || path == "" {
		return false
	}
	clean := filepath.Clean(path)
	if ps.covers(clean) {
		return true
	}
	return ps.covers(paths.Real(clean))
}

func (ps protectedPaths) covers(path string) bool {
	return slices.ContainsFunc(ps, func(p string) bool { return paths.Below(p, path) })
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
