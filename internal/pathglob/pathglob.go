// Package pathglob matches paths with the doublestar patterns of rules. Most paths match none of many patterns, so each
// pattern first excludes paths by cheap tests.
//
// The package matches text. It must not know files, roots of sessions or rules.
package pathglob

import (
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// Meta are the characters with a special meaning in patterns.
const Meta = `*?[{\`

// Pattern is a doublestar pattern. It is immutable, and safe for concurrent use.
type Pattern struct {
	// Text is the pattern as written.
	Text string
	// Everything reports whether the pattern is "**", which matches any path.
	Everything bool
	// Literal reports whether the pattern matches only its own text.
	Literal bool
	// Prefix begins every matching path.
	Prefix string

	suffix string
	inside string // contained in every matching path
}

// New returns the pattern of a text, which must be valid (doublestar.ValidatePattern).
func New(text string) Pattern {
	p := Pattern{Text: text}
	first := strings.IndexAny(text, Meta)
	if first < 0 {
		p.Literal = true
		return p
	}
	p.Everything = text == "**"
	// A "**" between slashes may match nothing, including one of the slashes.
	p.Prefix = strings.TrimSuffix(text[:first], "/")
	if !strings.Contains(text, `\`) {
		last := strings.LastIndexAny(text, Meta+"]}")
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

// Matches reports whether the pattern matches a path.
func (p *Pattern) Matches(path string) bool {
	switch {
	case p.Literal:
		return p.Text == path
	case p.Everything:
		return true
	case !strings.HasPrefix(path, p.Prefix), !strings.HasSuffix(path, p.suffix), !strings.Contains(path, p.inside):
		return false
	}
	return doublestar.MatchUnvalidated(p.Text, path)
}

// Escape returns the pattern that matches exactly one path.
func Escape(path string) string { return escapes.Replace(path) }

var escapes = strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `{`, `\{`, `}`, `\}`, `\`, `\\`)
