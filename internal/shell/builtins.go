package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/acphost/acphost/internal/lazyregexp"
)

// Shells evaluate some texts as names of variables, numbers and prompts, and run the substitutions in them:
// a[$(COMMAND)] as a subscript is the best known. None of this is visible in the syntax tree, so the places where it
// can happen are listed here. A line that has at such a place anything but a plain name or number is unparsed.

// evaluated matches text that a shell may evaluate at such a place.
var evaluated = lazyregexp.New("\\[|\\$\\(|`|\\$\\{")

// substitution matches text that runs a command when it is evaluated.
var substitution = lazyregexp.New("\\$\\(|`")

// plainNumbers matches arithmetic without variables.
var plainNumbers = lazyregexp.New(`^[0-9\s()+\-*/%<>=!&|^~?:,]*$`)

// assign marks builtins that set variables by name, so that the following commands do not count as running with a known
// environment, and gives up on builtins that may evaluate their arguments.
func (r *reading) assign(c call) call {
	name := c.args[0].text
	suspects := c.args[1:]
	switch name {
	case "set", "shopt":
		r.settings(c)
		return c
	case "read":
		if _, _, ok := readNames(texts(c.args)); ok && !someDynamic(c.args) {
			return c
		}
		c.dynamic = true
	case "getopts", "unset", "let":
		c.dynamic = true
	case "mapfile", "readarray":
		c.dynamic = true
		if mayHave(c, 'C') {
			r.giveUp("%s runs a command for its lines", name)
		}
	case "printf":
		if len(c.args) < 2 || !strings.HasPrefix(c.args[1].text, "-v") {
			return c
		}
		c.dynamic = true
	case "wait":
		c.dynamic = c.dynamic || mayHave(c, 'p')
	case "export", "readonly", "declare", "typeset", "local":
		if mayHave(c, 'i') || mayHave(c, 'n') {
			r.giveUp("%s makes a variable that is evaluated", name)
		}
		c = declared(c)
		suspects = c.args[1:]
	case "test", "[", "[[":
		asks := func(arg word) bool { return arg.text == "-v" || arg.text == "-R" }
		known := func(arg word) bool { return !arg.dynamic }
		if some := slices.DeleteFunc(slices.Clone(suspects), known); len(some) > 0 && slices.ContainsFunc(suspects, asks) {
			r.giveUp("%s may evaluate %q", name, some[0].text)
		}
	}
	if !slices.Contains([]string{"test", "[", "[[", "wait"}, name) {
		r.adrift = r.adrift || someDynamic(suspects) // with an unknown name it may set the variables that cd uses
	}
	for _, arg := range suspects {
		if arg.text != "]" && arg.text != "]]" && !arg.dynamic && evaluated.MatchString(arg.text) {
			c.dynamic = true
			r.giveUp("%s may evaluate %q", name, arg.text)
		}
	}
	return c
}

// settings gives up on builtins that change how the rest of a line is read. The words after the options of set are
// parameters.
func (r *reading) settings(c call) {
	name := c.args[0].text
	given, _, ok := shellOptions.take(c.args[1:])
	if !ok || name == "shopt" && len(c.args) > 1 || // without operands it only lists
		slices.ContainsFunc(given, func(opt option) bool { return !opt.harmless() }) {
		r.giveUp("%s changes what a line means", name)
	}
}

// mayHave reports whether a builtin may have been given a short option.
func mayHave(c call, letter byte) bool {
	return slices.ContainsFunc(c.args[1:], func(arg word) bool {
		return len(arg.text) > 1 && arg.text[0] == '-' && strings.IndexByte(arg.text, letter) > 0
	})
}

// remembered gives up on assignments that other parts of the line may run: a text with a substitution, which
// arithmetic, a prompt or an indirection would evaluate, and bash's tables of aliases and programs.
func (r *reading) remembered(name string, value word) {
	switch {
	case name == "PROMPT_COMMAND" || name == "PS0" || name == "BASH_ENV" || name == "ENV":
		r.giveUp("%s names what shells run by themselves", name)
	case name == "BASH_ALIASES" || name == "BASH_CMDS":
		r.giveUp("%s changes what commands mean", name)
	case !value.dynamic && substitution.MatchString(value.text):
		r.giveUp("the value of %s may be evaluated", name)
	}
}

// evaluates gives up on expansions that evaluate the content of variables.
func (w *walker) evaluates(n syntax.Node) {
	switch n := n.(type) {
	case *syntax.ArithmExp:
		w.arithmetic(n.X)
	case *syntax.ParamExp:
		if n.Excl && n.Names == 0 {
			w.giveUp("an indirect expansion: %s", w.text(n))
		}
		if n.Exp != nil && n.Exp.Op == syntax.OtherParamOps {
			w.giveUp("an expansion that may evaluate: %s", w.text(n))
		}
		if index, ok := n.Index.(*syntax.Word); !ok || (index.Lit() != "@" && index.Lit() != "*") {
			w.arithmetic(n.Index)
		}
		if n.Slice != nil {
			w.arithmetic(n.Slice.Offset)
			w.arithmetic(n.Slice.Length)
		}
	case *syntax.BinaryTest:
		switch n.Op {
		case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
			if !plainNumbers.MatchString(w.text(n.X)) || !plainNumbers.MatchString(w.text(n.Y)) {
				w.giveUp("a test that may evaluate: %s", w.text(n))
			}
		}
	case *syntax.UnaryTest:
		if (n.Op == syntax.TsVarSet || n.Op == syntax.TsRefVar) && !syntax.ValidName(w.text(n.X)) {
			w.giveUp("a test that may evaluate: %s", w.text(n))
		}
	}
}

func (w *walker) arithmetic(x syntax.ArithmExpr) {
	if !w.plainArithmetic(x) {
		w.giveUp("arithmetic that may evaluate: %s", w.text(x))
	}
}

var assignmentPattern = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*\+?=`)

// declared moves the NAME=VALUE operands of export and similar builtins to the assignments, where bash's grammar has
// them already.
func declared(c call) call {
	args := c.args[:1:1]
	for _, arg := range c.args[1:] {
		if assignmentPattern.MatchString(arg.text) {
			c.assignments = append(c.assignments[:len(c.assignments):len(c.assignments)], arg.text)
		} else {
			args = append(args, arg)
		}
	}
	c.args = args
	return c
}
