package gate

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/acphost/acphost/internal/paths"
)

// matches returns the protected path among the files that match a pattern.
func (k *keyReading) matches(pattern string, in place) string {
	if !filepath.IsAbs(pattern) {
		if in.dir == "" {
			return ""
		}
		pattern = in.dir + "/" + pattern
	}
	if at := strings.IndexAny(pattern, "*?["); at >= 0 {
		folder := pattern[:strings.LastIndexByte(pattern[:at], '/')+1]
		if led := k.g.resolveLinks(folder, in.dir); led.by == ownProcess {
			pattern = join(led.path, pattern[len(folder):])
		}
	}
	dirs := []string{"/"}
	parts := strings.Split(strings.Trim(pattern, "/"), "/")
	for i, part := range parts {
		last := i == len(parts)-1
		switch part {
		case "", ".":
			continue
		case "**":
			for _, dir := range dirs {
				if p := k.protectedInFolder(dir, anyFile); p != "" {
					return p
				}
			}
			return ""
		}
		var next []string
		for _, dir := range dirs {
			if !strings.ContainsAny(part, "*?[") {
				next = append(next, join(dir, part))
				continue
			}
			for _, name := range k.list(dir) {
				if strings.HasPrefix(name, ".") && !strings.HasPrefix(part, ".") && !k.dots {
					continue
				}
				ok, err := filepath.Match(strings.ReplaceAll(part, "[!", "[^"), name)
				if ok || err != nil {
					next = append(next, join(dir, name))
				}
			}
		}
		if dirs = next; last {
			for _, path := range dirs {
				if k.g.own(k.roots, path) {
					return path
				}
			}
		}
	}
	return ""
}

// join joins paths. It keeps "..", because after a link ".." is another folder.
func join(dir, name string) string { return strings.TrimSuffix(dir, "/") + "/" + name }

// list returns the names in a folder, within the limit of entries.
func (k *keyReading) list(dir string) []string {
	// Only names are read. Without O_DIRECTORY, opening a named pipe would wait for a writer.
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	names, _ := f.Readdirnames(k.entries + 1)
	if k.entries -= len(names); k.entries < 0 {
		k.entries, k.unclear = 0, true
	}
	return names
}

// mayBeKey reports whether a word that contains anything may be the name of a key file.
func (k *keyReading) mayBeKey(word string, in place) bool {
	for _, w := range valuesOf(word) {
		if !strings.ContainsRune(w, anything) {
			continue
		}
		if strings.HasPrefix(w, "/proc/") { // it may lead through the directory of any process
			return len(k.g.keyFiles()) > 0
		}
		patterns := []string{w}
		if w[0] != '/' && in.dir != "" {
			patterns = append(patterns, in.dir+"/"+w, in.real+"/"+w)
		}
		for _, p := range patterns {
			if p[0] != '/' && p[0] != anything {
				continue
			}
			matches, err := regexp.Compile(asRegexp(p))
			if err != nil || k.g.keyNamed(matches.MatchString) != "" {
				return true
			}
		}
		if strings.Contains(w, "..") { // it leads up from an unknown folder
			return len(k.g.keyFiles()) > 0
		}
	}
	return false
}

// asRegexp converts a shell pattern to a regular expression; the rune anything matches any text.
func asRegexp(pattern string) string {
	var b strings.Builder
	b.WriteString(`(?s)^`)
	for i, c := range pattern {
		switch {
		case c == anything:
			b.WriteString(`.*`)
		case c == '*':
			b.WriteString(`[^/]*`)
		case c == '?' || c == '[' || c == ']':
			b.WriteString(`.*`)
		case c == '/' && strings.HasPrefix(pattern[i:], "/./"), c == '.' && strings.HasPrefix(pattern[i:], "./") && i > 0 && pattern[i-1] == '/':
		default:
			b.WriteString(regexp.QuoteMeta(string(c)))
		}
	}
	return b.String() + `$`
}

// protectedInFolder returns the protected path in a folder, at any depth, if takes accepts it: a key file, or a folder of acphost itself.
// Files of acphost without a key do not count, nor does a repository's WorkspaceFolder, because a command may read these along with others.
func (k *keyReading) protectedInFolder(dir string, takes func(path string) bool) string {
	dir = filepath.Clean(dir)
	if p := k.g.below(dir, takes); p != "" {
		return p
	}
	if len(k.g.keyFiles()) == 0 {
		return ""
	}
	// Many programs follow links.
	folders := []string{dir}
	for len(folders) > 0 && k.entries > 0 {
		folder := folders[0]
		folders = folders[1:]
		entries, _ := os.ReadDir(folder)
		k.entries -= len(entries)
		for _, e := range entries {
			path := filepath.Join(folder, e.Name())
			switch {
			case e.IsDir():
				folders = append(folders, path)
			case e.Type()&os.ModeSymlink == 0:
			case k.g.isKey(path) && takes(path):
				return path
			default:
				if p := k.g.below(path, takes); p != "" {
					return p
				}
			}
		}
	}
	return ""
}

// anyFile accepts every file.
func anyFile(string) bool { return true }

// below returns the key file or folder of acphost that lies below a folder, by the folder's name as written or resolved.
func (g Sight) below(dir string, takes func(path string) bool) string {
	for _, folder := range [...]string{dir, g.seen.Real(dir)} {
		if key := g.keyNamed(func(key string) bool { return paths.Below(folder, key) && takes(key) }); key != "" {
			return key
		}
		for _, p := range g.protected {
			if p != folder && paths.Below(folder, p) {
				if info, err := os.Stat(p); err == nil && info.IsDir() && takes(p) {
					return p
				}
			}
		}
	}
	return ""
}
