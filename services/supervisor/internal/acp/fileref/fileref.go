// Package fileref finds references to files in text that people write to agents: @mentions, file URIs, Markdown links,
// and paths in the text.
//
// The grammar:
//
//	@PATH  @"PATH WITH BLANKS"   a mention; the "@" begins a word
//	file:///PATH                 a URI
//	[text](PATH)                 the target of a Markdown link
//	PATH  `PATH`                 a word with "/" or "." in it, or a text between backticks
//
// Behind a path may stand a place in the file: ":10", ":10-20", ":10:5", "#L5", "#L5-L9", "#L5C2". Brackets, quotes, backticks
// and asterisks around a reference, and punctuation behind it, do not belong to it; brackets in pairs do: "app/(group)/page.tsx".
//
// A mention or a URI says that it means a file (see Reference.Certain). Any other reference may as well be something else
// ("and/or"), so whoever uses it makes sure that the file exists. The package opens no file.
package fileref

import (
	"net/url"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/acphost/acphost/internal/lazyregexp"
)

const (
	// maxPath is the longest path that is read, in bytes.
	maxPath = 4096
	// maxTarget is the longest target of a Markdown link and the longest text between backticks that is read, in bytes.
	maxTarget = 1024
)

// opening is what may stand in front of a reference.
const opening = "([{'*,;:"

// Kind is how a reference is written.
type Kind int

// The kinds of references.
const (
	Plain   Kind = iota // a word, a text between backticks, or a link's target
	Mention             // @PATH
	URI                 // file:///PATH
)

// Reference is a reference to a file.
type Reference struct {
	Kind Kind
	// Names are the paths that may be meant, as they are written: first the whole text, last the one without the place in the
	// file. There is at least one. A path may be relative; one of kind URI is absolute.
	Names []string
	// Quoted: a mention whose path is in quotes.
	Quoted bool
}

// Name is the path without the place in the file.
func (r Reference) Name() string { return r.Names[len(r.Names)-1] }

// Certain reports whether the reference means a file even if none is there yet, or if it cannot be looked for: a URI, a mention in
// quotes, or a mention of an absolute path, of one that begins with "./" or "../", or of a name with an extension ("@a.go"). A
// name without one may as well be a person's, or a package's ("@bob", "@types/node").
func (r Reference) Certain() bool {
	name := r.Name()
	switch {
	case r.Kind == URI:
		return true
	case r.Kind != Mention, strings.HasPrefix(name, "~"):
		return false
	}
	return r.Quoted || path.IsAbs(name) || strings.HasPrefix(name, "./") || strings.HasPrefix(name, "../") || extension.MatchString(name)
}

var (
	extension = lazyregexp.New(`[^/.][^/]*\.[A-Za-z0-9_]{1,10}$|(^|/)\.[A-Za-z0-9_]`)
	place     = lazyregexp.New(`^(.*?[^:])(?::L?[0-9]+(?::[0-9]+)?(?:-L?[0-9]+(?::[0-9]+)?)?|#L?[0-9]+(?:C[0-9]+)?(?:-L?[0-9]+(?:C[0-9]+)?)?)$`)
	fileURI   = lazyregexp.New(`(?i)file:///`)
	scheme    = lazyregexp.New(`^[A-Za-z][A-Za-z0-9+.-]*:(//|[^0-9/])`)
)

// OfURI is the absolute path on this machine that a file URI, or an absolute path in its place, names; "": it names none.
func OfURI(uri string) string {
	if path.IsAbs(uri) {
		return uri
	}
	u, err := url.Parse(uri)
	if err != nil || !strings.EqualFold(u.Scheme, "file") || u.Host != "" && u.Host != "localhost" || !path.IsAbs(u.Path) {
		return ""
	}
	return u.Path
}

// In returns the references in a text, in their order, at most max. The same file may occur more than once.
func In(text string, max int) []Reference {
	s := scan{text: text, max: max}
	for i := 0; i < len(text) && len(s.found) < max; {
		i = s.next(i)
	}
	return s.found[:min(len(s.found), max)]
}

// scan collects the references of a text.
type scan struct {
	text  string
	max   int
	found []Reference
}

// next reads what begins at i, and returns where the next thing begins.
func (s *scan) next(i int) int {
	switch rest := s.text[i:]; {
	case rest[0] == '`':
		if inside, ok := upTo(rest[1:], '`'); ok && strings.ContainsFunc(inside, unicode.IsSpace) {
			s.plain(inside) // a name with blanks; its words are read, too
		}
		return i + 1
	case strings.HasPrefix(rest, "]("):
		if target, ok := upTo(rest[2:], ')'); ok {
			s.target(target)
			return i + 2 + len(target)
		}
		return i + 2
	case strings.HasPrefix(rest, `@"`):
		if name, ok := upTo(rest[2:], '"'); ok && name != "" && s.begins(i) {
			s.add(Reference{Kind: Mention, Quoted: true, Names: names(name)})
			return i + 3 + len(name)
		}
		return i + 2
	case delimits(rune(rest[0])), strings.IndexByte(opening, rest[0]) >= 0:
		return i + 1
	}
	end := i
	for end < len(s.text) {
		r, size := utf8.DecodeRuneInString(s.text[end:])
		if delimits(r) || end > i && strings.HasPrefix(s.text[end:], "](") {
			break
		}
		end += size
	}
	if end == i { // white space beyond ASCII
		_, size := utf8.DecodeRuneInString(s.text[i:])
		return i + size
	}
	s.word(s.text[i:end])
	return end
}

// begins reports whether a word begins at i.
func (s *scan) begins(i int) bool {
	before, _ := utf8.DecodeLastRuneInString(s.text[:i])
	return i == 0 || delimits(before) || strings.ContainsRune(opening, before)
}

// delimits reports whether a character belongs to no word.
func delimits(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("`\"<>|", r) }

// upTo is the part of a line in front of a character; a pair of round brackets belongs to it.
func upTo(s string, end byte) (string, bool) {
	depth := 0
	for i := 0; i < len(s) && i < maxTarget && s[i] != '\n'; i++ {
		switch {
		case s[i] == end && depth == 0:
			return s[:i], true
		case end == ')' && s[i] == '(':
			depth++
		case end == ')' && s[i] == ')':
			depth--
		}
	}
	return "", false
}

// word reads a word of the text.
func (s *scan) word(word string) {
	word = trimmed(word)
	if at := fileURI.FindStringIndex(word); at != nil {
		s.uri(trimmed(word[at[0]:]))
		return
	}
	if name, ok := strings.CutPrefix(word, "@"); ok {
		if name = trimmed(name); name != "" {
			s.add(Reference{Kind: Mention, Names: names(name)})
		}
		return
	}
	s.plain(word)
}

// target reads the target of a Markdown link: a path or a URI, and perhaps a title.
func (s *scan) target(target string) {
	if inside, ok := strings.CutPrefix(target, "<"); ok {
		target, _, _ = strings.Cut(inside, ">")
	} else if fields := strings.Fields(target); len(fields) > 1 && strings.ContainsAny(fields[1][:1], `"'(`) {
		target = fields[0]
	}
	if strings.HasPrefix(strings.ToLower(target), "file:") {
		s.uri(target)
		return
	}
	target, _, _ = strings.Cut(target, "#")
	if unescaped, err := url.PathUnescape(target); err == nil {
		target = unescaped
	}
	s.plain(target)
}

// uri reads a file URI.
func (s *scan) uri(uri string) {
	if name := OfURI(uri); name != "" && len(name) <= maxPath {
		s.add(Reference{Kind: URI, Names: names(name)})
	}
}

// plain adds a text that may be a path.
func (s *scan) plain(text string) {
	if strings.ContainsAny(text, "/.") && !scheme.MatchString(text) && strings.Trim(text, "./") != "" && !strings.HasPrefix(text, "//") {
		s.add(Reference{Names: names(text)})
	}
}

func (s *scan) add(r Reference) {
	if len(s.found) < s.max && len(r.Names[0]) <= maxPath && !strings.ContainsRune(r.Names[0], 0) {
		s.found = append(s.found, r)
	}
}

// names are the paths that a text may mean.
func names(text string) []string {
	if in := place.FindStringSubmatch(text); in != nil {
		return []string{text, in[1]}
	}
	return []string{text}
}

// trimmed is a word without what stands around a reference.
func trimmed(word string) string {
	word = strings.TrimLeft(word, opening)
	for word != "" {
		last := word[len(word)-1]
		opens := map[byte]string{')': "(", ']': "[", '}': "{"}[last]
		switch {
		case opens != "" && strings.Count(word, opens) >= strings.Count(word, string(last)):
			return word
		case opens == "" && !strings.ContainsRune(".,;:!?'*", rune(last)):
			return word
		}
		word = word[:len(word)-1]
	}
	return word
}
