// Command packagemap generates docs/map.md from the code: the imports between the parts of the repository, and the
// imports between the packages of the supervisor, by levels. The picture omits an import if a longer path of imports
// leads to the same package, so that it stays readable.
//
//	go run ./internal/tools/packagemap          # writes docs/map.md
//	go run ./internal/tools/packagemap -check   # fails if docs/map.md is not what would be written
//
// Run it at the top of the repository. On every system, it shows the packages for Linux.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

const (
	page         = "docs/map.md"
	modulePrefix = "github.com/acphost/acphost/"
	supervisor   = "services/supervisor"
)

func main() {
	check := flag.Bool("check", false, "only check that "+page+" is current")
	flag.Parse()
	if err := run(*check); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "packagemap:", err)
		os.Exit(1)
	}
}

func run(check bool) error {
	packages, err := list()
	if err != nil {
		return err
	}
	text, err := draw(packages)
	if err != nil {
		return err
	}
	if !check {
		return os.WriteFile(page, []byte(text), 0o644)
	}
	if old, err := os.ReadFile(page); err != nil || string(old) != text {
		return errors.Join(fmt.Errorf("%s does not match the code: run make map and commit", page), err)
	}
	return nil
}

// pkg is the output of go list about a package. Paths are relative to the root module path.
type pkg struct {
	ImportPath string
	Imports    []string
	Doc        string // its comment's first sentence
}

// part returns the part of the repository that contains a package: a top folder, or a folder in services, cmd or
// examples.
func part(path string) string {
	top, below, _ := strings.Cut(path, "/")
	switch top {
	case "services", "cmd", "examples":
		name, _, _ := strings.Cut(below, "/")
		return top + "/" + name
	}
	return top
}

// list lists the packages of all modules of the workspace.
func list() ([]pkg, error) {
	modules, err := golist("-m", "-f", "{{.Path}}")
	if err != nil {
		return nil, err
	}
	args := []string{"-json=ImportPath,Imports,Doc"}
	for module := range strings.FieldsSeq(string(modules)) {
		args = append(args, module+"/...")
	}
	text, err := golist(args...)
	if err != nil {
		return nil, err
	}
	return parse(bytes.NewReader(text))
}

// parse parses the output of go list -json.
func parse(text io.Reader) ([]pkg, error) {
	var packages []pkg
	for decoder := json.NewDecoder(text); ; {
		var p pkg
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("read what go list prints: %w", err)
		}
		var own []string
		for _, path := range p.Imports {
			if below, ok := strings.CutPrefix(path, modulePrefix); ok {
				own = append(own, below)
			}
		}
		p.ImportPath, p.Imports = strings.TrimPrefix(p.ImportPath, modulePrefix), own
		packages = append(packages, p)
	}
}

func golist(args ...string) ([]byte, error) {
	command := exec.Command("go", append([]string{"list"}, args...)...)
	command.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w", strings.Join(args, " "), err)
	}
	return out, nil
}
