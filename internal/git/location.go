package git

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
)

// HarmlessLocation returns "" if a new content of a file ".git" or commondir names a folder in which every file is
// judged by its name: a folder named ".git", or one below it. Otherwise it returns a reason. before is the present
// content, nil if there is none; the same content is harmless. file is the path of the file, absolute. The file system
// is not read.
//
// It does not matter where the folder named ".git" is, or whether the path to it has symbolic links: it is judged by its
// name anywhere, and cannot be a symbolic link itself.
func HarmlessLocation(file string, data, before []byte) (why string) {
	if len(data) == 0 || bytes.Equal(data, before) {
		return ""
	}
	text, ok := strings.TrimRight(string(data), "\r\n"), len(data) <= maxLink
	if isFolder(filepath.Base(file)) && ok {
		text, ok = strings.CutPrefix(text, "gitdir: ")
	}
	if !ok || text == "" || strings.ContainsFunc(text, unusual) || strings.Contains(text, "\n") {
		return "the path of a repository, which " + errSyntax.Error()
	}
	if staysInFolder(filepath.Dir(file), text) || namesFolder(text) {
		return ""
	}
	return "the path of a repository, to a folder that is not named " + folder
}

// namesFolder reports whether a path leads to a folder named ".git" or below it, whatever the names before that are.
func namesFolder(path string) bool {
	parts := strings.Split(path, "/")
	i := lastIndex(parts)
	return i >= 0 && !leadsAway(parts[i+1:])
}

// staysInFolder reports whether a relative path from dir stays in the folder named ".git" in which dir lies.
func staysInFolder(dir, path string) bool {
	below := strings.Split(filepath.Clean(dir), "/")
	i := lastIndex(below)
	if i < 0 || filepath.IsAbs(path) {
		return false
	}
	inside := filepath.Join(filepath.Join(below[i+1:]...), path)
	return filepath.IsLocal(inside) && !leadsAway(strings.Split(inside, "/"))
}

func lastIndex(parts []string) int {
	for i, part := range slices.Backward(parts) {
		if part == folder {
			return i
		}
	}
	return -1
}

// leadsAway reports whether names below a folder named ".git" may lead out of it: by "..", or by a symbolic link, which
// can have the name of a probe. Directly in "modules" and "worktrees", no symbolic link can be.
func leadsAway(below []string) bool {
	for i, name := range below {
		listed := i == 1 && (below[0] == "modules" || below[0] == "worktrees")
		if name == ".." || isProbe(spelled(name)) && !listed {
			return true
		}
	}
	return false
}
