package shell

import (
	"fmt"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/git"
	"github.com/acphost/acphost/internal/lazyregexp"
	"github.com/acphost/acphost/internal/wordset"
)

// gitHarmless are the long options that never make a command of git run a program, load settings, enter another
// repository or write at another place. Options that begin with "no-" disable something, except --no-index. Not
// included: --exec, --upload-pack, --template, --config, --strategy, --gpg-sign, --show-signature, --contents,
// --textconv, --tool and others.
var gitHarmless = wordset.Of(`
	patch unified function-context raw patch-with-raw patch-with-stat numstat shortstat dirstat cumulative dirstat-by-file
	check summary name-only name-status stat stat-width stat-name-width stat-graph-width stat-count compact-summary binary
	full-index color ws-error-highlight abbrev src-prefix dst-prefix default-prefix line-prefix inter-hunk-context
	output-indicator-new output-indicator-old output-indicator-context break-rewrites find-renames irreversible-delete
	find-copies find-copies-harder renames rename-empty follow minimal ignore-all-space ignore-space-change
	ignore-space-at-eol ignore-cr-at-eol ignore-blank-lines ignore-matching-lines indent-heuristic patience histogram
	diff-algorithm anchored word-diff word-diff-regex color-words color-moved color-moved-ws relative text exit-code quiet
	ignore-submodules submodule ita-invisible-in-index ita-visible-in-index pickaxe-all pickaxe-regex rotate-to skip-to
	find-object diff-filter cached staged merge-base base ours theirs
	verbose short branch show-stash ahead-behind porcelain long null untracked-files ignored column
	source use-mailmap mailmap clear-decorations decorate-refs decorate-refs-exclude decorate
	all branches tags remotes glob exclude exclude-hidden reflog walk-reflogs single-worktree ignore-missing stdin
	cherry-mark cherry-pick left-only right-only cherry merge boundary max-count skip since after since-as-filter until
	before author committer grep-reflog grep all-match invert-grep regexp-ignore-case basic-regexp extended-regexp
	fixed-strings perl-regexp remove-empty merges min-parents max-parents first-parent exclude-first-parent-only not
	simplify-by-decoration full-history dense sparse simplify-merges ancestry-path show-pulls bisect bisect-vars bisect-all
	date-order author-date-order topo-order reverse do-walk objects in-commit-order objects-edge
	objects-edge-aggressive indexed-objects unpacked object-names filter filter-provided-objects filter-print-omitted
	missing exclude-promisor-objects pretty format abbrev-commit oneline encoding expand-tabs notes standard-notes
	show-notes-by-default show-notes relative-date date parents children left-right graph show-linear-break count timestamp
	header disk-usage use-bitmap-index progress diff-merges combined-all-paths cc dd remerge-diff log-size root always
	default revs-only flags symbolic symbolic-full-name abbrev-ref verify sq sq-quote git-dir absolute-git-dir
	git-common-dir is-inside-git-dir is-inside-work-tree is-bare-repository is-shallow-repository show-toplevel show-cdup
	show-prefix show-superproject-working-tree git-path shared-index-path local-env-vars path-format show-object-format
	show-ref-format disambiguate
	list get get-all get-regexp get-urlmatch get-color get-colorbool show-origin show-scope local global system worktree
	includes type bool int bool-or-int path expiry-date file blob value fixed-value regexp all-values name
	incremental show-stats score-debug show-name show-number line-porcelain show-email ignore-rev ignore-revs-file
	color-lines color-by-age
	deleted modified others stage killed directory eol empty-directory unmerged resolve-undo exclude-from
	exclude-per-directory exclude-standard full-name error-unmatch with-tree debug deduplicate object-only full-tree full-diff
	numbered email group contains exact-match candidates match dirty broken octopus independent is-ancestor
	fork-point heads head dereference hash exclude-existing exists
	points-at with without merged sort ignore-case show-current delete move copy force create-reflog track set-upstream
	set-upstream-to unset-upstream
	untracked invert-match word-regexp recursive max-depth line-number files-with-matches files-without-match
	only-matching break heading context before-context after-context threads show-function and or index
	allow-unknown-type batch batch-check batch-command batch-all-objects buffer follow-symlinks unordered
	shell perl python tcl refs annotate-stdin undefined peel-tag push expire human-readable build-options
	creation-factor dual-color current sha1-name topics more non-matching
	dry-run update renormalize intent-to-add ignore-removal refresh ignore-errors chmod pathspec-from-file
	pathspec-file-nul message reedit-message reuse-message fixup squash reset-author trailer signoff cleanup status include
	only amend allow-empty allow-empty-message edit annotate interactive
	guess overlay conflict detach orphan overwrite-ignore ignore-other-worktrees ignore-skip-worktree-bits create
	force-create discard-changes include-untracked keep-index only-untracked ignore-unmerged soft mixed hard keep
	append atomic multiple jobs prefetch prune prune-tags write-fetch-head update-head-ok depth shallow-since
	shallow-exclude deepen unshallow refetch refmap ipv4 ipv6 negotiation-tip negotiate-only show-forced-updates rebase
	autostash ff ff-only log commit allow-unrelated-histories force-with-lease force-if-includes thin follow-tags mirror
	push-option server-option bare local single-branch origin initial-branch shared reject-shallow dissociate
	abort continue quit onto autosquash root preserve-merges rebase-merges empty keep-empty strategy-option mainline
	init recursive allow-empty-commit keep-redundant-commits verify-signatures three-way 3way whitespace`)

// gitShortened are options of gitHarmless that are abbreviations of another option for a command: git accepts
// unambiguous prefixes, so "cat-file --text" is --textconv.
var gitShortened = map[string]map[string]bool{
	"cat-file": wordset.Of("text filter"), "clone": wordset.Of("recursive"), "hash-object": wordset.Of("filter"),
	"read-tree": wordset.Of("index"), "repack": wordset.Of("expire"),
}

// gitLetters are the harmless short options of commands that do not only read: flags, and options with a value. All
// short options of a command that only reads are harmless, except those in dangers.
var gitLetters = map[string]struct{ flags, values string }{
	"add": {flags: "nvfiupeNA"}, "commit": {"qvasnizpoe", "mFcCu"}, "checkout": {"qltdfmp23", "bB"}, "switch": {"dfmtq", "cC"},
	"restore": {"SWpqm23", "sU"}, "stash": {"pqkuaS", "m"}, "fetch": {"vqaftpPkun46m", "jo"}, "pull": {"vqrntfpk46a", "jX"},
	"push": {"vqfdnu46", "o"}, "clone": {"vqnls46", "obj"}, "merge": {"nqve", "mFX"}, "rebase": {"iqvnfmrkp", "X"},
	"reset": {"qNp", "U"}, "rm": {flags: "rfnq"}, "mv": {flags: "kfnv"}, "cherry-pick": {"enxs", "mX"}, "revert": {"ens", "mX"},
	"init": {"q", "b"}, "clean": {"dfxXnqi", "e"}, "am": {"sikuqcr3", "C"}, "apply": {"R3vNz", "pC"}, "ls-remote": {flags: "qht"},
}

// gitRemotes are the commands of git with a remote as operand, which can name a program ("ext::sh -c …").
var gitRemotes = wordset.Of("clone fetch pull push ls-remote remote submodule archive fetch-pack send-pack remote-ext")

// gitSigned matches a format that makes git verify a signature with gpg.
var gitSigned = lazyregexp.New(`%[-+ ]?G`)

// riskyGitOptions returns the options of one of git's own commands that are not known to be harmless. Commands from
// other packages are covered by the rule that names them.
func riskyGitOptions(command string, args []string) (all []string) {
	if git.KindOf(command) == git.Foreign {
		return nil
	}
	writes := !gitReads[command]
	for i, arg := range args {
		if arg == "--" {
			break
		}
		next := ""
		if i+1 < len(args) {
			next = args[i+1]
		}
		if why := riskyGitOption(command, arg, next, writes); why != "" {
			all = append(all, why)
		}
	}
	if gitRemotes[command] {
		for _, arg := range args { // after a "--", too
			if helper, _, ok := strings.Cut(arg, "::"); ok {
				all = append(all, fmt.Sprintf("git %s %s:: runs a program", command, helper))
			}
		}
	}
	return all
}

// riskyGitOption returns the danger of one word after a command of git, followed by next.
func riskyGitOption(command, arg, next string, writes bool) string {
	long, isLong := strings.CutPrefix(arg, "--")
	name, value, attached := strings.Cut(long, "=")
	if !attached {
		value = next
	}
	switch {
	case isLong && len(name) > len("no") && strings.HasPrefix("no-index", name):
		return fmt.Sprintf("git %s --no-index reads what git does not keep", command)
	case isLong && strings.HasPrefix(name, "no-"):
	case isLong && (!gitHarmless[name] || gitShortened[command][name]):
		return fmt.Sprintf("git %s --%s is not known to be harmless", command, name)
	case isLong && gitReadsFile[name] && writes && leadsAway(value):
		return fmt.Sprintf("git %s --%s reads a file from anywhere", command, name)
	case isLong && name == "submodule" && attached && value != "" && value != "log" && value != "short":
		return fmt.Sprintf("git %s --%s enters other repositories", command, long)
	case isLong && attached && (name == "format" || name == "pretty" || name == "group") && gitSigned.MatchString(value):
		return fmt.Sprintf("git %s --%s=%%G runs a program", command, name)
	case isLong && name == "sort" && (strings.Contains(value, "signature") || strings.Contains(next, "signature")):
		return fmt.Sprintf("git %s --sort=signature runs a program", command)
	case isLong, len(arg) < 2, arg[0] != '-', !writes:
	default:
		if letter := riskyLetter(command, arg[1:], next); letter != "" {
			return fmt.Sprintf("git %s -%s is not known to be harmless", command, letter)
		}
	}
	if strings.Contains(arg, "%(signature") || strings.Contains(arg, "%(*signature") {
		return fmt.Sprintf("git %s with %%(signature) runs a program", command)
	}
	return ""
}

// gitReadsFile are long options whose value is a file that git reads and whose content it then stores.
var gitReadsFile = wordset.Of("file pathspec-from-file exclude-from ignore-revs-file")

// leadsAway reports whether a word may name a file outside of the folder in which the command runs. "-" is the standard
// input.
func leadsAway(file string) bool {
	return file == "" || strings.HasPrefix(file, "/") || strings.HasPrefix(file, "~") || slices.Contains(strings.Split(file, "/"), "..")
}

// riskyLetter returns the first short option in a cluster that is not known to be harmless; empty if all are. next is
// the word after the cluster.
func riskyLetter(command, cluster, next string) string {
	known := gitLetters[command]
	for i, letter := range cluster {
		switch {
		case letter == 'F' && strings.ContainsRune(known.values, letter): // its value is a file that git reads
			value := cluster[i+1:]
			if value == "" {
				value = next
			}
			if leadsAway(value) {
				return string(letter)
			}
			return ""
		case strings.ContainsRune(known.values, letter):
			return "" // the rest of the cluster is its value
		case !strings.ContainsRune(known.flags, letter):
			return string(letter)
		}
	}
	return ""
}
