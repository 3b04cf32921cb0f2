package intent

import (
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/acphost/acphost/internal/lazyregexp"
	realpaths "github.com/acphost/acphost/internal/paths"
	"github.com/acphost/acphost/internal/secretfile"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

// paths collects the paths of an action without duplicates. If a path has two accesses, the write is kept.
type paths struct {
	session Session
	action  *permissionv1.Action
	seen    map[string]*permissionv1.PathAccess
	// folders are the resolved directories of commands.
	folders map[string]Place
	// known are the resolved words of the command.
	known map[string]Place
	// roots are the resolved roots of the session, resolved at first use.
	roots []string
}

func newPaths(s Session, a *permissionv1.Action) *paths {
	return &paths{session: s, action: a, seen: map[string]*permissionv1.PathAccess{}, folders: map[string]Place{},
		known: map[string]Place{}}
}

// add adds a path as agents write it in a tool's input: a file URL, an absolute path, or a path relative to the
// session's working directory.
func (p *paths) add(path string, access permissionv1.Access) *permissionv1.PathAccess {
	path, why := local(path)
	if why != "" {
		unparsed(p.action, why)
		return nil
	}
	if bare, ok := strings.CutPrefix(path, "@"); ok { // pi strips the "@", which marks a file that a user mentions
		if _, why := local(bare); why != "" || access != permissionv1.Access_ACCESS_READ {
			unparsed(p.action, "a path begins with @: which file it means is not certain")
		}
		p.place(bare, access)
	}
	return p.place(path, access)
}

// place adds a local path.
func (p *paths) place(path string, access permissionv1.Access) *permissionv1.PathAccess {
	switch {
	case path == "":
		return nil
	case strings.ContainsRune(path, 0) || !utf8.ValidString(path):
		unparsed(p.action, "a path has a NUL in it, or is not UTF-8")
		return nil
	}
	path, ok := p.session.absolute(path)
	if !ok {
		unparsed(p.action, "a path is relative, and the session has no working directory")
	}
	if known := p.seen[path]; known != nil {
		if access == permissionv1.Access_ACCESS_WRITE {
			known.Access = access
		}
		return known
	}
	if len(p.action.Paths)+len(p.folders) >= maxPaths {
		unparsed(p.action, "more than 1000 paths")
		return nil
	}
	pa := &permissionv1.PathAccess{Path: path, Access: access}
	if p.session.Place != nil {
		at := p.look(path)
		pa.ResolvedPath, pa.InsideRoots, pa.Protected, pa.GitInternal = at.Resolved, at.Inside, at.Protected, at.GitInternal
		if at.Content != nil {
			reads := access == permissionv1.Access_ACCESS_READ && p.asksContent()
			content := at.Content(reads)
			pa.Public, pa.HoldsPrivateKey = content == secretfile.Public, reads && content == secretfile.HoldsKey
		}
	}
	p.seen[path] = pa
	p.action.Paths = append(p.action.Paths, pa)
	return pa
}

// asksContent reports whether the content of files may be read to decide whether they are secrets. Processes open too
// many files for this.
func (p *paths) asksContent() bool { return p.action.GetDoor() != permissionv1.Door_DOOR_KERNEL }

// strays has the action rejected if a text in a member with unknown meaning names one of acphost's own files. Other
// paths in such texts are not certain, and not added.
func (p *paths) strays(texts []string) {
	if p.session.Place == nil {
		return
	}
	for _, s := range texts {
		file, why := local(s)
		if why != "" || file == "" || len(file) > maxWord || strings.ContainsAny(file, "\x00\n\r") || !utf8.ValidString(file) {
			continue
		}
		if file, ok := p.session.absolute(file); ok {
			if at := p.look(file); at.Protected {
				p.protect(file, at)
			}
		}
	}
}

// locations adds the files in the locations of a tool call.
func (p *paths) locations(raw []byte, access permissionv1.Access) {
	p.each(raw, "the locations cannot be read in one way only", func(v []byte) {
		p.member(v, "path", access, "a location does not say which file it is")
	})
}

// each calls f with the elements of a list. unreadable is the doubt about a list that cannot be read. A missing list is
// empty.
func (p *paths) each(list []byte, unreadable string, f func(v []byte)) {
	if len(list) == 0 {
		return
	}
	if acp.Elements(list, func(v []byte) bool { f(v); return true }) != nil {
		unparsed(p.action, unreadable)
	}
}

// member adds the path in a member of an object. nameless is the doubt about an object without that member.
func (p *paths) member(of []byte, name string, access permissionv1.Access, nameless string) {
	if file, ok := acp.Exact(acp.Get(of, name)); ok && file != "" {
		p.add(file, access)
	} else {
		unparsed(p.action, nameless)
	}
}

// redirections adds the files that a command line reads and writes through its shell, each relative to the directory of
// its part of the line. If that directory is unknown, relative ones add a doubt.
func (p *paths) redirections(c *permissionv1.Command) {
	for _, sub := range c.GetSubCommands() {
		p.directory(c, sub)
		for _, r := range sub.GetRedirections() {
			file := r.GetPath()
			switch {
			case r.GetDynamic() || file == "" || file == "/dev/null":
				continue
			case path.IsAbs(file):
			case sub.GetCwdUnknown():
				unparsed(p.action, "the command changes its directory, so where it redirects to is not certain")
				continue
			case sub.GetCwd() != "":
				file = under(sub.GetCwd(), file)
			case c.GetCwd() != "":
				file = under(c.GetCwd(), file)
			}
			access := permissionv1.Access_ACCESS_WRITE
			if r.GetOperator() == "<" {
				access = permissionv1.Access_ACCESS_READ
			}
			if pa := p.place(file, access); pa != nil {
				r.ResolvedPath = pa.GetResolvedPath()
			}
		}
	}
}

// unplaced adds a doubt about relative redirections of a command that may run outside of the session's directory.
func (p *paths) unplaced(c *permissionv1.Command) {
	for _, sub := range c.GetSubCommands() {
		for _, r := range sub.GetRedirections() {
			if file := r.GetPath(); !r.GetDynamic() && file != "" && !path.IsAbs(file) && !path.IsAbs(sub.GetCwd()) {
				unparsed(p.action, "the agent does not say in which directory the command runs, so where it redirects to is not certain")
			}
		}
	}
}

// directory makes the directory of a part of a line absolute, and resolves it. The unresolved path cannot show whether
// it is inside the roots.
func (p *paths) directory(c *permissionv1.Command, sub *permissionv1.SubCommand) {
	dir := sub.GetCwd()
	if dir == "" || sub.GetCwdUnknown() {
		return
	}
	if !path.IsAbs(dir) && c.GetCwd() != "" {
		dir = under(c.GetCwd(), dir)
	}
	dir, ok := p.session.absolute(dir)
	if !ok || !path.IsAbs(dir) {
		sub.Cwd, sub.CwdUnknown = "", true
		return
	}
	if at := p.folder(dir); at.Resolved != "" {
		dir = at.Resolved
	}
	sub.Cwd = dir
}

// folder resolves a directory of the command; the zero Place if that is not possible.
func (p *paths) folder(dir string) Place {
	at, seen := p.folders[dir]
	if !seen && p.session.Place != nil && len(p.folders)+len(p.action.GetPaths()) < maxPaths {
		at = p.look(dir)
		p.folders[dir] = at
		if at.Protected {
			p.protect(dir, at)
		}
	}
	return at
}

// look resolves a path. A result that is not UTF-8 makes the action unparsed.
func (p *paths) look(file string) Place {
	if strings.ContainsRune(file, 0) {
		return Place{}
	}
	at := p.session.Place(file)
	if at.Unreachable != "" {
		p.action.UnreachableHandler = at.Unreachable
	}
	if !utf8.ValidString(at.Resolved) {
		unparsed(p.action, "a path leads to a name that is not UTF-8")
		at.Resolved = text(at.Resolved)
	}
	return at
}

// protect has the action rejected because it uses one of acphost's own files.
func (p *paths) protect(file string, at Place) {
	if known := p.seen[file]; known != nil {
		known.Access, known.Protected = permissionv1.Access_ACCESS_WRITE, true
		return
	}
	pa := &permissionv1.PathAccess{Path: file, ResolvedPath: at.Resolved, InsideRoots: at.Inside,
		Access: permissionv1.Access_ACCESS_WRITE, Protected: true}
	p.seen[file] = pa
	if n := len(p.action.Paths); n >= maxPaths { // this path takes precedence
		unparsed(p.action, "more than 1000 paths")
		p.action.Paths = p.action.Paths[:n-1]
	}
	p.action.Paths = append(p.action.Paths, pa)
}

// sameBelow reports whether real is the target of a clean path that contains no links other than the session's roots.
func (p *paths) sameBelow(file, real string) bool {
	if p.roots == nil {
		p.roots = slices.Clone(p.session.ResolvedRoots)
		for i, root := range p.session.Roots {
			if i == len(p.roots) {
				p.roots = append(p.roots, "")
			}
			if p.roots[i] == "" && i < maxRoots && path.IsAbs(root) {
				p.roots[i] = p.look(root).Resolved
			}
		}
	}
	return sameBelow(p.session.Roots, p.roots, file, real)
}

// local returns the local path that an agent means, or the reason why it is not certain. Agents write file URLs instead
// of paths, and programs differ in how they expand a ~.
func local(p string) (file, why string) {
	switch {
	case strings.HasPrefix(p, "~"):
		return "", "a path begins with ~: where it leads is not certain"
	case strings.HasPrefix(p, "$"):
		return "", "a path begins with $: where it leads is not certain"
	case strings.TrimSpace(p) != p:
		return "", "a path has blanks around it, which programs may take off"
	case strings.ContainsFunc(p, otherBlank):
		return "", "a path has a blank beyond ASCII in it, which programs may take for another"
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

// otherBlank reports whether a character is a non-ASCII blank. Some agents, such as pi, replace these with spaces in
// paths.
func otherBlank(r rune) bool { return r > unicode.MaxASCII && unicode.IsSpace(r) }

// isPattern reports whether programs may interpret a path as a glob pattern. Common names of routes such as "[id].tsx"
// do not count: as patterns, they match no secret file.
func isPattern(file string) bool {
	if strings.ContainsAny(file, "*?") && !hasScheme(file, "file") || strings.Contains(file, "{") && strings.Contains(file, ",") {
		return true
	}
	return strings.Contains(file, "[") && slices.ContainsFunc(strings.Split(file, "/"), func(part string) bool {
		return strings.Contains(part, "[") && !routed.MatchString(part)
	})
}

// routed matches the file names of routes in web frameworks: "[id].tsx", "[[...slug]]".
var routed = lazyregexp.New(`^\[{1,2}(\.\.\.)?[\w-]{2,}\]{1,2}(\.[\w.]+)?$`)

func hasScheme(s, scheme string) bool {
	return len(s) > len(scheme) && s[len(scheme)] == ':' && strings.EqualFold(s[:len(scheme)], scheme)
}

// absolute makes a path absolute with the session's working directory; false if there is none. It returns absolute
// paths unchanged.
func (s Session) absolute(file string) (string, bool) {
	if filepath.IsAbs(file) {
		return file, true
	}
	if len(s.Roots) == 0 || !filepath.IsAbs(s.Roots[0]) {
		return file, false
	}
	return under(s.Roots[0], file), true
}

// under joins a folder and a path for Place, without resolving "..".
func under(dir, file string) string { return realpaths.Under(dir, file) }
