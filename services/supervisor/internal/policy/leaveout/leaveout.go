// Package leaveout excludes denied files from a command that walks through folders or shows contents of a git
// repository.
//
// The package knows globs, folders, names in repositories, and how a few programs are told. It does not decide whether a file is
// forbidden.
package leaveout

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/acphost/acphost/internal/fold"
)

const (
	// maxEntries is how many files and folders are looked at for one command.
	maxEntries = 20_000
	// maxNames is how many names a program is told to leave out.
	maxNames = 100
)

// Found are the forbidden files below some folders.
type Found struct {
	// Names are the names of files and folders, without the folders that they lie in, in the order in which they were found.
	// A program leaves out every file of such a name. Empty: there are none.
	Names []string
	// Some is one of the files, as a path.
	Some string
	// Incomplete: there may be more, because the folders hold too much, or cannot be read. Then every name is left out that the
	// globs could mean (Patterns).
	Incomplete bool
	// Patterns match the names of all files and folders that the globs could mean, in upper and lower case, as fnmatch(3) has
	// patterns. They match more than the globs: of "**/a/b" they have "b".
	Patterns []string
	// Whole: a folder that the command is given is itself forbidden, so that leaving out names is not enough.
	Whole bool
	// Git are the commands of git's that show contents of files, and the same told to leave out what a repository keeps.
	Git []Rewrite
}

// Finder looks for forbidden files below folders. The zero value is not usable; New makes one. It is not for concurrent use.
type Finder struct {
	// Elsewhere: the command runs where there may be files that are not seen from here. A folder that is not here then counts as
	// one that cannot be read.
	Elsewhere bool

	globs   []glob
	entries int // that may still be looked at
	found   Found
}

type glob struct {
	text string // folded
	end  string // what every match ends with
}

// New returns a Finder for globs as rules have them: absolute, or with "**/" in front, without ${root} and ~. A glob that is
// malformed matches nothing: whoever made it has checked it.
func New(globs []string) *Finder {
	f := &Finder{entries: maxEntries}
	for _, g := range globs {
		if strings.HasPrefix(g, "**") {
			g = "/" + g
		}
		text := fold.Path(g)
		of := glob{text: text}
		if !strings.Contains(text, `\`) {
			of.end = strings.TrimPrefix(text[strings.LastIndexAny(text, "*?[]{}")+1:], "/")
		}
		f.globs = append(f.globs, of)
		for _, p := range patterns(g) {
			if !slices.Contains(f.found.Patterns, p) {
				f.found.Patterns = append(f.found.Patterns, p)
			}
		}
	}
	return f
}

// patterns are the last parts of a glob, in every case and without braces; of "x/**" that is "x". "*" stands for a glob whose
// last part cannot be told.
func patterns(g string) []string {
	g = strings.TrimSuffix(g, "/**")
	if strings.Contains(g, `\`) {
		return []string{"*"}
	}
	var all []string
	for _, one := range unbraced(g) {
		one = one[strings.LastIndexByte(one, '/')+1:]
		if one == "" || one == "**" || len(all) > maxNames {
			return []string{"*"}
		}
		all = append(all, anyCase(one))
	}
	return all
}

// unbraced is a glob without its alternatives, "a{b,c}" as "ab" and "ac".
func unbraced(g string) []string {
	open := strings.LastIndexByte(g, '{') // the innermost of those that are nested
	if open < 0 {
		return []string{g}
	}
	inner, behind, closed := strings.Cut(g[open+1:], "}")
	if !closed {
		return []string{"*"}
	}
	var all []string
	for part := range strings.SplitSeq(inner, ",") {
		if all = append(all, unbraced(g[:open]+part+behind)...); len(all) > maxNames {
			return []string{"*"}
		}
	}
	return all
}

// anyCase is a pattern with each letter in both cases, but for those in brackets. Where a program takes a letter for several
// characters, brackets would match one of these, so "*" stands for what is not ASCII.
func anyCase(pattern string) string {
	var b strings.Builder
	class := false
	for _, c := range pattern {
		class = c == '[' || class && c != ']'
		if upper, lower := unicode.ToUpper(c), unicode.ToLower(c); c >= utf8.RuneSelf && !class {
			b.WriteByte('*')
		} else if upper != lower && !class {
			b.WriteString(string([]rune{'[', upper, lower, ']'}))
		} else {
			b.WriteRune(c)
		}
	}
	return b.String()
}

// Below looks through a folder, given by its path without symbolic links. It follows no links. A path that is no folder is
// looked at itself; one that does not exist holds nothing, unless the command runs Elsewhere.
func (f *Finder) Below(dir string) {
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			if !os.IsNotExist(err) || f.Elsewhere && path == dir { // the program may be able to read it, where it runs
				f.found.Incomplete = true
			}
			return nil
		}
		if f.entries--; f.entries < 0 {
			f.found.Incomplete = true
			return fs.SkipAll
		}
		if !f.forbidden(path) {
			return nil
		}
		f.add(path)
		if e.IsDir() {
			f.found.Whole = f.found.Whole || path == dir
			return fs.SkipDir
		}
		return nil
	})
	f.found.Incomplete = f.found.Incomplete || err != nil
}

// Found returns what was found so far.
func (f *Finder) Found() Found { return f.found }

// Any reports whether there is, or may be, a forbidden file, or commands of git's that show one.
func (f Found) Any() bool { return len(f.Names) > 0 || f.Incomplete || len(f.Git) > 0 }

// Matches reports whether a path, absolute and clean, matches one of some globs, in the form that New takes.
func Matches(globs []string, path string) bool { return New(globs).forbidden(path) }

// excluded are patterns of all that a program is to leave out.
func (f Found) excluded() []string {
	var all []string
	for _, name := range f.Names {
		all = append(all, escaped(name))
	}
	if f.Incomplete {
		all = append(all, f.Patterns...)
	}
	return all
}

func (f *Finder) forbidden(path string) bool {
	path = fold.Path(filepath.ToSlash(path))
	return slices.ContainsFunc(f.globs, func(g glob) bool {
		return strings.HasSuffix(path, g.end) && doublestar.MatchUnvalidated(g.text, path)
	})
}

func (f *Finder) add(path string) {
	if f.found.Some == "" {
		f.found.Some = path
	}
	switch name := filepath.Base(path); {
	case slices.Contains(f.found.Names, name):
	case len(f.found.Names) == maxNames:
		f.found.Incomplete = true
	default:
		f.found.Names = append(f.found.Names, name)
	}
}
