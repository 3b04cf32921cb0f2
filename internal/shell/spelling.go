package shell

import (
	"net/url"
	"path"
	"slices"
	"strings"
)

const (
	// maxSpellings bounds the paths that one word may spell.
	maxSpellings = 64
	// maxLetters is how many letters of short options may stand in front of a value that is attached: "-xvfFILE".
	maxLetters = 4
)

// Spellings returns the paths that a program may take a word for: the word, what stands behind each "=" and the first "@"
// in it, the value of a short option that is attached to it, the file of a file URL, and the parts of a list with ":", ","
// or ";" in it. operand: the word is no option, whatever it begins with; an option itself is no path. Words with blanks in
// them are taken for no lists. all is false if there may be more.
func Spellings(word string, operand bool) (paths []string, all bool) {
	s := spellings{all: true}
	option := !operand && strings.HasPrefix(word, "-")
	switch {
	case !option:
		s.list(word)
	case len(word) > 2 && word[1] != '-':
		for i := 2; i < min(len(word), 2+maxLetters); i++ {
			s.list(word[i:])
			if word[i] == '/' {
				break
			}
		}
	}
	for _, value, ok := strings.Cut(word, "="); ok; _, value, ok = strings.Cut(value, "=") {
		s.list(value)
	}
	if _, value, ok := strings.Cut(word, "@"); ok {
		s.list(value)
	}
	return s.paths, s.all
}

type spellings struct {
	paths []string
	all   bool
}

// list adds a text and the parts of the list that it may be.
func (s *spellings) list(text string) {
	s.add(text)
	if strings.Contains(text, "://") || strings.ContainsAny(text, " \t\n") || !strings.ContainsAny(text, ":,;") {
		return
	}
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(":,;", r) }) {
		s.add(part)
	}
}

// add adds a text without what says that a file's content is meant, and the file of a URL.
func (s *spellings) add(text string) {
	for _, file := range [...]string{text, strings.TrimLeft(text, "@<"), fileOf(text)} {
		switch {
		case file == "" || slices.Contains(s.paths, file):
		case len(s.paths) == maxSpellings:
			s.all = false
		default:
			s.paths = append(s.paths, file)
		}
	}
}

// fileOf is the path that a file URL names, empty if it is none.
func fileOf(word string) string {
	const scheme = "file:"
	if len(word) < len(scheme) || !strings.EqualFold(word[:len(scheme)], scheme) {
		return ""
	}
	if u, err := url.Parse(word); err == nil && (u.Host == "" || strings.EqualFold(u.Host, "localhost")) && path.IsAbs(u.Path) {
		return u.Path
	}
	return strings.TrimPrefix(word[len(scheme):], "//")
}
