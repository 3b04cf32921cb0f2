package shell

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/acphost/acphost/internal/lazyregexp"
	"github.com/acphost/acphost/internal/wordset"
)

// Some words are known only when the line runs, but are certainly text: the output of a substitution, between quotes.
// The commands in the substitution are judged separately, so a program that only prints or compares the text may have
// it.

// shownVariables contain no secrets.
var shownVariables = wordset.Of(`PWD OLDPWD HOME USER LOGNAME SHELL LANG TERM PATH HOSTNAME HOSTTYPE OSTYPE UID EUID PPID RANDOM
	SECONDS LINENO PIPESTATUS BASH_VERSION GOPATH GOROOT TMPDIR COLUMNS LINES`)

// Shown reports whether a command may print a variable, because it contains no secret.
func Shown(name string) bool { return shownVariables[name] }

// isText reports whether a part of a word is certainly text, and a single word: see SubCommand.text_words.
func (w *walker) isText(part syntax.Node, quoted bool) bool {
	switch n := part.(type) {
	case *syntax.CmdSubst:
		return quoted && !n.Backquotes && !n.TempFile && !n.ReplyVar
	case *syntax.ArithmExp:
		return w.isNumber(n)
	case *syntax.ParamExp:
		return w.isTextValue(n, quoted)
	}
	return false
}

// isTextValue is isText for a variable, and for parts cut from it.
func (w *walker) isTextValue(n *syntax.ParamExp, quoted bool) bool {
	if n.Param == nil || n.Flags != nil || n.Excl || n.Width || n.IsSet || n.NestedParam != nil || n.Index != nil || n.Names != 0 {
		return false
	}
	name := n.Param.Value
	switch {
	case w.number(name):
	case !quoted:
		return false
	case shownVariables[name]:
	case w.variables == nil || !w.variables.texts[name]:
		return false
	}
	if n.Slice != nil && (!w.plainArithmetic(n.Slice.Offset) || !w.plainArithmetic(n.Slice.Length)) {
		return false
	}
	if n.Repl != nil && (!literal(n.Repl.Orig) || !literal(n.Repl.With)) {
		return false
	}
	return n.Exp == nil || cuts[n.Exp.Op] && quoted && literal(n.Exp.Word)
}

// cuts are operators that cut a part from a variable's value, or replace it by other text.
var cuts = map[syntax.ParExpOperator]bool{
	syntax.RemSmallPrefix: true, syntax.RemLargePrefix: true, syntax.RemSmallSuffix: true, syntax.RemLargeSuffix: true,
	syntax.DefaultUnset: true, syntax.DefaultUnsetOrNull: true, syntax.AlternateUnset: true, syntax.AlternateUnsetOrNull: true,
}

// literal reports whether a word contains no expansion other than patterns.
func literal(n *syntax.Word) bool {
	plain := func(part syntax.WordPart) bool {
		switch part := part.(type) {
		case *syntax.Lit:
			return !strings.ContainsAny(part.Value, "~")
		case *syntax.SglQuoted:
			return !part.Dollar
		}
		return false
	}
	return n == nil || !slices.ContainsFunc(n.Parts, func(part syntax.WordPart) bool {
		quoted, ok := part.(*syntax.DblQuoted)
		if !ok {
			return !plain(part)
		}
		return quoted.Dollar || slices.ContainsFunc(quoted.Parts, func(inner syntax.WordPart) bool { return !plain(inner) })
	})
}

// isNumber reports whether a part of a word is certainly a number: arithmetic with numbers, or the output of wc for its
// standard input.
func (w *walker) isNumber(part syntax.Node) bool {
	switch n := part.(type) {
	case *syntax.ArithmExp:
		return !n.Bracket && !n.Unsigned && n.X != nil && w.plainArithmetic(n.X)
	case *syntax.CmdSubst:
		return w.variables != nil && !n.Backquotes && !n.TempFile && !n.ReplyVar && len(n.Stmts) == 1 && counts(n.Stmts[0])
	}
	return false
}

// counts reports whether a statement only prints a number: wc does for its standard input, unless it fails.
func counts(s *syntax.Stmt) bool {
	if s.Negated || s.Background || s.Coprocess || s.Disown {
		return false
	}
	if pipe, ok := s.Cmd.(*syntax.BinaryCmd); ok {
		return pipe.Op == syntax.Pipe && len(s.Redirs) == 0 && counts(pipe.Y)
	}
	cmd, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || len(cmd.Assigns) > 0 || len(cmd.Args) != 2 || cmd.Args[0].Lit() != "wc" ||
		!slices.Contains([]string{"-l", "-c", "-w", "-m"}, cmd.Args[1].Lit()) {
		return false
	}
	return !slices.ContainsFunc(s.Redirs, func(r *syntax.Redirect) bool { return r.Op != syntax.RdrIn || r.N != nil })
}

// variableNames matches names of variables in arithmetic.
var variableNames = lazyregexp.New(`\$[A-Za-z_][A-Za-z0-9_]*|\$\{[A-Za-z_][A-Za-z0-9_]*\}|[A-Za-z_][A-Za-z0-9_]*`)

// plainArithmetic reports whether arithmetic contains only numbers, and variables of the line that contain numbers. An
// empty expression is plain.
func (w *walker) plainArithmetic(x syntax.ArithmExpr) bool {
	if x == nil {
		return true
	}
	text := w.counted(x)
	if w.variables != nil && len(w.variables.numbers) > 0 {
		text = variableNames.ReplaceAllStringFunc(text, func(use string) string {
			if w.variables.numbers[strings.Trim(use, "${}")] {
				return "1"
			}
			return use
		})
	}
	return plainNumbers.MatchString(text)
}

// counted returns the text of arithmetic, with a number in place of each substitution that prints a number or nothing.
func (w *walker) counted(x syntax.ArithmExpr) string {
	var text strings.Builder
	at, end := x.Pos().Offset(), x.End().Offset()
	if end > uint(len(w.source)) || at > end {
		return "$?"
	}
	syntax.Walk(x, func(n syntax.Node) bool {
		c, ok := n.(*syntax.CmdSubst)
		if !ok {
			return true
		}
		if w.isNumber(c) && c.Pos().Offset() >= at && c.End().Offset() <= end {
			text.WriteString(w.source[at:c.Pos().Offset()] + "1")
			at = c.End().Offset()
		}
		return false
	})
	return text.String() + w.source[at:end]
}

// number reports whether a parameter is always a number: a status, a count, a process id, or a variable of the line.
func (w *walker) number(name string) bool {
	return name == "?" || name == "#" || name == "$" || w.variables != nil && w.variables.numbers[name]
}

// classify determines which of the variables that a line assigns certainly contain text, and which contain numbers.
// values are all values that a variable is assigned; nil stands for a text. It starts with all variables, and removes
// those with another value until nothing changes.
func (w *walker) classify(values map[string][]*syntax.Word) {
	v := w.variables
	v.texts, v.numbers = map[string]bool{}, map[string]bool{}
	for name := range values {
		v.texts[name], v.numbers[name] = OwnVariable(name), OwnVariable(name)
	}
	for changed := true; changed; {
		changed = false
		for name, all := range values {
			if v.texts[name] && slices.ContainsFunc(all, func(n *syntax.Word) bool { return n != nil && !w.valueIsText(n.Parts, false) }) {
				v.texts[name], changed = false, true
			}
			if v.numbers[name] && slices.ContainsFunc(all, func(n *syntax.Word) bool { return n == nil || !w.valueIsNumber(n) }) {
				v.numbers[name], changed = false, true
			}
		}
	}
}

// valueIsText reports whether an assigned value is text. It is not split, and not used as a pattern.
func (w *walker) valueIsText(parts []syntax.WordPart, quoted bool) bool {
	return !slices.ContainsFunc(parts, func(part syntax.WordPart) bool {
		switch part := part.(type) {
		case *syntax.Lit:
			return !quoted && strings.Contains(part.Value, "~")
		case *syntax.SglQuoted:
			return part.Dollar
		case *syntax.DblQuoted:
			return part.Dollar || !w.valueIsText(part.Parts, true)
		}
		return !w.isText(part, true)
	})
}

var digitsOnly = lazyregexp.New(`^[0-9]{1,9}$`)

func (w *walker) valueIsNumber(n *syntax.Word) bool {
	return len(n.Parts) == 1 && (digitsOnly.MatchString(n.Lit()) || w.isNumber(n.Parts[0]) && isArithmetic(n.Parts[0]))
}

// isArithmetic reports whether a part needs arithmetic to be a number: the output of wc may have blanks around it, or
// be empty.
func isArithmetic(part syntax.WordPart) bool {
	_, ok := part.(*syntax.ArithmExp)
	return ok
}

// constant returns the output of a substitution, if it is certain before the line runs: the working directory, the top
// of its repository, and parts of a plain path.
func (w *walker) constant(n *syntax.CmdSubst) (string, bool) {
	if w.disk == nil || w.variables == nil || n.Backquotes || n.TempFile || n.ReplyVar || len(n.Stmts) != 1 || len(n.Stmts[0].Redirs) > 0 {
		return "", false
	}
	args := w.plainCall(n.Stmts[0])
	here := w.disk.real && w.dir == (place{})
	switch {
	case slices.Equal(args, []string{"pwd"}):
		return w.disk.dir, here
	case slices.Equal(args, []string{"git", "rev-parse", "--show-toplevel"}):
		return w.disk.dir, here && isFolder(w.disk.dir+"/.git")
	case len(args) != 2 || !plainName(args[1]) || args[1][0] == '-' || strings.HasSuffix(args[1], "/") || strings.Contains(args[1], "//"):
		return "", false
	case args[0] == "dirname":
		return path.Dir(args[1]), path.Clean(args[1]) == args[1]
	case args[0] == "basename":
		return path.Base(args[1]), true
	}
	return "", false
}
