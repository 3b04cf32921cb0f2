package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/mod/zip"
)

// released is a module that others can require with a version.
type released struct {
	path string // of the module
	dir  string // below the repository, with slashes; ".": the repository
	mod  []byte // its go.mod
	zip  []byte
}

// unreleased reports whether the module in a folder is not released: examples are copied instead.
func unreleased(dir string) bool { return strings.HasPrefix(dir, "examples/") }

// tag returns the tag of the module's version: the Go command expects the folder before the version.
func (m released) tag(version string) string { return path.Join(m.dir, version) }

// nameModules sets the version of the modules of the workspace: it rewrites go.mod and go.sum of each released module,
// and adds them to git's index. go.sum gets the checksums of required modules, so each module follows those that it
// requires.
func (s *source) nameModules(ctx context.Context) error {
	found, err := workspace(s.dir)
	if err != nil {
		return err
	}
	files := map[string]*modfile.File{}
	dirs := map[string]string{}
	for _, dir := range found {
		if unreleased(dir) {
			continue
		}
		name := filepath.Join(s.dir, dir, "go.mod")
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		f, err := modfile.Parse(name, text, nil)
		if err != nil {
			return err
		}
		files[f.Module.Mod.Path], dirs[f.Module.Mod.Path] = f, dir
	}
	var order []string
	var visit func(string) error
	visit = func(name string) error {
		if slices.Contains(order, name) {
			return nil
		}
		for _, r := range files[name].Require {
			if files[r.Mod.Path] != nil {
				if err := visit(r.Mod.Path); err != nil {
					return err
				}
			}
		}
		order = append(order, name)
		return nil
	}
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if err := visit(name); err != nil {
			return err
		}
	}
	sums := map[string][]string{} // the lines of go.sum for modules with a version
	for _, name := range order {
		m, err := s.nameModule(ctx, files, sums, name, dirs[name])
		if err != nil {
			return fmt.Errorf("give %s the version %s: %w", name, s.version, err)
		}
		s.modules = append(s.modules, m)
	}
	return s.replaceInWorkspace(ctx)
}

// replaceInWorkspace makes the workspace use the modules in their folders. go.work is not part of a module, and without
// this, the Go command would look for the version in the module proxy.
func (s *source) replaceInWorkspace(ctx context.Context) error {
	name := filepath.Join(s.dir, "go.work")
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	work, err := modfile.ParseWork(name, text, nil)
	if err != nil {
		return err
	}
	for _, m := range s.modules {
		if err := work.AddReplace(m.path, s.version, "./"+m.dir, ""); err != nil {
			return err
		}
	}
	work.Cleanup()
	if err := os.WriteFile(name, modfile.Format(work.Syntax), 0o644); err != nil { //nolint:gosec // the mode that git uses
		return err
	}
	_, err = output(ctx, s.dir, nil, "git", "add", "--", "go.work")
	return err
}

// nameModule rewrites one module, and records its checksums in sums.
func (s *source) nameModule(
	ctx context.Context, files map[string]*modfile.File, sums map[string][]string, name, dir string,
) (released, error) {
	m := released{path: name, dir: dir}
	f := files[name]
	var needed []string
	for _, r := range slices.Clone(f.Require) {
		if files[r.Mod.Path] == nil {
			continue
		}
		needed = append(needed, sums[r.Mod.Path]...)
		if err := f.AddRequire(r.Mod.Path, s.version); err != nil {
			return m, err
		}
	}
	for _, r := range slices.Clone(f.Replace) {
		if files[r.Old.Path] == nil {
			return m, fmt.Errorf("go.mod replaces %s, and a module that others require cannot replace anything", r.Old.Path)
		}
		if err := f.DropReplace(r.Old.Path, r.Old.Version); err != nil {
			return m, err
		}
	}
	f.Cleanup()
	mod, err := f.Format()
	if err != nil {
		return m, err
	}
	m.mod = mod
	folder := filepath.Join(s.dir, filepath.FromSlash(dir))
	sum, err := os.ReadFile(filepath.Join(folder, "go.sum"))
	if err != nil {
		return m, err
	}
	lines := append(strings.Split(strings.TrimSpace(string(sum)), "\n"), needed...)
	slices.Sort(lines)
	sum = []byte(strings.Join(slices.Compact(lines), "\n") + "\n")
	for file, text := range map[string][]byte{"go.mod": mod, "go.sum": sum} {
		if err := os.WriteFile(filepath.Join(folder, file), text, 0o644); err != nil { //nolint:gosec // the mode that git uses
			return m, err
		}
	}
	if _, err := output(ctx, s.dir, nil, "git", "add", "--", path.Join(dir, "go.mod"), path.Join(dir, "go.sum")); err != nil {
		return m, err
	}
	tree, err := output(ctx, s.dir, nil, "git", "write-tree")
	if err != nil {
		return m, err
	}
	var packed bytes.Buffer
	if err := zip.CreateFromVCS(&packed, module.Version{Path: name, Version: s.version}, s.dir, tree, strings.TrimPrefix(dir, ".")); err != nil {
		return m, err
	}
	m.zip = packed.Bytes()
	sums[name], err = goSum(m, s.version)
	return m, err
}

// workspace returns the folders of go.work, with slashes.
func workspace(dir string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(dir, "go.work"))
	if err != nil {
		return nil, err
	}
	work, err := modfile.ParseWork("go.work", text, nil)
	if err != nil {
		return nil, err
	}
	dirs := make([]string, len(work.Use))
	for i, use := range work.Use {
		dirs[i] = path.Clean(use.Path)
	}
	return dirs, nil
}

// goSum returns the lines of a module in go.sum files.
func goSum(m released, version string) ([]string, error) {
	file, err := os.CreateTemp("", "acphost-module-*.zip")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.Remove(file.Name()) }()
	_, err = file.Write(m.zip)
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return nil, err
	}
	all, err := dirhash.HashZip(file.Name(), dirhash.Hash1)
	if err != nil {
		return nil, err
	}
	mod, err := dirhash.Hash1([]string{"go.mod"}, func(string) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(m.mod)), nil })
	return []string{m.path + " " + version + " " + all, m.path + " " + version + "/go.mod " + mod}, err
}

// writeModules writes the released modules into a folder, in the layout of a module proxy: GOPROXY=file://FOLDER.
func (s source) writeModules(dir string) error {
	for _, m := range s.modules {
		folder := filepath.Join(dir, filepath.FromSlash(m.path), "@v")
		info, err := json.Marshal(struct {
			Version string
			Time    time.Time
		}{s.version, s.time})
		if err == nil {
			err = os.MkdirAll(folder, 0o755)
		}
		if err != nil {
			return err
		}
		for name, text := range map[string][]byte{
			"list": []byte(s.version + "\n"), s.version + ".info": info, s.version + ".mod": m.mod, s.version + ".zip": m.zip,
		} {
			if err := os.WriteFile(filepath.Join(folder, name), text, 0o644); err != nil { //nolint:gosec // a release is public
				return fmt.Errorf("write the module %s: %w", m.path, err)
			}
		}
	}
	return nil
}
