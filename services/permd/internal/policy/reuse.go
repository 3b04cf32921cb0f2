package policy

import (
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/acphost/acphost/internal/reuse"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

const (
	// maxExcept bounds the parts of names for which an answer does not hold; the contract says so.
	maxExcept = 200
	// maxSpelled bounds the names that the braces of one part of a glob stand for.
	maxSpelled = 64
)

// Reusable says for which other names in the folder of a read a decision to allow it holds: for all but those that
// contain one of except. It is nil if the decision holds for this action alone. About a program that a process starts,
// it holds for the same action again.
//
// A rule may look at the name of the file by its paths, of which can be told what names they match, and by its condition, of
// which it cannot. Everything else about the action stays as it is.
func Reusable(parts []Part, of *permissionv1.Action, d *permissionv1.DecideResponse) *permissionv1.Reuse {
	if d.GetVerdict() != allow || len(d.GetLeaveOut()) > 0 {
		return nil
	}
	name, ok := reuse.Name(of)
	if !ok {
		return nil
	}
	if name == "" {
		return &permissionv1.Reuse{} // of a program that is started: rules look at nothing but the action
	}
	f := newFolder(newAction(of))
	if f == nil {
		return nil
	}
	by := f.allowedBy(parts)
	if by == nil || by.id != d.GetRule() || !f.forbidsNone(parts) {
		return nil
	}
	if by.paths != nil { // whether the rule names the place must hold for every name, too
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

// folder is the folder of an action that reads one file, in which other names are thought of.
type folder struct {
	a *action
	// dirs are the folder's spellings, as it was asked for and as it leads; folded are the same for deny and ask rules.
	dirs, folded []string
	except       []string
}

// newFolder is the folder of an action; nil if not every rule can be told what it says of it. Both spellings lie below a root
// that is known, so that ${root} means one place.
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

// allowedBy is the first rule that allows every name but those that are excepted; nil if there is none of which that is certain.
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

// forbidsNone reports whether no deny or ask rule forbids a name, except those that it adds to the excepted.
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

// misses reports whether globs of a deny or ask rule match no name, except those that it adds to the excepted.
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

// mayMatch reports whether globs of a deny or ask rule match some name.
func (f *folder) mayMatch(globs []glob) bool {
	return slices.ContainsFunc(globs, func(g glob) bool {
		names := f.forbidden(&g)
		return names.some()
	})
}

// forbidden is what a glob of a deny or ask rule matches, in any spelling of the folder.
func (f *folder) forbidden(g *glob) residue {
	var names residue
	for _, dir := range f.folded {
		names.or(g.residue(g.folded, f.a.foldedRoots, dir))
	}
	return names
}

// covered is what globs of an allow rule match: each spelling of a name has to match one of them.
func (f *folder) covered(globs []glob) residue {
	names := residue{all: true}
	for _, dir := range f.dirs {
		var here residue
		for i := range globs {
			here.or(globs[i].residue(globs[i].exact, f.a.roots, dir))
		}
		if here.all {
			continue // whatever else matches
		}
		if !here.some() {
			return residue{} // nothing matches in this spelling
		}
		names.all = false
		names.words, names.unsure = append(names.words, here.words...), names.unsure || here.unsure
	}
	return names
}

// residue is what a glob leaves open for the name of a file in a folder.
type residue struct {
	// all: every name matches, for certain.
	all bool
	// words: a name that matches contains one of them, in lower case.
	words []string
	// unsure: other names may match, too.
	unsure bool
}

func (r *residue) some() bool { return r.all || r.unsure || len(r.words) > 0 }

func (r *residue) or(other residue) {
	r.all, r.unsure, r.words = r.all || other.all, r.unsure || other.unsure, append(r.words, other.words...)
}

// residue is that of the glob's patterns in one spelling of a folder.
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

// residue is what the pattern leaves open for a name in a folder, which is absolute or, as the pattern, relative to a root.
func (p *pattern) residue(dir string) residue {
	if p.everything {
		return residue{all: true}
	}
	if in := dir + "/"; dir != "" && !strings.HasPrefix(in, p.prefix) && !strings.HasPrefix(p.prefix, in) {
		return residue{}
	}
	if strings.ContainsAny(p.text, `[\`) {
		return residue{unsure: true}
	}
	segments := slices.CompactFunc(strings.Split(strings.TrimPrefix(p.text, "/"), "/"), func(a, b string) bool { return a == "**" && b == "**" })
	if slices.ContainsFunc(segments, func(s string) bool {
		// A slash between braces, or stars that may stand for folders.
		return strings.Count(s, "{") != strings.Count(s, "}") || s != "**" && strings.Contains(s, "**")
	}) {
		return residue{unsure: true}
	}
	dir = strings.TrimPrefix(dir, "/")
	var names residue
	// The name is what one segment stands for, and those behind it, which must be "**", stand for nothing.
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

// leadsTo reports whether segments of a pattern match a folder.
func leadsTo(segments []string, dir string) bool {
	if dir == "" {
		return !slices.ContainsFunc(segments, func(s string) bool { return s != "**" })
	}
	return len(segments) > 0 && doublestar.MatchUnvalidated(strings.Join(segments, "/"), dir)
}

// wordsIn is what the last segment of a pattern leaves open.
func wordsIn(segment string) residue {
	if segment == "*" {
		return residue{all: true}
	}
	spelled, ok := braces(segment)
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

// maxName is the longest name of a file, in bytes.
const maxName = 255

// braces are what the braces of a segment stand for; not ok: they are nested, or too many.
func braces(segment string) (spelled []string, ok bool) {
	begin, rest, found := strings.Cut(segment, "{")
	if !found {
		return []string{segment}, !strings.Contains(segment, "}")
	}
	inside, rest, found := strings.Cut(rest, "}")
	if !found || strings.Contains(inside, "{") || strings.Contains(begin, "}") {
		return nil, false
	}
	ends, ok := braces(rest)
	if !ok {
		return nil, false
	}
	for choice := range strings.SplitSeq(inside, ",") {
		for _, end := range ends {
			if len(spelled) >= maxSpelled {
				return nil, false
			}
			spelled = append(spelled, begin+choice+end)
		}
	}
	return spelled, true
}
