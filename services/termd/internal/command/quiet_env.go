package command

import "github.com/acphost/acphost/sdk/programs"

// quietEnv returns the environment of a command that a rule allowed without asking a person: in it, git does not run
// programs that a repository names, as far as an environment can prevent that. A command that a person has allowed
// keeps hooks and everything else.
func quietEnv(env environment) environment { return programs.Quiet(env) }
