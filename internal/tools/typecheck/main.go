// Command typecheck checks that Go packages and their tests compile for a system, without compiling: it type-checks the
// packages and all their imports from source. Compiling for a second system takes as long as for the first, though the
// code of most packages is the same; checking the types takes seconds.
//
//	go run ./internal/tools/typecheck -os darwin -arch arm64 PACKAGE…
//
// Packages are named as for go list. It omits files that need cgo. It does not find errors of the compiler's back end,
// the linker or go vet.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

func main() {
	system := flag.String("os", runtime.GOOS, "the operating `system`, as in GOOS")
	arch := flag.String("arch", runtime.GOARCH, "the `architecture`, as in GOARCH")
	flag.Parse()
	n, err := check(".", *system, *arch, flag.Args()...)
	if err != nil {
		_, _ = fmt.Fprintf(os.Stderr, "typecheck: these packages do not compile for %s/%s:\n%v\n", *system, *arch, err)
		os.Exit(1)
	}
	_, _ = fmt.Printf("%d packages compile for %s/%s, tests included\n", n, *system, *arch)
}

// pkg is the output of go list for a package, or for a package compiled for a test: then ImportPath is "a [a.test]".
type pkg struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string
	Module          *struct {
		Main      bool
		GoVersion string
	}
}

// check checks the packages that patterns name in a folder, and returns the number of checked packages of the
// workspace; a package compiled for its test counts separately. The error joins all errors.
func check(dir, system, arch string, patterns ...string) (own int, err error) {
	// Each package follows its imports.
	args := append([]string{"list", "-deps", "-test", "-json=ImportPath,Dir,GoFiles,ImportMap,Module", "--"}, patterns...)
	list := exec.Command("go", args...)
	list.Dir, list.Stderr = dir, os.Stderr
	list.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+arch, "CGO_ENABLED=0")
	listed, err := list.Output()
	if err != nil {
		return 0, fmt.Errorf("go list %s: %w", strings.Join(patterns, " "), err)
	}
	c := checker{sizes: types.SizesFor("gc", arch), fset: token.NewFileSet(), checked: map[string]*types.Package{"unsafe": types.Unsafe}}
	for decoder := json.NewDecoder(bytes.NewReader(listed)); ; {
		var p pkg
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return own, errors.Join(c.wrong...)
		} else if err != nil {
			return own, fmt.Errorf("read what go list prints: %w", err)
		}
		// The latter is the main package of a test, made by go test.
		if p.ImportPath == "unsafe" || strings.HasSuffix(p.ImportPath, ".test") {
			continue
		}
		if p.own() {
			own++
		}
		c.check(p)
	}
}

// own reports whether a package belongs to a module of the workspace, not to a required one.
func (p pkg) own() bool { return p.Module != nil && p.Module.Main }

// checker has the checked packages, by go list's ImportPath, and their errors.
type checker struct {
	sizes   types.Sizes
	fset    *token.FileSet
	checked map[string]*types.Package
	wrong   []error
}

// check checks a package. For packages outside of the workspace, it checks only declarations.
func (c *checker) check(p pkg) {
	fail := func(err error) { c.wrong = append(c.wrong, err) }
	var files []*ast.File
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(c.fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			fail(err)
			continue
		}
		files = append(files, file)
	}
	config := types.Config{
		IgnoreFuncBodies: !p.own(),
		Sizes:            c.sizes,
		Error:            fail,
		Importer: importer(func(path string) (*types.Package, error) {
			if at, ok := p.ImportMap[path]; ok { // vendored by Go itself, or compiled for a test
				path = at
			}
			if imported := c.checked[path]; imported != nil {
				return imported, nil
			}
			return nil, fmt.Errorf("go list does not report %s", path)
		}),
	}
	if p.Module != nil && p.Module.GoVersion != "" {
		config.GoVersion = "go" + p.Module.GoVersion
	}
	path, _, _ := strings.Cut(p.ImportPath, " ")
	c.checked[p.ImportPath], _ = config.Check(path, c.fset, files, nil) // Error has received the errors
}

type importer func(path string) (*types.Package, error)

func (i importer) Import(path string) (*types.Package, error) { return i(path) }
