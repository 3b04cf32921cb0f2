//go:build !linux

package proc

import "syscall"

// EnterGroup needs Linux: here it only checks that no group is required.
func EnterGroup(_ *syscall.SysProcAttr, folder string) (done func(), err error) {
	if folder != "" {
		return nil, ErrUnsupported
	}
	return func() {}, nil
}
