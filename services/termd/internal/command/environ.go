package command

import (
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/secretname"
)

// Mark is the prefix of the variables that mark the terminal and the termd of a process. A termd that runs in a
// terminal of another termd also passes their marks on: a process may belong to both.
const Mark = "ACPHOST_TERM_"

// NewMark returns a unique variable of this kind, "NAME=1". It appends random characters to name, which begins with
// Mark.
func NewMark(name string) string {
	var raw [8]byte
	_, _ = rand.Read(raw[:]) // never fails
	return name + hex.EncodeToString(raw[:]) + "=1"
}

// Filter selects the variables that terminals do not inherit. Its zero value omits variables that look like secrets, by
// name or by value.
type Filter struct {
	// Deny are patterns for names, in which "*" matches any characters. If there are any, only they select the omitted
	// variables, except for Allow.
	Deny []string
	// Allow are patterns for names that are always passed on.
	Allow []string
	// KeepAll omits no variables.
	KeepAll bool
}

func (f Filter) omits(name, value string) bool {
	matches := func(pattern string) bool { return match(pattern, name) }
	switch {
	case f.KeepAll, slices.ContainsFunc(f.Allow, matches):
		return false
	case len(f.Deny) > 0:
		return slices.ContainsFunc(f.Deny, matches)
	}
	return secretname.Variable(name, value)
}

// defaultPath is the search path if the environment has no PATH.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Variable is a variable that a request sets.
type Variable struct{ Name, Value string }

// Inherit returns the variables of an environment that terminals inherit, each "NAME=VALUE". It omits variables between
// a supervisor and its handlers (PLUGIN_*, ACPHOST_*), variables that describe another terminal, and those that f
// omits. The last entry of a name counts.
func Inherit(environ []string, f Filter) []string {
	var kept environment
	for _, entry := range environ {
		name, value, ok := strings.Cut(entry, "=")
		if !ok || name == "" || internal(name) {
			continue
		}
		kept.set(name, value)
	}
	return slices.DeleteFunc(kept, func(entry string) bool {
		name, value, _ := strings.Cut(entry, "=")
		return f.omits(name, value)
	})
}

// environ returns the whole environment of a terminal, except the marks.
func environ(inherited []string, request []Variable, cwd string) (environment, error) {
	env := environment(slices.Clone(inherited))
	env.set("TERM", "xterm-256color")
	// No person is at the terminal to page or to edit: a pager or editor would wait forever.
	env.set("PAGER", "")
	env.set("GIT_PAGER", "cat")
	env.set("GIT_EDITOR", ":")
	env.set("PWD", cwd)
	if env.get("PATH") == "" {
		env.set("PATH", defaultPath)
	}
	for _, v := range request {
		if err := v.check(); err != nil {
			return nil, err
		}
		env.set(v.Name, v.Value)
	}
	return env, nil
}

func (v Variable) check() error {
	switch {
	case v.Name == "":
		return Invalid("env: a variable has an empty name")
	case strings.ContainsAny(v.Name, "=\x00"):
		return Invalid("env: the name %q has a character in it that names cannot have", v.Name)
	case strings.Contains(v.Value, "\x00"):
		return Invalid("env: the value of %s has a NUL character in it", v.Name)
	case strings.HasPrefix(v.Name, Mark):
		return Invalid("env: %s is reserved: names that begin with %s identify the terminal of a process", v.Name, Mark)
	}
	return nil
}

// environment is a list of "NAME=VALUE" with unique names.
type environment []string

func (e environment) index(name string) int {
	return slices.IndexFunc(e, func(entry string) bool {
		return len(entry) > len(name) && entry[len(name)] == '=' && entry[:len(name)] == name
	})
}

func (e environment) get(name string) string {
	if i := e.index(name); i >= 0 {
		return e[i][len(name)+1:]
	}
	return ""
}

func (e *environment) set(name, value string) {
	entry := name + "=" + value
	if i := e.index(name); i >= 0 {
		(*e)[i] = entry
		return
	}
	*e = append(*e, entry)
}

// internal reports whether a variable is not the user's: those of the plugin protocol, acphost's own, and those that
// describe another terminal.
func internal(name string) bool {
	switch name {
	case "LINES", "COLUMNS", "TERMCAP", "OLDPWD":
		return true
	}
	return strings.HasPrefix(name, "PLUGIN_") || (strings.HasPrefix(name, "ACPHOST_") && !strings.HasPrefix(name, Mark))
}

// match reports whether name matches pattern, in which "*" stands for any characters.
func match(pattern, name string) bool {
	head, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == name
	}
	name, ok := strings.CutPrefix(name, head)
	if !ok {
		return false
	}
	for {
		var part string
		part, rest, star = strings.Cut(rest, "*")
		if !star {
			return strings.HasSuffix(name, part)
		}
		i := strings.Index(name, part)
		if i < 0 {
			return false
		}
		name = name[i+len(part):]
	}
}
