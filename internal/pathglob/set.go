package pathglob

import (
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// Set is a list of patterns of files that need attention, without regard to case. The zero value has none.
type Set struct{ patterns []Pattern }

// NewSet returns the set of patterns, which are absolute and in lower case. ok is false if one is not valid.
func NewSet(texts []string) (s Set, ok bool) {
	for _, text := range texts {
		if !doublestar.ValidatePattern(text) {
			return Set{}, false
		}
		s.patterns = append(s.patterns, New(text))
	}
	return s, true
}

// MayMatch reports whether a pattern matches a path, or whether that is not certain: a file system may regard letters outside of ASCII
// as equal to others.
func (s Set) MayMatch(path string) bool {
	if strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r > '~' }) {
		return true
	}
	path = strings.ToLower(path)
	return slices.ContainsFunc(s.patterns, func(p Pattern) bool { return p.Matches(path) })
}
