package preset

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/acphost/acphost/internal/regular"
)

// npx looks for a package of npm: installed with its command on PATH, else in npx's cache. npx itself is only used to
// fill the cache. Run in a workspace it prefers the workspace's own node_modules, and puts their programs before those
// of PATH, so that a repository could have itself executed in the agent's place.
func (c *Catalog) npx(p *Package) *Resolved {
	r := &Resolved{Kind: KindNPX, Env: environment(p.Env), Get: "npm install -g " + p.Package}
	name, version := splitPackage(p.Package)
	guess := cmp.Or(p.Cmd, name[strings.LastIndexByte(name, '/')+1:])
	if file := c.lookPath(guess); file != "" {
		installed, sure := packageOf(file, name)
		if sure || p.Cmd != "" { // a command whose name is a guess must prove that it is the package's
			return r.found(FoundOnPath, installed, []string{file}, p.Args)
		}
	}
	if file, installed := c.cached(name, version, p.Cmd); file != "" {
		return r.found(FoundInCache, installed, []string{file}, p.Args)
	}
	if npx := c.lookPath("npx"); npx != "" && c.npmCache() != "" {
		r.fetch = []string{npx, "--yes", "--package=" + p.Package, "--call", "true"}
	} else {
		r.Get += " (install Node.js first)"
	}
	return r
}

// manifest is what counts of a package.json.
type manifest struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Bin     any    `json:"bin"`
	Engines any    `json:"engines"`
}

// node are the versions of Node.js that the package says it supports; empty: it says nothing.
func (m *manifest) node() string {
	engines, _ := m.Engines.(map[string]any)
	versions, _ := engines["node"].(string)
	return versions
}

// maxManifest bounds a package.json, in bytes.
const maxManifest = 1 << 20

func readManifest(folder string) (m manifest, ok bool) {
	data, err := regular.Read(filepath.Join(folder, "package.json"), maxManifest)
	return m, err == nil && json.Unmarshal(data, &m) == nil
}

// command returns the name of a package's command: cmd if it has it; without a cmd its only one, or the one that is
// called like it. Empty: there is none.
func (m *manifest) command(cmd string) string {
	own := m.Name[strings.LastIndexByte(m.Name, '/')+1:]
	switch bin := m.Bin.(type) {
	case string:
		if cmd == "" || cmd == own {
			return own
		}
	case map[string]any:
		names := slices.Sorted(maps.Keys(bin))
		if cmd == "" && len(names) == 1 {
			return names[0]
		}
		if want := cmp.Or(cmd, own); slices.Contains(names, want) {
			return want
		}
	}
	return ""
}

// packageOf reports whether a program on PATH leads into a package, and the version of it.
func packageOf(file, name string) (version string, sure bool) {
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		return "", false
	}
	inside := filepath.Join("node_modules", filepath.FromSlash(name))
	at := strings.LastIndex(real, string(filepath.Separator)+inside+string(filepath.Separator))
	if at < 0 {
		return "", false
	}
	m, ok := readManifest(real[:at+1+len(inside)])
	if !ok || m.Name != name {
		return "", false
	}
	return m.Version, true
}

// cached looks for a package in npx's cache: the version that is asked for, else the one that was put there last.
func (c *Catalog) cached(name, version, cmd string) (file, installed string) {
	cache := c.npmCache()
	if cache == "" {
		return "", ""
	}
	entries, err := os.ReadDir(filepath.Join(cache, "_npx"))
	if err != nil {
		return "", ""
	}
	var newest int64
	for _, e := range entries {
		modules := filepath.Join(cache, "_npx", e.Name(), "node_modules")
		folder := filepath.Join(modules, filepath.FromSlash(name))
		m, ok := readManifest(folder)
		if !ok || m.Name != name || exact(version) && m.Version != version {
			continue
		}
		command := m.command(cmd)
		bin := filepath.Join(modules, ".bin", command)
		info, err := os.Stat(folder)
		if command == "" || err != nil || !executable(bin) {
			continue
		}
		if t := info.ModTime().UnixNano(); file == "" || t > newest {
			file, installed, newest = bin, m.Version, t
		}
	}
	return file, installed
}

// exact reports whether a version is one and no range or tag: 1.2.3, 1.2.3-rc.1.
func exact(version string) bool {
	return strings.Count(version, ".") >= 2 && version[0] >= '0' && version[0] <= '9'
}

// npmCache is npm's cache folder; empty: there is no telling. A cache that only an .npmrc names is not looked for.
func (c *Catalog) npmCache() string {
	if dir := cmp.Or(c.env("npm_config_cache"), c.env("NPM_CONFIG_CACHE")); filepath.IsAbs(dir) {
		return dir
	}
	if home := c.env("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".npm")
	}
	return ""
}
