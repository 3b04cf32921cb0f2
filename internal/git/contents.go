package git

import (
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/lazyregexp"
	"github.com/acphost/acphost/internal/wordset"
)

// Contents says which contents of files a command shows that only reads a repository. Files that it names by a path do not
// count.
type Contents struct {
	// Index: it shows files of the index, as they are there or in the folder. History: it shows those of any commit, and those
	// of the index.
	Index, History bool
	// Named are files that are named by a revision: "a/b" of "HEAD~1:a/b". A path begins at the top of the repository or, with
	// "./" or "../" in front, in the folder where git runs.
	Named []string
	// Objects are ids of objects, or the beginnings of ids. What the command shows depends on what these objects are.
	Objects []string
	// TreesAreNames: of a folder that is named by its id it shows the names alone.
	TreesAreNames bool
	// Nameless: it shows objects without regard to what they are.
	Nameless bool
	// Untold: pathspecs cannot keep files from it.
	Untold bool
}

// Any reports whether the command shows contents, or may.
func (c Contents) Any() bool {
	return c.Index || c.History || c.Nameless || len(c.Named) > 0 || len(c.Objects) > 0
}

var (
	// showNothing are commands that read, and show no contents of files that they do not name.
	showNothing = wordset.Of(`blame annotate ls-files ls-tree rev-parse describe shortlog rev-list merge-base name-rev show-ref
		show-branch count-objects var version cherry check-ignore check-attr check-mailmap remote config worktree notes help`)
	// patchless are options that make git log, diff and show print no contents.
	patchless = wordset.Of(`--oneline --graph --all --branches --tags --remotes --glob --exclude --reverse --date-order
		--author-date-order --topo-order --since --after --until --before --author --committer --grep --all-match --invert-grep -i
		--regexp-ignore-case -E -F -P --extended-regexp --fixed-strings --perl-regexp --basic-regexp --merges --no-merges
		--first-parent --max-count -n --skip --pretty --format --abbrev-commit --no-abbrev-commit --abbrev --decorate --no-decorate
		--decorate-refs --date --relative-date --color --no-color --left-right --cherry-pick --cherry-mark --cherry --left-only
		--right-only --boundary --follow --diff-filter -M -C --find-renames --find-copies --no-renames --ancestry-path
		--simplify-by-decoration --full-history --source --relative --exit-code -z --cached --staged --merge-base
		--ignore-submodules --no-ext-diff --no-textconv --no-notes --use-mailmap --no-mailmap --parents --children --no-walk -r
		--root -g --walk-reflogs --cumulative --always --encoding`)
	// summaries are options with which git diff and git show print no patch, unless another option asks for one.
	summaries = wordset.Of(`--stat --shortstat --numstat --summary --name-only --name-status --raw --no-patch -s --dirstat
		--compact-summary --quiet`)
	// valued are options whose value is the next word; of git grep, valuedGrep. "-U" and "--pretty" take none: the next word
	// is an operand.
	valued = wordset.Of(`-n --max-count --skip --since --after --until --before --author --committer --grep -S -G -I --date
		--diff-filter --format --glob --exclude --encoding --decorate-refs`)
	valuedGrep = wordset.Of("-A -B -C -m -e -f --max-depth --max-count --threads --context --after-context --before-context")

	counted = lazyregexp.New(`^-[nMC]?[0-9]+%?$`)
	// rawContents is a format that shows what a ref, or the tag that it names, leads to.
	rawContents = lazyregexp.New(`%\(\*?(?:raw|contents)`)
	objectID    = lazyregexp.New(`^(?:.*-g)?([0-9a-fA-F]{4,64})$`)
)

// ContentsOf reads the words of git, "git" first. Of a command that does more than read it says nothing.
func ContentsOf(argv []string) Contents {
	w, ok := splitWords(argv)
	if !ok || showNothing[w.command] {
		return Contents{}
	}
	c := Contents{TreesAreNames: w.command == "show" || w.command == "cat-file"}
	switch w.command {
	case "status":
		c.History = slices.ContainsFunc(w.flags, func(f string) bool {
			return f == "--verbose" || len(f) > 1 && f[1] != '-' && strings.Contains(f, "v")
		})
		c.Untold = c.History
	case "for-each-ref", "branch", "tag":
		c.History = slices.ContainsFunc(w.args, rawContents.MatchString)
		c.Untold = c.History
	case "log", "whatchanged", "diff-tree", "diff-index":
		c.History = patches(w.flags, false)
	case "diff-files":
		c.Index = patches(w.flags, false)
	case "show":
		w.objects(&c)
		c.History = patches(w.flags, true) && (len(w.operands) == 0 || len(c.Named) < len(w.operands)) // files have no patch
	case "diff":
		shown := patches(w.flags, true)
		c.Index = shown && len(w.operands) == 0 && !slices.ContainsFunc(w.flags, func(f string) bool {
			return f == "--cached" || f == "--staged" || f == "--merge-base"
		})
		c.History = shown && !c.Index
	case "grep":
		c.Index = len(w.operands) == 0
		c.History = !c.Index
	case "reflog", "stash":
		c.History = patches(w.flags, len(w.operands) > 0 && w.args[w.operands[0]] == "show" && w.command == "stash")
		c.Untold = c.History
	case "cat-file":
		w.catFile(&c)
	case "submodule":
		c.History = !slices.Equal(w.args, []string{"status"})
		c.Untold = c.History
	default:
		c.History, c.Untold = true, true
	}
	if w.command != "show" && w.command != "cat-file" && c.History {
		w.revisions(&c)
	}
	c.Untold = c.Untold || slices.ContainsFunc(w.flags, func(f string) bool {
		return f == "--full-diff" || f == "--follow" || f == "--stdin" || strings.HasPrefix(f, "-L") || strings.HasPrefix(f, "--unt") ||
			strings.HasPrefix(f, "--pathspec-from") || strings.HasPrefix(f, "--no-i")
	})
	return c
}

// patches reports whether git log, or a command like it, prints contents.
func patches(flags []string, byDefault bool) bool {
	summary := false
	for _, flag := range flags {
		name, _, _ := strings.Cut(flag, "=")
		switch {
		case summaries[name]:
			summary = true
		case patchless[name], counted.MatchString(flag):
		default:
			return true
		}
	}
	return byDefault && !summary
}

// words are those of a command of git, taken apart.
type words struct {
	command string
	args    []string // behind the command
	flags   []string // those with a dash in front of them, before "--"
	// operands are the positions in args of those before "--" that are neither options nor their values, nor the pattern of grep.
	operands []int
	dashes   int // the position of "--"; -1: there is none
}

func splitWords(argv []string) (w words, ok bool) {
	i := 1
	for ; i < len(argv) && strings.HasPrefix(argv[i], "-"); i++ {
		if argv[i] == "-C" || argv[i] == "-c" {
			i++
		}
	}
	if i >= len(argv) {
		return w, false
	}
	w.command, w.args = argv[i], argv[i+1:]
	w.dashes = slices.Index(w.args, "--")
	if w.command == "cat-file" && w.dashes >= 0 { // what stands behind is no path
		w.args, w.dashes = slices.Delete(slices.Clone(w.args), w.dashes, w.dashes+1), -1
	}
	before := w.args
	if w.dashes >= 0 {
		before = w.args[:w.dashes]
	}
	grep := w.command == "grep"
	pattern := grep // the first operand is one
	for i := 0; i < len(before); i++ {
		arg := before[i]
		if len(arg) < 2 || arg[0] != '-' {
			if !pattern {
				w.operands = append(w.operands, i)
			}
			pattern = false
			continue
		}
		w.flags = append(w.flags, arg)
		takes := valued[arg]
		if grep {
			short := arg[1] != '-'
			pattern = pattern && !(short && strings.ContainsAny(arg, "ef"))
			takes = valuedGrep[arg] || short && strings.HasSuffix(arg, "e") || short && strings.HasSuffix(arg, "f")
		}
		if takes {
			i++
		}
	}
	return w, true
}

// objects notes what the operands of git show name beside commits.
func (w *words) objects(c *Contents) {
	for _, i := range w.operands {
		if file, ok := fileOf(w.args[i]); ok {
			c.Named = append(c.Named, file)
		} else if id := idOf(w.args[i]); id != "" {
			c.Objects = append(c.Objects, id)
		}
	}
}

// revisions notes ids, and that a command compares or searches what a folder, or a file, was in a revision: pathspecs begin there.
func (w *words) revisions(c *Contents) {
	for _, i := range w.operands {
		if _, ok := fileOf(w.args[i]); ok {
			c.Untold = true
		}
		for part := range strings.SplitSeq(w.args[i], "..") {
			if id := idOf(strings.TrimLeft(part, ".^")); id != "" {
				c.Objects = append(c.Objects, id)
			}
		}
	}
}

// catFile says what git cat-file shows: types and sizes alone, or an object.
func (w *words) catFile(c *Contents) {
	for _, flag := range w.flags {
		name, _, _ := strings.Cut(flag, "=")
		switch name {
		case "-t", "-s", "-e", "--batch-check":
			return
		case "--batch", "--batch-command", "--batch-all-objects":
			c.Nameless = true
			return
		}
	}
	w.objects(c)
	c.Untold = true
}

// fileOf is the file that a word names by a revision. The index is one, whose name is empty.
func fileOf(word string) (file string, ok bool) {
	depth := 0
	for i, r := range word {
		switch r {
		case '{':
			depth++
		case '}':
			depth--
		case ':':
			if depth > 0 {
				continue
			}
			file = word[i+1:]
			if i == 0 && strings.HasPrefix(file, "/") || i == 0 && strings.HasPrefix(file, "(") { // a commit's message, a pathspec
				return "", false
			}
			if i == 0 && len(file) > 1 && file[1] == ':' && '0' <= file[0] && file[0] <= '3' {
				file = file[2:]
			}
			return file, true
		}
	}
	return "", false
}

// idOf is the id that a revision begins with; empty: it begins with a name.
func idOf(word string) string {
	if i := strings.IndexAny(word, "^~@:"); i >= 0 {
		word = word[:i]
	}
	if m := objectID.FindStringSubmatch(word); m != nil {
		return strings.ToLower(m[1])
	}
	return ""
}

// Pathspecs adds pathspecs to a command of git's that shows contents. If the command has no "--", git tells revisions from
// paths by what exists, and so does Pathspecs, by the function exists. Not ok: it is not certain where they belong.
func Pathspecs(argv, specs []string, exists func(word string) bool) (told []string, ok bool) {
	w, ok := splitWords(argv)
	if !ok {
		return nil, false
	}
	if w.dashes < 0 {
		at := len(w.args)
		for _, i := range w.operands {
			if strings.HasPrefix(w.args[i], ":") || strings.ContainsAny(w.args[i], "*?[") && !strings.Contains(w.args[i], "^{") || exists(w.args[i]) {
				at = i
				break
			}
		}
		if at > 0 && (valued[w.args[at-1]] || valuedGrep[w.args[at-1]] && w.command == "grep") && !slices.Contains(w.operands, at-1) {
			return nil, false
		}
		at += len(argv) - len(w.args)
		argv = slices.Insert(slices.Clone(argv), at, "--")
	}
	return append(slices.Clone(argv), specs...), true
}

// CanNarrow reports whether a command that only reads a repository shows contents of files in some folder alone, or can be told to by
// Narrow: it names no file by a revision or an id, takes pathspecs, and has none that begins at the top of the repository.
func CanNarrow(argv []string) bool {
	shown := ContentsOf(argv)
	if !shown.Any() {
		return true
	}
	w, ok := splitWords(argv)
	return ok && !shown.Untold && !shown.Nameless && len(shown.Named) == 0 && len(shown.Objects) == 0 &&
		!slices.ContainsFunc(w.args, func(arg string) bool { return strings.HasPrefix(arg, ":") })
}

// Narrow tells a command of git's for which CanNarrow holds to show the files in a folder alone, a path from the top of the repository.
// A command that has pathspecs shows what these name, which is the caller's to judge. exists and ok are as in Pathspecs.
func Narrow(argv []string, folder string, exists func(word string) bool) (told []string, ok bool) {
	told, ok = Pathspecs(argv, nil, exists)
	if !ok || told[len(told)-1] != "--" {
		return told, ok
	}
	return append(told, ":(top,literal)"+folder), true
}
