package programs

import "github.com/acphost/acphost/internal/git"

// Quiet returns env, each entry "NAME=VALUE", with settings that keep git from running what a repository names: no file
// system monitor, hooks, pager, editor or signature program, no repository that is not named ".git", no remote helper
// "ext", no submodule but those that the index names and, from git 2.45 on, no fetching of objects that a partial clone
// lacks. The settings win over those in env and in any file. What they cannot turn off is what Look answers as suspects:
// filters, external diffs, programs of remotes. A command that no person allowed runs in such an environment.
func Quiet(env []string) []string { return git.Quiet(env) }
