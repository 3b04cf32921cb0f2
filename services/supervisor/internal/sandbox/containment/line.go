package containment

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/git"
	"github.com/acphost/acphost/internal/lazyregexp"
	"github.com/acphost/acphost/internal/paths"
	"github.com/acphost/acphost/internal/sandbox"
	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/sandbox/kernel"
)

// line is the line of a command that a person allowed, or a rule by what the line says. The answer covers the changes
// of files that the line names, because the question showed them. Other changes by the command's processes are decided
// like those of the agent. A line is immutable.
//
// Names are compared as they are written, with the path of a change, which has no symbolic links. So a link that the
// agent makes gives no name of the line another meaning.
type line struct {
	written []string // files and folders that are written
	below   []string // folders that are written with everything in them
	parts   []linePart
	roots   []string
	home    string // without symbolic links
}

// linePart are the paths of one simple command. It may write each file under its last name in a folder of these: "cp
// FILE FOLDER".
type linePart struct {
	paths []string // that it writes or, if its effects are not known, that its words may spell
	bases []string // the last names of all paths that it uses
	known bool     // its effects are known
}

// newLine returns the line of an allowed action; nil: the action is no command. home is the home folder of the agent's
// user.
func newLine(a *permissionv1.Action, home string) *line {
	c := a.GetCommand()
	if c == nil {
		return nil
	}
	l := &line{roots: slices.Concat(a.GetRoots(), a.GetResolvedRoots()), home: paths.Real(home)}
	r := lineReader{line: l, action: a, home: filepath.Clean(home)}
	for _, sub := range c.GetSubCommands() {
		r.sub(sub)
	}
	for _, found := range redirectedHome.FindAllStringSubmatch(c.GetText(), -1) {
		l.written = append(l.written, filepath.Join(l.home, found[1]))
	}
	l.written = append(l.written, r.configurations()...)
	return l
}

// redirectedHome is a redirection to a file below the home folder. Its name is known only at run time, but says what it
// is.
var redirectedHome = lazyregexp.New(`>[|&]?\s*"?(?:~|\$HOME|\$\{HOME\})/([^\s"'\x60;|&<>()*?\[\]$\\]+)`)

// lineReader reads the simple commands of a line.
type lineReader struct {
	*line
	action *permissionv1.Action
	home   string // as it is written
}

func (r lineReader) sub(sub *permissionv1.SubCommand) {
	dir := r.directory(sub)
	for _, redirection := range sub.GetRedirections() {
		if !redirection.GetDynamic() && redirection.GetOperator() != "<" {
			r.written = append(r.written, r.spellings(dir, redirection.GetPath())...)
		}
	}
	part := linePart{known: sub.GetFacts().GetKnown()}
	for _, file := range sub.GetFacts().GetFiles() {
		part.bases = append(part.bases, filepath.Base(file.GetPath()))
		if file.GetAccess() != permissionv1.Access_ACCESS_WRITE || file.GetPossible() {
			continue
		}
		part.paths = append(part.paths, r.spellings("", file.GetPath())...)
		if file.GetRecursive() {
			r.below = append(r.below, r.spellings("", file.GetPath())...)
		}
	}
	if !part.known {
		r.words(&part, sub, dir)
	}
	r.parts = append(r.parts, part)
}

// words adds the paths that the arguments of a command may spell. The name of the program is not among them: the
// question shows that it runs, and not that it is written.
func (r lineReader) words(part *linePart, sub *permissionv1.SubCommand, dir string) {
	for i, word := range sub.GetArgv() {
		switch {
		case i == 0, slices.Contains(sub.GetPossibleWords(), uint32(i)): // an argument by another command's output
			continue
		case shell.DynamicWord(sub, i) && !belowHome.MatchString(word):
			continue
		}
		spelled, _ := shell.Spellings(word, false)
		for _, path := range spelled {
			part.paths = append(part.paths, r.spellings(dir, path)...)
			part.bases = append(part.bases, filepath.Base(path))
		}
	}
}

// belowHome is a word that is known only at run time, because it begins with the home folder.
var belowHome = lazyregexp.New(`^(?:~|\$HOME|\$\{HOME\})/[^\x60*?\[\]$(){}\\]+$`)

// directory returns the directory in which a simple command runs; empty: it is not known.
func (r lineReader) directory(sub *permissionv1.SubCommand) string {
	dir := r.action.GetCommand().GetCwd()
	if dir == "" && len(r.action.GetRoots()) > 0 {
		dir = r.action.GetRoots()[0]
	}
	switch cwd := sub.GetCwd(); {
	case sub.GetCwdUnknown():
		return ""
	case filepath.IsAbs(cwd):
		return cwd
	case filepath.IsAbs(dir):
		return filepath.Join(dir, cwd)
	}
	return ""
}

// spellings returns a path, by its name and by the names of the roots and of the home folder without symbolic links. A
// relative path begins in dir; without dir, it is not known.
func (r lineReader) spellings(dir, path string) []string {
	for _, name := range []string{"~", "$HOME", "${HOME}"} {
		if rest, ok := strings.CutPrefix(path, name+"/"); ok {
			path = filepath.Join(r.home, rest)
		}
	}
	switch {
	case path == "" || !filepath.IsAbs(path) && dir == "":
		return nil
	case !filepath.IsAbs(path):
		path = filepath.Join(dir, path)
	}
	path = filepath.Clean(path)
	all := []string{path}
	also := func(name, real string) {
		if paths.Below(name, path) && name != real && filepath.IsAbs(real) {
			all = append(all, filepath.Join(real, strings.TrimPrefix(path, name)))
		}
	}
	also(r.home, r.line.home)
	for i, root := range r.action.GetRoots() {
		if i < len(r.action.GetResolvedRoots()) {
			also(filepath.Clean(root), r.action.GetResolvedRoots()[i])
		}
	}
	return all
}

// configurations returns the configurations that commands of git in the line change by what the line says: "git config
// core.editor vi". It returns none if a command of the line may run other code, which could change the same files.
func (r lineReader) configurations() (files []string) {
	for _, sub := range r.action.GetCommand().GetSubCommands() {
		argv := sub.GetArgv()
		switch {
		case len(argv) > 1 && filepath.Base(argv[0]) == "git" && configuring[shell.GitCommand(argv)]:
			if own := sub.GetRepository().GetGitDir(); own != "" {
				dir, common := git.Folders(own)
				files = append(files, filepath.Join(dir, "config.worktree"), filepath.Join(common, "config"))
			}
			if home := r.line.home; slices.Contains(argv, "--global") {
				files = append(files, filepath.Join(home, ".gitconfig"), filepath.Join(home, ".config/git/config"))
			}
		case !sub.GetFacts().GetKnown() || sub.GetFacts().GetRunsCode():
			return nil
		}
	}
	return files
}

// configuring are the commands of git that change settings that their arguments name.
var configuring = map[string]bool{"config": true, "remote": true}

// names reports whether the line names a file to be changed. path is absolute and without symbolic links.
func (l *line) names(path string, leaves sandbox.Leaves) bool {
	if l == nil || path == "" {
		return false
	}
	if l.isNamed(path) || slices.ContainsFunc(l.below, func(dir string) bool { return paths.Below(dir, path) }) {
		return true
	}
	dir, base := filepath.Dir(path), filepath.Base(path)
	for _, p := range l.parts {
		if slices.Contains(p.paths, dir) && slices.Contains(p.bases, base) {
			return true
		}
		apart := func(named string) bool { return paths.Below(named, path) && l.isApart(named, leaves) }
		if !p.known && slices.ContainsFunc(p.paths, apart) {
			return true
		}
	}
	above := func(named string) bool { return paths.Below(path, named) } // "mkdir -p"
	return leaves == sandbox.LeavesFolder && l.anyNamed(above) || l.isTemporary(dir, base)
}

func (l *line) isNamed(path string) bool {
	return l.anyNamed(func(named string) bool { return named == path })
}

func (l *line) anyNamed(is func(named string) bool) bool {
	return slices.ContainsFunc(l.written, is) ||
		slices.ContainsFunc(l.parts, func(p linePart) bool { return slices.ContainsFunc(p.paths, is) })
}

// isApart reports whether a line that names a folder names everything in it: the folder lies in one of git's own, or
// outside of the session's roots. A folder in the roots, or one that contains a root or the home folder, says too
// little ("make -C ."). So does git's own folder itself ("git --git-dir=.git log"), except if it is removed.
func (l *line) isApart(folder string, leaves sandbox.Leaves) bool {
	if git.Own(folder) {
		return git.Own(filepath.Dir(folder)) || leaves == sandbox.LeavesNothing
	}
	related := func(root string) bool { return paths.Below(folder, root) || paths.Below(root, folder) }
	return !slices.ContainsFunc(l.roots, related) && !paths.Below(folder, l.home)
}

// isTemporary reports whether a file lies beside a file that the line names, and has a name under which programs write
// the new content of that file: ".gitconfig.lock", "sedQ3xYz1".
func (l *line) isTemporary(dir, base string) bool {
	return l.anyNamed(func(named string) bool {
		if filepath.Dir(named) != dir {
			return false
		}
		name := filepath.Base(named)
		end, ok := strings.CutPrefix(strings.TrimPrefix(base, "."), strings.TrimPrefix(name, ".")+".")
		return temporary.MatchString(base) || base == name+"~" || ok && temporaryEnd.MatchString(end)
	})
}

var (
	// temporary are the names of the temporary files of sed.
	temporary = lazyregexp.New(`^sed[A-Za-z0-9]{6}$`)
	// temporaryEnd are what programs append to a file's name: words for such files, numbers, and random letters with a
	// digit or a capital. ".json" and the like name another file, which programs may run: "tasks" and "tasks.json".
	temporaryEnd = lazyregexp.New(`^(lock|tmp|temp|new|bak|orig|part|swp|[0-9]+|[A-Za-z0-9_]*[0-9A-Z][A-Za-z0-9_]*)(\.(lock|tmp|[0-9]+))?$`)
)

// lineOf returns the line of an allowed action.
func (d *Decider) lineOf(a *permissionv1.Action) *line {
	return newLine(a, kernel.Variable(d.environ(&event{}), "HOME"))
}
