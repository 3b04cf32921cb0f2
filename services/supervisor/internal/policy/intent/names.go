package intent

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// maxNames bounds the names that are read of one folder.
const maxNames = 10_000

// namesIn returns the names of the files in a folder and, if above is set, in its parents; false if they are unknown.
// The user's home folder is not read as a parent, because its files are the user's own. The parents of a linked
// folder are those of the link's target.
func namesIn(dir string, above bool) ([]string, bool) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, false
	}
	home, _ := os.UserHomeDir()
	var all []string
	for at := dir; ; at = filepath.Dir(at) {
		if at == dir || at != home {
			f, err := os.OpenFile(at, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
			if err != nil {
				return nil, false
			}
			names, err := f.Readdirnames(maxNames + 1)
			f.Close()
			if len(names) > maxNames || err != nil && !errors.Is(err, io.EOF) {
				return nil, false
			}
			all = append(all, names...)
		}
		if !above || at == filepath.Dir(at) {
			return all, true
		}
	}
}
