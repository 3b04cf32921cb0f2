package git

import (
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/wordset"
)

// Kind says what a command of git is.
type Kind int

const (
	// Foreign says that git does not come with it. It is an alias, or a program "git-NAME" that is looked for in PATH.
	Foreign Kind = iota
	// Builtin says that git does it itself, whatever is in PATH.
	Builtin
	// Script says that it comes with git and is, with some versions, a script, whose tools are looked for in PATH.
	Script
)

// builtins are the commands that git does itself, and by which it calls itself, in some version or other.
var builtins = wordset.Of(` add am annotate apply archive backfill bisect--helper blame branch bugreport bundle cat-file check-attr
	check-ignore check-mailmap check-ref-format checkout checkout--worker checkout-index cherry cherry-pick clean clone column
	commit commit-graph commit-tree config count-objects credential credential-cache credential-store describe diagnose diff
	diff-files diff-index diff-pairs diff-tree fast-export fast-import fetch fetch-pack fmt-merge-msg for-each-ref
	for-each-repo format-patch fsck fsck-objects gc get-tar-commit-id grep hash-object help hook index-pack init init-db
	interpret-trailers log ls-files ls-remote ls-tree mailinfo mailsplit maintenance merge merge-base merge-file merge-index
	merge-ours merge-recursive merge-recursive-ours merge-recursive-theirs merge-subtree merge-tree mktag mktree
	multi-pack-index mv name-rev notes pack-objects pack-redundant pack-refs patch-id pickaxe prune prune-packed pull push
	range-diff read-tree rebase receive-pack reflog refs remote replace replay rerere reset restore rev-list rev-parse
	revert rm send-pack shortlog show show-branch show-index show-ref sparse-checkout stage stash status stripspace switch
	symbolic-ref tag unpack-file unpack-objects update-index update-ref update-server-info upload-archive upload-pack var
	verify-commit verify-pack verify-tag version whatchanged worktree write-tree `)

// scripts come with git too.
var scripts = wordset.Of(` archimport bisect citool cvsexportcommit cvsimport cvsserver daemon difftool filter-branch gui http-backend
	imap-send instaweb merge-octopus merge-one-file merge-resolve mergetool p4 quiltimport request-pull send-email shell
	submodule subtree svn web--browse `)

// KindOf tells what a command of git, "status", is.
func KindOf(command string) Kind {
	switch {
	case builtins[command]:
		return Builtin
	case scripts[command]:
		return Script
	}
	return Foreign
}

// Finds reports whether git may run a program of that name, found in PATH, for a builtin command: for another machine, a
// signature, a password or a large file; or, where it is not quiet, for a person to read or write.
func Finds(name string, quiet bool) bool {
	switch name {
	case "ssh", "ssh-keygen", "gpg", "gpgsm", "git-lfs":
		return true
	case "less", "more", "vi", "editor":
		return !quiet
	}
	return strings.HasPrefix(name, "git-remote-") || strings.HasPrefix(name, "git-credential-")
}

// User is what a user's own configuration files, which nobody else may write, say of programs. A file that cannot be read
// says nothing, and what a file includes is not read.
type User struct {
	// Aliases are the commands that they define.
	Aliases []string
	// Programs are words of settings that may name a program without a folder.
	Programs []string
}

// ReadUser reads a user's configuration files. quiet: git gets the environment of Quiet.
func ReadUser(files []string, quiet bool) (u User) {
	for _, file := range files {
		data, err := bounded(file, maxConfig)
		if err != nil {
			continue
		}
		all, _ := settings(data)
		for _, s := range all {
			switch {
			case s.section == "alias":
				u.Aliases = append(u.Aliases, s.alias())
			case s.isHarmless() || s.off(quiet):
			default:
				u.Programs = append(u.Programs, strings.FieldsFunc(s.value, func(r rune) bool {
					return !isKey(r) && r != '.' && r != '_' && r != '+' && r != '/'
				})...)
			}
		}
	}
	u.Programs = slices.DeleteFunc(u.Programs, func(word string) bool { return strings.Contains(word, "/") })
	slices.Sort(u.Programs)
	u.Programs = slices.Compact(u.Programs)
	return u
}
