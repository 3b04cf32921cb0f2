// Package ownhandler locates the programs of acphost's own handlers. It knows their names, and nothing of what they do.
package ownhandler

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The programs of acphost's own handlers.
const (
	FS         = "fsd"
	Terminal   = "termd"
	Permission = "permd"
)

// Programs says where the handlers' programs are. The zero value finds those alone that are named by a path.
type Programs struct {
	// Dir is the folder of acphost's own program, where the others stand.
	Dir string
	// Self is acphost's own program, if it carries acphost's own handlers as commands of their names. Empty: it does not.
	Self string
}

// Command returns the command that starts a handler, of one as it is configured: a bare name stands next to acphost's own
// program, or is a command of it, if it is carried and nothing of its name stands there. PATH is never searched, since an agent
// may be able to write to a folder of it. command has at least the program, and is not changed.
func (p Programs) Command(command []string) []string {
	name := command[0]
	if strings.ContainsRune(name, filepath.Separator) {
		return command
	}
	file := filepath.Join(p.Dir, name)
	if p.Self != "" && slices.Contains([]string{FS, Terminal, Permission}, name) {
		if _, err := os.Lstat(file); errors.Is(err, fs.ErrNotExist) {
			return slices.Concat([]string{p.Self}, command)
		}
	}
	return slices.Concat([]string{file}, command[1:])
}
