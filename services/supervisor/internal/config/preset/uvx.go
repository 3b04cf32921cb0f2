package preset

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
)

// uvx looks for a Python package that uv runs: its command on PATH, else installed as a tool, else by uvx, which fetches
// it when it runs it. uvx does not look at the working directory.
func (c *Catalog) uvx(p *Package) *Resolved {
	r := &Resolved{Kind: KindUVX, Env: environment(p.Env), Get: "uv tool install " + p.Package}
	name, _ := splitPackage(p.Package)
	cmd := cmp.Or(p.Cmd, name)
	tools := c.uvTools()
	installed := ""
	if tools != "" {
		installed = distInfo(filepath.Join(tools, name), name)
	}
	if file := c.lookPath(cmd); file != "" {
		real, err := filepath.EvalSymlinks(file)
		ours := err == nil && tools != "" && strings.HasPrefix(real, filepath.Join(tools, name)+string(filepath.Separator))
		if !ours {
			installed = ""
		}
		if ours || p.Cmd != "" {
			return r.found(FoundOnPath, installed, []string{file}, p.Args)
		}
	}
	if tools != "" {
		if file := filepath.Join(tools, name, "bin", cmd); executable(file) {
			return r.found(FoundAsTool, installed, []string{file}, p.Args)
		}
	}
	if uvx := c.lookPath("uvx"); uvx != "" {
		program := []string{uvx, p.Package}
		if p.Cmd != "" {
			program = []string{uvx, "--from", p.Package, p.Cmd}
		}
		return r.found("", "", program, p.Args)
	}
	r.Get += " (install uv first)"
	return r
}

// uvTools is the folder of uv's tools; empty: there is no telling.
func (c *Catalog) uvTools() string {
	if dir := c.env("UV_TOOL_DIR"); filepath.IsAbs(dir) {
		return dir
	}
	if dir := c.data(); dir != "" {
		return filepath.Join(dir, "uv", "tools")
	}
	return ""
}

// distInfo returns the version of a package in a virtual environment, from the name of the folder that describes it.
func distInfo(environment, name string) string {
	libs, _ := filepath.Glob(filepath.Join(environment, "lib", "python*", "site-packages"))
	want := strings.ToLower(strings.NewReplacer("-", "_", ".", "_").Replace(name)) + "-"
	for _, lib := range libs {
		entries, _ := os.ReadDir(lib)
		for _, e := range entries {
			base, isInfo := strings.CutSuffix(e.Name(), ".dist-info")
			if version, ok := strings.CutPrefix(strings.ToLower(base), want); isInfo && ok {
				return version
			}
		}
	}
	return ""
}
