package reason_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/acphost/acphost/internal/reason"
)

func TestAll_ListsEachReasonOnce(t *testing.T) {
	var seen []string
	for text := range reason.All() {
		if text == "" || slices.Contains(seen, text) {
			t.Errorf("reason %d is %q: want a text of its own", len(seen), text)
		}
		seen = append(seen, text)
	}
	if last := reason.AgentEnded.String(); len(seen) == 0 || seen[len(seen)-1] != last {
		t.Errorf("got %d reasons, want %q as the last one", len(seen), last)
	}
}

// packages are the packages that decide, or that report decisions to the user and the agent.
var packages = []string{
	"permd/internal/policy", "supervisor/internal/sandbox/containment", "supervisor/internal/sandbox/egress", "supervisor/internal/policy/gate",
	"supervisor/internal/proxy/link", "supervisor/internal/question",
}

// A reason that is not in the table would be missing in the list that is reviewed.
func TestReasons_AreTakenFromTheTable(t *testing.T) {
	files, fields := 0, 0
	for _, folder := range packages {
		err := filepath.WalkDir(filepath.Join("../../services", folder), func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
				return err
			}
			set := token.NewFileSet()
			parsed, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			files++
			for _, value := range reasonsIn(parsed) {
				fields++
				if text := words(value); text != "" {
					t.Errorf("%s: the reason %q is not in package reason", set.Position(value.Pos()), text)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 20 || fields < 20 {
		t.Errorf("found %d fields for reasons in %d files: do the packages have other names now?", fields, files)
	}
}

// reasonsIn returns the values that a file gives to fields named Reason.
func reasonsIn(file *ast.File) (values []ast.Expr) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Reason" {
				values = append(values, n.Value)
			}
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				if field, ok := left.(*ast.SelectorExpr); ok && field.Sel.Name == "Reason" && i < len(n.Rhs) {
					values = append(values, n.Rhs[i])
				}
			}
		case *ast.CompositeLit: // Ruling{verdict, rule, reason}
			if name, ok := n.Type.(*ast.Ident); ok && name.Name == "Ruling" && len(n.Elts) == 3 {
				values = append(values, n.Elts[2])
			}
		}
		return true
	})
	return values
}

// words returns the first string in an expression that has a word; empty if none exists. Separators have no words.
func words(e ast.Expr) (found string) {
	ast.Inspect(e, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && found == "" {
			if text, _ := strconv.Unquote(lit.Value); strings.ContainsFunc(text, unicode.IsLetter) {
				found = text
			}
		}
		return found == ""
	})
	return found
}
