package files

import (
	"errors"

	"golang.org/x/sys/unix"
)

// reserve ensures that a file's first size bytes can be written, without changing them. If the file system does not
// support that, it does nothing.
func reserve(fd int, size int64) error {
	if size == 0 {
		return nil
	}
	err := retry(func() error { return unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, 0, size) })
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG) {
		return err
	}
	return nil
}
