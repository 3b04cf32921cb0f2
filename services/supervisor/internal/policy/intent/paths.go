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

// paths collects the paths of an action, each once; of two accesses the write counts.
type paths struct {
	session Session
	action  *permissionv1.Action
	seen    map[string]*permissionv1.PathAccess
	// folders are where the directories of commands lead.
	folders map[string]Place
	// known are where words of the command lead.
	known map[string]Place
	// roots are where the session's lead, once that matters.
	roots []string
}

func newPaths(s Session, a *permissionv1.Action) *paths {
	return &paths{session: s, action: a, seen: map[string]*permissionv1.PathAccess{}, folders: map[string]Place{},
		known: map[string]Place{}}
}

// add takes a path as an agent writes it in a tool's input: a file URL, absolute, or relative to the session's working
// directory.
func (p *paths) add(path string, access permissionv1.Access) *permissionv1.PathAccess {
	path, why := local(path)
	if why != "" {
		unparsed(p.action, why)
		return nil
	}
	if bare, ok := strings.CutPrefix(path, "@"); ok { // pi takes the "@" off, as before a file that a user mentions
		if _, why := local(bare); why != "" || access != permissionv1.Access_ACCESS_READ {
			unparsed(p.action, "a path begins with @: which file it means is not certain")
		}
		p.place(bare, access)
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

// asksContent reports whether files on no list of secrets are read for the decision. Processes open too many of them.
func (p *paths) asksContent() bool { return p.action.GetDoor() != permissionv1.Door_DOOR_KERNEL }

// strays has an action refused if a text in it, of which nobody knows what it stands for, names one of acphost's own files. It
// names no other path for certain.
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

// locations adds the files that a tool call says it is about.
func (p *paths) locations(raw []byte, access permissionv1.Access) {
	p.each(raw, "the locations cannot be read in one way only", func(v []byte) {
		p.member(v, "path", access, "a location does not say which file it is")
	})
}

// each calls f with the elements of a list. unreadable is said of one that cannot be read. No list is an empty one.
func (p *paths) each(list []byte, unreadable string, f func(v []byte)) {
	if len(list) == 0 {
		return
	}
	if acp.Elements(list, func(v []byte) bool { f(v); return true }) != nil {
		unparsed(p.action, unreadable)
	}
}

// member adds the path in a member of an object. nameless is said of an object without one.
func (p *paths) member(of []byte, name string, access permissionv1.Access, nameless string) {
	if file, ok := acp.Exact(acp.Get(of, name)); ok && file != "" {
		p.add(file, access)
	} else {
		unparsed(p.action, nameless)
	}
}

// redirections adds the files that a command line reads and writes through its shell, each from where its part of the
// line runs. Where that is not known, it is not certain where a relative one leads.
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

// unplaced is for a command that may run in another directory than the session's: where a relative name leads is not
// certain then.
func (p *paths) unplaced(c *permissionv1.Command) {
	for _, sub := range c.GetSubCommands() {
		for _, r := range sub.GetRedirections() {
			if file := r.GetPath(); !r.GetDynamic() && file != "" && !path.IsAbs(file) && !path.IsAbs(sub.GetCwd()) {
				unparsed(p.action, "the agent does not say in which directory the command runs, so where it redirects to is not certain")
			}
		}
	}
}

// directory makes the directory that a part of a line runs in absolute, and puts where it really leads if that is known.
// A name is not enough to tell what is inside the roots.
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

// folder is where a directory of the command's really leads; nowhere if that is not known.
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

// look asks where a path leads. What no message can carry is said to be unparsed, and no path has a NUL in it.
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

// protect has the action refused because it touches one of acphost's own files.
func (p *paths) protect(file string, at Place) {
	if known := p.seen[file]; known != nil {
		known.Access, known.Protected = permissionv1.Access_ACCESS_WRITE, true
		return
	}
	pa := &permissionv1.PathAccess{Path: file, ResolvedPath: at.Resolved, InsideRoots: at.Inside,
		Access: permissionv1.Access_ACCESS_WRITE, Protected: true}
	p.seen[file] = pa
	if n := len(p.action.Paths); n >= maxPaths { // this one counts for more
		unparsed(p.action, "more than 1000 paths")
		p.action.Paths = p.action.Paths[:n-1]
	}
	p.action.Paths = append(p.action.Paths, pa)
}

// sameBelow reports whether real is where a clean path leads by nothing but the links of the session's roots.
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

// local returns the path of this machine that an agent means, or why there is none for certain. Agents write file URLs
// where others write paths, and what a program does with a ~ is its own affair.
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

// otherBlank reports whether a character is a blank that some agents, such as pi, replace with a plain one in paths.
func otherBlank(r rune) bool { return r > unicode.MaxASCII && unicode.IsSpace(r) }

// isPattern reports whether programs may take a path for a pattern of files. Names such as "[id].tsx" are common, and stand for
// no secret, whoever takes them for patterns.
func isPattern(file string) bool {
	if strings.ContainsAny(file, "*?") && !hasScheme(file, "file") || strings.Contains(file, "{") && strings.Contains(file, ",") {
		return true
	}
	return strings.Contains(file, "[") && slices.ContainsFunc(strings.Split(file, "/"), func(part string) bool {
		return strings.Contains(part, "[") && !routed.MatchString(part)
	})
}

// routed matches the names that web frameworks give to files of a route: "[id].tsx", "[[...slug]]".
var routed = lazyregexp.New(`^\[{1,2}(\.\.\.)?[\w-]{2,}\]{1,2}(\.[\w.]+)?$`)

func hasScheme(s, scheme string) bool {
	return len(s) > len(scheme) && s[len(scheme)] == ':' && strings.EqualFold(s[:len(scheme)], scheme)
}

// absolute makes a path absolute with the session's working directory; false if there is none. One that is absolute
// stays as it is written.
func (s Session) absolute(file string) (string, bool) {
	if filepath.IsAbs(file) {
		return file, true
	}
	if len(s.Roots) == 0 || !filepath.IsAbs(s.Roots[0]) {
		return file, false
	}
	return under(s.Roots[0], file), true
}

// under joins a folder and a path in it, for Place to say where that leads.
func under(dir, file string) string { return realpaths.Under(dir, file) }
