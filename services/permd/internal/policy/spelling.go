package policy

import (
	"slices"
	"strings"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// prefix is the beginning of an argv. "*" matches any one token.
type prefix []string

// words are a simple command as deny and ask rules compare it.
type words struct {
	argv    []string
	dynamic bool // some word is known only at run time
	// at are the positions of the dynamic words in argv. If it is empty and dynamic is set, every word may be dynamic.
	at []uint32
}

// wordsOf returns the words of a simple command, prefixed with front.
func wordsOf(front []string, sub *permissionv1.SubCommand) words {
	w := words{argv: sub.GetArgv(), dynamic: sub.GetDynamic() || len(sub.GetDynamicWords()) > 0, at: sub.GetDynamicWords()}
	if len(front) > 0 {
		w.argv = append(front, sub.GetArgv()...)
		w.at = make([]uint32, len(sub.GetDynamicWords()))
		for i, position := range sub.GetDynamicWords() {
			w.at[i] = position + uint32(len(front)) // wrappers are few
		}
	}
	return w
}

// mayBeAny reports whether a word is known only at run time. It may then be any word, and any number of words. If the
// positions are unknown, words that a shell would expand count.
func (w words) mayBeAny(i int) bool {
	switch {
	case !w.dynamic:
		return false
	case len(w.at) == 0:
		return mayExpand(w.argv[i])
	}
	return slices.Contains(w.at, uint32(i)) // an index is not negative
}

// mayExpand reports whether a word of a dynamic command may be the dynamic one.
func mayExpand(word string) bool {
	return word != "[" && word != "[[" && strings.ContainsAny(word, "$`*?[{~(")
}

// otherwise returns how certain a match is for words that do not match as written: no, unless any of them may be
// another.
func (w words) otherwise() match {
	if w.dynamic && len(w.at) == 0 {
		return maybe
	}
	return no
}

// judge reports how certain it is that a command begins with a deny or ask rule's prefix, in any spelling of its
// options.
func (p prefix) judge(w words) match {
	sure := p.forbids(w)
	if sure == yes {
		return yes
	}
	return max(sure, p.spelt(w))
}

// forbids reports how certain it is that argv begins with p. The program is compared without its folder if p names
// none, and ignoring case, as some file systems do.
func (p prefix) forbids(w words) match {
	for i, token := range p {
		switch {
		case i == len(w.argv):
			if w.dynamic {
				return maybe
			}
			return no
		case w.mayBeAny(i):
			return maybe // from here on every word may be any, and any number of words
		case token == "*", token == w.argv[i]:
		case i == 0 && sameProgram(token, w.argv[i]):
		default:
			return w.otherwise()
		}
	}
	return yes
}

func sameProgram(token, word string) bool {
	if !strings.Contains(token, "/") {
		word = word[strings.LastIndexByte(word, '/')+1:]
	}
	return fold(token) == fold(word)
}

// spelt reports how certain it is that a command has the options of a deny or ask rule's prefix in another spelling:
// "rm -rf" is also "rm -r -f", "rm -fr" and "rm x --force --recursive". The other words of the prefix must appear in
// order, ignoring options. A prefix without options has only one spelling.
func (p prefix) spelt(w words) match {
	if len(p) == 0 || len(w.argv) == 0 || (p[0] != "*" && !sameProgram(p[0], w.argv[0])) {
		return no
	}
	wanted, given := words{argv: p[1:]}.split(), w.tail().split()
	if len(wanted.options) == 0 {
		return no
	}
	for i, word := range wanted.rest {
		switch {
		case i == len(given.rest):
			if given.open {
				return maybe
			}
			return w.otherwise()
		case word != "*" && fold(word) != fold(given.rest[i]):
			return w.otherwise()
		}
	}
	for option := range wanted.options {
		if !given.options[option] {
			if given.open {
				return maybe
			}
			return w.otherwise()
		}
	}
	return yes
}

// tail returns the words after the program.
func (w words) tail() words {
	tail := words{argv: w.argv[1:], dynamic: w.dynamic}
	for _, position := range w.at {
		if position > 0 {
			tail.at = append(tail.at, position-1)
		}
	}
	if len(w.at) > 0 && len(tail.at) == 0 {
		tail.dynamic = false // only the program was dynamic
	}
	return tail
}

// taken are words with their options separated.
type taken struct {
	options map[string]bool
	// rest are the words that are not options, up to the first that is known only at run time.
	rest []string
	// open: some word is known only at run time, so there may be more options and words.
	open bool
}

// split splits clusters of short options and replaces common long options by their short names.
func (w words) split() taken {
	t := taken{options: map[string]bool{}}
	for i, word := range w.argv {
		switch {
		case w.mayBeAny(i):
			t.open = true
		case word == "--":
			for j, word := range w.argv[i+1:] {
				if t.open = t.open || w.mayBeAny(i+1+j); !t.open {
					t.rest = append(t.rest, word)
				}
			}
			return t
		case strings.HasPrefix(word, "--rec") && strings.HasPrefix("--recursive", word), word == "-R":
			t.options["r"] = true
		case strings.HasPrefix(word, "--fo") && strings.HasPrefix("--force", word):
			t.options["f"] = true
		case strings.HasPrefix(word, "--"):
			t.options[word] = true
		case len(word) > 1 && word[0] == '-':
			for _, letter := range word[1:] {
				if letter == 'R' {
					letter = 'r'
				}
				t.options[string(letter)] = true
			}
		case !t.open:
			t.rest = append(t.rest, word)
		}
	}
	return t
}
