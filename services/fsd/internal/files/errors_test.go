package files

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// misleading are the words by which agents detect that a file is missing and may be created.
var misleading = []string{"not found", "enoent", "does not exist", "no such file"}

func misleads(text string) bool {
	for _, words := range misleading {
		if strings.Contains(strings.ToLower(text), words) {
			return true
		}
	}
	return false
}

func TestErrors_OnlyMissingFilesAreNotFound(t *testing.T) {
	if got := errMissing("/p").Error(); got != "Resource not found: /p" {
		t.Errorf("the one wording became %q", got)
	}
	if got := errEscapes("/p").Error(); got != "Path escapes workspace: /p" {
		t.Errorf("escaping became %q", got)
	}
	for errno := syscall.Errno(1); errno < 200; errno++ {
		for _, err := range []error{errno, &fs.PathError{Op: "open", Path: "/p", Err: errno}} {
			made := []*Error{errSystem("write", "/p", err), errPartialWrite("/p", err)}
			if at := errAt("open", "/p", err); errno != unix.ENOENT {
				made = append(made, at)
			}
			for _, e := range made {
				if misleads(e.Error()) {
					t.Errorf("errno %d: %q", errno, e.Error())
				}
				if e.Kind == Missing {
					t.Errorf("errno %d is taken for a missing file", errno)
				}
			}
		}
	}
}

// TestErrors_TextsOmitNotFound reads every string of this package, also those that no test provokes.
func TestErrors_TextsOmitNotFound(t *testing.T) {
	sources, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	texts := 0
	for _, source := range sources {
		if !strings.HasSuffix(source.Name(), ".go") || strings.HasSuffix(source.Name(), "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), source.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			text, ok := n.(*ast.BasicLit)
			if !ok || text.Kind != token.STRING {
				return true
			}
			texts++
			if misleads(text.Value) && text.Value != `"Resource not found: %s"` {
				t.Errorf("%s: %s", source.Name(), text.Value)
			}
			return true
		})
	}
	if texts < 50 {
		t.Errorf("only %d texts were seen", texts)
	}
}
