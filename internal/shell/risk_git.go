package shell

import (
	"fmt"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/lazyregexp"
	"github.com/acphost/acphost/internal/wordset"
)

// gitReads are the commands of git that only read a repository, with the options that riskyGit accepts.
var gitReads = wordset.Of(`
	status log diff show blame annotate ls-files ls-tree rev-parse describe shortlog grep cat-file reflog rev-list
	merge-base name-rev for-each-ref show-ref show-branch count-objects var version whatchanged cherry diff-tree
	diff-index diff-files check-ignore check-attr check-mailmap range-diff branch tag remote stash
	config worktree notes symbolic-ref`)

// gitRef matches the name of a reference that is not a path out of the repository.
var gitRef = lazyregexp.New(`^(HEAD|refs(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+)$`)

// gitOptions run or write something with any command of git.
var gitOptions = []danger{
	{"--output", writes},
	{"--pathspec-from-file", lists},
	{"--ext-diff --textconv --filters", runs},
	{"--upload-pack --receive-pack --exec --extcmd --tool --open-files-in-pager", runs},
}

// gitVerbs are the options and operands with which a command of git that otherwise lists changes something.
var gitVerbs = map[string]struct {
	options string
	// lists are options and operands after which further operands are only searched for.
	lists string
	// operands: any operand that does not follow one of lists changes something.
	operands bool
}{
	"branch": {options: `-d -D -m -M -c -C -f -u --delete --move --copy --force --set-upstream-to --unset-upstream
		--edit-description --create-reflog --track -t --no-track`, lists: `-l --list --contains --no-contains --merged
		--no-merged --points-at -a --all -r --remotes`, operands: true},
	"tag": {options: "-d --delete -f --force -a --annotate -s --sign -u --local-user -m --message -F --file -e --edit -v --verify",
		lists: "-l --list --contains --no-contains --merged --no-merged --points-at -n", operands: true},
	"remote":   {lists: "get-url", operands: true},
	"stash":    {lists: "list show", operands: true},
	"worktree": {lists: "list", operands: true},
	"notes":    {lists: "list show", operands: true},
	"reflog":   {options: "--expire --rewrite --updateref", lists: "show", operands: false},
	"config":   {options: "-e --edit --unset --unset-all --add --replace-all --remove-section --rename-section", lists: "--get --get-all --get-regexp -l --list get list", operands: true},
	"grep":     {options: "-O"},
}

// GitCommand returns the command in git's arguments, argv[0] being git: "push" for "git -C DIR push". Empty if none
// exists.
func GitCommand(argv []string) string {
	for i := 1; i < len(argv); i++ {
		if !strings.HasPrefix(argv[i], "-") {
			return argv[i]
		}
		if slices.Contains(gitTakesNext, argv[i]) {
			i++
		}
	}
	return ""
}

// gitTakesNext are the options before git's command whose value may be the next word.
var gitTakesNext = []string{"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--config-env", "--attr-source"}

// gitQuiet are options that change nothing that git reads or runs.
var gitQuiet = wordset.Of("--no-pager -P --no-optional-locks --no-replace-objects --literal-pathspecs --version -v")

// riskyGit checks the options before git's command, the command, and the options after it. Of the latter, the first
// danger counts.
func riskyGit(args []string) (all []string) {
	i := 0
	for ; i < len(args) && strings.HasPrefix(args[i], "-"); i++ {
		name, _, attached := strings.Cut(args[i], "=")
		switch {
		case name == "-C":
			i++
		case gitQuiet[name]:
		case name == "--exec-path" && !attached:
		case strings.HasPrefix(args[i], "-c"):
			all = append(all, "git -c sets what may run a program")
		default:
			all = append(all, fmt.Sprintf("git %s changes what git reads or runs", name))
		}
	}
	if i >= len(args) {
		return all
	}
	command, rest := args[i], args[i+1:]
	for _, danger := range gitOptions {
		for _, option := range danger.find(exactly(rest, "--text", "--exclude-standard", "--exclude", "--full-diff"), isOption) {
			all = append(all, fmt.Sprintf("git %s %s", option, danger.does))
		}
	}
	all = append(all, riskyGitOptions(command, rest)...)
	if command == "submodule" && len(rest) > 0 && rest[0] == "status" && !slices.ContainsFunc(rest, enters) {
		return all
	}
	if !gitReads[command] {
		return append(all, fmt.Sprintf("git %s does more than read the repository, or is not known", command))
	}
	if why := riskyVerb(command, rest); why != "" {
		all = append(all, why)
	}
	return all
}

// enters reports whether an argument may be the option --recursive, with which a command enters nested submodules.
func enters(arg string) bool { return strings.HasPrefix(arg, "--r") }

func riskyVerb(command string, rest []string) string {
	if command == "symbolic-ref" {
		rest = exactly(rest, "--short", "-q", "--quiet")
		if len(rest) != 1 || !gitRef.MatchString(rest[0]) || strings.Contains(rest[0], "..") {
			return "git symbolic-ref changes the repository, unless it shows one reference"
		}
	}
	verbs, ok := gitVerbs[command]
	if !ok {
		return ""
	}
	if option := (danger{options: verbs.options}).in(rest); option != "" {
		if command == "grep" {
			return "git grep -O runs a program"
		}
		return fmt.Sprintf("git %s %s changes the repository", command, option)
	}
	lists := strings.Fields(verbs.lists)
	if command == "config" {
		rest = exactly(rest, GitConfigShows...)
	}
	if command == "reflog" {
		if of := operands(rest); len(of) > 0 && (of[0] == "expire" || of[0] == "delete" || of[0] == "drop" || of[0] == "write") {
			return fmt.Sprintf("git reflog %s changes the repository", of[0])
		}
	}
	if command == "stash" && (len(rest) == 0 || !slices.Contains(lists, rest[0])) { // "git stash -q" stashes
		return "git stash changes the repository, unless it only lists"
	}
	if !verbs.operands || len(operands(rest)) == 0 {
		return ""
	}
	if command == "config" && len(rest) == 1 && strings.Contains(rest[0], ".") { // the name of a setting, without a value
		return ""
	}
	first := rest[0]
	if command == "remote" { // options precede its subcommand
		first = operands(rest)[0]
	}
	name, _, _ := strings.Cut(first, "=")
	if slices.Contains(lists, name) {
		return ""
	}
	return fmt.Sprintf("git %s changes the repository, unless it only lists", command)
}

// GitConfigShows are options of git config that change how it shows settings, and where it reads them.
var GitConfigShows = []string{"-z", "--null", "--includes", "--no-includes", "--show-scope", "--show-origin", "--bool", "--int", "--local", "--global", "--system"}

// exactly removes options that match a known name exactly, because the other checks would treat them as abbreviations.
func exactly(args []string, known ...string) []string {
	return slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return slices.Contains(known, arg) })
}
