package proc

import (
	"errors"
	"io/fs"
	"math"
	"slices"

	"golang.org/x/sys/unix"
)

// Slurp reads a file of /proc, or a similar small one, to its end, and appends it to b. The error wraps fs.ErrNotExist
// if the file does not exist. os.ReadFile makes twice as many system calls.
func Slurp(name string, b []byte) ([]byte, error) { return slurp(name, b, math.MaxInt, false) }

// SlurpMost is Slurp for a file that others can make long: the error wraps EFBIG if the result has more than maxBytes
// bytes.
func SlurpMost(name string, b []byte, maxBytes int) ([]byte, error) {
	return slurp(name, b, maxBytes, false)
}

// slurp is SlurpMost. atOnce: the kernel writes the whole file in one read if there is room, so a read that leaves room
// is the last.
func slurp(name string, b []byte, maxBytes int, atOnce bool) ([]byte, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	for errors.Is(err, unix.EINTR) {
		fd, err = unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer func() { _ = unix.Close(fd) }()
	for {
		if cap(b)-len(b) < leastRead {
			b = slices.Grow(b, pageSize)
		}
		n, err := unix.Read(fd, b[len(b):cap(b)])
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return nil, &fs.PathError{Op: "read", Path: name, Err: err}
		case n == 0:
			return b, nil
		case len(b)+n > maxBytes:
			return nil, &fs.PathError{Op: "read", Path: name, Err: unix.EFBIG}
		default:
			if b = b[:len(b)+n]; atOnce && len(b) < cap(b) {
				return b, nil
			}
		}
	}
}

const (
	// pageSize is the maximum size of a read for most files of /proc.
	pageSize = 4096
	// leastRead is the minimum size of a read. The last read returns nothing.
	leastRead = 256
)
