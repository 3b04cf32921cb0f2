package terminal

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/services/termd/internal/command"
)

// holdDirectory opens the directory that was checked, so that what the command gets is that one, whatever is put in its
// place meanwhile. The name is good until release is called.
func holdDirectory(real string) (name string, release func(), err error) {
	fd, err := unix.Open(real, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, command.Invalid("cwd: %s cannot be used any more: %s", real, command.Reason(err))
	}
	name = "/proc/self/fd/" + strconv.Itoa(fd)
	if now, err := os.Readlink(name); err != nil || now != real {
		_ = unix.Close(fd)
		return "", nil, command.Invalid("cwd: %s was replaced while the command was started", real)
	}
	return name, func() { _ = unix.Close(fd) }, nil
}
