package shell

import (
	"net/url"
	"path"
	"slices"
	"strings"
)

const (
	// maxSpellings is the limit of paths for one word.
	maxSpellings = 64
	// maxLetters is the limit of letters of short options before an attached value: "-xvfFILE".
	maxLetters = 4
)

// Spellings returns the paths that a program may read in a word: the word, the text after each "=" and the first "@" in
// it, the attached value of a short option, the file of a file URL, and the parts of a list with ":", "," or ";".
// operand: the word is not an option, even if it begins with a dash; an option itself is not a path. Words with blanks
// are not split as lists. all is false if there may be more paths.
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

// list adds a text, and its parts if it is a list.
func (s *spellings) list(text string) {
	s.add(text)
	if strings.Contains(text, "://") || strings.ContainsAny(text, " \t\n") || !strings.ContainsAny(text, ":,;") {
		return
	}
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(":,;", r) }) {
		s.add(part)
	}
}

// add adds a text without a prefix that requests a file's content, and the file of a URL.
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

// fileOf returns the path of a file URL, empty if the word is not one.
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
