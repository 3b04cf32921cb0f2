package testkit

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// shortWait is the longest constant wait that a test may have: shorter waits are part of the tested behavior, such as a
// timeout, and are not waits for an event.
const shortWait = 3 * time.Second

// Tests of the repository take their timeouts from this package. Functions that use a bubble of testing/synctest are
// left out: its clock does not depend on the load. Templates in examples are left out: users copy them out of the
// repository, and this package is internal.
func TestTimeouts_ComeFromTestkit(t *testing.T) {
	eachTestFile(t, func(path string, set *token.FileSet, file *ast.File) {
		if strings.HasPrefix(path, "examples"+string(filepath.Separator)) {
			return
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || usesBubble(f) || strings.HasPrefix(f.Name.Name, "Example") {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					if wait := constantWait(call); wait > shortWait {
						t.Errorf("%s: a wait of %v does not scale with the machine's load: use testkit.Timeout, After, Context or Scale", set.Position(call.Pos()), wait)
					}
				}
				return true
			})
		}
	})
}

// repository is the root of the repository, seen from this package.
var repository = filepath.Join("..", "..")

// eachTestFile calls visit with each file of Go tests in the repository, and with its path from the root.
func eachTestFile(t *testing.T, visit func(path string, set *token.FileSet, file *ast.File)) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(repository, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() && (name == "node_modules" || strings.HasPrefix(name, ".") && name != "..") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		files++
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		below, err := filepath.Rel(repository, path)
		if err != nil {
			return err
		}
		visit(below, set, file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 100 {
		t.Errorf("%d files of tests were found below %s, want all of the repository", files, repository)
	}
}

func TestConstantWait_FindsTimeouts(t *testing.T) {
	for _, c := range []struct {
		call string
		want time.Duration
	}{
		{"context.WithTimeout(ctx, 5*time.Second)", 5 * time.Second},
		{"time.After(time.Minute)", time.Minute},
		{"time.NewTimer(2 * time.Minute)", 2 * time.Minute},
		{"c.SetReadDeadline(time.Now().Add(20 * time.Second))", 20 * time.Second},
		{"c.SetDeadline(time.Now().Add(testkit.Timeout()))", 0},
		{"time.After(testkit.Timeout())", 0},
		{"time.Sleep(time.Minute)", 0},
	} {
		e, err := parser.ParseExpr(c.call)
		if err != nil {
			t.Fatal(err)
		}
		if got := constantWait(e.(*ast.CallExpr)); got != c.want {
			t.Errorf("%s: %v, want %v", c.call, got, c.want)
		}
	}
}

// usesBubble reports whether a function calls synctest.Test.
func usesBubble(f *ast.FuncDecl) bool {
	found := false
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == "synctest" && s.Sel.Name == "Test" {
				found = true
			}
		}
		return !found
	})
	return found
}

// constantWait returns the constant duration that a call waits for; 0 if it waits for none.
func constantWait(call *ast.CallExpr) time.Duration {
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) == 0 {
		return 0
	}
	last := call.Args[len(call.Args)-1]
	switch s.Sel.Name {
	case "WithTimeout", "WithTimeoutCause":
		if len(call.Args) > 1 {
			return constantDuration(call.Args[1])
		}
	case "After", "NewTimer":
		if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" {
			return constantDuration(last)
		}
	case "SetDeadline", "SetReadDeadline", "SetWriteDeadline":
		if add, ok := last.(*ast.CallExpr); ok && len(add.Args) == 1 {
			return constantDuration(add.Args[0])
		}
	}
	return 0
}

// constantDuration returns the value of "n*time.Unit" or "time.Unit", for seconds and minutes; else 0.
func constantDuration(e ast.Expr) time.Duration {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		if n, ok := e.X.(*ast.BasicLit); ok && e.Op == token.MUL {
			count, err := strconv.Atoi(n.Value)
			if err != nil {
				return 0
			}
			return time.Duration(count) * constantDuration(e.Y)
		}
	case *ast.SelectorExpr:
		switch e.Sel.Name {
		case "Second":
			return time.Second
		case "Minute":
			return time.Minute
		}
	}
	return 0
}
