package render

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/acphost/acphost/services/supervisor/internal/text/markdown"
)

// highlighter colours code line by line: comments, strings, numbers and keywords. It recognizes tokens and does not
// parse the grammar. Its time is linear in the size of the text.
type highlighter struct {
	o     Options
	lang  language
	until string // the end mark of a comment or string that an earlier line began
	style style  // style of that comment or string
	diff  bool
}

// language describes the tokens of a language.
type language struct {
	line   []string // marks that begin a comment to the end of the line
	block  [2]string
	quotes string // marks that begin and end a string on one line
	long   []string
	words  string // keywords, with a space before and after each
}

const (
	goWords     = " break case chan const continue default defer else fallthrough for func go goto if import interface map package range return select struct switch type var nil true false "
	cWords      = " abstract async await bool break case catch char class const constexpr continue default delete do double else enum export extends extern final finally float for foreach from function if implements import in instanceof int interface internal let long namespace new null nullptr object of override package private protected public readonly return short signed sizeof static string struct super switch template this throw throws true false try type typedef typeof undefined union unsigned using var virtual void while yield "
	rustWords   = " as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait true type unsafe use where while "
	pythonWords = " and as assert async await break class continue def del elif else except False finally for from global if import in is lambda None nonlocal not or pass raise return True try while with yield "
	shellWords  = " case do done elif else esac export fi for function if in local return select set then unset until while "
	rubyWords   = " alias and begin break case class def defined do else elsif end ensure false for if in module next nil not or redo rescue retry return self super then true undef unless until when while yield "
	sqlWords    = " add all alter and as asc begin between by case commit create delete desc distinct drop else end exists from full group having if in index inner insert into is join key left like limit not null on or order outer primary references right rollback select set table then union unique update values view when where with "
	dataWords   = " true false null yes no on off "
)

var (
	slashes = []string{"//"}
	hash    = []string{"#"}
	dashes  = []string{"--"}
	tick    = []string{"`"}
	stars   = [2]string{"/*", "*/"}
)

// languages are the known languages, with an entry for each name.
var languages = map[string]language{
	"go golang": {line: slashes, block: stars, quotes: `"'`, long: tick, words: goWords},
	"rust rs":   {line: slashes, block: stars, quotes: `"`, words: rustWords},
	"js javascript jsx ts typescript tsx mjs": {line: slashes, block: stars, quotes: `"'`, long: tick, words: cWords},
	"c h cpp c++ cc hpp java kotlin kt cs csharp c# swift scala dart php proto protobuf css scss zig json5 jsonc": {
		line: slashes, block: stars, quotes: `"'`, words: cWords,
	},
	"python py": {line: hash, quotes: `"'`, long: []string{`"""`, `'''`}, words: pythonWords},
	"ruby rb":   {line: hash, quotes: `"'`, words: rubyWords},
	"sh bash zsh shell console fish dockerfile docker make makefile": {line: hash, quotes: `"'`, words: shellWords},
	"yaml yml toml ini conf": {line: hash, quotes: `"'`, words: dataWords},
	"json ndjson jsonl":      {quotes: `"`, words: dataWords},
	"sql":                    {line: dashes, block: stars, quotes: `'`, words: sqlWords},
	"lua haskell hs":         {line: dashes, quotes: `"`, words: cWords},
	"html xml svg":           {block: [2]string{"<!--", "-->"}, quotes: `"`},
}

// languageOf returns the language with a name, or an empty one.
func languageOf(name string) language {
	for names, l := range languages {
		if slices.Contains(strings.Fields(names), name) {
			return l
		}
	}
	return language{}
}

// isLanguage reports whether the text after a fence is only the name of a known language, or empty.
func isLanguage(name string) bool {
	if slices.Contains([]string{"diff", "patch", "text", "txt", "plain", "plaintext", "md", "markdown"}, name) {
		return true
	}
	for names := range languages {
		if slices.Contains(strings.Fields(names), name) {
			return true
		}
	}
	return false
}

func newHighlighter(o Options, name string) highlighter {
	name = strings.ToLower(strings.TrimSpace(name))
	first, _, _ := strings.Cut(name, " ")
	return highlighter{o: o, lang: languageOf(first), diff: name == "diff" || name == "patch"}
}

// line returns a coloured line.
func (h *highlighter) line(text string) string {
	if !h.o.Color {
		return text
	}
	if h.diff {
		return h.o.paint(diffStyle(text), text)
	}
	var b strings.Builder
	for text != "" {
		n, s := h.next(text)
		b.WriteString(h.o.paint(s, text[:n]))
		text = text[n:]
	}
	return b.String()
}

// next returns the length of the next token, and its style.
func (h *highlighter) next(text string) (int, style) {
	if h.until != "" {
		s := h.style
		end := strings.Index(text, h.until)
		if end < 0 {
			return len(text), s
		}
		n := end + len(h.until)
		h.until = ""
		return n, s
	}
	for _, mark := range h.lang.line {
		if strings.HasPrefix(text, mark) {
			return len(text), dim
		}
	}
	if open := h.lang.block[0]; open != "" && strings.HasPrefix(text, open) {
		h.until, h.style = h.lang.block[1], dim
		return len(open), dim
	}
	for _, quote := range h.lang.long {
		if strings.HasPrefix(text, quote) {
			h.until, h.style = quote, green
			return len(quote), green
		}
	}
	c := text[0]
	if strings.IndexByte(h.lang.quotes, c) >= 0 {
		for i := 1; i < len(text); i++ {
			switch text[i] {
			case '\\':
				i++
			case c:
				return i + 1, green
			}
		}
		return 1, normal // an apostrophe
	}
	r, size := utf8.DecodeRuneInString(text)
	if !markdown.Wordy(r) {
		for size < len(text) && strings.IndexByte(" \t()[]{},;.:=+*&|<>!?", text[size]) >= 0 && strings.IndexByte(" \t()[]{},;.:=+*&|!?", c) >= 0 {
			size++
		}
		return size, normal
	}
	n := strings.IndexFunc(text, func(r rune) bool { return !markdown.Wordy(r) })
	if n < 0 {
		n = len(text)
	}
	switch word := text[:n]; {
	case h.lang.words == "":
		return n, normal
	case unicode.IsDigit(r):
		return n, magenta
	case strings.Contains(h.lang.words, " "+word+" "), strings.Contains(sqlWords, " "+strings.ToLower(word)+" ") && h.lang.words == sqlWords:
		return n, blue
	}
	return n, normal
}

func diffStyle(line string) style {
	switch {
	case strings.HasPrefix(line, "@@"):
		return cyan
	case strings.HasPrefix(line, "+"):
		return green
	case strings.HasPrefix(line, "-"):
		return red
	}
	return normal
}
