package policy

import (
	"slices"
	"strings"
)

// harmless are variables that change how output looks and nothing of what runs. All others make an allow rule not match:
// there are too many by which a program can be made to run or load something else (PATH, LD_PRELOAD, BASH_ENV, GIT_SSH,
// NODE_OPTIONS, CC, and whatever a project's own scripts read) to list them.
var harmless = []string{
	"LANG", "LANGUAGE", "TZ", "TERM", "COLORTERM", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "FORCE_COLOR", "COLUMNS",
	"LINES", "CI", "NODE_ENV", "RUST_BACKTRACE",
}

// harmlessVariable reports whether NAME=VALUE cannot change what a command does.
func harmlessVariable(entry string) bool {
	name, value, ok := strings.Cut(entry, "=")
	switch {
	case !ok:
		return false
	case name == "PAGER":
		return value == "" || value == "cat"
	case strings.HasPrefix(name, "LC_"):
		return true
	}
	return slices.Contains(harmless, name)
}

// harmlessWrappers run the command that they are given under no other rights, environment or directory.
var harmlessWrappers = []string{
	"sh -c", "bash -c", "dash -c", "/bin/sh -c", "/bin/bash -c", "/usr/bin/sh -c", "/usr/bin/bash -c",
	"time", "timeout", "nice", "command", "eval", "exec", "stdbuf", "env",
}
