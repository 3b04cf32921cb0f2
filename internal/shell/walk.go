package shell

import (
	"maps"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/acphost/acphost/internal/lazyregexp"
	"github.com/acphost/acphost/internal/wordset"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// walker traverses the syntax tree of one line.
type walker struct {
	*reading
	source    string
	grammar   syntax.LangVariant
	wrappers  []string
	variables *variables // nil: no variable is known
	feed      *feed      // the piped input of the next statement
	sure      bool       // the current statement certainly runs, once, in the shell that reads the line
}

// lines reads the sequential statements of a line, or of a subshell. sure: see walker.
func (w *walker) lines(stmts []*syntax.Stmt, sure bool) {
	w.ok, w.fail = w.dir, w.dir
	for i, s := range stmts {
		moves := w.moves
		w.sure = sure
		w.stmt(s)
		w.sure = false
		if w.fail.unknown && w.moves == moves+1 && !w.ok.unknown && !w.ok.gone {
			w.fail = w.dir // the directory after its only cd, or the previous one
		}
		if w.fork(stmts[i+1:], sure) {
			return
		}
		w.dir = either(w.ok, w.fail)
	}
}

// fork reads the rest of a line twice, after a cd that may have failed: in the new directory, and in the old one.
func (w *walker) fork(rest []*syntax.Stmt, sure bool) bool {
	ok, fail := w.ok, w.fail
	known := func(p place) bool { return !p.unknown && !p.gone }
	if w.variables == nil || len(rest) == 0 || ok == fail || !known(ok) || !known(fail) || w.forks == maxForks {
		return false
	}
	w.forks++
	stirred, values := w.stirred, w.variables.values
	w.dir, w.variables.values = ok, maps.Clone(values)
	w.lines(rest, sure)
	w.stirred, stirred = stirred, w.stirred
	w.dir, w.variables.values = fail, values
	w.lines(rest, sure)
	w.stirred = max(w.stirred, stirred)
	w.ok, w.fail = elsewhere, elsewhere
	return true
}

func (w *walker) stmts(stmts []*syntax.Stmt) {
	w.sure = false
	w.ok, w.fail = w.dir, w.dir
	for _, s := range stmts {
		w.stmt(s)
		w.dir = either(w.ok, w.fail)
	}
}

func (w *walker) stmt(s *syntax.Stmt) {
	if s == nil {
		return
	}
	in, sure, expanded, first := w.dir, w.sure, w.expanded, len(w.subs)
	c := call{wrappers: w.wrappers, grammar: w.grammar, feed: w.feed}
	w.sure, w.feed = false, nil
	if w.redirected(s) {
		c.feed = nil
	}
	for _, redirect := range s.Redirs {
		w.redirect(&c, redirect)
	}
	switch cmd := s.Cmd.(type) {
	case *syntax.CallExpr:
		for _, assign := range cmd.Assigns {
			if w.variables != nil && w.variables.splits[assign] {
				continue // it affects only how read splits its line
			}
			c.assignments = append(c.assignments, w.assignment(assign))
		}
		w.arguments(&c, cmd)
		at := len(w.subs)
		w.command(c)
		if c.without != nil {
			c.args = c.without
			w.command(c)
		}
		if len(cmd.Args) == 0 && len(s.Redirs) == 0 {
			known := sure && !s.Negated && w.assigns(cmd.Assigns)
			if len(cmd.Assigns) == 1 && w.variables != nil && (known || w.variables.texts[cmd.Assigns[0].Name.Value]) {
				name := cmd.Assigns[0].Name.Value
				w.variables.bound[name] = append(w.variables.bound[name], w.subs[at:]...)
			}
		}
	case *syntax.DeclClause:
		c.args = []word{{text: cmd.Variant.Value}}
		for _, assign := range cmd.Args {
			switch {
			case assign.Naked && assign.Name == nil && assign.Value != nil:
				c.args = append(c.args, w.word(assign.Value))
			case assign.Naked && assign.Name != nil && assign.Index == nil:
				c.args = append(c.args, word{text: assign.Name.Value})
			default:
				c.assignments = append(c.assignments, w.assignment(assign))
			}
		}
		w.command(c)
	case *syntax.TestClause:
		c.args = []word{{text: "[["}}
		c.args = append(c.args, w.tested(cmd.X)...)
		c.args = append(c.args, word{text: "]]"})
		w.command(c)
	case *syntax.ArithmCmd, *syntax.LetClause:
		w.giveUp("arithmetic that may evaluate: %s", w.text(cmd))
		c.args, c.dynamic = []word{{text: w.text(cmd), dynamic: true}}, true
		w.plain(c)
	default:
		// A compound command: its redirections apply to all commands in it.
		w.within(c)
		_, chain := cmd.(*syntax.BinaryCmd)
		w.sure = sure && chain && len(s.Redirs) == 0 && !s.Negated
		if loop, ok := cmd.(*syntax.WhileClause); !ok || c.feed == nil || !w.fedLoop(loop, c.feed) {
			w.compound(cmd)
		}
		w.sure = false
	}
	if c.input != nil && c.input.dynamic && c.input.kind != isText {
		for _, sub := range w.subs[min(first, len(w.subs)):] {
			sub.InputDynamic = true
		}
	}
	switch {
	case s.Background || s.Coprocess || s.Disown:
		w.ok, w.fail = in, in
	case s.Negated:
		w.ok, w.fail = w.fail, w.ok
	}
	// The commands of substitutions follow the command that contains them.
	ok, fail, stirred := w.ok, w.fail, w.stirred
	w.apart(in, func() { w.substitutions(s) })
	w.ok, w.fail = ok, fail
	w.lost = w.lost || w.expanded != expanded && w.stirred != stirred // they run before patterns are expanded
}

// tested returns the words of a test between "[[" and "]]", with their operators, as a shell that treats "[[" as a
// program would pass them.
func (w *walker) tested(x syntax.TestExpr) []word {
	switch x := x.(type) {
	case *syntax.Word:
		return []word{w.word(x)}
	case *syntax.UnaryTest:
		return append([]word{{text: x.Op.String()}}, w.tested(x.X)...)
	case *syntax.BinaryTest:
		return slices.Concat(w.tested(x.X), []word{{text: x.Op.String()}}, w.tested(x.Y))
	case *syntax.ParenTest:
		return slices.Concat([]word{{text: "("}}, w.tested(x.X), []word{{text: ")"}})
	}
	w.giveUp("a test that is not known: %T", x)
	return nil
}

// arguments reads the words of a simple command, with patterns expanded.
func (w *walker) arguments(c *call, cmd *syntax.CallExpr) {
	changed := false
	for i, arg := range cmd.Args {
		if w.disk == nil || i == 0 {
			c.args = append(c.args, w.word(arg))
			continue
		}
		name := c.args[0].text
		if f := w.substituted(c.args, arg); f != nil && i == len(cmd.Args)-1 {
			changed, c.without = true, c.args
			c.args = named(c.args, f.names, f.fewer)
			continue
		}
		if names := w.quotedLine(c.args, arg); len(names) > 0 && i == len(cmd.Args)-1 {
			changed = true
			c.args = named(c.args, names, true)
			continue
		}
		if names := w.braces(arg); names != nil && inAnyOrder(c.args, names) && alikeProgram(c.args) {
			changed = true
			c.args = named(c.args, names, false)
			continue
		}
		b := w.build(arg, digitsSuit[name])
		words, ok := w.fields(b)
		if ok && name != "[[" && inAnyOrder(c.args, words) {
			changed = true
			for _, text := range words {
				c.args = append(c.args, word{text: text, possible: b.possible})
			}
			continue
		}
		if deep, ok := w.deep(b); ok && alikeProgram(c.args) && inAnyOrder(c.args, texts(deep)) {
			changed = true
			c.args = append(c.args, deep...)
			continue
		}
		read := b.word()
		changed = changed || (len(b.uses) > 0 || b.constants) && !read.dynamic
		c.args = append(c.args, read)
	}
	if changed && c.args[0].text != "[[" {
		c.written = w.text(cmd)
	}
}

// digitsSuit are builtins that only print or compare a number, or exit with it.
var digitsSuit = wordset.Of("echo printf test [ [[ exit return")

// substituted returns the names that a substitution prints, if a program does the same with each of them and they are
// all its operands. At run time there may be fewer names, or none.
func (w *walker) substituted(before []word, arg *syntax.Word) *feed {
	if w.variables == nil || len(arg.Parts) != 1 || len(before) == 0 {
		return nil
	}
	return w.printed(before, arg.Parts[0])
}

// printed returns the names that a substitution prints for a program that does the same with each of its operands.
func (w *walker) printed(before []word, part syntax.WordPart) *feed {
	n, ok := part.(*syntax.CmdSubst)
	if !ok || !alikeProgram(before) || n.Backquotes || n.TempFile || n.ReplyVar || len(n.Stmts) != 1 || someDynamic(before) {
		return nil
	}
	f := w.lists(n.Stmts[0])
	if f == nil || f.zero || !inAnyOrder(before, f.names) {
		return nil
	}
	return f
}

// quotedLine is substituted for a substitution between quotes, which is one word: it returns the possible names of that
// word, if the output certainly has at most one line. If there is no output, the word is empty, and names no file.
func (w *walker) quotedLine(before []word, arg *syntax.Word) []string {
	if w.variables == nil || len(arg.Parts) != 1 || len(before) == 0 {
		return nil
	}
	quoted, ok := arg.Parts[0].(*syntax.DblQuoted)
	if !ok || quoted.Dollar || len(quoted.Parts) != 1 {
		return nil
	}
	n, ok := quoted.Parts[0].(*syntax.CmdSubst)
	if !ok || len(n.Stmts) != 1 || !w.oneLine(n.Stmts[0]) {
		return nil
	}
	if f := w.printed(before, n); f != nil {
		return f.names
	}
	return nil
}

// oneLine reports whether a statement is a pipe that ends in head or tail and prints at most one line.
func (w *walker) oneLine(s *syntax.Stmt) bool {
	pipe, ok := s.Cmd.(*syntax.BinaryCmd)
	if !ok || pipe.Op != syntax.Pipe {
		return false
	}
	switch strings.Join(w.plainCall(pipe.Y), " ") {
	case "head -1", "head -n1", "head -n 1", "tail -1", "tail -n1", "tail -n 1":
		return true
	}
	return false
}

// alikeProgram reports whether a program does the same with each of its operands (see alike).
func alikeProgram(before []word) bool {
	_, known := alike[before[0].text]
	return known
}

// oneBrace matches a word with one list in braces: all shells that expand braces produce the same words.
var oneBrace = lazyregexp.New(`^([A-Za-z0-9_./-]*)\{([A-Za-z0-9_./-]*(?:,[A-Za-z0-9_./-]*)+)\}([A-Za-z0-9_./-]*)$`)

// braces returns the words that "src/{a,b}.go" expands to in some shells, and the word itself, which other shells use;
// nil if the word has no such list.
func (w *walker) braces(arg *syntax.Word) []string {
	m := oneBrace.FindStringSubmatch(arg.Lit())
	if w.disk == nil || m == nil {
		return nil
	}
	var names []string
	for item := range strings.SplitSeq(m[2], ",") {
		if word := m[1] + item + m[3]; word != "" {
			names = append(names, word)
		}
	}
	if len(names) > maxUnrolled {
		return nil
	}
	return append(names, arg.Lit())
}

// fields returns the words that a pattern expands to; false if they are unknown, or the word is not a pattern.
func (w *walker) fields(b *wordBuilder) ([]string, bool) {
	if w.disk == nil || !b.glob || b.dynamic || w.stirred > 0 {
		return nil, false
	}
	words, ok := w.disk.expand(b.pattern(), w.dir)
	if ok {
		w.expanded++
	}
	return words, ok
}

// deep is fields for a pattern with which some shells descend into folders.
func (w *walker) deep(b *wordBuilder) ([]word, bool) {
	if w.disk == nil || w.variables == nil || !b.glob || b.dynamic || w.stirred > 0 {
		return nil, false
	}
	words, ok := w.disk.deep(b.pattern(), w.dir)
	if ok {
		w.expanded++
	}
	return words, ok
}

// assigns sets the values of assigned variables. It reports whether all are known.
func (w *walker) assigns(assigns []*syntax.Assign) bool {
	if w.disk == nil {
		return false
	}
	known := true
	values := make([]word, len(assigns))
	for i, a := range assigns {
		values[i] = w.word(a.Value)
	}
	for i, a := range assigns {
		known = w.bind(a.Name.Value, values[i]) && known
	}
	return known
}

func (w *walker) compound(cmd syntax.Command) {
	switch cmd := cmd.(type) {
	case nil:
		w.ok, w.fail = w.dir, w.dir
	case *syntax.BinaryCmd:
		w.binary(cmd)
	case *syntax.Block:
		w.stmts(cmd.Stmts)
	case *syntax.Subshell:
		w.apart(w.dir, func() { w.lines(cmd.Stmts, false) })
	case *syntax.IfClause:
		w.ifs(cmd)
	case *syntax.WhileClause:
		w.again(func() {
			w.stmts(cmd.Cond)
			w.stmts(cmd.Do)
		})
	case *syntax.ForClause:
		if w.unrolled(cmd) {
			return
		}
		w.again(func() {
			w.loopVariable(cmd.Loop)
			w.stmts(cmd.Do)
		})
	case *syntax.CaseClause:
		if w.disk != nil { // all variables in it are known or none is
			w.word(cmd.Word)
		}
		in := w.dir
		w.again(func() {
			for _, item := range cmd.Items {
				w.dir = in
				w.stmts(item.Stmts)
			}
		})
	case *syntax.FuncDecl:
		if cmd.Name != nil {
			w.declared[cmd.Name.Value] = true
		}
		moves := w.moves
		dir := w.dir
		w.dir = elsewhere // the calls of a function are not followed
		w.stmt(cmd.Body)
		w.adrift = w.adrift || w.moves != moves
		w.dir, w.ok, w.fail = dir, dir, dir
	case *syntax.TimeClause:
		if len(w.wrappers) >= maxWrappers {
			w.giveUp("over %d wrappers around one command", maxWrappers)
			return
		}
		inner := *w
		inner.wrappers = call{wrappers: w.wrappers}.wrapped("time", nil).wrappers
		inner.stmt(cmd.Stmt)
	case *syntax.CoprocClause:
		w.plain(call{assignments: []string{"COPROC="}, wrappers: w.wrappers})
		w.apart(w.dir, func() { w.stmt(cmd.Stmt) })
	default:
		w.giveUp("a construct that is not known: %T", cmd)
	}
}

// binary reads two commands; the second runs in the directory after the first.
func (w *walker) binary(cmd *syntax.BinaryCmd) {
	in, sure := w.dir, w.sure
	switch cmd.Op {
	case syntax.AndStmt, syntax.OrStmt:
		w.stmt(cmd.X)
		w.sure = sure && cmd.Op == syntax.AndStmt && onlyAssigns(cmd.X)
		ok, fail := w.ok, w.fail
		if cmd.Op == syntax.AndStmt {
			w.dir = ok
			w.stmt(cmd.Y)
			w.fail = either(fail, w.fail)
		} else {
			w.dir = fail
			w.stmt(cmd.Y)
			w.ok = either(ok, w.ok)
		}
		w.dir = in
	default: // pipes: some shells run the last part in the shell itself
		w.sure = false
		expanded := w.expanded
		w.apart(in, func() { w.stmt(cmd.X) })
		var f *feed
		if cmd.Op == syntax.Pipe {
			if f = w.lists(cmd.X); f != nil {
				f.written = w.text(cmd.Y)
			}
		}
		expanded, stirred := w.expanded-expanded, w.stirred
		w.again(func() {
			w.feed = f
			w.stmt(cmd.Y)
		})
		w.lost = w.lost || expanded > 0 && w.stirred != stirred // both run concurrently
	}
}

// onlyAssigns reports whether a statement only assigns variables, so that it succeeds.
func onlyAssigns(s *syntax.Stmt) bool {
	if len(s.Redirs) > 0 || s.Negated {
		return false
	}
	switch cmd := s.Cmd.(type) {
	case *syntax.CallExpr:
		return len(cmd.Args) == 0
	case *syntax.BinaryCmd:
		return cmd.Op == syntax.AndStmt && onlyAssigns(cmd.X) && onlyAssigns(cmd.Y)
	}
	return false
}

// unrolled reads the body of a loop once for each value of its variable, if these are known.
func (w *walker) unrolled(cmd *syntax.ForClause) bool {
	loop, ok := cmd.Loop.(*syntax.WordIter)
	if !ok || w.disk == nil || w.lost || !loop.InPos.IsValid() || len(loop.Items) == 0 || w.variables == nil ||
		!OwnVariable(loop.Name.Value) || w.variables.assigned[loop.Name.Value] != 1 {
		return false
	}
	in, moves, at := w.dir, w.moves, len(w.subs)
	var values []word
	for _, item := range loop.Items {
		if n, is := item.Parts[0].(*syntax.CmdSubst); is && len(item.Parts) == 1 && len(n.Stmts) == 1 && !n.Backquotes && !n.TempFile && !n.ReplyVar {
			if f := w.lists(n.Stmts[0]); f != nil && !f.zero {
				values = named(values, f.names, f.fewer)
				continue
			}
		}
		b := w.build(item, false)
		words, ok := w.fields(b)
		if !ok {
			words = []string{b.text.String()}
		}
		for _, text := range words {
			values = append(values, word{text: text, dynamic: !ok && (b.dynamic || b.glob), possible: b.possible})
		}
	}
	w.turns += len(values)
	if len(values) == 0 || someDynamic(values) || len(values) > maxUnrolled || w.turns > maxTurns {
		w.lost = true
		return false
	}
	name := loop.Name.Value
	for _, value := range values {
		w.remembered(name, value)
	}
	w.plain(call{assignments: []string{name + "=" + joined(values)}, wrappers: w.wrappers})
	w.variables.bound[name] = append(w.variables.bound[name], w.subs[at:]...)
	w.unroll(name, values, cmd.Do)
	w.lost = w.lost || w.moves != moves
	w.dir, w.ok, w.fail = in, in, in
	return true
}

// unroll reads the body of a loop once for each value of its variable.
func (w *walker) unroll(name string, values []word, body []*syntax.Stmt) {
	in := w.dir
	for _, value := range values {
		if w.bind(name, value); w.tooMuch() {
			break
		}
		w.dir = in
		w.stmts(body)
	}
	delete(w.variables.values, name)
}

// fedLoop reads the body of "while read -r NAME" once for each name in its piped input, if these are known.
func (w *walker) fedLoop(loop *syntax.WhileClause, f *feed) bool {
	if w.disk == nil || w.variables == nil || w.lost || loop.Until || len(loop.Cond) != 1 || len(f.names) == 0 ||
		len(f.names) > maxUnrolled || w.turns+len(f.names) > maxTurns {
		return false
	}
	cond := loop.Cond[0]
	cmd, ok := cond.Cmd.(*syntax.CallExpr)
	if !ok || cond.Negated || cond.Background || len(cond.Redirs) > 0 {
		return false
	}
	names, zero, ok := readNames(w.plainCall(&syntax.Stmt{Cmd: &syntax.CallExpr{Args: cmd.Args}}))
	if !ok || zero != f.zero || len(names) != 1 || w.variables.assigned[names[0]] != 1 {
		return false
	}
	in, moves := w.dir, w.moves
	w.turns += len(f.names)
	w.stmts(loop.Cond)
	w.unroll(names[0], named(nil, f.names, f.fewer), loop.Do)
	w.lost = w.lost || w.moves != moves
	w.dir, w.ok, w.fail = in, in, in
	return true
}

// ifs reads the branches of an if, each in the directory after its condition.
func (w *walker) ifs(clause *syntax.IfClause) {
	in := w.dir
	w.stmts(clause.Cond)
	otherwise := w.fail
	w.dir = w.ok
	w.stmts(clause.Then)
	ok, fail := w.ok, w.fail
	switch {
	case clause.Else != nil:
		w.dir = otherwise
		w.ifs(clause.Else)
		otherwise = w.ok
		fail = either(fail, w.fail)
	case len(clause.Cond) == 0: // the branch else, which always runs
		otherwise = place{gone: true}
	}
	w.dir, w.ok, w.fail = in, either(ok, otherwise), fail
}

// loopVariable adds the assignment of a loop's variable, which may be PATH.
func (w *walker) loopVariable(loop syntax.Loop) {
	switch loop := loop.(type) {
	case *syntax.WordIter:
		values := make([]word, len(loop.Items))
		for i, item := range loop.Items {
			values[i] = w.word(item)
			w.remembered(loop.Name.Value, values[i])
		}
		w.plain(call{assignments: []string{loop.Name.Value + "=" + joined(values)}, wrappers: w.wrappers})
	case *syntax.CStyleLoop:
		w.giveUp("arithmetic that may evaluate: %s", w.text(loop))
		w.plain(call{args: []word{{text: w.text(loop), dynamic: true}}, wrappers: w.wrappers})
	}
}

func (w *walker) assignment(a *syntax.Assign) string {
	if a.Name == nil {
		return w.text(a)
	}
	name := a.Name.Value
	if a.Index != nil || a.Array != nil {
		w.arithmetic(a.Index)
		w.remembered(name, word{text: w.text(a)})
		return w.text(a)
	}
	if a.Append {
		name += "+"
	}
	if a.Value == nil {
		return name + "="
	}
	value := w.word(a.Value)
	w.remembered(a.Name.Value, value)
	return name + "=" + value.text
}

// redirect adds to c the file that is read or written, or the text of its standard input. Duplicated descriptors
// ("2>&1") access no file.
func (w *walker) redirect(c *call, r *syntax.Redirect) {
	if r.N != nil && strings.HasPrefix(r.N.Value, "{") {
		c.assignments = append(c.assignments, strings.Trim(r.N.Value, "{}")+"=")
	}
	target := w.word(r.Word)
	var operator string
	switch r.Op {
	case syntax.RdrOut, syntax.AppOut, syntax.RdrIn, syntax.RdrInOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll:
		operator = r.Op.String()
	case syntax.DplOut, syntax.DplIn:
		if isDescriptor(target) {
			return
		}
		if strings.HasPrefix(target.text, "-") {
			// In bash the dash is a word by itself, and another word follows.
			w.giveUp("a descriptor that is closed, with more behind it")
		}
		// In bash, ">&file" redirects both outputs to a file.
		operator = "&>"
		if r.Op == syntax.DplIn {
			operator = "<"
		}
	case syntax.Hdoc, syntax.DashHdoc:
		c.input = w.hereDocument(r)
		return
	case syntax.WordHdoc:
		if target.dynamic && len(r.Word.Parts) == 1 && w.isText(r.Word.Parts[0], true) {
			target.kind = isText
		}
		c.input = &target
		return
	default:
		w.giveUp("a redirection that is not known: %s", r.Op)
		return
	}
	redirection := &permissionv1.Redirection{Operator: operator, Path: target.text, Dynamic: target.dynamic}
	if target.dynamic {
		redirection.Path = ""
	}
	c.redirects = append(c.redirects, redirection)
}

func isDescriptor(target word) bool {
	digits := strings.TrimSuffix(target.text, "-")
	return !target.dynamic && target.text != "" && strings.Trim(digits, "0123456789") == ""
}

// hereDocument returns the text of a here-document. It is dynamic unless every character is certain.
func (w *walker) hereDocument(r *syntax.Redirect) *word {
	if r.Hdoc == nil {
		return &word{}
	}
	body := &word{}
	for _, part := range r.Hdoc.Parts {
		lit, literal := part.(*syntax.Lit)
		if !literal {
			// Its content is not split, as between quotes.
			text := !slices.ContainsFunc(r.Hdoc.Parts, func(part syntax.WordPart) bool {
				_, literal := part.(*syntax.Lit)
				return !literal && !w.isText(part, true)
			})
			here := word{text: w.text(r.Hdoc), dynamic: true}
			if text {
				here.kind = isText
			}
			return &here
		}
		body.text += lit.Value
	}
	quoted := false
	for _, part := range r.Word.Parts {
		lit, literal := part.(*syntax.Lit)
		quoted = quoted || !literal || strings.Contains(lit.Value, `\`)
	}
	if !quoted && strings.Contains(body.text, `\`) {
		body.dynamic, body.kind = true, isText
	}
	return body
}

// substitutions reads the commands of each substitution in a statement's own words, redirections and here-documents. It
// does not descend into nested statements, which do this themselves.
func (w *walker) substitutions(s *syntax.Stmt) {
	top := true
	syntax.Walk(s, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Stmt:
			if top {
				top = false
				return true
			}
			return false
		case *syntax.CmdSubst:
			w.apart(w.dir, func() { w.lines(n.Stmts, false) })
			return false
		case *syntax.ProcSubst:
			w.apart(w.dir, func() { w.stmts(n.Stmts) })
			return false
		}
		if n != nil {
			w.evaluates(n)
		}
		return true
	})
}

// text returns a part of the line as written.
func (w *walker) text(n syntax.Node) string {
	start, end := int(n.Pos().Offset()), int(n.End().Offset())
	if start < 0 || end > len(w.source) || start > end {
		return "$?"
	}
	return w.source[start:end]
}
