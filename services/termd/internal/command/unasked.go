package command

import "github.com/acphost/acphost/sdk/programs"

// unasked is the environment of a command that nobody was asked about: git runs nothing in it that a repository names, as far
// as an environment can see to that. What a person has allowed keeps its hooks and all else.
func unasked(env environment) environment { return programs.Quiet(env) }
