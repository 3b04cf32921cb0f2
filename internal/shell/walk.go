package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// walker goes through the syntax tree of one line.
type walker struct {
	*reading
	source   string
	grammar  syntax.LangVariant
	wrappers []string
}

func (w *walker) stmts(stmts []*syntax.Stmt) {
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
	in := w.dir
	c := call{wrappers: w.wrappers, grammar: w.grammar}
	for _, redirect := range s.Redirs {
		w.redirect(&c, redirect)
	}
	switch cmd := s.Cmd.(type) {
	case *syntax.CallExpr:
		for _, assign := range cmd.Assigns {
			c.assignments = append(c.assignments, w.assignment(assign))
		}
		for _, arg := range cmd.Args {
			c.args = append(c.args, w.word(arg))
		}
		w.command(c)
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
		syntax.Walk(cmd.X, func(n syntax.Node) bool {
			part, ok := n.(*syntax.Word)
			if ok {
				c.args = append(c.args, w.word(part))
			}
			return !ok
		})
		c.args = append(c.args, word{text: "]]"})
		w.command(c)
	case *syntax.ArithmCmd, *syntax.LetClause:
		w.giveUp("arithmetic that may evaluate: %s", w.text(cmd))
		c.args, c.dynamic = []word{{text: w.text(cmd), dynamic: true}}, true
		w.plain(c)
	default:
		// A compound command: its redirections hold for all that is in it.
		w.within(c)
		w.compound(cmd)
	}
	switch {
	case s.Background || s.Coprocess || s.Disown:
		w.ok, w.fail = in, in
	case s.Negated:
		w.ok, w.fail = w.fail, w.ok
	}
	// The commands of substitutions come after the one that they stand in.
	ok, fail := w.ok, w.fail
	w.apart(in, func() { w.substitutions(s) })
	w.ok, w.fail = ok, fail
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
		w.apart(w.dir, func() { w.stmts(cmd.Stmts) })
	case *syntax.IfClause:
		w.ifs(cmd)
	case *syntax.WhileClause:
		w.again(func() {
			w.stmts(cmd.Cond)
			w.stmts(cmd.Do)
		})
	case *syntax.ForClause:
		w.again(func() {
			w.loopVariable(cmd.Loop)
			w.stmts(cmd.Do)
		})
	case *syntax.CaseClause:
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
		w.dir = elsewhere // it is not looked for where it is called
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

// binary reads two commands of which the second runs where the first has left the line.
func (w *walker) binary(cmd *syntax.BinaryCmd) {
	in := w.dir
	switch cmd.Op {
	case syntax.AndStmt, syntax.OrStmt:
		w.stmt(cmd.X)
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
	default: // pipes: some shells run the last part themselves
		w.apart(in, func() { w.stmt(cmd.X) })
		w.again(func() { w.stmt(cmd.Y) })
	}
}

// ifs reads the branches of an if, each from where its condition leaves the line.
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
	case len(clause.Cond) == 0: // an else, which has no other way
		otherwise = place{gone: true}
	}
	w.dir, w.ok, w.fail = in, either(ok, otherwise), fail
}

// loopVariable adds what a loop assigns: a loop may run over values for PATH.
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

// redirect adds to c the file that is read or written, or the text that is fed to its standard input. Copies of
// descriptors ("2>&1") touch no file.
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
			// To bash the dash stands alone, and a word follows.
			w.giveUp("a descriptor that is closed, with more behind it")
		}
		// ">&file" is both outputs to a file in bash.
		operator = "&>"
		if r.Op == syntax.DplIn {
			operator = "<"
		}
	case syntax.Hdoc, syntax.DashHdoc:
		c.input = w.hereDocument(r)
		return
	case syntax.WordHdoc:
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

// hereDocument returns the text of a here-document, dynamic unless every character of it is certain.
func (w *walker) hereDocument(r *syntax.Redirect) *word {
	if r.Hdoc == nil {
		return &word{}
	}
	body := &word{}
	for _, part := range r.Hdoc.Parts {
		lit, literal := part.(*syntax.Lit)
		if !literal {
			return &word{text: w.text(r.Hdoc), dynamic: true}
		}
		body.text += lit.Value
	}
	quoted := false
	for _, part := range r.Word.Parts {
		lit, literal := part.(*syntax.Lit)
		quoted = quoted || !literal || strings.Contains(lit.Value, `\`)
	}
	if !quoted && strings.Contains(body.text, `\`) {
		body.dynamic = true
	}
	return body
}

// substitutions walks the commands of every substitution in a statement's own words, redirections and here-documents,
// but not those of the statements in it, which see to their own.
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
			w.apart(w.dir, func() { w.stmts(n.Stmts) })
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

// text is a part of the line as it was written.
func (w *walker) text(n syntax.Node) string {
	start, end := int(n.Pos().Offset()), int(n.End().Offset())
	if start < 0 || end > len(w.source) || start > end {
		return "$?"
	}
	return w.source[start:end]
}
