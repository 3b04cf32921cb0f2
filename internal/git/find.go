package git

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Found is what git finds from a folder.
type Found struct {
	// Dir is the repository's own folder, absolute: "/w/.git", or the file of that name. Empty: there is none.
	Dir string
	// Top is the folder that Dir lies in, or Dir itself where it is not named ".git".
	Top string
	// Plain: Dir is a folder named ".git" that is whole, with nothing in it but hooks behind a symbolic link, and
	// nothing else here can be taken for a repository.
	Plain bool
	// Linked: Dir is a file that names a folder of git's elsewhere, that of a linked worktree or of a submodule, and that folder names
	// this place in turn. Nothing else here can be taken for a repository.
	Linked bool

	own, common string // the folders of one that is linked
}

// Find looks for the repository that git works on from a folder, which is absolute and without symbolic links. It goes
// up from there and stops at the first that git might take: git goes on where that one is broken, so what is found
// there is not Plain.
func Find(dir string) Found {
	for ; ; dir = filepath.Dir(dir) {
		own := filepath.Join(dir, folder)
		bare := looksLike(dir)
		if info, err := os.Lstat(own); err == nil {
			_, elsewhere := os.Lstat(filepath.Join(own, "commondir"))
			f := Found{Dir: own, Top: dir}
			f.Plain = info.IsDir() && !bare && looksLike(own) && elsewhere != nil && linked(own, false) == ""
			if info.Mode().IsRegular() && !bare {
				f.link()
			}
			return f
		}
		if bare {
			return Found{Dir: dir, Top: dir}
		}
		if dir == "/" || dir == "." {
			return Found{}
		}
	}
}

func isFile(name string) bool {
	info, err := os.Lstat(name)
	return err == nil && info.Mode().IsRegular()
}

// maxEntries bounds how many names linked looks at.
const maxEntries = 1 << 18

// linked is the name of something in a repository's own folder that is a symbolic link, by which git would read or
// write elsewhere, or of a folder that cannot be read. Empty: there is none. Links from one ref to another count for
// nothing, since git once made such; nor do hooks, which are looked at where they lie. deep: refs and their logs are
// looked through, too, and packs.
func linked(dir string, deep bool) string {
	folders := []string{".", "objects", "objects/info"}
	if deep {
		folders = append(folders, "objects/pack", "refs", "logs", "reftable")
	}
	for left := maxEntries; len(folders) > 0; {
		in := folders[0]
		folders = folders[1:]
		entries, err := os.ReadDir(filepath.Join(dir, in))
		if left -= len(entries); err != nil && !errors.Is(err, fs.ErrNotExist) || left < 0 {
			return in
		}
		for _, e := range entries {
			name := filepath.Join(in, e.Name())
			first, _, _ := strings.Cut(in, "/")
			switch {
			case e.Type()&fs.ModeSymlink != 0 && name != "hooks" && !toRef(dir, name):
				return name
			case e.IsDir() && (first == "refs" || first == "logs"):
				folders = append(folders, name)
			}
		}
	}
	return ""
}

// toRef reports whether a link in a repository's own folder is HEAD, or a ref, and leads to a ref of the same.
func toRef(dir, name string) bool {
	if name != "HEAD" && !strings.HasPrefix(name, "refs/") {
		return false
	}
	refs, err := filepath.EvalSymlinks(filepath.Join(dir, "refs"))
	at, err2 := filepath.EvalSymlinks(filepath.Join(dir, name))
	return err == nil && err2 == nil && strings.HasPrefix(at, refs+"/")
}
