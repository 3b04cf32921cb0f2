//go:build !linux

package proc

import "syscall"

// StartLimited needs Linux: here it only calls start.
func StartLimited(_ *syscall.SysProcAttr, start func() (pid int, err error)) (pid int, err error) {
	return start()
}
