package pathglob

import (
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// Set is a list of patterns of files, matched without regard to case. The zero value is empty.
//
// Each pattern is found by a part of it that every matching path has, so that the time of a match hardly depends on the
// number of patterns.
type Set struct {
	bySegment   map[string][]Pattern // by a whole segment
	byExtension map[string][]Pattern // by what follows the last dot
	others      []Pattern
}

// NewSet returns the set of patterns, which are absolute and in lower case. ok is false if a pattern is invalid.
func NewSet(texts []string) (s Set, ok bool) {
	s = Set{bySegment: map[string][]Pattern{}, byExtension: map[string][]Pattern{}}
	for _, text := range texts {
		if !doublestar.ValidatePattern(text) {
			return Set{}, false
		}
		expanded, ok := Expand(text)
		if !ok {
			expanded = []string{text}
		}
		for _, text := range expanded {
			s.add(New(text))
		}
	}
	return s, true
}

func (s *Set) add(p Pattern) {
	segments := strings.Split(p.Text, "/")
	longest := ""
	for _, segment := range segments {
		if !strings.ContainsAny(segment, Meta) && len(segment) > len(longest) {
			longest = segment
		}
	}
	extension := extensionOf(segments[len(segments)-1])
	switch {
	case strings.ContainsAny(p.Text, `[{\`): // a slash may be within brackets
		s.others = append(s.others, p)
	case longest != "":
		s.bySegment[longest] = append(s.bySegment[longest], p)
	case extension != "" && !strings.ContainsAny(extension, Meta):
		s.byExtension[extension] = append(s.byExtension[extension], p)
	default:
		s.others = append(s.others, p)
	}
}

// MayMatch reports whether a pattern matches a path or may match it: a file system may treat different letters outside
// of ASCII as equal.
func (s Set) MayMatch(path string) bool {
	if strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r > '~' }) {
		return true
	}
	return s.Matches(strings.ToLower(path))
}

// Matches reports whether a pattern matches a path in lower case.
func (s Set) Matches(path string) bool {
	matches := func(p Pattern) bool { return p.Matches(path) }
	name := path
	for segment := range strings.SplitSeq(path, "/") {
		if slices.ContainsFunc(s.bySegment[segment], matches) {
			return true
		}
		name = segment
	}
	return slices.ContainsFunc(s.byExtension[extensionOf(name)], matches) || slices.ContainsFunc(s.others, matches)
}

func extensionOf(name string) string { return strings.TrimPrefix(path.Ext(name), ".") }

// maxExpanded limits the number of patterns that Expand returns.
const maxExpanded = 64

// Expand returns the patterns that a pattern with braces stands for. ok is false if there are too many, if braces are nested, or
// if the pattern has brackets or backslashes.
func Expand(text string) (expanded []string, ok bool) {
	begin, rest, found := strings.Cut(text, "{")
	if !found {
		return []string{text}, !strings.ContainsAny(text, `}[\`)
	}
	inside, rest, found := strings.Cut(rest, "}")
	if !found || strings.ContainsAny(inside, `{[\`) || strings.ContainsAny(begin, `}[\`) {
		return nil, false
	}
	ends, ok := Expand(rest)
	if !ok {
		return nil, false
	}
	for choice := range strings.SplitSeq(inside, ",") {
		for _, end := range ends {
			if len(expanded) >= maxExpanded {
				return nil, false
			}
			expanded = append(expanded, begin+choice+end)
		}
	}
	return expanded, true
}
