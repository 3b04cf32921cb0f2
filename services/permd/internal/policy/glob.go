package policy

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// glob is a compiled path glob. A path matches a glob if it matches one of its patterns: they are the same glob, spelled
// for the several names that its directory has.
type glob struct {
	// source is the glob as it stands in the file.
	source string
	// rooted: the patterns are relative to a root of the session.
	rooted bool
	// exact are for allow rules.
	exact []pattern
	// folded are for deny and ask rules. They hold the directory's real name too, where it is reached by a symbolic link.
	// That name is not among the exact ones: an agent may have made the link.
	folded []pattern
	// texts are the folded ones as they are written.
	texts []string
}

// places says where directories are, for globs.
type places struct {
	// homes are what "~" stands for, all names of one directory; empty: it is not known.
	homes []string
	// real resolves the symbolic links in an absolute path. Nil: there are none.
	real func(path string) (string, error)
}

// pattern is a doublestar pattern, absolute or relative to a root, with cheap tests in front that most paths fail.
type pattern struct {
	text string
	// literal: there is nothing special in text.
	literal bool
	// everything: "**", which matches whatever is left.
	everything bool
	prefix     string // what every match begins with
	suffix     string // what every match ends with
	inside     string // what every match contains
}

// newGlob compiles a glob: absolute, or with ${root}, ~ or ** in front.
func newGlob(source string, at places) (glob, error) {
	g := glob{source: source}
	texts := []string{source}
	switch {
	case source == "":
		return g, errors.New("expected a glob, got nothing")
	case strings.ContainsAny(source, "\x00\n\r"):
		return g, fmt.Errorf("expected a glob on one line, got %q", source)
	case source == "${root}" || strings.HasPrefix(source, "${root}/"):
		g.rooted = true
		texts[0] = strings.TrimPrefix(strings.TrimPrefix(source, "${root}"), "/")
	case source == "~" || strings.HasPrefix(source, "~/"):
		texts = texts[:0]
		for _, home := range at.homes {
			texts = append(texts, path.Clean("/"+escapeGlob(home)+source[1:]))
		}
		if len(texts) == 0 {
			return g, fmt.Errorf("expected a glob without ~, since the home directory is not known (set HOME), got %q", source)
		}
	case source == "**" || strings.HasPrefix(source, "**/"):
		texts[0] = "/" + source
	case !strings.HasPrefix(source, "/"):
		return g, fmt.Errorf("expected an absolute glob, or one with ${root} or ~ in front, got %q", source)
	}
	rest := strings.TrimPrefix(strings.TrimPrefix(source, "${root}"), "~")
	if err := checkGlob(strings.TrimPrefix(rest, "/"), source); err != nil {
		return g, err
	}
	for _, text := range texts {
		g.exact = append(g.exact, newPattern(text))
		g.texts = append(g.texts, text)
		if real := realText(text, at); !g.rooted && real != text {
			g.texts = append(g.texts, real)
		}
	}
	for _, text := range g.texts {
		g.folded = append(g.folded, newPattern(fold(text)))
	}
	return g, nil
}

// checkGlob checks the part of a glob after what stands in front.
func checkGlob(text, source string) error {
	if strings.Contains(text, "${") {
		return fmt.Errorf("expected ${root} only in front and no other variable, got %q", source)
	}
	for segment := range strings.SplitSeq(text, "/") {
		switch {
		case segment == "." || segment == "..":
			return fmt.Errorf("expected a glob without %q, got %q", segment, source)
		case segment == "" && text != "":
			return fmt.Errorf("expected a glob without empty parts, got %q (for all that is in a directory write DIRECTORY/**)", source)
		case strings.Contains(segment, "**") && segment != "**" && !strings.ContainsAny(segment, "{},"):
			return fmt.Errorf("expected ** only as a part of its own, got %q", source)
		}
	}
	if !doublestar.ValidatePattern(text) {
		return fmt.Errorf("expected a well-formed glob, got %q", source)
	}
	return nil
}

// realText is the glob with the symbolic links resolved in the directory that it begins with; the glob itself where
// there are none.
func realText(text string, at places) string {
	if at.real == nil || !strings.HasPrefix(text, "/") {
		return text
	}
	end := strings.IndexAny(text, globMeta)
	if end < 0 {
		end = len(text)
	}
	end = strings.LastIndexByte(text[:end], '/')
	// What does not exist yet has the real name of the nearest directory that does.
	for dir, rest := text[:end], text[end:]; dir != ""; {
		if real, err := at.real(dir); err == nil {
			return strings.TrimSuffix(escapeGlob(path.Clean(real)), "/") + rest
		}
		i := strings.LastIndexByte(dir, '/')
		dir, rest = dir[:i], dir[i:]+rest
	}
	return text
}

const globMeta = `*?[{\`

func newPattern(text string) pattern {
	p := pattern{text: text}
	first := strings.IndexAny(text, globMeta)
	if first < 0 {
		p.literal = true
		return p
	}
	p.everything = text == "**"
	// A "**" between slashes may stand for nothing, and takes a slash with it.
	p.prefix = strings.TrimSuffix(text[:first], "/")
	if !strings.Contains(text, `\`) {
		last := strings.LastIndexAny(text, globMeta+"]}")
		p.suffix = strings.TrimPrefix(text[last+1:], "/")
	}
	if !strings.ContainsAny(text, `[{\`) {
		for run := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '*' || r == '?' }) {
			if run = strings.Trim(run, "/"); len(run) > len(p.inside) {
				p.inside = run
			}
		}
	}
	return p
}

func (p *pattern) matches(name string) bool {
	switch {
	case p.literal:
		return p.text == name
	case p.everything:
		return true
	case !strings.HasPrefix(name, p.prefix), !strings.HasSuffix(name, p.suffix), !strings.Contains(name, p.inside):
		return false
	}
	return doublestar.MatchUnvalidated(p.text, name)
}

// matchesAny reports whether one of the patterns matches a path.
func matchesAny(patterns []pattern, name string) bool {
	return slices.ContainsFunc(patterns, func(p pattern) bool { return p.matches(name) })
}

// belowAny matches what is left of a path below any of some roots.
func (p *pattern) belowAny(roots []string, name string) bool {
	return slices.ContainsFunc(roots, func(root string) bool {
		tail, below := tailBelow(root, name)
		return below && p.below(tail)
	})
}

// below matches what is left of a path below a root; the root itself is "".
func (p *pattern) below(tail string) bool {
	if tail == "" {
		return p.text == "" || p.everything // "*" would match the empty name, and means an entry
	}
	return p.matches(tail)
}

// escapeGlob makes a glob that matches the path itself.
func escapeGlob(path string) string {
	return globEscapes.Replace(path)
}

var globEscapes = strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `{`, `\{`, `}`, `\}`, `\`, `\\`)

// tailBelow is what is left of a path below a root. Both are clean.
func tailBelow(root, name string) (string, bool) {
	if root == "/" {
		return strings.TrimPrefix(name, "/"), true
	}
	rest, ok := strings.CutPrefix(name, root)
	if rest == "" {
		return "", ok
	}
	return rest[1:], ok && rest[0] == '/'
}
