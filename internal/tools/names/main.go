// Command names counts the exported names of the packages below a folder, as go doc lists them: functions, types, methods,
// and constants and variables. Commands, internal packages, tests and generated code are left out.
//
//	go run ./internal/tools/names          # of sdk
//	go run ./internal/tools/names FOLDER
package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/doc"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

func main() {
	folder := "sdk"
	if len(os.Args) > 1 {
		folder = os.Args[1]
	}
	if err := run(os.Stdout, folder); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "names:", err)
		os.Exit(1)
	}
}

// run writes a line for each package below a folder, and their sum.
func run(out io.Writer, folder string) error {
	const line = "%-28s %9v %6v %8v %7v %5v\n"
	_, _ = fmt.Fprintf(out, line, "package", "functions", "types", "methods", "values", "all")
	var sum names
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if slices.Contains([]string{"internal", "cmd", "testdata"}, entry.Name()) {
			return filepath.SkipDir
		}
		n, err := count(path)
		if err != nil || n == (names{}) {
			return err
		}
		sum = names{sum.functions + n.functions, sum.types + n.types, sum.methods + n.methods, sum.values + n.values}
		_, err = fmt.Fprintf(out, line, filepath.ToSlash(path), n.functions, n.types, n.methods, n.values, n.all())
		return err
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, line, "all", sum.functions, sum.types, sum.methods, sum.values, sum.all())
	return err
}

type names struct{ functions, types, methods, values int }

func (n names) all() int { return n.functions + n.types + n.methods + n.values }

// count counts the names that the package in a folder exports on Linux; a folder without a package exports nothing.
func count(folder string) (names, error) {
	system := build.Default
	system.GOOS, system.CgoEnabled = "linux", false
	found, err := system.ImportDir(folder, 0)
	if none := new(build.NoGoError); errors.As(err, &none) || err == nil && found.IsCommand() {
		return names{}, nil
	}
	if err != nil {
		return names{}, err
	}
	set := token.NewFileSet()
	var files []*ast.File
	for _, name := range found.GoFiles {
		file, err := parser.ParseFile(set, filepath.Join(folder, name), nil, parser.ParseComments)
		if err != nil {
			return names{}, err
		}
		if !ast.IsGenerated(file) {
			files = append(files, file)
		}
	}
	d, err := doc.NewFromFiles(set, files, folder)
	if err != nil {
		return names{}, err
	}
	n := names{functions: len(d.Funcs), types: len(d.Types), values: values(d.Consts) + values(d.Vars)}
	for _, t := range d.Types {
		n.functions += len(t.Funcs)
		n.methods += len(t.Methods)
		n.values += values(t.Consts) + values(t.Vars)
	}
	return n, nil
}

func values(groups []*doc.Value) int {
	n := 0
	for _, group := range groups {
		for _, name := range group.Names {
			if token.IsExported(name) {
				n++
			}
		}
	}
	return n
}
