package intent

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// maxNames bounds the names in one folder that are looked at.
const maxNames = 10_000

// namesIn are the names of what is in a folder and, if above is set, in those that it lies in; false if they are not known. The
// user's home folder is left out as one of those above, because what is there is the user's own. A folder that a link leads to
// lies where the link leads.
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
