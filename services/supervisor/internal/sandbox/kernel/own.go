package kernel

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/paths"
)

// Own describes where an agent keeps its state. The zero value is empty. It is immutable.
type Own struct{ folders, files []string }

// Files are the files that an agent is known to have. The zero value says nothing.
type Files struct {
	// State are files in which the agent keeps its state, in the notation of presets (see CheckState).
	State []string
	// Caches are variables by which the agent finds folders for its caches.
	Caches []string
}

// CacheVariables returns the variables by which the agent finds folders that acphost can choose. An agent of which no
// file is known gets the folders of the XDG specification for caches and state: programs that follow it keep nothing
// there that the user has to have elsewhere.
func (f Files) CacheVariables() []string {
	if len(f.State) == 0 && len(f.Caches) == 0 {
		return []string{"XDG_CACHE_HOME", "XDG_STATE_HOME"}
	}
	return f.Caches
}

// NewOwn returns an Own with the files of State. env are the agent's variables; a file that uses an unset variable is
// ignored.
func NewOwn(state, env []string) *Own {
	o := &Own{}
	for _, pattern := range state {
		file, ok := expand(pattern, env)
		if !ok {
			continue
		}
		if folder, all := strings.CutSuffix(file, "/**"); all {
			o.folders = append(o.folders, paths.Real(folder))
		} else {
			o.files = append(o.files, filepath.Join(paths.Real(filepath.Dir(file)), filepath.Base(file)))
		}
	}
	return o
}

// With returns a copy of o with one more folder, absolute and without symbolic links.
func (o *Own) With(folder string) *Own {
	return &Own{append(slices.Clone(o.folders), folder), o.files}
}

// Keeps reports whether a file, by its real path, holds the agent's state. moved: the file is about to be moved, or written by another
// name, or to become a symbolic link. A folder that is named without its contents, and those above it, may be created, but not moved.
func (o *Own) Keeps(path string, moved bool) bool {
	if o == nil || path == "" {
		return false
	}
	if moved && slices.ContainsFunc(o.folders, func(f string) bool { return paths.Below(path, f) }) {
		return false
	}
	if slices.ContainsFunc(o.folders, func(f string) bool { return paths.Below(f, path) }) {
		return true
	}
	if moved {
		if is, err := os.Lstat(path); err == nil && !is.Mode().IsRegular() || err != nil && !errors.Is(err, os.ErrNotExist) {
			return false
		}
	}
	is := func(pattern string) bool {
		ok, err := filepath.Match(pattern, path)
		return err == nil && ok
	}
	return slices.ContainsFunc(o.files, is)
}

// CheckState returns the error in the notation of a state file; empty: it is valid. The file begins with "~/", or with ${NAME} or
// ${NAME:-~/FOLDER} and "/", for a variable of the agent. It may end in "/**", for a folder with its contents. Its last name may be a
// pattern.
func CheckState(pattern string) string {
	file, ok := expand(pattern, []string{"HOME=/h"})
	switch {
	case !ok && strings.HasPrefix(pattern, "${") && strings.Contains(pattern, "}/"):
		return ""
	case !ok || filepath.Clean(file) != file:
		return "expected a file like ~/.agent/state.json, ~/.agent/sessions/** or ${AGENT_HOME:-~/.agent}/sessions/**"
	}
	folder, all := strings.CutSuffix(file, "/**")
	if !all {
		folder = filepath.Dir(file)
	}
	if _, err := filepath.Match(file, ""); err != nil || strings.ContainsAny(folder, "*?[\\") || all && folder == "/h" {
		return "expected names without patterns but in the last, and not the whole home folder"
	}
	return ""
}

// expand returns the path of a state file in the notation of presets.
func expand(pattern string, env []string) (string, bool) {
	if rest, ok := strings.CutPrefix(pattern, "${"); ok {
		name, rest, closed := strings.Cut(rest, "}")
		name, otherwise, _ := strings.Cut(name, ":-")
		value := Variable(env, name)
		if value == "" {
			value = otherwise
		}
		if !closed || value == "" {
			return "", false
		}
		pattern = value + rest
	}
	if rest, ok := strings.CutPrefix(pattern, "~/"); ok && Variable(env, "HOME") != "" {
		pattern = Variable(env, "HOME") + "/" + rest
	}
	return pattern, filepath.IsAbs(pattern)
}

// Variable returns the value of a variable in an environment; empty: it is not set.
func Variable(env []string, name string) string {
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}
