package gate

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// Protected tells whether a path is, or lies below, one of acphost's own files or folders: as written, or as it is seen
// from here once symbolic links are followed. The handler that opens the path looks again: it is the one to race.
func (g *Gate) Protected(path string) bool { return g.protected.holds(path) }

// ProtectedName is Protected for a path as written alone: enough where the handler that opens it looks where it leads.
func (g *Gate) ProtectedName(path string) bool { return g.protected.covers(filepath.Clean(path)) }

// ProtectedCommand returns the protected path that a command names, in its arguments, its redirections or its working
// directory; "" if it names none. A command can hide what it touches, so this is a fence, not a wall.
func (g *Gate) ProtectedCommand(c *permissionv1.Command, cwd string) string {
	if c == nil || len(g.protected) == 0 {
		return ""
	}
	if c.GetCwd() != "" {
		cwd = c.GetCwd()
	}
	if g.Protected(cwd) {
		return cwd
	}
	for _, sub := range c.GetSubCommands() {
		words := sub.GetArgv()
		for _, r := range sub.GetRedirections() {
			words = append(words[:len(words):len(words)], r.GetPath())
		}
		for _, w := range words {
			if p := g.protectedWord(w, cwd); p != "" {
				return p
			}
		}
	}
	for _, p := range g.protected {
		if strings.Contains(c.GetText(), p) {
			return p
		}
	}
	return ""
}

// protectedWord looks at a word of a command line as a path, and at what follows "=" in it.
func (g *Gate) protectedWord(word, cwd string) string {
	for w := word; ; {
		if strings.ContainsRune(w, '/') || w == "." || w == ".." {
			p := w
			if !filepath.IsAbs(p) {
				p = filepath.Join(cwd, p)
			}
			if g.Protected(p) {
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

type protectedPaths []string

// newProtected takes each path as it is written and as it leads now.
func newProtected(paths []string) protectedPaths {
	var out protectedPaths
	for _, p := range paths {
		p = filepath.Clean(p)
		out = append(out, p)
		if real := realPath(p); real != p {
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
	return ps.covers(realPath(clean))
}

func (ps protectedPaths) covers(path string) bool {
	for _, p := range ps {
		if path == p || strings.HasPrefix(path, p) && path[len(p)] == filepath.Separator {
			return true
		}
	}
	return false
}

// realPath follows symbolic links as far as the path exists, and keeps the rest of its name.
func realPath(path string) string {
	rest := ""
	for p := path; ; {
		real, err := filepath.EvalSymlinks(p)
		if err == nil {
			return filepath.Join(real, rest)
		}
		parent := filepath.Dir(p)
		if parent == p || !errors.Is(err, fs.ErrNotExist) {
			return path
		}
		rest = filepath.Join(filepath.Base(p), rest)
		p = parent
	}
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
	return fmt.Sprintf("%s belongs to acphost itself (its configuration, policy, state or sockets), which no agent may touch", path)
}
