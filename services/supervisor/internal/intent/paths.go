package intent

import (
	"net/url"
	"path"
	"path/filepath"
	"strings"
	"unicode/utf8"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

// paths collects the paths of an action, each once; of two accesses the write counts.
type paths struct {
	scene  Scene
	action *permissionv1.Action
	seen   map[string]*permissionv1.PathAccess
}

func newPaths(s Scene, a *permissionv1.Action) *paths {
	return &paths{scene: s, action: a, seen: map[string]*permissionv1.PathAccess{}}
}

// add takes a path as an agent writes it in a tool's input: a file URL, absolute, or relative to the session's working
// directory.
func (p *paths) add(path string, access permissionv1.Access) *permissionv1.PathAccess {
	path, why := local(path)
	if why != "" {
		unparsed(p.action, why)
		return nil
	}
	return p.place(path, access)
}

// place records a path of this machine.
func (p *paths) place(path string, access permissionv1.Access) *permissionv1.PathAccess {
	switch {
	case path == "":
		return nil
	case strings.ContainsRune(path, 0) || !utf8.ValidString(path):
		unparsed(p.action, "a path has a NUL in it, or is not UTF-8")
		return nil
	}
	path, ok := p.scene.absolute(path)
	if !ok {
		unparsed(p.action, "a path is relative, and the session has no working directory")
	}
	if known := p.seen[path]; known != nil {
		if access == permissionv1.Access_ACCESS_WRITE {
			known.Access = access
		}
		return known
	}
	if len(p.action.Paths) >= maxPaths {
		unparsed(p.action, "more than 1000 paths")
		return nil
	}
	pa := &permissionv1.PathAccess{Path: path, Access: access}
	if p.scene.Place != nil {
		at := p.scene.Place(path)
		pa.ResolvedPath, pa.InsideRoots, pa.Protected = at.Resolved, at.Inside, at.Protected
	}
	p.seen[path] = pa
	p.action.Paths = append(p.action.Paths, pa)
	return pa
}

// diffs adds the files of the diffs in a tool call's content, and tells whether there are any.
func (p *paths) diffs(content []byte) bool {
	if len(content) == 0 {
		return false
	}
	found := false
	err := acp.Elements(content, func(v []byte) bool {
		if kind, _ := acp.String(acp.Get(v, "type")); kind != "diff" {
			return true
		}
		found = true
		if file, ok := acp.String(acp.Get(v, "path")); ok && file != "" {
			p.add(file, permissionv1.Access_ACCESS_WRITE)
		} else {
			unparsed(p.action, "a diff does not say of which file it is")
		}
		return true
	})
	if err != nil {
		unparsed(p.action, "the content cannot be read in one way only")
	}
	return found
}

// locations adds the files that a tool call says it is about.
func (p *paths) locations(raw []byte, access permissionv1.Access) {
	if len(raw) == 0 {
		return
	}
	err := acp.Elements(raw, func(v []byte) bool {
		if file, ok := acp.String(acp.Get(v, "path")); ok && file != "" {
			p.add(file, access)
		} else {
			unparsed(p.action, "a location does not say which file it is")
		}
		return true
	})
	if err != nil {
		unparsed(p.action, "the locations cannot be read in one way only")
	}
}

// redirections adds the files that a command line reads and writes through its shell. After a cd it is not certain
// where a relative one leads.
func (p *paths) redirections(c *permissionv1.Command) {
	moved := false
	for _, sub := range c.GetSubCommands() {
		for _, r := range sub.GetRedirections() {
			file := r.GetPath()
			switch {
			case r.GetDynamic() || file == "" || file == "/dev/null":
				continue
			case moved && !path.IsAbs(file):
				unparsed(p.action, "the command changes its directory, so where it redirects to is not certain")
				continue
			case c.GetCwd() != "" && !path.IsAbs(file):
				file = filepath.Join(c.GetCwd(), file)
			}
			access := permissionv1.Access_ACCESS_WRITE
			if r.GetOperator() == "<" {
				access = permissionv1.Access_ACCESS_READ
			}
			if pa := p.place(file, access); pa != nil {
				r.ResolvedPath = pa.GetResolvedPath()
			}
		}
		switch argv := sub.GetArgv(); {
		case len(argv) == 0:
		case argv[0] == "cd", argv[0] == "pushd", argv[0] == "popd", argv[0] == "chdir":
			moved = true
		}
	}
}

// local returns the path of this machine that an agent means, or why there is none for certain. Agents write file URLs
// where others write paths, and what a program does with a ~ is its own affair.
func local(p string) (file, why string) {
	switch {
	case strings.HasPrefix(p, "~"):
		return "", "a path begins with ~: where it leads is not certain"
	case hasScheme(p, "file"):
		u, err := url.Parse(p)
		if err != nil || u.Host != "" && u.Host != "localhost" || u.RawQuery != "" || u.Fragment != "" || !path.IsAbs(u.Path) {
			return "", "a file URL does not name a file of this machine"
		}
		return u.Path, ""
	case strings.Contains(p, "://"):
		return "", "a URL stands where a path should"
	}
	return p, ""
}

func hasScheme(s, scheme string) bool {
	return len(s) > len(scheme) && s[len(scheme)] == ':' && strings.EqualFold(s[:len(scheme)], scheme)
}

// absolute makes a path absolute with the session's working directory; false if there is none. One that is absolute
// stays as it is written.
func (s Scene) absolute(file string) (string, bool) {
	if filepath.IsAbs(file) {
		return file, true
	}
	if len(s.Roots) == 0 || !filepath.IsAbs(s.Roots[0]) {
		return file, false
	}
	return filepath.Join(s.Roots[0], file), true
}
