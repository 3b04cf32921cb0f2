package facts

import (
	"strings"

	"github.com/acphost/acphost/internal/lazyregexp"
	"github.com/acphost/acphost/internal/wordset"
)

// jqReaches are names by which a filter of jq reaches more than its input: the environment, and other files.
var jqReaches = lazyregexp.New(`\b(env|ENV|import|include|modulemeta|get_search_list)\b`)

// jqOnlyFilters reports whether a filter of jq reads nothing but its input.
func jqOnlyFilters(filter string) bool { return !jqReaches.MatchString(filter) }

// yqReaches are names by which an expression of yq, of one of the two programs of that name, reaches more than its input:
// files, the environment, programs, and text that is an expression in turn.
var yqReaches = lazyregexp.New(`(?i)load|env|system|eval|include|import|filename|file_?index|input|debug|\$__|exec|split_doc|modulemeta|get_search_list`)

// yqOnlyFilters reports whether an expression of yq reads nothing but its input. A file's name that ends in ".yq" stands for the
// expression in the file.
func yqOnlyFilters(expression string) bool {
	return !yqReaches.MatchString(expression) && !strings.HasSuffix(strings.ToLower(expression), ".yq")
}

// goListReaches is the function of a template of go list that asks the module proxy about any module.
var goListReaches = lazyregexp.New(`\bmodule\b`)

// awkOnlyPrints reports whether a program of awk certainly reads nothing but its input, and writes to its standard output
// alone. It tells strings, expressions between slashes and operators apart, and gives up where versions of awk differ in
// that. What opens files and runs programs is "system", "getline", "|", and ">" of a print; variables that reach more are
// ARGV (the files to read) and ENVIRON.
func awkOnlyPrints(program string) bool {
	for _, word := range awkReaches {
		if strings.Contains(program, word) {
			return false
		}
	}
	l := awkLexer{rest: program}
	for l.rest != "" {
		if !l.token() {
			return false
		}
	}
	return l.braces == 0 && l.parens == 0
}

// awkReaches are what no harmless program needs, wherever it stands.
var awkReaches = []string{"system", "getline", "ENVIRON", "ARGV", "ARGC", "SYMTAB", "FUNCTAB", "extension", "\\\n", "\r", "\x00", "@"}

// awkKeywords may stand before an expression between slashes, and some of them before a division: "length / 2".
var awkKeywords = wordset.Of(`print printf return else do exit in delete length case default func function if while for switch next
	nextfile continue break BEGIN END BEGINFILE ENDFILE`)

// awkNumber is a number. What follows it without a blank is another token, so only what cannot be part of one may.
var awkNumber = lazyregexp.New(`^([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?`)

// awkBrackets is a bracket expression that every awk ends at the same place.
var awkBrackets = lazyregexp.New(`^\[\^?(\[:[a-z]+:\]|\\[a-z./-]|[^][/\\\n])+\]`)

type awkLexer struct {
	rest           string
	braces, parens int
	operand        bool // what came before is an operand, so that a slash divides
	unsure         bool // what a slash means here is not certain
}

// token takes the next token off the rest. It reports false if the token may do harm, or is not certain.
func (l *awkLexer) token() bool {
	c := l.rest[0]
	switch {
	case c == '"':
		return l.quoted()
	case c == '/' && l.unsure:
		return false
	case c == '/' && l.operand:
		l.advance(1, false)
		return true
	case c == '/':
		return l.expression()
	case isLetter(c):
		n := 1
		for n < len(l.rest) && (isLetter(l.rest[n]) || isDigit(l.rest[n])) {
			n++
		}
		keyword := awkKeywords[l.rest[:n]]
		l.advance(n, !keyword)
		l.unsure = keyword
		return true
	case isDigit(c) || c == '.':
		n := len(awkNumber.FindString(l.rest))
		if n == 0 || n < len(l.rest) && (isLetter(l.rest[n]) || l.rest[n] == '.') {
			return false
		}
		l.advance(n, true)
		return true
	case strings.HasPrefix(l.rest, "||"), strings.HasPrefix(l.rest, "&&"):
		l.advance(2, false)
		return true
	case strings.HasPrefix(l.rest, "++"), strings.HasPrefix(l.rest, "--"):
		l.advance(2, false)
		l.unsure = true
		return true
	}
	return l.sign(c)
}

// sign takes a token of one character.
func (l *awkLexer) sign(c byte) bool {
	switch c {
	case ' ', '\t':
		l.rest = l.rest[1:] // the same stands before it
		return true
	case '{':
		l.braces++
	case '}':
		l.braces--
	case '(', '[':
		l.parens++
	case ')', ']':
		l.parens--
	case '>':
		// Outside of parentheses, this is where a print of an action goes.
		if l.braces > 0 && l.parens == 0 || strings.HasPrefix(l.rest, ">>") {
			return false
		}
	case '\n', ';', ',', '$', '!', '~', '<', '=', '+', '-', '*', '%', '^', '?', ':':
	default: // "|", "&", "#", "\\", "'", what is not ASCII
		return false
	}
	l.advance(1, c == ']')
	l.unsure = c == ')' || c == '$' // "if (x) /y/" and "(x) / y"
	return l.braces >= 0 && l.parens >= 0
}

// quoted takes a string.
func (l *awkLexer) quoted() bool {
	for i := 1; i < len(l.rest); i++ {
		switch l.rest[i] {
		case '\\':
			i++
		case '\n':
			return false
		case '"':
			l.advance(i+1, true)
			return true
		}
	}
	return false
}

// expression takes a regular expression between slashes.
func (l *awkLexer) expression() bool {
	for i := 1; i < len(l.rest); i++ {
		switch l.rest[i] {
		case '\\':
			i++
		case '\n':
			return false
		case '[':
			n := len(awkBrackets.FindString(l.rest[i:]))
			if n == 0 {
				return false
			}
			i += n - 1
		case '/':
			l.advance(i+1, true)
			return true
		}
	}
	return false
}

func (l *awkLexer) advance(n int, operand bool) {
	l.rest, l.operand, l.unsure = l.rest[n:], operand, false
}

func isLetter(c byte) bool { return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
