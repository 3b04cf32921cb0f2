package intent

import (
	"fmt"
	"slices"
	"strings"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

// member is what a member of rawInput stands for.
type member int

const (
	aCommand member = iota + 1
	aCommandList
	arguments
	directory
	environmentOf
	aPath
	pathList
)

// members are the names that agents use, in lower case: filePath is filepath is file_path.
var members = map[string]member{
	"command": aCommand, "cmd": aCommand,
	"commands": aCommandList,
	"args":     arguments, "arguments": arguments,
	"cwd": directory, "workdir": directory, "directory": directory, "dir_path": directory,
	"working_directory": directory, "workingdirectory": directory, "working_dir": directory,
	"env": environmentOf, "environment": environmentOf,
	"path": aPath, "file_path": aPath, "filepath": aPath, "abs_path": aPath, "absolute_path": aPath,
	"notebook_path": aPath, "file": aPath, "source": aPath, "destination": aPath,
	"paths": pathList, "files": pathList,
}

// read reads rawInput by the names that agents have in common, after a dialect has read its own. If a member with a known
// name has an unexpected value, the whole input is unclear: the agent may read a value that this function does not.
func read(raw []byte, first func(w *claim, raw []byte, name string, value []byte) bool) claim {
	w := claim{source: "the raw input"}
	switch {
	case empty(raw):
		return w
	case raw[0] != '{':
		w.doubt("the raw input is no object")
		return w
	}
	spelled := map[string]string{}
	var commands [][]string // a line alone, or an argv that begins with ""
	var args []string
	err := acp.Members(raw, func(name string, v []byte) bool {
		if string(v) == "null" {
			return true
		}
		folded := strings.ToLower(name)
		m := members[folded]
		before, twice := spelled[folded]
		spelled[folded] = name
		special := first != nil && first(&w, raw, folded, v)
		if m == 0 && !special {
			return true
		}
		if twice {
			w.doubt(fmt.Sprintf("the raw input has both %s and %s", before, name))
		}
		if special {
			return true
		}
		ok := true
		switch m {
		case aCommand:
			var c []string
			if c, ok = command(v); c != nil {
				commands = append(commands, c)
			}
		case aCommandList:
			var lines []string
			if lines, ok = acp.Strings(v); ok && len(lines) > 0 {
				commands = append(commands, []string{strings.Join(lines, "\n")})
			}
		case arguments:
			var list []string
			if list, ok = acp.Strings(v); ok && len(list) > 0 {
				if args != nil {
					w.doubt("the raw input has more than one list of arguments")
				}
				args = list
			}
		case directory:
			var dir string
			if dir, ok = acp.Exact(v); ok && dir != "" && !slices.Contains(w.cwd, dir) {
				w.cwd = append(w.cwd, dir)
			}
		case environmentOf:
			w.env, ok = environment(v)
		case aPath, pathList:
			ok = w.files(v)
		}
		w.expect(ok, folded)
		return true
	})
	if err != nil {
		w.doubt("the raw input cannot be read in one way only")
	}
	w.addCommand(commands, args)
	return w
}

// addCommand makes one command of all that were named, and of the arguments beside them.
func (w *claim) addCommand(commands [][]string, args []string) {
	for _, c := range commands[min(1, len(commands)):] {
		if !slices.Equal(c, commands[0]) {
			w.doubt("the raw input names more than one command")
		}
	}
	if len(commands) == 0 {
		if w.env != nil {
			w.doubt("the raw input has an environment and no command")
		}
		return
	}
	// A command that is not empty is better judged than none.
	c := commands[0]
	if i := slices.IndexFunc(commands, func(c []string) bool { return c[len(c)-1] != "" || len(c) > 1 }); i >= 0 {
		c = commands[i]
	}
	if len(w.cwd) > 1 {
		w.doubt("the raw input names more than one working directory")
	}
	switch {
	case len(c) > 1: // an argv
		w.argv = append(c[1:len(c):len(c)], args...)
	case len(args) == 0:
		w.line = c[0]
	case c[0] != "":
		w.argv = append([]string{c[0]}, args...)
		if strings.ContainsAny(c[0], " \t\n;&|<>()$`\\\"'*?[]{}~#") {
			w.doubt("the command has arguments both in its line and beside it")
		}
	}
}

// command reads a command that is a line or an argv array. An argv begins with "", so that it cannot be mistaken.
func command(raw []byte) ([]string, bool) {
	if line, ok := acp.Exact(raw); ok {
		return []string{line}, true
	}
	argv, ok := acp.Strings(raw)
	if !ok || len(argv) == 0 {
		return nil, ok
	}
	return append([]string{""}, argv...), true
}

// files takes a path or a list of paths.
func (w *claim) files(raw []byte) bool {
	if p, ok := acp.Exact(raw); ok {
		if p != "" {
			w.paths = append(w.paths, p)
		}
		return true
	}
	list, ok := acp.Strings(raw)
	if ok {
		w.paths = append(w.paths, list...)
	}
	return ok
}

// environment reads variables: ACP's list of name and value, an object, or a list of NAME=VALUE.
func environment(raw []byte) (env []string, ok bool) {
	ok = true
	switch raw[0] {
	case '{':
		err := acp.Members(raw, func(name string, v []byte) bool {
			value, isText := acp.Exact(v)
			ok = ok && isText
			env = append(env, text(name)+"="+value)
			return true
		})
		return env, ok && err == nil
	case '[':
		if env, ok = acp.Strings(raw); ok {
			return env, !slices.ContainsFunc(env, func(e string) bool { return !strings.Contains(e, "=") })
		}
		return variables(raw)
	}
	return nil, false
}

// variables reads ACP's list of environment variables.
func variables(raw []byte) (env []string, ok bool) {
	ok = true
	err := acp.Elements(raw, func(v []byte) bool {
		name, named := acp.Exact(acp.Get(v, "name"))
		value, valued := acp.Exact(acp.Get(v, "value"))
		ok = ok && named && valued
		env = append(env, name+"="+value)
		return true
	})
	return env, ok && err == nil
}
