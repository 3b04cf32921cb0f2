package facts

import (
	"strings"

	"github.com/acphost/acphost/internal/lazyregexp"
	"github.com/acphost/acphost/internal/wordset"
)

// jqReaches matches names with which a filter of jq accesses more than its input: the environment, and other files.
var jqReaches = lazyregexp.New(`\b(env|ENV|import|include|modulemeta|get_search_list)\b`)

// jqOnlyFilters reports whether a filter of jq reads only its input.
func jqOnlyFilters(filter string) bool { return !jqReaches.MatchString(filter) }

// yqReaches matches names with which an expression of yq (of both programs of that name) accesses more than its input:
// files, the environment, programs, and text that is evaluated as an expression.
var yqReaches = lazyregexp.New(`(?i)load|env|system|eval|include|import|filename|file_?index|input|debug|\$__|exec|split_doc|modulemeta|get_search_list`)

// yqOnlyFilters reports whether an expression of yq reads only its input. A file name that ends in ".yq" is replaced by
// the expression in the file.
func yqOnlyFilters(expression string) bool {
	return !yqReaches.MatchString(expression) && !strings.HasSuffix(strings.ToLower(expression), ".yq")
}

// goListReaches matches the function in a template of go list that queries the module proxy.
var goListReaches = lazyregexp.New(`\bmodule\b`)

// awkOnlyPrints reports whether a program of awk certainly reads only its input, and writes only to its standard
// output. It distinguishes strings, regular expressions and operators, and returns false where versions of awk differ
// in that. Files are opened and programs run by "system", "getline", "|", and ">" of a print; the variables ARGV (the
// files to read) and ENVIRON access more than the input.
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

// awkReaches are texts that no harmless program needs at any position.
var awkReaches = []string{"system", "getline", "ENVIRON", "ARGV", "ARGC", "SYMTAB", "FUNCTAB", "extension", "\\\n", "\r", "\x00", "@"}

// awkKeywords may precede a regular expression, and some of them a division: "length / 2".
var awkKeywords = wordset.Of(`print printf return else do exit in delete length case default func function if while for switch next
	nextfile continue break BEGIN END BEGINFILE ENDFILE`)

// awkNumber matches a number. A following character without a blank starts another token, so it must not be one that
// could continue the number.
var awkNumber = lazyregexp.New(`^([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?`)

// awkBrackets matches a bracket expression that ends at the same position for every awk.
var awkBrackets = lazyregexp.New(`^\[\^?(\[:[a-z]+:\]|\\[a-z./-]|[^][/\\\n])+\]`)

type awkLexer struct {
	rest           string
	braces, parens int
	operand        bool // the previous token is an operand, so a slash is a division
	unsure         bool // the meaning of a slash is uncertain
}

// token consumes the next token. It returns false if the token may do harm, or is uncertain.
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

// sign consumes a token of one character.
func (l *awkLexer) sign(c byte) bool {
	switch c {
	case ' ', '\t':
		l.rest = l.rest[1:] // the same character precedes it
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
		// Outside of parentheses, this redirects a print of an action.
		if l.braces > 0 && l.parens == 0 || strings.HasPrefix(l.rest, ">>") {
			return false
		}
	case '\n', ';', ',', '$', '!', '~', '<', '=', '+', '-', '*', '%', '^', '?', ':':
	default: // "|", "&", "#", "\\", "'", and characters outside of ASCII
		return false
	}
	l.advance(1, c == ']')
	l.unsure = c == ')' || c == '$' // "if (x) /y/" and "(x) / y"
	return l.braces >= 0 && l.parens >= 0
}

// quoted consumes a string.
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

// expression consumes a regular expression between slashes.
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
