package gate

import (
	"fmt"
	"os"
	"path/filepath"
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
	real := ""
	if cwd != "" {
		real = paths.Real(cwd)
	}
	for _, sub := range c.GetSubCommands() {
		words := sub.GetArgv()
		for _, r := range sub.GetRedirections() {
			words = append(words[:len(words):len(words)], r.GetPath())
		}
		for _, w := range words {
			if p := g.protectedWord(w, cwd, roots); p != "" {
				return p
			}
			if p := g.protectedHere(w, cwd, real); p != "" {
				return p
			}
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

// protectedHere looks at a word that may be the name of a file in the working directory, which really is real.
func (g *Gate) protectedHere(word, cwd, real string) string {
	if word == "" || cwd == "" || word[0] == '-' || strings.ContainsRune(word, '/') {
		return ""
	}
	for _, dir := range [...]string{cwd, real} {
		p := filepath.Join(dir, word)
		if slices.Contains(g.protected, p) || slices.ContainsFunc(g.keyFiles(), func(k keyFile) bool { return p == k.asked || p == k.real }) {
			return p
		}
	}
	if p := filepath.Join(cwd, word); g.isKey(p) {
		return p
	}
	return ""
}

// protectedWord looks at a word of a command line as a path, and at what follows "=" in it.
func (g *Gate) protectedWord(word, cwd string, roots []string) string {
	for w := word; ; {
		if strings.ContainsRune(w, '/') || w == "." || w == ".." || strings.EqualFold(w, WorkspaceFolder) {
			p := w
			if !filepath.IsAbs(p) {
				p = filepath.Join(cwd, p)
			}
			if g.own(roots, p) {
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
