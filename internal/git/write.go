package git

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/acphost/acphost/internal/fold"
	"github.com/acphost/acphost/internal/wordset"
)

// Write is the meaning of a change of a file to git. A greater value is stricter.
type Write int

const (
	// NotGit means: the file does not belong to a repository's own folder.
	NotGit Write = iota
	// State means: git's bookkeeping, such as objects, refs, logs, the index and locks. Git runs nothing because of it.
	State
	// Config means: a configuration file. The change is harmless if HarmlessConfig accepts the new content, and if no process has the
	// new file open.
	Config
	// Index means: an index of tracked files. Git writes the files that it names, with any command that restores files, without checking
	// the names: ".git/hooks/post-checkout". The change is harmless if HarmlessIndex accepts the new content, and if no process has
	// the new file open.
	Index
	// Steps means: what git does when the user continues a rebase, a cherry-pick or a revert, such as the commands
	// ("exec") of a todo list. The change is harmless if HarmlessSteps accepts the new content, and if no process has
	// the new file open.
	Steps
	// Refs means: packed-refs. The change is harmless if HarmlessRefs accepts the new content, and if no process has the
	// new file open.
	Refs
	// Location means: a file by which git finds a repository's own folder, or a part of it: a file ".git", and commondir.
	// The change is harmless if HarmlessLocation accepts the new content, and if no process has the new file open.
	Location
	// Runs means: git runs the file or finds by it what it runs, or the name is unknown. Also a change by which other files get that
	// meaning: one that makes a repository of a folder with hooks in it.
	Runs
)

// String returns the name of the constant.
func (w Write) String() string {
	return [...]string{"NotGit", "State", "Config", "Index", "Steps", "Refs", "Location", "Runs"}[w]
}

// ByContent reports whether the change is harmless if the new content is: Config, Index, Steps, Refs and Location.
func (w Write) ByContent() bool { return w > State && w < Runs }

// Harmless returns "" if a change of a file to a new content is harmless, otherwise a reason. w is the meaning of the change, file
// the path. before is the present content, nil if there is none. See HarmlessConfig, HarmlessIndex,
// HarmlessSteps, HarmlessRefs and HarmlessLocation.
func (w Write) Harmless(file string, data, before []byte) (why string) {
	switch w {
	case NotGit, State:
		return ""
	case Config:
		return HarmlessConfig(file, data, before)
	case Index:
		return HarmlessIndex(data)
	case Steps:
		return HarmlessSteps(file, data, before)
	case Refs:
		return HarmlessRefs(data, before)
	case Location:
		return HarmlessLocation(file, data, before)
	}
	return "git runs it"
}

// Change is a change of one name. A rename is two changes, one for each name.
type Change struct {
	// Path is absolute and without symbolic links. The last name need not exist.
	Path string
	// Folder: Path is made as an empty folder.
	Folder bool
	// File: Path becomes a regular file, whatever it is now.
	File bool
	// Link: Path is made as a symbolic link, or becomes one by the rename.
	Link bool
	// From, for a rename: the other name. If From exists, Path gets what From is, a folder with everything in it.
	From string
	// Trees are folders that configurations may name as the work tree (HarmlessConfig).
	Trees []string
	// Made: the change has been made already, and is judged once more. See MeansMoreWithOthers.
	Made bool
}

// maxMoved limits the files of a renamed folder that WriteOf reads. A folder with more files is Runs.
const maxMoved = 1 << 12

// WriteOf returns the meaning of a change to git. It must be called before the change is made, unless Made is set. It reads the file
// system.
//
// A folder is a repository's own folder if its name is ".git" in any spelling (see Own), or if git accepts it as one: it contains
// HEAD, and either objects and refs, or commondir. In such a folder the names that git writes are State, config is Config, index is
// Index, todo lists and the like are Steps, and every other name is Runs. A folder that contains only objects, refs or
// commondir is a beginning of one: in it, only hooks, attributes, and files that are judged by their content have a
// meaning.
//
// A folder becomes a beginning only while it contains none of these, otherwise the change is Runs. So every file that
// git
// runs or reads as configuration in a repository was judged by its name, in whatever order the files are made. A file
// ".git" ("gitdir: PATH") and commondir choose between repositories, and add nothing to any of them. But git resolves
// their path more than once: it could check one folder, and read the configuration of another one that it would not
// accept. So these files may only name folders named ".git" or in one, where files are judged by their names alone
// (HarmlessLocation). Two limits: a relative program in an existing configuration (core.hooksPath = .githooks) is
// resolved in the work tree, and a ".git" file gives a repository another work tree; and a target that is not judged by
// WriteOf can contain anything, so WriteOf has to judge every place in which agents write.
//
// A symbolic link in a repository's own folder, or in the place of one, is Runs: git appends to its logs and writes other files of State
// through links, with names of branches in them, and the target may be anywhere.
//
// A change is judged as if others at the same time were not made: see MeansMoreWithOthers. WriteOf is safe for concurrent use.
func WriteOf(c Change) Write {
	c.Path = filepath.Clean(c.Path)
	v := view{c}
	most := v.meaning(c.Path)
	if most > NotGit && v.isLink() && !isProbeIn(c.Path) {
		return Runs
	}
	if c.From == "" || most == Runs || !v.inRepository() {
		return most
	}
	for _, folder := range []view{v, {Change{Path: c.Path}}} { // what comes, and what leaves
		most = max(most, folder.contents())
	}
	return most
}

// MeansMoreWithOthers reports whether the meaning of a new name depends on other names that may be made at the same time, such as a
// hook in a folder that gets objects and refs. Who decides on such a change should call WriteOf again after it, with Made, and undo the
// change if it has another meaning. Of two changes that are only harmful together, one is then judged after both are made.
func MeansMoreWithOthers(path string) bool {
	dir, name := filepath.Split(filepath.Clean(path))
	dir, above := filepath.Clean(dir), filepath.Dir(filepath.Clean(dir))
	switch name, folder := spelled(name), spelled(filepath.Base(dir)); {
	case beginning[name] && !isFolder(filepath.Base(dir)):
		return true
	case folder == "hooks" && hookName(name), folder == "info" && name == "attributes":
		return !isFolder(filepath.Base(above))
	case judged[folder+"/"+name] != NotGit:
		return !isFolder(filepath.Base(above))
	}
	return false
}

// FolderOf returns the outermost folder on the way to a path that is a repository's own: by its name, or by HEAD, objects
// and refs in it. It returns "" if there is none. path is absolute and without symbolic links.
func FolderOf(path string) (own string) {
	for dir := filepath.Dir(filepath.Clean(path)); dir != "/" && dir != "."; dir = filepath.Dir(dir) {
		if isFolder(filepath.Base(dir)) || looksLike(dir) {
			own = dir
		}
	}
	return own
}

// view is the file system as it is after a change.
type view struct{ Change }

// at returns the present path of a file that has the path p after the change.
func (v view) at(p string) string {
	if v.From == "" || !isFolderAt(v.From) {
		return p
	}
	if rest, ok := strings.CutPrefix(p, v.Path); ok && (rest == "" || rest[0] == '/') {
		return v.From + rest
	}
	return p
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func isFolderAt(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// isFolder reports whether p is a folder after the change, or one that leaves.
func (v view) isFolder(p string) bool {
	switch {
	case p != v.Path:
		return isFolderAt(v.at(p))
	case v.File:
		return false
	}
	if v.From != "" && exists(v.From) {
		return isFolderAt(v.From)
	}
	return v.Folder || isFolderAt(p)
}

// isLink reports whether the changed path is a symbolic link after the change.
func (v view) isLink() bool {
	if v.Link || v.From == "" {
		return v.Link
	}
	info, err := os.Lstat(v.From)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

// has reports whether a folder has a name after the change.
func (v view) has(dir, name string) bool {
	if filepath.Dir(v.Path) == dir && spelled(filepath.Base(v.Path)) == strings.ToLower(name) {
		return true
	}
	return exists(filepath.Join(v.at(dir), name))
}

// had is has before the change. Folders that move keep what they have.
func (v view) had(dir, name string) bool {
	if v.Made && filepath.Dir(v.Path) == dir && spelled(filepath.Base(v.Path)) == strings.ToLower(name) {
		return false
	}
	return exists(filepath.Join(v.at(dir), name))
}

// begun reports whether a folder is the beginning of a repository's own: git reads configuration and hooks of a folder with objects
// and refs, which another one names as its commondir. has is v.has or v.had.
func begun(has func(dir, name string) bool, dir string) bool {
	return has(dir, "objects") || has(dir, "refs") || has(dir, "commondir")
}

// whole reports whether git may read configuration or hooks of a folder.
func whole(has func(dir, name string) bool, dir string) bool {
	return has(dir, "objects") && has(dir, "refs") || has(dir, "HEAD") && has(dir, "commondir")
}

// inRepository reports whether the changed path is, or lies in, a repository's own folder or the beginning of one.
func (v view) inRepository() bool {
	if Own(v.Path) {
		return true
	}
	for dir := v.Path; dir != "/" && dir != "."; {
		if dir = filepath.Dir(dir); begun(v.has, dir) {
			return true
		}
	}
	return false
}

// meaning is the strictest meaning of a path in each of the folders above it.
func (v view) meaning(p string) Write {
	most := NotGit
	var inner []string
	for p, folder := p, v.isFolder(p); ; {
		dir, name := filepath.Split(p)
		if dir = filepath.Clean(dir); dir == p {
			return most
		}
		switch {
		case isFolder(name) && len(inner) == 0 && !folder:
			most = max(most, Location)
		case isFolder(name):
			most = max(most, State)
		}
		inner = append([]string{spelled(name)}, inner...)
		most = max(most, v.meaningIn(dir, inner, folder))
		p = dir
	}
}

// spelled is a name in the form that all spellings of it have that some file system takes for it.
func spelled(name string) string {
	name, _, _ = strings.Cut(name, ":")
	return fold.Path(strings.TrimRight(name, ". "))
}

// meaningIn is the meaning of a path below dir to dir alone. folder: the path is a folder.
func (v view) meaningIn(dir string, inner []string, folder bool) Write {
	named := isFolder(filepath.Base(dir))
	switch {
	case named, v.has(dir, "HEAD") && whole(v.has, dir):
		if !named && len(inner) == 1 && v.awakes(dir) {
			return Runs
		}
		return inside(inner, folder)
	case beginning[inner[0]] && begun(v.has, dir):
		if len(inner) == 1 && v.awakes(dir) {
			return Runs
		}
		return insideBegun(inner, folder)
	}
	return NotGit
}

// awakes reports whether files that a folder contains already get a meaning by the change.
func (v view) awakes(dir string) bool {
	switch {
	case !begun(v.had, dir): // a process may have a file open that is judged by its content
		return v.dangerous(dir, func(string, Write) bool { return true })
	case !whole(v.had, dir) && whole(v.has, dir):
		harmful := func(file string, w Write) bool {
			return !v.harmlessFile(file, filepath.Join(dir, strings.TrimPrefix(file, v.at(dir))), w)
		}
		return v.dangerous(dir, harmful) || hasLinks(v.at(dir))
	}
	return false
}

// dangerous reports whether a folder contains what git would run, or a file whose content is judged and that is suspect.
func (v view) dangerous(dir string, suspect func(file string, w Write) bool) bool {
	as := dir
	dir = v.at(dir)
	for name, w := range judged {
		file := filepath.Join(dir, name)
		// The changed file itself is judged by its own name.
		if filepath.Join(as, name) != v.Path && exists(file) && !isFolderAt(file) && suspect(file, w) {
			return true
		}
	}
	for _, name := range []string{"hooks", "info"} {
		if file := filepath.Join(dir, name); exists(file) && !isFolderAt(file) {
			return true
		}
	}
	entries, err := os.ReadDir(filepath.Join(dir, "hooks"))
	if err != nil && !os.IsNotExist(err) || exists(filepath.Join(dir, "info", "attributes")) {
		return true
	}
	for _, e := range entries {
		if !e.IsDir() && hookName(spelled(e.Name())) {
			return true
		}
	}
	return false
}

// hasLinks reports whether a folder that becomes a repository's own has symbolic links where git writes, or too many files to know it.
func hasLinks(dir string) bool {
	found, left := false, maxMoved
	_ = filepath.WalkDir(dir, func(file string, e fs.DirEntry, err error) error {
		rest, _ := strings.CutPrefix(file, dir+"/")
		first, _, below := strings.Cut(rest, "/")
		switch name := spelled(first); {
		case err != nil:
			found = true
			return fs.SkipAll
		case file == dir:
			return nil
		case e.Type()&fs.ModeSymlink != 0:
			found = inside(strings.Split(fold.Path(rest), "/"), true) != Runs || inside(strings.Split(fold.Path(rest), "/"), false) != Runs
		case e.IsDir() && (name == "objects" || !below && !stateFolders[name] && !otherFolders[name]):
			return fs.SkipDir
		}
		if left--; found || left < 0 {
			found = true
			return fs.SkipAll
		}
		return nil
	})
	return found
}

// hookName reports whether a folded name has the form of a hook's.
func hookName(name string) bool {
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// harmlessFile reports whether a file that is judged by its content has a harmless one, and no other name. as is its
// path after the change.
func (v view) harmlessFile(file, as string, w Write) bool {
	info, err := os.Lstat(file)
	if err != nil || !info.Mode().IsRegular() || links(info) != 1 {
		return false
	}
	data, err := bounded(file, maxIndex)
	return err == nil && (w.Harmless(as, data, nil) == "" || w == Config && HarmlessConfig(as, data, nil, v.Trees...) == "")
}

// contents is the strictest meaning of the files in a folder that has the changed path after the change.
func (v view) contents() Write {
	top := v.at(v.Path)
	if !isFolderAt(top) {
		return NotGit
	}
	most, left := NotGit, maxMoved
	_ = filepath.WalkDir(top, func(file string, e fs.DirEntry, err error) error {
		if left--; err != nil || left < 0 {
			most = Runs
			return fs.SkipAll
		}
		if file == top {
			return nil
		}
		p := v.Path + strings.TrimPrefix(file, top)
		w := v.meaning(p)
		// A file that had the same meaning before has been judged, and no process has it open.
		if w > NotGit && e.Type()&fs.ModeSymlink != 0 {
			w = Runs
		}
		if w.ByContent() {
			before := view{Change{Path: file}}.meaning(file)
			if before != w || !v.harmlessFile(file, p, w) {
				w = Runs
			} else {
				w = State
			}
		}
		if most = max(most, w); most == Runs {
			return fs.SkipAll
		}
		if e.IsDir() && w == State && bulky[spelled(e.Name())] {
			return fs.SkipDir // its files are State by their place, and what they are to folders in it they are already
		}
		return nil
	})
	return most
}

// bulky are folders of State alone, that may have many files.
var bulky = wordset.Of(`objects logs rr-cache`)

// Names in a repository's own folder, as spelled has them. All others are Runs.
var (
	// stateFolders contain only State.
	stateFolders = wordset.Of(`objects logs reftable rr-cache rebase-merge rebase-apply sequencer notes_merge_worktree`)
	// otherFolders contain files of several meanings.
	otherFolders = wordset.Of(`refs hooks info branches worktrees modules lfs`)
	stateFiles   = wordset.Of(`head packed-refs.new description shallow gitdir locked gc.pid gc.log
		auto_merge squash_msg edit_description add_edit.patch addp-hunk-edit.diff`)
	stateInfo = wordset.Of(`exclude refs sparse-checkout`)
	stateLFS  = wordset.Of(`objects tmp incomplete cache logs`)
	// statePrefixes begin the names of files of which there are several, and of temporary files.
	statePrefixes = []string{"merge_", "bisect_", "notes_merge_", "index.", "next-index-", "sharedindex_", "shallow_"}
	// judged are the files that are judged by their content, by their paths in a repository's own folder.
	judged = map[string]Write{
		"config": Config, "config.worktree": Config, "index": Index, "commondir": Location, "packed-refs": Refs,
		"rebase-merge/git-rebase-todo": Steps, "rebase-merge/strategy": Steps, "sequencer/todo": Steps, "sequencer/opts": Steps,
	}
	// beginning are the names that have a meaning in the beginning of a repository's own folder.
	beginning = wordset.Of(`config config.worktree index hooks info head objects refs commondir rebase-merge
		sequencer`)
)

// inside is the meaning of a path in a repository's own folder, by its names as spelled has them.
func inside(inner []string, folder bool) Write {
	first, rest := inner[0], inner[1:]
	if len(rest) == 0 {
		return insideTop(first, folder)
	}
	second := rest[0]
	switch first {
	case "refs":
		// A ref has no name with this end. The folder is empty until a ref in it is decided.
		return stateIf(second != "replace" || len(rest) == 1 && folder || len(rest) > 1 && strings.HasSuffix(inner[len(inner)-1], ".lock"))
	case "hooks":
		return stateIf(len(rest) == 1 && strings.HasSuffix(second, ".sample"))
	case "info":
		second = strings.TrimSuffix(second, ".lock")
		return stateIf(len(rest) == 1 && !folder && (stateInfo[second] || strings.HasPrefix(second, "refs_")))
	case "lfs":
		return stateIf(stateLFS[second])
	case "worktrees":
		if len(rest) == 1 {
			return stateIf(folder)
		}
		return inside(rest[1:], folder)
	case "modules":
		return insideModules(rest, folder)
	}
	if w := judged[strings.Join(inner, "/")]; w != NotGit && !folder {
		return w
	}
	return stateIf(stateFolders[first])
}

func stateIf(state bool) Write {
	if state {
		return State
	}
	return Runs
}

// insideTop is the meaning of a name directly in a repository's own folder.
func insideTop(name string, folder bool) Write {
	switch {
	case judged[name] != NotGit && !folder:
		return judged[name]
	case strings.HasPrefix(name, "sharedindex.") && !folder: // the names of an index can be in it
		return Index
	case stateFolders[name], otherFolders[name]:
		return stateIf(folder)
	}
	name = strings.TrimSuffix(name, ".lock")
	return stateIf(!folder && (stateFile(name) || judged[name] != NotGit))
}

// stateFile reports whether a name is that of a file of State.
func stateFile(name string) bool {
	for _, prefix := range statePrefixes {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	const letters = "abcdefghijklmnopqrstuvwxyz"
	switch {
	case stateFiles[name], strings.HasSuffix(name, "_editmsg"):
		return true
	case strings.HasSuffix(name, "_head"):
		return strings.Trim(name, letters+"_") == ""
	}
	return isProbe(name)
}

// isProbeIn reports whether a path is that of a probe directly in a repository's own folder, or that of a submodule.
func isProbeIn(path string) bool {
	dir, name := filepath.Split(path)
	within := false
	for part := range strings.SplitSeq(filepath.Clean(dir), "/") {
		switch part := spelled(part); {
		case isFolder(part):
			within = true
		case within && part != "modules" && (stateFolders[part] || otherFolders[part]):
			return false
		}
	}
	return within && isProbe(spelled(name))
}

// isProbe reports whether "git init" makes a file or a symbolic link of a name, to learn what the file system can do. Git itself uses no
// such file.
func isProbe(name string) bool {
	return len(name) == len("tXXXXXX") && name[0] == 't' && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

// insideModules is the meaning of a path below "modules". The repository of a submodule is in a folder for each part of the
// submodule's name, "modules/lib/x": the first name that a repository's own folder may contain ends it.
func insideModules(inner []string, folder bool) Write {
	for i, name := range inner[1:] {
		if file := strings.TrimSuffix(name, ".lock"); judged[file] != NotGit || stateFile(file) || stateFolders[name] || otherFolders[name] {
			return inside(inner[i+1:], folder)
		}
	}
	return stateIf(folder)
}

// insideBegun is inside for a folder that is the beginning of a repository's own. It may as well be a folder of sources, with
// folders that have such names.
func insideBegun(inner []string, folder bool) Write {
	switch first := inner[0]; {
	case len(inner) > 2:
	case len(inner) == 2:
		if !folder && (first == "hooks" && hookName(inner[1]) || first == "info" && inner[1] == "attributes") {
			return Runs
		}
		if w := judged[first+"/"+inner[1]]; !folder {
			return w
		}
	case judged[first] != NotGit && !folder:
		return judged[first]
	case first == "hooks", first == "info":
		if !folder {
			return Runs
		}
	}
	return NotGit
}
