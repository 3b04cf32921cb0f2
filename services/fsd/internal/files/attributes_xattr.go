//go:build linux || darwin

package files

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// copyAttributes copies the extended attributes, including access control lists on Linux.
func copyAttributes(to, from int) error {
	size, err := unix.Flistxattr(from, nil)
	if errors.Is(err, unix.ENOTSUP) || size == 0 && err == nil {
		return nil
	}
	if err != nil {
		return err
	}
	names := make([]byte, size)
	if size, err = unix.Flistxattr(from, names); err != nil {
		return err
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(names[:size]), "\x00"), "\x00") {
		if err := copyAttribute(to, from, name); err != nil {
			return err
		}
	}
	return nil
}

func copyAttribute(to, from int, name string) error {
	value, err := attribute(from, name)
	if err != nil {
		return err
	}
	// The system usually gives new files the same security label, and setting it may need privileges.
	if now, err := attribute(to, name); err == nil && now == value {
		return nil
	}
	if name == "security.capability" {
		return nil // the kernel also removes these from a file that is written
	}
	return unix.Fsetxattr(to, name, []byte(value), 0)
}

func attribute(fd int, name string) (string, error) {
	size, err := unix.Fgetxattr(fd, name, nil)
	if err != nil || size == 0 {
		return "", err
	}
	value := make([]byte, size)
	size, err = unix.Fgetxattr(fd, name, value)
	if err != nil {
		return "", err
	}
	return string(value[:size]), nil
}
