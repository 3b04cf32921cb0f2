package decisions

import (
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Pair returns a connection, and its other end for a sandbox.
func Pair() (net.Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "decisions"), os.NewFile(uintptr(fds[1]), "decisions")
	conn, err := net.FileConn(ours)
	_ = ours.Close()
	if err != nil {
		_ = theirs.Close()
		return nil, nil, err
	}
	return conn, theirs, nil
}
