package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/acphost/acphost/internal/wordset"
)

// relinkers are programs that create files and symbolic links at given paths: they copy, move, unpack, or link them.
var relinkers = wordset.Of(`ln link cp mv rename install rsync tar bsdtar cpio pax unzip 7z 7za 7zr unrar unar jar patch stow ditto
	gcp gmv gln ginstall gtar busybox hg svn jj`)

// gitLeavesFiles are commands of git that change no file of the working tree.
var gitLeavesFiles = wordset.Of(`add commit tag branch fetch push config init remote notes gc repack prune reflog maintenance log show
	diff status grep blame ls-files ls-tree rev-parse rev-list cat-file describe shortlog show-ref symbolic-ref update-ref for-each-ref`)

// stashLeavesFiles are the same for "git stash".
var stashLeavesFiles = wordset.Of("list show drop clear create store")

// Relinks reports whether a command may replace an existing file by another file or a symbolic link, so that the
// meaning of a path is unknown after the command. It knows git, and programs that copy, move, unpack or link files. It
// ignores the effects of a project's own code, which can do anything by itself.
func Relinks(argv []string) bool {
	if len(argv) == 0 || !isGit(argv[0]) {
		return len(argv) > 0 && relinkers[unversioned(argv[0])]
	}
	command := GitCommand(argv)
	at := slices.Index(argv, command)
	switch rest := argv[at+1:]; {
	case command == "" || gitLeavesFiles[command]:
		return false
	case command == "stash":
		return len(rest) == 0 || !stashLeavesFiles[rest[0]]
	case command == "checkout" || command == "switch": // a new branch at the current commit
		return len(rest) != 2 || !slices.Contains([]string{"-b", "-c"}, rest[0]) || strings.HasPrefix(rest[1], "-")
	}
	return true
}

// InOrder reports whether the commands of a line run one after the other, in the order that Parse returns, and each at
// most once. It returns false for a line with loops, pipes, substitutions, functions or background commands, and for a
// line with a shell that reads another line.
func InOrder(line string) bool {
	if unreadable(line) != "" {
		return false
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(line), "")
	if err != nil {
		return false
	}
	ordered := true
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Stmt:
			ordered = ordered && !n.Background && !n.Coprocess && !n.Disown
		case *syntax.BinaryCmd:
			ordered = ordered && (n.Op == syntax.AndStmt || n.Op == syntax.OrStmt)
		case *syntax.CallExpr:
			ordered = ordered && (len(n.Args) == 0 || !evaluates[n.Args[0].Lit()])
		case *syntax.ForClause, *syntax.WhileClause, *syntax.CmdSubst, *syntax.ProcSubst, *syntax.FuncDecl, *syntax.CoprocClause, *syntax.DeclClause:
			ordered = false
		}
		return ordered
	})
	return ordered
}

// evaluates are builtins that run a line, now or later.
var evaluates = wordset.Of("eval trap . source")
