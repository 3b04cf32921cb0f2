package policy

import (
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/acphost/acphost/internal/pathglob"
	"github.com/acphost/acphost/internal/reuse"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

const (
	// maxExcept is the contract's limit of excepted parts of names in an answer.
	maxExcept = 400
)

// Reusable returns for which other names in the folder of a read a decision to allow it holds: for all except those
// that contain one of Except. It returns nil if the decision holds only for this action. For a program that a process
// starts, the decision holds for the same action again.
//
// Rules may depend on the name of the file by their paths, for which the matching names can be computed, and by their
// conditions, for which they cannot. All other fields of the action stay the same.
func Reusable(parts []Part, of *permissionv1.Action, d *permissionv1.DecideResponse) *permissionv1.Reuse {
	if d.GetVerdict() != allow || len(d.GetLeaveOut()) > 0 || d.GetOnlyInRoots() {
		return nil
	}
	if every := everyRead(parts, newAction(of)); every != nil {
		return every
	}
	name, ok := reuse.Name(of)
	if !ok {
		return nil
	}
	if name == "" {
		return &permissionv1.Reuse{} // for a started program, rules depend only on the action
	}
	f := newFolder(newAction(of))
	if f == nil {
		return nil
	}
	by := f.allowedBy(parts)
	if by == nil || by.id != d.GetRule() || !f.forbidsNone(parts) {
		return nil
	}
	if by.paths != nil { // whether the rule names the place must also be the same for every name
		anchored := slices.DeleteFunc(slices.Clone(by.paths), func(g glob) bool { return !g.anchored() })
		if named := f.covered(anchored); named.all != d.GetNamesPaths() || !named.all && named.some() {
			return nil
		}
	}
	slices.Sort(f.except)
	f.except = slices.Compact(f.except)
	if len(f.except) > maxExcept || reuse.Excepted(name, f.except) {
		return nil
	}
	return &permissionv1.Reuse{Except: f.except}
}

// folder is the folder of an action that reads one file, in which other names are considered.
type folder struct {
	a *action
	// dirs are the folder's paths as asked for and as resolved; folded are the same for deny and ask rules.
	dirs, folded []string
	except       []string
}

// newFolder returns the folder of an action; nil if the result of some rules is uncertain. Both paths must lie below a
// known root, so that ${root} means one place.
func newFolder(a *action) *folder {
	if len(a.paths) != 1 || a.vague {
		return nil
	}
	f := &folder{a: a}
	for _, file := range []string{a.paths[0].asked, a.paths[0].resolved} {
		dir := path.Dir(file)
		if dir == "/" || !inRoots(a.roots, dir) || !inRoots(a.foldedRoots, fold(dir)) {
			return nil
		}
		if !slices.Contains(f.dirs, dir) {
			f.dirs, f.folded = append(f.dirs, dir), append(f.folded, fold(dir))
		}
	}
	return f
}

// allowedBy returns the first rule that allows every name that is not excepted; nil if this is not certain for any
// rule.
func (f *folder) allowedBy(parts []Part) *rule {
	around := []criterion{ofKind, ofSurroundings, ofAgent, ofMode, ofTool, ofRedirections, {holds: (*rule).holdsAllowedCommand}}
	for _, p := range parts {
		if !p.loosens() || p.Policy.digest == "" {
			continue
		}
		for _, r := range p.Policy.allow {
			if slices.ContainsFunc(around, func(c criterion) bool { return c.holds(r, f.a) == no }) {
				continue
			}
			names := residue{all: true}
			if r.paths != nil {
				names = f.covered(r.paths)
			}
			switch {
			case names.unsure, r.when != nil && (names.all || names.some()):
				return nil
			case names.all:
				return r
			}
			f.except = append(f.except, names.words...)
		}
	}
	return nil
}

// forbidsNone reports whether no deny or ask rule forbids a name, except those that it adds to the excepted names.
func (f *folder) forbidsNone(parts []Part) bool {
	around := []criterion{ofKind, ofAgent, ofMode, ofTool, ofRedirections, {holds: (*rule).forbidsCommand},
		{holds: func(r *rule, a *action) match { return r.effects.forbids(a) }}}
	for _, p := range parts {
		if !f.misses(p.Policy.protected) {
			return false
		}
		for _, r := range slices.Concat(p.Policy.deny, p.Policy.ask) {
			if slices.ContainsFunc(around, func(c criterion) bool { return c.holds(r, f.a) == no }) {
				continue
			}
			if r.paths == nil || !f.misses(r.paths) || r.when != nil && f.mayMatch(r.paths) {
				return false
			}
		}
	}
	return true
}

// misses reports whether globs of a deny or ask rule match no name, except those that it adds to the excepted names.
func (f *folder) misses(globs []glob) bool {
	for i := range globs {
		names := f.forbidden(&globs[i])
		if names.all || names.unsure {
			return false
		}
		f.except = append(f.except, names.words...)
	}
	return true
}

// mayMatch reports whether globs of a deny or ask rule may match some name.
func (f *folder) mayMatch(globs []glob) bool {
	return slices.ContainsFunc(globs, func(g glob) bool {
		names := f.forbidden(&g)
		return names.some()
	})
}

// forbidden returns the names that a glob of a deny or ask rule matches, in any spelling of the folder.
func (f *folder) forbidden(g *glob) residue {
	var names residue
	if g.limits.onlyKeys && !f.a.paths[0].holdsKey { // a file with a key has an answer of its own
		return names
	}
	for _, dir := range f.folded {
		names.or(g.residue(g.folded, f.a.foldedRoots, dir))
	}
	return names
}

// covered returns the names that globs of an allow rule match: one of the globs must match each spelling of a name.
func (f *folder) covered(globs []glob) residue {
	names := residue{all: true}
	for _, dir := range f.dirs {
		var here residue
		for i := range globs {
			here.or(globs[i].residue(globs[i].exact, f.a.roots, dir))
		}
		if here.all {
			continue // any other spelling decides
		}
		if !here.some() {
			return residue{} // no name matches in this spelling
		}
		names.all = false
		names.words, names.unsure = append(names.words, here.words...), names.unsure || here.unsure
	}
	return names
}

// residue is the set of file names in a folder that a glob may match.
type residue struct {
	// all: every name matches for certain.
	all bool
	// words: a matching name contains one of them, in lower case.
	words []string
	// unsure: other names may match, too.
	unsure bool
}

func (r *residue) some() bool { return r.all || r.unsure || len(r.words) > 0 }

func (r *residue) or(other residue) {
	r.all, r.unsure, r.words = r.all || other.all, r.unsure || other.unsure, append(r.words, other.words...)
}

// residue returns the residue of the glob's patterns in one spelling of a folder.
func (g *glob) residue(patterns []pattern, roots []string, dir string) residue {
	var names residue
	if !g.rooted {
		for i := range patterns {
			names.or(patterns[i].residue(dir))
		}
		return names
	}
	for _, root := range roots {
		if tail, below := tailBelow(root, dir); below {
			names.or(patterns[0].residue(tail))
		}
	}
	return names
}

// residue returns the residue of the pattern in a folder, which is absolute or, like the pattern, relative to a root.
func (p *pattern) residue(dir string) residue {
	if p.Everything {
		return residue{all: true}
	}
	if in := dir + "/"; dir != "" && !strings.HasPrefix(in, p.Prefix) && !strings.HasPrefix(p.Prefix, in) {
		return residue{}
	}
	if strings.ContainsAny(p.Text, `[\`) {
		return residue{unsure: true}
	}
	segments := strings.Split(strings.TrimPrefix(p.Text, "/"), "/")
	if slices.ContainsFunc(segments, func(s string) bool { return strings.Count(s, "{") != strings.Count(s, "}") }) {
		return p.spelledResidue(dir)
	}
	segments = slices.CompactFunc(segments, func(a, b string) bool { return a == "**" && b == "**" })
	if slices.ContainsFunc(segments, func(s string) bool { return s != "**" && strings.Contains(s, "**") }) {
		return residue{unsure: true} // stars that may match folders
	}
	dir = strings.TrimPrefix(dir, "/")
	var names residue
	// One segment matches the name; the segments after it must be "**", and match nothing.
	for i := len(segments) - 1; i >= 0; i-- {
		switch {
		case segments[i] == "**" && leadsTo(segments[:i+1], dir):
			names.or(residue{all: i == len(segments)-1, unsure: i < len(segments)-1})
		case segments[i] != "**" && leadsTo(segments[:i], dir):
			last := wordsIn(segments[i])
			names.or(residue{all: last.all && i == len(segments)-1, words: last.words, unsure: last.unsure || last.all && i < len(segments)-1})
		}
		if segments[i] != "**" {
			break
		}
	}
	return names
}

// spelledResidue is residue for a pattern with a slash inside braces: it expands the braces.
func (p *pattern) spelledResidue(dir string) residue {
	spelled, ok := pathglob.Expand(p.Text)
	if !ok {
		return residue{unsure: true}
	}
	var names residue
	for _, text := range spelled {
		one := *p
		one.Text = text
		names.or(one.residue(dir))
	}
	return names
}

// leadsTo reports whether segments of a pattern match a folder.
func leadsTo(segments []string, dir string) bool {
	if dir == "" {
		return !slices.ContainsFunc(segments, func(s string) bool { return s != "**" })
	}
	return len(segments) > 0 && doublestar.MatchUnvalidated(strings.Join(segments, "/"), dir)
}

// wordsIn returns the residue of the last segment of a pattern.
func wordsIn(segment string) residue {
	if segment == "*" {
		return residue{all: true}
	}
	spelled, ok := pathglob.Expand(segment)
	if !ok {
		return residue{unsure: true}
	}
	var names residue
	for _, s := range spelled {
		word := ""
		for run := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == '*' || r == '?' }) {
			if len(run) > len(word) {
				word = run
			}
		}
		if word == "" || len(word) > maxName {
			return residue{unsure: true}
		}
		names.words = append(names.words, strings.ToLower(word))
	}
	return names
}

// maxName limits the name of a file, in bytes.
const maxName = 255
