// Command typecheck checks that Go packages and their tests compile for a system, without compiling: it reads the packages
// and all that they import from source. Compiling for a second system takes as long as for the first, though the code of
// most packages is the same; checking the types takes seconds.
//
//	go run ./internal/tools/typecheck -os darwin -arch arm64 PACKAGE…
//
// Packages are named as for go list. Files that need cgo are left out. It does not see what only the compiler's back end,
// the linker or go vet refuse.
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

// pkg is what go list says of a package, or of one as its tests see it: then ImportPath is "a [a.test]".
type pkg struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string
	Module          *struct {
		Main      bool
		GoVersion string
	}
}

// check checks the packages that patterns name in a folder, and says how many packages of the workspace it has checked; one
// counts again as its tests see it. The error joins all that is wrong.
func check(dir, system, arch string, patterns ...string) (own int, err error) {
	// Each package comes behind all that it imports.
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
		if p.ImportPath == "unsafe" || strings.HasSuffix(p.ImportPath, ".test") { // the latter: the main of a test, made by go test
			continue
		}
		if p.own() {
			own++
		}
		c.check(p)
	}
}

// own reports whether a package is of a module of the workspace, and not of one that it requires.
func (p pkg) own() bool { return p.Module != nil && p.Module.Main }

// checker keeps the packages that are checked, by go list's ImportPath, and what is wrong.
type checker struct {
	sizes   types.Sizes
	fset    *token.FileSet
	checked map[string]*types.Package
	wrong   []error
}

// check checks a package. Of what is not the workspace's own only the declarations matter.
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
			if at, ok := p.ImportMap[path]; ok { // vendored by Go itself, or as a test sees it
				path = at
			}
			if imported := c.checked[path]; imported != nil {
				return imported, nil
			}
			return nil, fmt.Errorf("go list does not tell of %s", path)
		}),
	}
	if p.Module != nil && p.Module.GoVersion != "" {
		config.GoVersion = "go" + p.Module.GoVersion
	}
	path, _, _ := strings.Cut(p.ImportPath, " ")
	c.checked[p.ImportPath], _ = config.Check(path, c.fset, files, nil) // Error has been told
}

type importer func(path string) (*types.Package, error)

func (i importer) Import(path string) (*types.Package, error) { return i(path) }
