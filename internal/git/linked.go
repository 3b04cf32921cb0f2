package git

import (
	"path/filepath"
	"strings"
)

// maxLink is the longest file, in bytes, by which one folder of git's names another.
const maxLink = 4096

// link looks at a file ".git", which names the folder of a linked worktree or of a submodule. It counts only if that folder names the
// file, or the folder in which it lies, in turn: git writes both, and somebody who may write only the file can let it name any folder.
func (f *Found) link() {
	own, ok := named(f.Dir, f.Top, "gitdir: ")
	if !ok {
		return
	}
	common := own
	if worktrees := filepath.Dir(own); filepath.Base(worktrees) == "worktrees" {
		common = filepath.Dir(worktrees)
		back, ok := named(filepath.Join(own, "gitdir"), own, "")
		if !ok || back != f.Dir {
			return
		}
		if at, ok := named(filepath.Join(own, "commondir"), own, ""); !ok || at != common {
			return
		}
	} else if !checkedOutAt(own, f.Top) {
		return
	}
	if looksLike(common) && linked(common, false) == "" && linked(own, false) == "" {
		f.Linked, f.own, f.common = true, own, common
	}
}

// named is the path in a file that consists of a prefix and that path, absolute and without symbolic links; from is the folder from
// which a relative one leads.
func named(file, from, prefix string) (path string, ok bool) {
	data, err := bounded(file, maxLink)
	if err != nil {
		return "", false
	}
	text, ok := strings.CutPrefix(strings.TrimRight(string(data), "\r\n"), prefix)
	if !ok || text == "" || strings.ContainsAny(text, "\x00\n") {
		return "", false
	}
	path, err = led(from, text)
	return path, err == nil
}

// checkedOutAt reports whether the settings of a repository say that its files lie in a folder, as git writes it for submodules. A
// worktree of another repository has no commondir of its own.
func checkedOutAt(own, top string) bool {
	if _, there := named(filepath.Join(own, "commondir"), own, ""); there {
		return false
	}
	data, err := bounded(filepath.Join(own, "config"), maxConfig)
	if err != nil {
		return false
	}
	all, err := settings(data)
	at := ""
	for _, s := range all {
		if s.name() == "core.worktree" {
			at = s.value
		}
	}
	if err != nil || at == "" {
		return false
	}
	tree, err := led(own, at)
	return err == nil && tree == top
}

// folders are the folder that has HEAD and the index, and the one that has the settings, hooks, objects and refs: of a linked worktree
// these are two.
func (f *Found) folders() (own, common string) {
	if f.Linked {
		return f.own, f.common
	}
	return f.Dir, f.Dir
}

// Folders returns the folders of a repository whose own folder, or the file in its place, is dir, an absolute path: the one with HEAD and
// the index, and the one with the objects and refs. Both are dir unless it is a file that stands for others.
func Folders(dir string) (own, common string) {
	f := Found{Dir: dir, Top: filepath.Dir(dir)}
	if filepath.Base(dir) == folder && isFile(dir) {
		f.link()
	}
	return f.folders()
}
