package kernel

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/paths"
	"github.com/acphost/acphost/sdk/programs"
)

// Own describes an agent's own files and programs: where it keeps its state, and its code. The zero value is empty. It is immutable.
type Own struct {
	folders, files, code []string
	starts               []program
}

// Files are the files and programs that an agent is known to have. The zero value says nothing.
type Files struct {
	// State are files in which the agent keeps its state, in the notation of presets (see CheckState).
	State []string
	// Caches are variables by which the agent finds folders for its caches.
	Caches []string
	// Programs are further programs of the agent, by name.
	Programs []string
	// Starts are programs that the agent starts for itself (see CheckStart).
	Starts [][]string
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

// NewOwn returns an Own. command is the agent's program, by name or path, with its first argument. env are the agent's
// variables; a state file that uses an unset variable is ignored.
func NewOwn(files Files, command, env []string) *Own {
	o := &Own{}
	for _, words := range files.Starts {
		if p, ok := parseStart(words); ok {
			o.starts = append(o.starts, p)
		}
	}
	for _, pattern := range files.State {
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
	for _, program := range slices.Concat(command, files.Programs) {
		if file := programs.Find(program, Variable(env, "PATH"), "/"); file != "" {
			if folder := codeOf(paths.Real(file)); folder != "" && !slices.Contains(o.code, folder) {
				o.code = append(o.code, folder)
			}
		}
	}
	return o
}

// With returns a copy of o with one more folder, absolute and without symbolic links.
func (o *Own) With(folder string) *Own {
	return &Own{append(slices.Clone(o.folders), folder), o.files, o.code, o.starts}
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

// Runs reports whether a program, by its real path, is part of the agent, or runs a script that is. Starting such a program gives an agent
// no new rights, because its actions are decided like the agent's.
func (o *Own) Runs(path string, args []string) bool {
	if o == nil {
		return false
	}
	part := func(file string) bool {
		return slices.ContainsFunc(o.code, func(f string) bool { return paths.Below(f, file) })
	}
	return part(path) || len(args) > 1 && slices.Contains(interpreters, filepath.Base(path)) && filepath.IsAbs(args[1]) && part(paths.Real(args[1]))
}

// interpreters run the script that is their first argument.
var interpreters = []string{"node", "bun"}

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

// codeOf returns the folder with the code of a program that npm installed: the whole installation for a project or npx, and otherwise the
// package. Empty: the program belongs to no package.
func codeOf(file string) string {
	const modules = "/node_modules/"
	before, rest, ok := strings.Cut(file, modules)
	if !ok {
		return ""
	}
	for _, name := range []string{"package.json", "package-lock.json"} {
		if _, err := os.Stat(filepath.Join(before, name)); err == nil {
			return before + strings.TrimSuffix(modules, "/")
		}
	}
	names := strings.SplitN(rest, "/", 3)
	if strings.HasPrefix(rest, "@") && len(names) > 2 {
		return before + modules + names[0] + "/" + names[1]
	}
	return before + modules + names[0]
}
