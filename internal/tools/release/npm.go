package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed npm/acphost.js
var launcher []byte

//go:embed npm/README.md
var launcherPage []byte

// npmArch are the names of processors for npm and Node.js.
var npmArch = map[string]string{"amd64": "x64", "arm64": "arm64"}

// manifest is a package.json.
type manifest struct {
	Name        string            `json:"name"`
	Version     string            `json:"version"`
	Description string            `json:"description"`
	License     string            `json:"license"`
	Homepage    string            `json:"homepage"`
	Repository  map[string]string `json:"repository"`
	OS          []string          `json:"os,omitempty"`
	CPU         []string          `json:"cpu,omitempty"`
	Engines     map[string]string `json:"engines,omitempty"`
	Bin         map[string]string `json:"bin,omitempty"`
	// Yarn keeps packages in archives, in which programs cannot be executed.
	Unplugged bool              `json:"preferUnplugged,omitempty"`
	Optional  map[string]string `json:"optionalDependencies,omitempty"`
}

func (s source) manifest(name, description string) manifest {
	return manifest{
		Name: name, Version: strings.TrimPrefix(s.version, "v"), Description: description, License: "Apache-2.0",
		Homepage: "https://github.com/acphost/acphost", Repository: map[string]string{"type": "git", "url": "git+https://github.com/acphost/acphost.git"},
	}
}

// npmPackage is an unfinished package.
type npmPackage struct {
	manifest
	files []file
	work  string // a folder for generated files
	err   error  // of write
}

// write adds a generated file.
func (p *npmPackage) write(name string, text []byte, mode os.FileMode) {
	from := filepath.Join(p.work, strings.ReplaceAll(name, "/", "_"))
	p.files = append(p.files, file{name, from, mode})
	if err := errors.Join(os.MkdirAll(p.work, 0o755), os.WriteFile(from, text, 0o644)); err != nil && p.err == nil { //nolint:gosec // a release is public
		p.err = err
	}
}

// pack writes the package into the folder out, under the name that npm gives it.
func (p *npmPackage) pack(s source, out string) error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(p.manifest); err != nil {
		return err
	}
	p.write("package.json", text.Bytes(), 0o644)
	if p.err != nil {
		return p.err
	}
	name := strings.ReplaceAll(strings.TrimPrefix(p.Name, "@"), "/", "-") + "-" + p.Version + ".tgz"
	return s.writeArchive(filepath.Join(out, name), "package/", p.files)
}

// writeNPM writes the packages for npm into the folder out: one with the programs for each system, the launcher, which
// depends on these so that npm installs the matching one, and the client for TypeScript. No package runs a script when
// it is installed. trees have only the programs; neither work nor out exists yet.
func (s source) writeNPM(ctx context.Context, trees []tree, shared []file, work, out string) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	p := npmPackage{manifest: s.manifest("acphost", "Host for coding agents that speak the Agent Client Protocol"), work: filepath.Join(work, "acphost")}
	p.Engines, p.Bin, p.Optional = map[string]string{"node": ">=18"}, map[string]string{"acphost": "bin/acphost.js"}, map[string]string{}
	for _, t := range trees {
		m, err := s.npmPrograms(t, shared, filepath.Join(work, t.platform.os+"_"+t.platform.arch), out)
		if err != nil {
			return fmt.Errorf("the package for npm for %s: %w", t.platform, err)
		}
		p.Optional[m.Name] = m.Version
	}
	p.files = []file{{"LICENSE", filepath.Join(s.dir, "LICENSE"), 0o644}}
	p.write("bin/acphost.js", launcher, 0o755)
	p.write("README.md", launcherPage, 0o644)
	if err := p.pack(s, out); err != nil {
		return fmt.Errorf("the package for npm: %w", err)
	}
	return s.npmClient(ctx, filepath.Join(work, "client"), out)
}

// npmPrograms writes the package with the programs of one platform.
func (s source) npmPrograms(t tree, shared []file, work, out string) (manifest, error) {
	name := t.platform.os + "-" + npmArch[t.platform.arch]
	p := npmPackage{manifest: s.manifest("@acphost/"+name, "The programs of acphost for "+name), files: slices.Clone(t.files), work: work}
	p.OS, p.CPU, p.Unplugged = []string{t.platform.os}, []string{npmArch[t.platform.arch]}, true
	for _, f := range shared {
		if licence := strings.TrimPrefix(f.name, documents); licence == "LICENSE" || licence == "THIRD_PARTY_LICENSES" {
			p.files = append(p.files, file{licence, f.from, f.mode})
		}
	}
	bom, err := t.contents(s)
	if err != nil {
		return p.manifest, err
	}
	p.write("sbom.cdx.json", bom, 0o644)
	p.write("README.md", []byte("# "+p.Name+"\n\n"+p.Description+". Install the package `acphost`, which brings this one along.\n"), 0o644)
	return p.manifest, p.pack(s, out)
}

// npmClient builds the client for TypeScript with the versions in its package-lock.json, and writes its package.
func (s source) npmClient(ctx context.Context, work, out string) error {
	dir := filepath.Join(s.dir, "clients", "typescript")
	for _, args := range [][]string{{"ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"}, {"run", "--silent", "build"}} {
		if _, err := output(ctx, dir, nil, "npm", args...); err != nil {
			return fmt.Errorf("build the client for TypeScript: %w", err)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "package.json"))
	if err != nil {
		return err
	}
	const unset = `"version": "0.0.0"`
	if bytes.Count(text, []byte(unset)) != 1 {
		return fmt.Errorf("%s/package.json has no %s, the placeholder for the version of a release", dir, unset)
	}
	version := strings.TrimPrefix(s.version, "v")
	p := npmPackage{work: work}
	p.write("package.json", bytes.Replace(text, []byte(unset), []byte(`"version": "`+version+`"`), 1), 0o644)
	if p.err != nil {
		return p.err
	}
	p.files = append(p.files, file{"LICENSE", filepath.Join(s.dir, "LICENSE"), 0o644}, file{"README.md", filepath.Join(dir, "README.md"), 0o644})
	err = filepath.WalkDir(filepath.Join(dir, "dist"), func(name string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			p.files = append(p.files, file{filepath.ToSlash(strings.TrimPrefix(name, dir+string(filepath.Separator))), name, 0o644})
		}
		return err
	})
	if err != nil {
		return err
	}
	return s.writeArchive(filepath.Join(out, "acphost-client-"+version+".tgz"), "package/", p.files)
}
