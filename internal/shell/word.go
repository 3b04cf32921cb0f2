package shell

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"

	"github.com/acphost/acphost/internal/lazyregexp"
)

// word is one word of a command.
type word struct {
	// text is the word without its quotes. A dynamic part is as written, so a dynamic word always contains a character
	// that makes it dynamic.
	text    string
	dynamic bool
	// kind describes a dynamic word.
	kind wordKind
	// possible: the command gets the word only if another command prints it, which is uncertain.
	possible bool
}

// wordKind is the known property of a word whose value is known only when the line runs.
type wordKind uint8

const (
	anything wordKind = iota
	// isText is a single word of text: see SubCommand.text_words.
	isText
	// isPipe is the name of a pipe: see SubCommand.piped_words.
	isPipe
)

// someDynamic reports whether one of the words is known only when the line runs.
func someDynamic(words []word) bool {
	return slices.ContainsFunc(words, func(w word) bool { return w.dynamic })
}

// texts returns the texts of words.
func texts(words []word) []string {
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = w.text
	}
	return all
}

// joined returns words joined by blanks.
func joined(words []word) string {
	return strings.Join(texts(words), " ")
}

// word reads a word as the shell would, with the values of known variables. Patterns are not expanded.
func (w *walker) word(n *syntax.Word) word {
	if n == nil {
		return word{}
	}
	return w.build(n, false).word()
}

// word returns the word that was read, with patterns unexpanded. A word that is known only when the line runs is as
// written.
func (b *wordBuilder) word() word {
	kind := b.kind()
	if (b.dynamic || b.glob) && (len(b.uses) > 0 || b.constants) {
		for _, use := range b.uses {
			b.noted(use, kind == isText)
		}
		unaware := *b.walker
		unaware.variables = nil
		b = unaware.build(b.node, false)
	}
	return word{text: b.text.String(), dynamic: b.dynamic || b.glob, kind: kind, possible: b.possible}
}

func (b *wordBuilder) kind() wordKind {
	switch {
	case b.dynamic && !b.loose && !b.glob:
		return isText
	case len(b.node.Parts) == 1:
		if from, ok := b.node.Parts[0].(*syntax.ProcSubst); ok && from.Op == syntax.CmdIn {
			return isPipe
		}
	}
	return anything
}

// build reads a word. digits: "$?" and similar parameters may stay as written.
func (w *walker) build(n *syntax.Word, digits bool) *wordBuilder {
	b := &wordBuilder{walker: w, node: n, digits: digits}
	for i, part := range n.Parts {
		b.part(part, i == 0)
	}
	if b.brace == braceClosed {
		b.dynamic, b.loose = true, true
	}
	return b
}

type wordBuilder struct {
	*walker
	node      *syntax.Word
	text      strings.Builder
	unquoted  []int // positions of unquoted characters in text
	dynamic   bool
	loose     bool // it has a dynamic part that may be more than text
	glob      bool // unquoted characters make it a pattern
	digits    bool
	uses      []*syntax.ParamExp // variables whose values it contains, or may contain
	constants bool               // it contains the known output of a substitution
	possible  bool               // one of these values is only possible
	brace     braceState
}

// pattern returns the word as a pattern.
func (b *wordBuilder) pattern() pattern {
	p := pattern{text: b.text.String(), bare: make([]bool, b.text.Len())}
	for _, i := range b.unquoted {
		p.bare[i] = true
	}
	return p
}

// braceState detects in the unquoted characters of a word whether it may be a brace expansion: "{a,b}" or "{1..9}". It
// has false positives, but no false negatives.
type braceState uint8

const (
	braceNone braceState = iota
	braceOpen
	braceSeparated
	braceClosed
)

func (b *wordBuilder) part(part syntax.WordPart, first bool) {
	switch part := part.(type) {
	case *syntax.Lit:
		b.bare(part.Value, first)
	case *syntax.SglQuoted:
		if !part.Dollar {
			b.text.WriteString(part.Value)
			return
		}
		if text, ok := ansiC(part.Value); ok {
			b.text.WriteString(text)
			return
		}
		b.expansion(part, false)
	case *syntax.DblQuoted:
		if part.Dollar { // translated by locale
			b.expansion(part, false)
			return
		}
		for _, inner := range part.Parts {
			if lit, ok := inner.(*syntax.Lit); ok {
				b.text.WriteString(unescapeQuoted(lit.Value))
			} else {
				b.variable(inner, true)
			}
		}
	default:
		b.variable(part, false)
	}
}

// variable adds the value of a variable if it is known.
func (b *wordBuilder) variable(part syntax.Node, quoted bool) {
	use, ok := part.(*syntax.ParamExp)
	if !ok {
		b.substitution(part, quoted)
		return
	}
	value, known := b.value(use, quoted, b.digits)
	b.filled += len(value)
	known = known && !b.tooMuch()
	b.noted(use, known || b.isText(part, quoted))
	if !known {
		b.expansion(part, quoted)
	} else {
		b.text.WriteString(value)
		b.possible = b.possible || b.variables.values[use.Param.Value].possible
	}
	if use.Param != nil && (!b.number(use.Param.Value) || known && value != b.walker.text(part)) {
		b.uses = append(b.uses, use)
	}
}

// substitution adds the output of a substitution if it is known, or is a number.
func (b *wordBuilder) substitution(part syntax.Node, quoted bool) {
	if b.digits && b.isNumber(part) {
		b.text.WriteString(b.walker.text(part))
		return
	}
	if n, ok := part.(*syntax.CmdSubst); ok {
		if text, ok := b.constant(n); ok && (quoted || plainName(text)) {
			b.text.WriteString(text)
			b.filled += len(text)
			b.constants = true
			return
		}
	}
	b.expansion(part, quoted)
}

func (b *wordBuilder) expansion(part syntax.Node, quoted bool) {
	b.dynamic = true
	b.loose = b.loose || !b.isText(part, quoted)
	b.text.WriteString(b.walker.text(part))
}

// bare adds unquoted text: a backslash quotes the next character, and some characters begin an expansion.
func (b *wordBuilder) bare(value string, first bool) {
	if strings.ContainsFunc(value, separates) && strings.ContainsFunc(escaped.ReplaceAllLiteralString(value, ""), separates) {
		b.giveUp("a control character or a blank that is not ASCII, which may end a word")
	}
	for i := 0; i < len(value); i++ {
		c := value[i]
		switch c {
		case '\\':
			if i++; i < len(value) && value[i] != '\n' { // the parser keeps it after another backslash
				b.text.WriteByte(value[i])
			}
			continue
		case '*', '?', '[':
			// A lone "[" or "[[" is the command.
			b.glob = b.glob || c != '[' || !first || value != "[" && value != "[["
		case '~':
			// A tilde is a home directory at the start of a word and, in an assignment or a list of paths, inside it.
			if (first && i == 0) || (i > 0 && (value[i-1] == '=' || value[i-1] == ':')) {
				b.dynamic, b.loose = true, true
			}
		case '{':
			b.brace = max(b.brace, braceOpen)
		case ',':
			if b.brace == braceOpen {
				b.brace = braceSeparated
			}
		case '.':
			if b.brace == braceOpen && i+1 < len(value) && value[i+1] == '.' {
				b.brace = braceSeparated
			}
		case '}':
			if b.brace == braceSeparated {
				b.brace = braceClosed
			}
		}
		b.unquoted = append(b.unquoted, b.text.Len())
		b.text.WriteByte(c)
	}
}

// escaped matches a quoted character with its backslash.
var escaped = lazyregexp.New(`(?s)\\.`)

// separates reports whether some shell, or some locale of a shell, may end a word at an unquoted character. Characters
// that end words in every shell are never part of a word. The list differs from that of internal/invisible because it
// follows the shells' grammar: no shell ends a word at a blank letter, and visible characters (U+3000) may end one.
func separates(c rune) bool {
	return unicode.IsControl(c) || unicode.IsSpace(c) || unicode.Is(unicode.Cf, c)
}

// unescapeQuoted reads text between double quotes, where a backslash quotes only special characters.
func unescapeQuoted(value string) string {
	if !strings.Contains(value, `\`) {
		return value
	}
	var b strings.Builder
	for i := 0; i < len(value); i++ {
		if value[i] == '\\' && i+1 < len(value) && strings.IndexByte("$`\"\\\n", value[i+1]) >= 0 {
			if i++; value[i] == '\n' { // the parser keeps it after another backslash
				continue
			}
		}
		b.WriteByte(value[i])
	}
	return b.String()
}

// ansiC reads the text of $'...'. It returns false for rare forms, which are left to the shell.
func ansiC(value string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(value); i++ {
		if value[i] != '\\' {
			b.WriteByte(value[i])
			continue
		}
		if i++; i == len(value) {
			return "", false
		}
		switch c := value[i]; c {
		case '\\', '\'', '"', '?':
			b.WriteByte(c)
		case 'a', 'b', 'e', 'E', 'f', 'n', 't', 'v':
			b.WriteByte(map[byte]byte{'a': 7, 'b': 8, 'e': 27, 'E': 27, 'f': 12, 'n': 10, 't': 9, 'v': 11}[c])
		case '0', '1', '2', '3', '4', '5', '6', '7':
			n := digits(value[i:], 3, "01234567")
			b.WriteByte(byte(parse(value[i:i+n], 8)))
			i += n - 1
		case 'x', 'u', 'U':
			n := digits(value[i+1:], map[byte]int{'x': 2, 'u': 4, 'U': 8}[c], "0123456789abcdefABCDEF")
			if n == 0 {
				return "", false
			}
			code := parse(value[i+1:i+1+n], 16)
			if c == 'x' {
				b.WriteByte(byte(code))
			} else {
				b.WriteRune(rune(code))
			}
			i += n
		default:
			return "", false
		}
	}
	text := b.String()
	return text, utf8.ValidString(text) && !strings.Contains(text, "\x00")
}

// digits returns the number of digits at the start of s, at most maxDigits.
func digits(s string, maxDigits int, known string) int {
	s = s[:min(len(s), maxDigits)]
	return len(s) - len(strings.TrimLeft(s, known))
}

func parse(s string, base int) uint64 {
	n, _ := strconv.ParseUint(s, base, 32) // digits has checked that it is a number
	return n
}
