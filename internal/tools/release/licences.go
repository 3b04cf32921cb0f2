package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// moduleDir is the folder of a module's source on this machine.
type moduleDir struct{ version, dir string }

// moduleDirs returns the modules that the workspace needs, by path, and the standard library as "std".
func (s source) moduleDirs(ctx context.Context) (map[string]moduleDir, error) {
	list, err := output(ctx, s.dir, s.goEnv(), "go", "list", "-m", "-f", "{{.Path}}\t{{.Version}}\t{{.Dir}}", "all")
	if err != nil {
		return nil, err
	}
	goroot, err := output(ctx, s.dir, s.goEnv(), "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	dirs := map[string]moduleDir{"std": {dir: goroot}}
	for line := range strings.SplitSeq(list, "\n") {
		if m := strings.Split(line, "\t"); len(m) == 3 {
			dirs[m[0]] = moduleDir{m[1], m[2]}
		}
	}
	return dirs, nil
}

// licenceFiles returns the files with the licenses and notices of a module. It returns an error if there are none.
func licenceFiles(name, dir string) ([]string, error) {
	// LICENSE, LICENCE, NOTICE, COPYING, in upper case.
	texts, err := filepath.Glob(filepath.Join(dir, "[LNC][IOQ][CTP][EIY]*"))
	if err != nil {
		return nil, err
	}
	texts = slices.DeleteFunc(texts, func(name string) bool { i, err := os.Stat(name); return err != nil || i.IsDir() })
	if len(texts) == 0 {
		return nil, fmt.Errorf("find the licence of %s: %s contains none", name, dir)
	}
	return texts, nil
}

// nameLicences finds the licenses of the modules that the workspace needs: the SPDX identifiers of each, by the path of
// the module. It omits a module whose license is not recognized; contents returns an error if a program contains such a
// module.
func (s *source) nameLicences(ctx context.Context) error {
	dirs, err := s.moduleDirs(ctx)
	if err != nil {
		return err
	}
	s.licenceOf = map[string][]string{}
	for name, m := range dirs {
		if m.dir == "" || isOwn(name) { // not downloaded: not in a program
			continue
		}
		texts, err := licenceFiles(name, m.dir)
		if err != nil {
			continue
		}
		if s.licenceOf[name], err = identify(texts); err != nil {
			return fmt.Errorf("read the licence of %s: %w", name, err)
		}
	}
	return nil
}

// identify returns the SPDX identifiers of the licenses in files, sorted.
func identify(files []string) ([]string, error) {
	var ids []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(filepath.Base(file), "NOTICE") { // it names licenses of others
			continue
		}
		for _, m := range licensecheck.Scan(bytes.ToValidUTF8(text, nil)).Match {
			if !m.IsURL { // a URL may be of a license that is only mentioned
				ids = append(ids, m.ID)
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}
