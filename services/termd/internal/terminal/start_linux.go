package terminal

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/services/termd/internal/command"
)

// holdDirectory opens the directory that was checked, so that the command gets that one even if it is replaced
// meanwhile. The name is valid until release is called.
func holdDirectory(dir command.Folder) (name string, release func(), err error) {
	fd, err := unix.Open(dir.Path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, command.Invalid("cwd: %s cannot be used any more: %s", dir.Path, command.Reason(err))
	}
	name = "/proc/self/fd/" + strconv.Itoa(fd)
	at, err := os.Readlink(name)
	info, statErr := os.Stat(name)
	if err != nil || statErr != nil || at != dir.Path || !dir.Is(info) {
		_ = unix.Close(fd)
		return "", nil, command.Replaced(dir.Path)
	}
	return name, func() { _ = unix.Close(fd) }, nil
}
