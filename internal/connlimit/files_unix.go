//go:build unix

package connlimit

import "syscall"

// openFiles returns this process's limit of open files, or 0 if it is unknown.
func openFiles() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return uint64(limit.Cur) //nolint:unconvert // it is signed on some systems
}
