package policy

import (
	"slices"
	"strings"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// prefix is the beginning of an argv, "*" standing for any one token.
type prefix []string

// words are a simple command as deny and ask rules see it.
type words struct {
	argv    []string
	dynamic bool // some word is only known when it runs
	// at are the positions of the dynamic words in argv; none with dynamic: any may be.
	at []uint32
}

// wordsOf are the words of a simple command with others in front.
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

// mayBeAny reports whether a word is only known when it runs. It may then be any, and any number of words. Where nobody
// says which words are, those that look like it.
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

// otherwise is how sure it is that words match which do not match as they stand: no, unless any of them may be another.
func (w words) otherwise() match {
	if w.dynamic && len(w.at) == 0 {
		return maybe
	}
	return no
}

// judge reports how sure it is that a command begins with a deny or ask rule's prefix, however its options are spelt.
func (p prefix) judge(w words) match {
	sure := p.forbids(w)
	if sure == yes {
		return yes
	}
	return max(sure, p.spelt(w))
}

// forbids reports how sure it is that argv begins with p. The program is compared without its folder where p names none,
// and without regard to case, which some file systems ignore.
func (p prefix) forbids(w words) match {
	for i, token := range p {
		switch {
		case i == len(w.argv):
			if w.dynamic {
				return maybe
			}
			return no
		case w.mayBeAny(i):
			return maybe // from here on every word may be any, and any number
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

// spelt reports how sure it is that a command gives the options of a deny or ask rule's prefix in another spelling:
// "rm -rf" is also "rm -r -f", "rm -fr" and "rm x --force --recursive". The words of the prefix that are no options must
// stand in its order, options aside. A prefix without options has one spelling only.
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

// tail are the words after the program.
func (w words) tail() words {
	tail := words{argv: w.argv[1:], dynamic: w.dynamic}
	for _, position := range w.at {
		if position > 0 {
			tail.at = append(tail.at, position-1)
		}
	}
	if len(w.at) > 0 && len(tail.at) == 0 {
		tail.dynamic = false // it was the program
	}
	return tail
}

// taken are words with their options apart.
type taken struct {
	options map[string]bool
	// rest are the words that are no options, up to the first that is only known when it runs.
	rest []string
	// open: some word is only known when it runs, so that there may be more of everything.
	open bool
}

// split takes clusters of short options apart and gives the common long ones their short names.
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
