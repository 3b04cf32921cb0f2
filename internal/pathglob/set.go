package pathglob

import (
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// Set is a list of patterns of files, matched without regard to case. The zero value is empty.
type Set struct{ patterns []Pattern }

// NewSet returns the set of patterns, which are absolute and in lower case. ok is false if a pattern is invalid.
func NewSet(texts []string) (s Set, ok bool) {
	for _, text := range texts {
		if !doublestar.ValidatePattern(text) {
			return Set{}, false
		}
		s.patterns = append(s.patterns, New(text))
	}
	return s, true
}

// MayMatch reports whether a pattern matches a path or may match it: a file system may treat different letters outside
// of ASCII as equal.
func (s Set) MayMatch(path string) bool {
	if strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r > '~' }) {
		return true
	}
	path = strings.ToLower(path)
	return slices.ContainsFunc(s.patterns, func(p Pattern) bool { return p.Matches(path) })
}
