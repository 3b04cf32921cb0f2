package programs

import "github.com/acphost/acphost/internal/git"

// Quiet returns env, each entry "NAME=VALUE", with settings that prevent git from running programs that a repository
// names: no file system monitor, hooks, pager, editor or signature program, no repository that is not named ".git", no
// remote helper "ext", no submodule except those in the index and, from git 2.45 on, no fetching of objects that a
// partial clone lacks. The settings have precedence over those in env and in any file. Look reports the programs that
// they cannot disable as suspects: filters, external diffs, programs of remotes. A command that no person allowed runs
// in such an environment.
func Quiet(env []string) []string { return git.Quiet(env) }
