package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Words returns the argv of a line that is exactly one simple command: literal words, without redirections,
// assignments, here-documents, operators or comments, and with a program that is not a keyword. Running such a line in
// a shell equals executing argv, except for builtins and functions of that name. ok is false for any other line.
func Words(line string) (argv []string, ok bool) {
	if unreadable(line) != "" || endsEscaped(line) || strings.Contains(line, "#") {
		return nil, false
	}
	for _, grammar := range []syntax.LangVariant{syntax.LangBash, syntax.LangPOSIX} {
		words, ok := wordsOf(line, grammar)
		if !ok || (argv != nil && Quote(argv) != Quote(words)) {
			return nil, false
		}
		argv = words
	}
	return argv, true
}

func wordsOf(line string, grammar syntax.LangVariant) (argv []string, ok bool) {
	r := newReading(grammar)
	file, err := syntax.NewParser(syntax.Variant(grammar)).Parse(strings.NewReader(line), "")
	if err != nil || len(file.Stmts) != 1 {
		return nil, false
	}
	s := file.Stmts[0]
	call, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || s.Negated || s.Background || s.Coprocess || s.Disown || len(s.Redirs) > 0 || len(call.Assigns) > 0 ||
		len(call.Args) == 0 {
		return nil, false
	}
	w := &walker{reading: r, source: line, grammar: grammar}
	for _, arg := range call.Args {
		word := w.word(arg)
		if word.dynamic {
			return nil, false
		}
		argv = append(argv, word.text)
	}
	return argv, r.unparsed == "" && argv[0] != ""
}
