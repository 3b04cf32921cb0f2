package policy

import "strings"

// spelt reports whether argv gives the options of a deny or ask rule's prefix in another spelling: "rm -rf" is also
// "rm -r -f", "rm -fr" and "rm x --force --recursive". The words of the prefix that are no options must stand in its
// order, options aside. A prefix without options has one spelling only.
func (p prefix) spelt(argv []string) bool {
	if len(p) == 0 || len(argv) == 0 || (p[0] != "*" && !sameProgram(p[0], argv[0])) {
		return false
	}
	wantOptions, wantWords := split(p[1:])
	options, words := split(argv[1:])
	if len(wantOptions) == 0 || len(words) < len(wantWords) {
		return false
	}
	for i, word := range wantWords {
		if word != "*" && fold(word) != fold(words[i]) {
			return false
		}
	}
	for option := range wantOptions {
		if !options[option] {
			return false
		}
	}
	return true
}

// split takes clusters of short options apart and gives the common long ones their short names.
func split(words []string) (options map[string]bool, rest []string) {
	options = map[string]bool{}
	for i, word := range words {
		switch {
		case word == "--":
			return options, append(rest, words[i+1:]...)
		case strings.HasPrefix(word, "--rec") && strings.HasPrefix("--recursive", word), word == "-R":
			options["r"] = true
		case strings.HasPrefix(word, "--fo") && strings.HasPrefix("--force", word):
			options["f"] = true
		case strings.HasPrefix(word, "--"):
			options[word] = true
		case len(word) > 1 && word[0] == '-':
			for _, letter := range word[1:] {
				if letter == 'R' {
					letter = 'r'
				}
				options[string(letter)] = true
			}
		default:
			rest = append(rest, word)
		}
	}
	return options, rest
}
