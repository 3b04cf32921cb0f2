//go:build unix

package ownfile

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/acphost/acphost/internal/fd"
)

const openFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK | syscall.O_CLOEXEC

// Owner returns the ids of the user and of the group that a file belongs to; not known: the system does not say.
func Owner(info fs.FileInfo) (uid, gid int, known bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return int(st.Uid), int(st.Gid), true
}

func tryLock(f *os.File) (held bool, err error) {
	for {
		err = fd.On(f, func(fd int) error { return syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB) })
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		default:
			return false, err
		}
	}
}

func unlock(f *os.File) {
	// It fails for a closed file only, which has no lock.
	_ = fd.On(f, func(fd int) error { return syscall.Flock(fd, syscall.LOCK_UN) })
}
