package shell

import "strings"

// RunsProject reports whether a command is meant to run the project's own code: its tests, its build, its scripts, by a
// program that is named without a folder or by a path. Allowing it includes everything that such code does with git.
func RunsProject(argv []string) bool {
	if len(argv) == 0 || argv[0] == "" || isGit(argv[0]) {
		return false
	}
	if unversioned(argv[0]) == "go" { // building and listing run none of it
		return len(argv) > 1 && (argv[1] == "test" || argv[1] == "run" || argv[1] == "generate")
	}
	name := unversioned(argv[0])
	return Interpreter(argv[0]) || projectRunners[name] || packageManagers[name] ||
		strings.HasPrefix(argv[0], "./") || strings.HasPrefix(argv[0], "node_modules/")
}
