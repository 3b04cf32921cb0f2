package shell

import "strings"

// RunsProject reports whether a command is there to run the project's own code: its tests, its build, its scripts, by a
// program that is named without a folder or by a path. What git does in such code is a part of it, so whoever lets it run has
// let that run too.
func RunsProject(argv []string) bool {
	if len(argv) == 0 || argv[0] == "" || isGit(argv[0]) {
		return false
	}
	if unversioned(argv[0]) == "go" { // what only builds or looks runs none of it
		return len(argv) > 1 && (argv[1] == "test" || argv[1] == "run" || argv[1] == "generate")
	}
	name := unversioned(argv[0])
	return Interpreter(argv[0]) || projectRunners[name] || packageManagers[name] ||
		strings.HasPrefix(argv[0], "./") || strings.HasPrefix(argv[0], "node_modules/")
}
