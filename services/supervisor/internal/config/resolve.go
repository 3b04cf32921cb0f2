package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	configv1 "github.com/acphost/acphost/proto/acphost/config/v1"
)

// resolve makes the paths of a checked configuration absolute.
func (v *checker) resolve(c *configv1.Config) {
	for _, h := range c.GetHandlers() {
		if command := h.GetCommand(); len(command) > 0 && strings.ContainsRune(command[0], filepath.Separator) {
			command[0] = v.absolute(command[0])
		}
		h.Sha256 = strings.ToLower(h.GetSha256())
		if t := h.GetTls(); t != nil {
			t.Ca, t.Cert, t.Key = v.absolute(t.GetCa()), v.absolute(t.GetCert()), v.absolute(t.GetKey())
		}
	}
	for _, root := range c.GetWorkspace().GetExtraRoots() {
		if dir, err := v.expand(root.GetPath()); err == nil {
			root.Path = dir
		}
	}
	if p := c.GetPermission(); p.GetPolicy() != "" {
		p.Policy = v.absolute(p.GetPolicy())
	}
}

// absolute resolves a path against the file's folder.
func (v *checker) absolute(name string) string {
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(v.base, name)
}

// CheckFiles returns an error for every file that the configuration names and that is not there: programs (a bare name
// is looked for in dir, next to acphost's own), the rule file, keys. Load does not look, since files may be made between
// reading the configuration and using it. The error joins one *yamlproto.Error a problem.
func (c *Config) CheckFiles(dir string) error {
	v := checker{doc: c.doc}
	for _, name := range slices.Sorted(maps.Keys(c.Proto.GetHandlers())) {
		h, at := c.Proto.GetHandlers()[name], path{"handlers", name}
		if len(h.GetCommand()) > 0 {
			v.regular(at.to("command", "0"), Program(h.GetCommand()[0], dir), 0o111)
		}
		if t := h.GetTls(); t != nil {
			v.regular(at.to("tls", "ca"), t.GetCa(), 0)
			v.regular(at.to("tls", "cert"), t.GetCert(), 0)
			v.regular(at.to("tls", "key"), t.GetKey(), 0)
		}
	}
	if policy := c.Proto.GetPermission().GetPolicy(); policy != "" {
		v.regular(path{"permission", "policy"}, policy, 0)
	}
	return v.err()
}

// regular demands a regular file with any of the given mode bits, if there are some.
func (v *checker) regular(p path, name string, mode os.FileMode) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		v.problem(p, "%v", err)
	case !info.Mode().IsRegular():
		v.problem(p, "%s is not a regular file", name)
	case mode != 0 && info.Mode().Perm()&mode == 0:
		v.problem(p, "%s is not executable; chmod +x %s", name, name)
	}
}

// ProtectedPaths returns the files and folders that no agent may touch, sorted: acphost's configuration folder (there or
// not: a file made in it counts from the next start), the configuration file, rule files, keys, sockets of sidecars and
// of the supervisor, and whatever more the caller has, such as the folder of the admin socket. Where a path leads through
// symbolic links, both spellings are among them.
func (c *Config) ProtectedPaths(more ...string) []string {
	paths := append([]string{c.folder, c.File, c.Proto.GetPermission().GetPolicy(), c.Proto.GetAdmin().GetSocket()}, more...)
	for _, h := range c.Proto.GetHandlers() {
		paths = append(paths, h.GetTls().GetCa(), h.GetTls().GetCert(), h.GetTls().GetKey(),
			h.GetSettings().GetFields()["policy"].GetStringValue())
		if socket, ok := strings.CutPrefix(h.GetAddress(), "unix://"); ok {
			paths = append(paths, socket)
		}
	}
	set := map[string]bool{}
	for _, p := range paths {
		if !filepath.IsAbs(p) {
			continue
		}
		set[filepath.Clean(p)] = true
		if real, err := realPath(p); err == nil {
			set[real] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// realPath follows symbolic links as far as the path exists and keeps the rest.
func realPath(name string) (string, error) {
	real, err := filepath.EvalSymlinks(name)
	if err == nil {
		return real, nil
	}
	parent := filepath.Dir(name)
	if parent == name {
		return "", fmt.Errorf("resolve %s: %w", name, err)
	}
	if real, err = realPath(parent); err != nil {
		return "", err
	}
	return filepath.Join(real, filepath.Base(name)), nil
}
