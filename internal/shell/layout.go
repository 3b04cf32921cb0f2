package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Placed is a word of a line with its position.
type Placed struct {
	// Text is the word without its quotes. If Dynamic, a part of it is known only when the line runs, and is as
	// written.
	Text    string
	Dynamic bool
	// Start and End are indices in bytes.
	Start, End int
}

// Simple is a simple command as written.
type Simple struct {
	// Words are its program and arguments; none if it only assigns variables.
	Words []Placed
	// Input are its here-documents and here-strings.
	Input []Placed
	// Files are the files of its redirections.
	Files []Placed
	// Pipeline is equal for all commands of one outermost pipeline; 0: the command is not in a pipeline.
	Pipeline int
}

// Layout returns the simple commands of a line in the order in which they are written, including those of
// substitutions, for callers that modify the line. It does not unwrap wrappers. ok is false if the line is not
// well-formed, longer than MaxLine, or not UTF-8.
func Layout(line string) (commands []Simple, ok bool) {
	if unreadable(line) != "" {
		return nil, false
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(line), "")
	if err != nil {
		return nil, false
	}
	l := layout{walker: walker{reading: newReading(syntax.LangBash), source: line, grammar: syntax.LangBash}}
	l.node(file, 0)
	return l.commands, true
}

type layout struct {
	walker
	commands  []Simple
	pipelines int
}

// node adds the commands of a node in a pipeline.
func (l *layout) node(n syntax.Node, pipeline int) {
	syntax.Walk(n, func(inner syntax.Node) bool {
		s, ok := inner.(*syntax.Stmt)
		if ok {
			l.stmt(s, pipeline)
		}
		return !ok
	})
}

func (l *layout) stmt(s *syntax.Stmt, pipeline int) {
	if b, ok := s.Cmd.(*syntax.BinaryCmd); ok && pipeline == 0 && (b.Op == syntax.Pipe || b.Op == syntax.PipeAll) {
		l.pipelines++
		pipeline = l.pipelines
	}
	c := Simple{Pipeline: pipeline}
	switch cmd := s.Cmd.(type) {
	case *syntax.CallExpr:
		for _, arg := range cmd.Args {
			c.Words = append(c.Words, l.placed(arg))
		}
	case *syntax.DeclClause:
		c.Words = append(c.Words, Placed{Text: cmd.Variant.Value, Start: int(cmd.Variant.Pos().Offset()), End: int(cmd.Variant.End().Offset())})
		for _, assign := range cmd.Args {
			if assign.Naked && assign.Value != nil {
				c.Words = append(c.Words, l.placed(assign.Value))
			}
		}
	}
	for _, r := range s.Redirs {
		switch {
		case r.Op == syntax.WordHdoc && r.Word != nil:
			c.Input = append(c.Input, l.placed(r.Word))
		case r.Hdoc != nil:
			p := l.placed(r.Hdoc)
			p.Text = l.source[p.Start:p.End]
			body, last := p.Text, ""
			if i := strings.LastIndexByte(p.Text, '\n'); i >= 0 {
				body, last = p.Text[:i+1], p.Text[i+1:]
			}
			if strings.TrimLeft(last, "\t") == l.word(r.Word).text { // without the delimiter
				p.Text, p.End = body, p.Start+len(body)
			}
			c.Input = append(c.Input, p)
		case r.Word != nil:
			c.Files = append(c.Files, l.placed(r.Word))
		}
	}
	if len(c.Words) > 0 || len(c.Input) > 0 || len(c.Files) > 0 {
		l.commands = append(l.commands, c)
	}
	inner := pipeline
	if _, ok := s.Cmd.(*syntax.CallExpr); ok {
		inner = 0 // the output of a substitution goes to its word, not to the pipeline
	}
	if s.Cmd != nil {
		l.node(s.Cmd, inner)
	}
	for _, r := range s.Redirs {
		l.node(r, 0)
	}
}

func (l *layout) placed(n *syntax.Word) Placed {
	w := l.word(n)
	start, end := int(n.Pos().Offset()), int(n.End().Offset())
	if start < 0 || end > len(l.source) || start > end {
		start, end = 0, 0
	}
	return Placed{Text: w.text, Dynamic: w.dynamic, Start: start, End: end}
}
