package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// The parser reads some here-documents and quotes differently from shells, so that it treats a command as text. A line
// with such a construct is unparsed.

// misreads gives up on constructs that the parser may read differently from a shell. file is the parsed part of text.
func (r *reading) misreads(file *syntax.File, text string) {
	documents := map[string]int{} // number of documents by delimiter
	var visit func(n syntax.Node) bool
	quoted, inside := 0, 0 // between double quotes, and in a here-document
	var within syntax.Node // the innermost substitution
	nested := func(n syntax.Node, depth *int) {
		*depth++
		syntax.Walk(n, func(inner syntax.Node) bool { return inner == n || visit(inner) })
		*depth--
	}
	visit = func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst, *syntax.ProcSubst: // quoting starts anew in it
			before, around := quoted, within
			quoted, within = 0, n
			syntax.Walk(n, func(inner syntax.Node) bool { return inner == n || visit(inner) })
			quoted, within = before, around
			return false
		case *syntax.DblQuoted:
			nested(n, &quoted)
			return false
		case *syntax.SglQuoted:
			if quoted > 0 { // for shells, the single quotes in "${x-'$(a)'}" do not quote
				r.giveUp("single quotes in an expansion that is quoted already")
			}
		case *syntax.Redirect:
			if n.Op != syntax.Hdoc && n.Op != syntax.DashHdoc {
				return true
			}
			delimiter, ok := plainDelimiter(n.Word)
			behind := within != nil && (n.Hdoc == nil || n.Hdoc.End().After(within.End()))
			if !ok || inside > 0 || behind {
				r.giveUp("a here-document whose end shells may see elsewhere")
			}
			documents[delimiter]++
			if n.Hdoc != nil {
				inside++
				nested(n.Hdoc, &quoted)
				inside--
			}
			return false
		}
		return true
	}
	syntax.Walk(file, visit)
	joined := strings.ReplaceAll(text, "\\\n", "")
	for delimiter, n := range documents {
		if ends(text, delimiter) != n || ends(joined, delimiter) != n || strings.Count(joined, delimiter) != 2*n {
			r.giveUp("a here-document whose end shells may see elsewhere")
		}
	}
}

// ends counts the lines that consist of a delimiter, with or without leading tabs.
func ends(text, delimiter string) int {
	n := 0
	for line := range strings.Lines(text) {
		if strings.TrimLeft(strings.TrimSuffix(line, "\n"), "\t") == delimiter {
			n++
		}
	}
	return n
}

// plainDelimiter returns the delimiter of a here-document, if every shell and the parser read it in the same way: one
// word, quoted completely or not at all.
func plainDelimiter(w *syntax.Word) (string, bool) {
	if len(w.Parts) != 1 {
		return "", false
	}
	text := ""
	switch part := w.Parts[0].(type) {
	case *syntax.Lit:
		text = strings.TrimPrefix(part.Value, `\`)
	case *syntax.SglQuoted:
		text = part.Value
		if part.Dollar {
			text = ""
		}
	case *syntax.DblQuoted:
		if lit, ok := part.Parts[0].(*syntax.Lit); ok && len(part.Parts) == 1 && !part.Dollar {
			text = lit.Value
		}
	}
	return text, text != "" && !strings.ContainsAny(text, "\\\n\t")
}
